# SPDX-License-Identifier: Apache-2.0
"""MMA of a warp on the CPU: its lanes synchronize, and the scheduler multiplies (native/cpu/mma.cpp).

In: nvgpu.mma. Out: the fragments in memory, their addresses in the slot, a suspension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft import _native
from weft.backends.cpu.lowering.coroutine_printer import COLLECTIVE, CoroutinePrinter
from weft.backends.cpu.lowering.fragment import load_elements, release, stored_elements
from weft.codegen.llvm.types import FLOAT_NAMES
from weft.dialects.nvgpu.mma import MmaOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation

_TYPES: Final = {name: code for code, name in enumerate(_native.MMA_TYPES)}
_OPERANDS: Final = "{ ptr, ptr, ptr, ptr, ptr }"  # weft_mma_operands


def _print_mma(printer: CoroutinePrinter, op: MmaOp) -> None:
    kinds: Any = [value.type for value in op.operands]
    (rows, depth), (_, columns), _ = (kind.dims for kind in kinds)
    sums = FLOAT_NAMES.get(type(cast("Attribute", kinds[2].element_type)), "i32")
    names = [*("tf32" if name == "f32" else name for name in op.kinds.data.split()), sums]
    numbers = ", ".join(
        f"i32 {n}" for n in (rows, columns, depth, *(_TYPES[name] for name in names))
    )
    shape = printer.module.add_global(
        f"private unnamed_addr constant {{ {', '.join(['i32'] * 6)} }} {{ {numbers} }}, align 4",
        "product",
    )
    pointers = [stored_elements(printer, value) for value in op.operands]
    block = printer.alloca(_OPERANDS, 8, "operands")
    for place, pointer in enumerate((shape, *pointers, pointers[2])):
        at = printer.let(f"getelementptr {_OPERANDS}, ptr {block}, i32 0, i32 {place}")
        printer.line(f"store ptr {pointer}, ptr {at}, align 8")
    printer.post(mask="-1", pointer=block)
    printer.suspend(COLLECTIVE, printer.add_site("mma", op.location))
    load_elements(printer, op.result, pointers[2])
    release(printer, pointers)


MMA: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {MmaOp: _print_mma}
