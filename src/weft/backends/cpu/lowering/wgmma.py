# SPDX-License-Identifier: Apache-2.0
"""Products of a warpgroup on the CPU, where its threads suspend; native/cpu/wgmma.cpp computes.

In: the operations of dialects/nvgpu/wgmma. Out: each thread's operands in its frame (native/include/weft/cpu_wgmma.h),
a suspension, the sums or the number of their product in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.backends.cpu.lowering.coroutine_printer import WARPGROUP
from weft.backends.cpu.lowering.fragment import load_elements, release, stored_elements
from weft.codegen.llvm.types import fragment_chunks, memory_type
from weft.dialects.nvgpu.mma import WgmmaAccumulatorOp, WgmmaHoldsSumsOp, WgmmaMmaOp, WgmmaWaitOp
from weft.dialects.simt.fragment import FragmentType

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter

_TYPES: Final = {name: code for code, name in enumerate(_native.MMA_TYPES)}
# weft_wgmma_operand, weft_wgmma_shape, weft_wgmma_start
_OPERAND: Final = "{ i64, i32, i32, i32, i32 }"
_SHAPE: Final = f"{{ i32, i32, i32, i32, {_OPERAND}, {_OPERAND} }}"
_PRODUCT: Final = "{ ptr, ptr, ptr, ptr, i64, i32, i32 }"
_PRODUCT_HANDLE: Final = 4
_EMPTY_HANDLE: Final = "-1"  # of a fragment that holds nothing
# What elements are then: NaN, or the integer that is farthest from all sums.
_NOTHING: Final = {"float": "0x7FF8000000000000", "i32": "-2147483648"}


def _operand(value: SSAValue, name: str, *, is_b: bool) -> str:
    """The `weft_wgmma_operand` of a tile or a fragment."""
    kind: Any = value.type
    stride = panel = mask = k_is_row = 0
    if not isinstance(kind, FragmentType):
        swizzle, panel = kind.panels, kind.panel_columns
        stride, mask = swizzle.panel_stride.data, swizzle.mask
        k_is_row = int(bool(swizzle.is_transposed.data) != is_b)
    numbers = (_TYPES[name], panel, mask, k_is_row)
    return f"{_OPERAND} {{ i64 {stride}, {', '.join(f'i32 {number}' for number in numbers)} }}"


def _shape(printer: CoroutinePrinter, op: WgmmaMmaOp) -> str:
    """A constant `weft_wgmma_shape`."""
    kind: Any = op.result.type
    numbers = (*kind.dims, op.terms, int(op.elements.sums == "i32"))
    a, b = ("tf32" if name == "f32" else name for name in op.names)
    operands = _operand(op.a, a, is_b=False), _operand(op.b, b, is_b=True)
    body = ", ".join((*(f"i32 {number}" for number in numbers), *operands))
    return printer.module.add_global(
        f"private unnamed_addr constant {_SHAPE} {{ {body} }}, align 8", "product"
    )


def _print_accumulator(printer: FunctionPrinter, op: WgmmaAccumulatorOp) -> None:
    """Elements that spoil what is made of them, though no one may look."""
    kind: Any = op.result.type
    text = memory_type(kind.element_type)
    parts = [_EMPTY_HANDLE]
    for _, vector in fragment_chunks(kind):
        count = int(vector[1 : vector.index(" ")])
        parts.append(f"<{', '.join([f'{text} {_NOTHING[text]}'] * count)}>")
    printer.fragments[op.result] = parts


def _print_holds_sums(printer: FunctionPrinter, op: WgmmaHoldsSumsOp) -> None:
    printer.define(op.result, f"icmp ne i64 {printer.fragments[op.fragment][0]}, {_EMPTY_HANDLE}")


def _print_mma(printer: CoroutinePrinter, op: WgmmaMmaOp) -> None:
    memory: list[str] = []
    if isinstance(op.a.type, FragmentType):
        a = stored_elements(printer, op.a)
        memory.append(a)
    else:
        a = printer.tensors[op.a].pointer
    sums, handle, flag = "null", "0", "0"
    if op.acc is not None:
        sums, handle = stored_elements(printer, op.acc), printer.fragments[op.acc][0]
        memory.append(sums)
        flag = "1"
        if op.accumulate is not None:
            flag = printer.let(f"zext i1 {printer.values[op.accumulate]} to i32")
    product = printer.alloca(_PRODUCT, 8, "product")
    values = (
        f"ptr {_shape(printer, op)}",
        f"ptr {a}",
        f"ptr {printer.tensors[op.b].pointer}",
        f"ptr {sums}",
        f"i64 {handle}",
        f"i32 {flag}",
    )
    for number, value in enumerate(values):
        printer.line(f"store {value}, ptr {_member(printer, _PRODUCT, product, number)}, align 4")
    _meet(printer, op, product, "wgmma_mma")
    place = _member(printer, _PRODUCT, product, _PRODUCT_HANDLE)
    started = printer.let(f"load i64, ptr {place}, align 8", "product")
    release(printer, memory)
    types = printer.fragment_parts(op.result.type)
    printer.fragments[op.result] = [started, *["poison"] * (len(types) - 1)]


def _print_wait(printer: CoroutinePrinter, op: WgmmaWaitOp) -> None:
    count = len(op.fragments)
    kind = f"{{ i32, i32, [{count} x {{ ptr, i64 }}] }}"
    wait = printer.alloca(kind, 8, "wait")
    printer.line(f"store i32 {op.pending.value.data}, ptr {wait}, align 8")
    printer.line(f"store i32 {count}, ptr {_member(printer, kind, wait, 1)}, align 4")
    memory = [stored_elements(printer, fragment) for fragment in op.fragments]
    for number, (fragment, sums) in enumerate(zip(op.fragments, memory, strict=True)):
        handle = printer.fragments[fragment][0]
        printer.line(f"store ptr {sums}, ptr {_member(printer, kind, wait, 2, number, 0)}, align 8")
        printer.line(
            f"store i64 {handle}, ptr {_member(printer, kind, wait, 2, number, 1)}, align 8"
        )
    _meet(printer, op, wait, "wgmma_wait")
    for number, (output, sums) in enumerate(zip(op.outputs, memory, strict=True)):
        load_elements(printer, output, sums)
        place = _member(printer, kind, wait, 2, number, 1)
        printer.fragments[output][0] = printer.let(f"load i64, ptr {place}, align 8", "product")
    release(printer, memory)


def _meet(printer: CoroutinePrinter, op: Operation, parameters: str, operation: str) -> None:
    """Waits for the warpgroup's other threads, and for what they do together."""
    printer.post(pointer=parameters)
    printer.suspend(WARPGROUP, printer.add_site(operation, op.location))


def _member(printer: CoroutinePrinter, kind: str, pointer: str, *path: int) -> str:
    """The address of a member of a struct."""
    places = ", ".join(f"i32 {number}" for number in (0, *path))
    return printer.let(f"getelementptr {kind}, ptr {pointer}, {places}")


ACCUMULATOR: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WgmmaAccumulatorOp: _print_accumulator,
    WgmmaHoldsSumsOp: _print_holds_sums,
}
WGMMA: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    WgmmaMmaOp: _print_mma,
    WgmmaWaitOp: _print_wait,
}
