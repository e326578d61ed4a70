# SPDX-License-Identifier: Apache-2.0
"""Shuffles and reductions over a warp of a GPU, made of one exchange of registers and one vote.

In: simt.shuffle, simt.warp_reduce. Out: exchanges of 32 bits, a butterfly of them, or, where lanes may be missing, a
tree over those that are there, which combines in the same order. Smaller values travel in one register, larger in two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type
from weft.codegen.operations.conversions import (
    as_native,
    from_f32,
    from_native,
    has_arithmetic,
    is_wide,
    to_f32,
)
from weft.dialects.flow import is_reached_together
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.threads import ShuffleOp, WarpReduceOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_EXTREMA: Final = {"min": "smin", "max": "smax", "umin": "umin", "umax": "umax"}
_STEPS: Final = (1, 2, 4, 8, 16)
_ALL_LANES: Final = "-1"
# LLVM type → integer of the same bits, for other types.
_BITS: Final = {"float": "i32", "double": "i64"}


class Warp(ABC):
    """One shuffle or reduction, in the words of one target.

    Attributes:
        printer: where instructions go.
        op: the operation.
        kind, mask, element, text, value: of it: which one, its lanes, and what this lane gives, with its types.
    """

    def __init__(self, printer: FunctionPrinter, op: Any) -> None:
        self.printer = printer
        self.op = op
        self.kind: str = op.kind.data
        self.mask = printer.values[op.mask]
        self.element: type[Attribute] = type(op.value.type)
        self.text = llvm_type(op.value.type)
        self.value = printer.values[op.value]

    @abstractmethod
    def exchange(self, kind: str, mask: str, register: str, lane: str, width: int) -> str:
        """Another lane's register; its own where there is no such lane in its group. All are i32.

        Args:
            kind: ``up``, ``down``, ``xor`` or ``idx``.
            mask: the lanes that take part.
            register: what this lane gives.
            lane: taken modulo 32.
            width: lanes of a group, a power of two.
        """

    @abstractmethod
    def present(self) -> str:
        """The lanes of the mask that are here, an i32."""

    @abstractmethod
    def lanes_after(self) -> str:
        """The lanes after this one, an i32."""

    def shuffled(
        self, kind: str, mask: str, text: str, value: str, lane: str, width: int = WARP_SIZE
    ) -> str:
        """Another lane's value of any scalar LLVM type; see `exchange`."""
        let, bits = self.printer.let, _BITS.get(text, text)
        if bits != text:
            value = let(f"bitcast {text} {value} to {bits}")
        if bits == "i64":
            parts = halves(self.printer, value)
        else:
            parts = (value if bits == "i32" else let(f"zext {bits} {value} to i32"),)
        parts = [self.exchange(kind, mask, part, lane, width) for part in parts]
        value = parts[0]
        if bits == "i64":
            value = joined(self.printer, *parts)
        elif bits != "i32":
            value = let(f"trunc i32 {value} to {bits}")
        return value if bits == text else let(f"bitcast {bits} {value} to {text}")

    def reduced(self) -> str:
        """Reduces; every lane of the mask gets the result."""
        if self.mask == _ALL_LANES and self._all_lanes_come():
            return self._butterfly()
        printer, here = self.printer, self.present()
        full, part, end = (printer.new_label(stem) for stem in ("full", "part", "reduced"))
        printer.branch_if(printer.let(f"icmp eq i32 {here}, -1"), full, part)
        arms: list[tuple[str, str]] = []
        for label, reduce in ((full, self._butterfly), (part, lambda: self._tree(here))):
            printer.start(label)
            arms.append((reduce(), printer.label))
            printer.branch(end)
        printer.start(end)
        return printer.phi(self.text, arms, "reduced")

    def _all_lanes_come(self) -> bool:
        """Whether no lane can be missing: full warps, and no branch around the operation that only some lanes take.

        A thread leaves a kernel at its end only, so that one that has returned early has taken a branch.
        """
        size = kernel_of(self.op).block_size
        is_full = size is not None and math.prod(size) % WARP_SIZE == 0
        return is_full and is_reached_together(self.op)

    def _butterfly(self) -> str:
        """Five butterfly exchanges: every lane gets the result."""
        value = self.value
        for step in _STEPS:
            other = self.shuffled("xor", _ALL_LANES, self.text, value, str(step))
            value = self._combined(value, other)
        return value

    def _tree(self, mask: str) -> str:
        """Each lane adds what lies 1, 2, 4, ... lanes of the mask after it; the first one gets it all.

        `following` is the lane that lies so far behind, 32 where there is none; it doubles its distance by
        asking that lane for its own. It agrees with the butterfly to the last bit.
        """
        let, text, value = self.printer.let, self.text, self.value
        following = self._first_lane(let(f"and i32 {mask}, {self.lanes_after()}"), "false")
        for step in _STEPS:
            exists = let(f"icmp ult i32 {following}, {WARP_SIZE}")
            both = self._combined(value, self.shuffled("idx", mask, text, value, following))
            value = let(f"select i1 {exists}, {text} {both}, {text} {value}")
            if step != _STEPS[-1]:
                doubled = self.exchange("idx", mask, following, following, WARP_SIZE)
                following = let(f"select i1 {exists}, i32 {doubled}, i32 {WARP_SIZE}")
        return self.shuffled("idx", mask, text, value, self._first_lane(mask, "true"))

    def _first_lane(self, mask: str, never_zero: str) -> str:
        """The lowest lane of a mask; 32 for a mask without lanes, unless that is said not to occur."""
        callee = self.printer.module.intrinsic("llvm.cttz", ".i32")
        return self.printer.let(f"call i32 {callee}(i32 {mask}, i1 {never_zero})")

    def _combined(self, left: str, right: str) -> str:
        """Combines two values; small floats are rounded after each step."""
        printer, kind, name = self.printer, self.kind, FLOAT_NAMES.get(self.element)
        if name is None:
            if kind in _EXTREMA:
                return printer.intrinsic(f"llvm.{_EXTREMA[kind]}", self.text, left, right)
            return printer.let(f"{kind} {self.text} {left}, {right}")
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


def warp_rows(
    warp: type[Warp],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The rows of shuffles and reductions in one target's words."""

    def print_shuffle(printer: FunctionPrinter, op: Any) -> None:
        one, lane = warp(printer, op), printer.values[op.lane]
        printer.values[op.results[0]] = one.shuffled(
            one.kind, one.mask, one.text, one.value, lane, op.width.value.data
        )

    def print_reduction(printer: FunctionPrinter, op: Any) -> None:
        printer.values[op.results[0]] = warp(printer, op).reduced()

    return {ShuffleOp: print_shuffle, WarpReduceOp: print_reduction}


def halves(printer: FunctionPrinter, value: str) -> tuple[str, str]:
    """The low and the high 32 bits of an i64."""
    shifted = printer.let(f"lshr i64 {value}, 32")
    return printer.let(f"trunc i64 {value} to i32"), printer.let(f"trunc i64 {shifted} to i32")


def joined(printer: FunctionPrinter, low: str, high: str) -> str:
    """The i64 of two halves."""
    low_wide, high_wide = (printer.let(f"zext i32 {half} to i64") for half in (low, high))
    shifted = printer.let(f"shl i64 {high_wide}, 32")
    return printer.let(f"or i64 {shifted}, {low_wide}")
