# SPDX-License-Identifier: Apache-2.0
"""Parts of an exported object beside its function: constants and a constructor, as LLVM text.

In: a record and the names of kernels. Out: text for `Backend.emit_exported`; native/include/weft/exported.h is the
contract with the runtime that it is linked with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.types import quoted
from weft.runtime.code_image import STATE_SYMBOL

if TYPE_CHECKING:
    from weft.runtime.object_code import ObjectCode

SECTION: Final = ".weft"
"""The section of records in a file: the bytes of each after their number, from multiples of 8."""


def glue_text(
    name: str, code: ObjectCode, record: bytes, table_version: int, policy: int, cpu: str
) -> str:
    """LLVM text beside a host function.

    Args:
        name: of the function.
        code: its machine code; the device code is a part of the record.
        record: of `make_record`.
        table_version: of the runtime table that the code calls.
        policy: the executor's.
        cpu: that the host code is for.
    """
    framed = len(record).to_bytes(8, "little") + record
    framed += bytes(-len(framed) % 8)
    kernels = [kernel.name for kernel in code.kernels]
    start = framed.index(code.device_code) if code.device_code else 0
    size = f"[{len(framed)} x i8]"
    device = f"ptr getelementptr (i8, ptr @weft.export.record, i64 {start})"
    lines = [
        "",
        f'@weft.export.record = internal constant {size} c{quoted(framed)}, section "{SECTION}", align 8',
        _text("name", name),
        _text("architecture", code.architecture),
        _text("cpu", cpu),
        *(_text(f"kernel.{number}", kernel) for number, kernel in enumerate(kernels)),
        f"@weft.export.kernels = internal constant [{len(kernels)} x ptr] ["
        + ", ".join(f"ptr @weft.export.kernel.{number}" for number in range(len(kernels)))
        + "], align 8",
        "@weft.export.function = internal constant { i64, ptr, ptr, ptr, i64, ptr, i64, ptr, i64, ptr } "
        f"{{ i64 {table_version}, ptr @weft.export.name, ptr @weft.export.record, {device}, "
        f"i64 {len(code.device_code)}, ptr @weft.export.architecture, i64 {len(kernels)}, "
        f"ptr @weft.export.kernels, i64 {policy}, ptr @weft.export.cpu }}, align 8",
        "declare void @weft_open_exported(ptr, ptr)",
        "define internal void @weft.export.open() nounwind {",
        f"  call void @weft_open_exported(ptr @weft.export.function, ptr @{STATE_SYMBOL})",
        "  ret void",
        "}",
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
        "[{ i32, ptr, ptr } { i32 65535, ptr @weft.export.open, ptr null }]",
    ]
    return "\n".join(lines) + "\n"


def _text(what: str, text: str) -> str:
    data = text.encode() + b"\0"
    return f"@weft.export.{what} = internal constant [{len(data)} x i8] c{quoted(data)}"
