# SPDX-License-Identifier: Apache-2.0
"""Reductions over a warp on a GPU.

In: simt.warp_reduce. Out: `redux.sync` for integers where there is one; else a butterfly of shuffles, or, where
lanes may be missing, a tree over those that are there, which combines in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent
from weft.backends.cuda.lowering.shared import kernel_of
from weft.backends.cuda.lowering.warp import halves, joined, shuffle
from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type
from weft.codegen.operations.conversions import (
    as_native,
    from_f32,
    from_native,
    has_arithmetic,
    is_wide,
    to_f32,
)
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.warp import WarpReduceOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_INSTRUCTIONS: Final = {"add": "add", "and": "and", "or": "or", "xor": "xor"}
_EXTREMA: Final = {"min": "smin", "max": "smax", "umin": "umin", "umax": "umax"}
_BITWISE: Final = ("and", "or", "xor")
_STEPS: Final = (1, 2, 4, 8, 16)
_ALL_LANES: Final = "-1"
# The first architecture with redux.sync.
_REDUX: Final = 80


def _print_warp_reduce(printer: FunctionPrinter, op: Any) -> None:
    kind, element = op.kind.data, op.value.type
    mask, value = printer.values[op.mask], printer.values[op.value]
    text = llvm_type(element)
    if printer.module.target.compute_capability >= _REDUX and text == "i32":
        result = _redux(printer, kind, mask, value)
    elif printer.module.target.compute_capability >= _REDUX and text == "i64" and kind in _BITWISE:
        parts = (_redux(printer, kind, mask, half) for half in halves(printer, value))
        result = joined(printer, *parts)
    elif mask == _ALL_LANES and _all_lanes_come(op):
        result = _butterfly(printer, kind, element, value)
    else:
        result = _over_present_lanes(printer, kind, element, mask, value)
    printer.values[op.results[0]] = result


def _redux(printer: FunctionPrinter, kind: str, mask: str, value: str) -> str:
    return call_convergent(printer, "i32", f"redux.sync.{kind}", f"i32 {value}", f"i32 {mask}")


def _all_lanes_come(op: Operation) -> bool:
    """Whether no lane can be missing: full warps, and no branch around the operation.

    A thread leaves a kernel at its end only, so that one that has returned early has taken a branch.
    """
    size = kernel_of(op).block_size
    if size is None or size[0] * size[1] * size[2] % WARP_SIZE:
        return False
    return isinstance(op.parent_op(), KernelOp)


def _over_present_lanes(
    printer: FunctionPrinter, kind: str, element: Attribute, mask: str, value: str
) -> str:
    """A butterfly if all 32 lanes are here, else a tree; they agree to the last bit."""
    text = llvm_type(element)
    here = call_convergent(printer, "i32", "vote.ballot.sync", f"i32 {mask}", "i1 true")
    full, part, end = (printer.new_label(stem) for stem in ("full", "part", "reduced"))
    printer.branch_if(printer.let(f"icmp eq i32 {here}, -1"), full, part)
    printer.start(full)
    of_all = _butterfly(printer, kind, element, value)
    last_full = printer.label
    printer.branch(end)
    printer.start(part)
    of_some = _tree(printer, kind, element, here, value)
    last_part = printer.label
    printer.branch(end)
    printer.start(end)
    return printer.phi(text, [(of_all, last_full), (of_some, last_part)], "reduced")


def _butterfly(printer: FunctionPrinter, kind: str, element: Attribute, value: str) -> str:
    """Five exchanges with the neighbor, the neighbor's neighbor, ...: every lane gets the result."""
    for step in _STEPS:
        other = shuffle(printer, "xor", _ALL_LANES, llvm_type(element), value, str(step), WARP_SIZE)
        value = combined(printer, kind, element, value, other)
    return value


def _tree(printer: FunctionPrinter, kind: str, element: Attribute, mask: str, value: str) -> str:
    """Each lane adds what lies 1, 2, 4, ... lanes of the mask after it; the first one gets it all.

    `following` is the lane that lies so far behind, 32 where there is none; it doubles its distance by
    asking that lane for its own.
    """
    text = llvm_type(element)
    above = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.lanemask.gt")
    later = printer.let(f"and i32 {mask}, {printer.let(f'call i32 {above}()')}")
    following = _first_lane(printer, later, "false")
    for step in _STEPS:
        exists = printer.let(f"icmp ult i32 {following}, {WARP_SIZE}")
        other = shuffle(printer, "idx", mask, text, value, following, WARP_SIZE)
        both = combined(printer, kind, element, value, other)
        value = printer.let(f"select i1 {exists}, {text} {both}, {text} {value}")
        if step != _STEPS[-1]:
            doubled = shuffle(printer, "idx", mask, "i32", following, following, WARP_SIZE)
            following = printer.let(f"select i1 {exists}, i32 {doubled}, i32 {WARP_SIZE}")
    first = _first_lane(printer, mask, "true")
    return shuffle(printer, "idx", mask, text, value, first, WARP_SIZE)


def _first_lane(printer: FunctionPrinter, mask: str, never_zero: str) -> str:
    """The lowest lane of a mask; 32 for a mask without lanes, unless that is said not to occur."""
    callee = printer.module.intrinsic("llvm.cttz", ".i32")
    return printer.let(f"call i32 {callee}(i32 {mask}, i1 {never_zero})")


def combined(printer: FunctionPrinter, kind: str, element: Attribute, left: str, right: str) -> str:
    """What a kind of reduction makes of two values; small floats are rounded after each step."""
    text, name = llvm_type(element), FLOAT_NAMES.get(type(element))
    if name is None:
        if kind in _EXTREMA:
            return printer.intrinsic(f"llvm.{_EXTREMA[kind]}", text, left, right)
        return printer.let(f"{_INSTRUCTIONS[kind]} {text} {left}, {right}")
    if kind == "add" and has_arithmetic(printer, name):
        first = as_native(printer, left, name)
        second = as_native(printer, right, name).partition(" ")[2]
        return from_native(printer, f"fadd {first}, {second}", name)
    wide = "double" if name == "f64" else "float"
    if not is_wide(name):
        left, right = to_f32(printer, left, name), to_f32(printer, right, name)
    if kind == "add":
        result = printer.let(f"fadd {wide} {left}, {right}")
    else:
        result = printer.intrinsic(f"llvm.{kind}num", wide, left, right)
    return result if is_wide(name) else from_f32(printer, result, name)


WARP_REDUCE: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WarpReduceOp: _print_warp_reduce,
}
