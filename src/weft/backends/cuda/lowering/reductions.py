# SPDX-License-Identifier: Apache-2.0
"""Sums of vectors into memory on NVIDIA's GPUs.

In: simt.red_add. Out: one `red` of up to 16 bytes where the architecture has it: f32, f16 and bf16 in global memory
from sm_90 on, and before pairs of f16; else one element after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.atomics import ATOMICS
from weft.backends.cuda.lowering.convergent import has
from weft.codegen.llvm.types import FLOAT_NAMES
from weft.codegen.operations.memory import print_vector
from weft.dialects.simt.atomics import RedAddOp
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

# Element → PTX's type of a register, and how many elements it has.
PACKED: Final = {
    "f32": ("f32", 1),
    **{name: (INFO[name].ptx_pair, 2) for name in ("f16", "bf16")},
}


def red_add(element: str, registers: int) -> str:
    """The instruction that adds registers to global memory: `red.relaxed.gpu.global.add.noftz.v4.f16x2`."""
    flush = "" if element == "f32" else ".noftz"
    many = f".v{registers}" if registers > 1 else ""
    return f"red.relaxed.gpu.global.add{flush}{many}.{element}"


def _print_red_add(printer: FunctionPrinter, op: RedAddOp) -> None:
    tensor = printer.tensors[op.tensor].type
    name = FLOAT_NAMES.get(type(tensor.element_type), "")
    is_global = tensor.space.data == "global"
    if is_global and name in PACKED and has(printer, "red_vectors"):
        _print_vector(printer, op, name, len(op.elements) // PACKED[name][1])
    elif is_global and name == "f16" and has(printer, "red_f16x2"):
        _print_vector(printer, op, name, 1)
    else:
        ATOMICS[RedAddOp](printer, op)


def _print_vector(printer: FunctionPrinter, op: RedAddOp, name: str, together: int) -> None:
    """The elements as registers, so many in an instruction."""
    element, each = PACKED[name]
    vector, place, _ = print_vector(printer, op)
    count = len(op.elements) // each
    register, letter = ("float", "f") if name == "f32" else ("i32", "r")
    whole = f"<{count} x {register}>"
    if not vector.startswith(whole):
        vector = f"{whole} {printer.let(f'bitcast {vector} to {whole}')}"
    parts = [printer.let(f"extractelement {vector}, i32 {number}") for number in range(count)]
    for first in range(0, count, together):
        given = parts[first : first + together]
        listed = ", ".join(f"${1 + number}" for number in range(together))
        listed = f"{{{listed}}}" if together > 1 else listed
        address = f"[$0+{4 * first}]" if first else "[$0]"
        printer.line(
            f'call void asm sideeffect "{red_add(element, together)} {address}, {listed};", '
            f'"l{f",{letter}" * together},~{{memory}}"'
            f"({place}, {', '.join(f'{register} {part}' for part in given)}) convergent nounwind"
        )


REDUCTIONS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    RedAddOp: _print_red_add,
}
