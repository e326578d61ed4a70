# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of i64 and loops, in a block that takes the place of another operation.

In: a block, the location of what it replaces. Out: operations at its end.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, Region

from weft.dialects.builder import Builder, constant_integer
from weft.dialects.flow import set_unroll_factor
from weft.dialects.simt.threads import BlockDimOp, BlockIdxOp, CoordinateOp, GridDimOp, ThreadIdxOp

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdsl.ir import Attribute, SSAValue

_NSW = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])


class Position(NamedTuple):
    """A block's number in the grid and how many blocks there are, and the same of a thread in its block."""

    block: SSAValue
    blocks: SSAValue
    thread: SSAValue
    threads: SSAValue


class Emitter(Builder):
    """Emits at one place of the source.

    Args:
        block: an empty one.
        place: its location.
    """

    __slots__ = ("_place",)

    def __init__(self, block: Block, place: Attribute) -> None:
        super().__init__(block)
        self._place = place

    def location_attribute(self) -> Attribute:
        """The place of what is replaced."""
        return self._place

    def number(self, value: int) -> SSAValue:
        """A constant."""
        return self.constant(i64, value)

    def wide(self, value: SSAValue) -> SSAValue:
        """An i32 or i64 as an i64."""
        known = constant_integer(value)
        if known is not None:
            return self.number(known)
        return value if value.type == i64 else self.emit(arith.ExtSIOp(value, i64)).result

    def cast(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """An integer as an i32, which it fits, or as the i64 that it is."""
        return value if value.type == kind else self.emit(arith.TruncIOp(value, i32)).result

    def plus(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a + b, which does not overflow."""
        return self._folded(arith.AddiOp, a, b, neutral=0)

    def times(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a * b, which does not overflow."""
        return self._folded(arith.MuliOp, a, b, neutral=1)

    def _folded(
        self, kind: type[arith.AddiOp | arith.MuliOp], a: SSAValue, b: SSAValue | int, neutral: int
    ) -> SSAValue:
        left, right = constant_integer(a), b if isinstance(b, int) else constant_integer(b)
        if left is not None and right is not None:
            return self.number(left + right if kind is arith.AddiOp else left * right)
        if right == neutral or (left == 0 and kind is arith.MuliOp):
            return a
        if right == 0 and kind is arith.MuliOp:
            return self.number(0)
        if left == neutral and not isinstance(b, int):
            return b
        return self.emit(kind(a, self._operand(b), overflow=_NSW)).result

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b, which does not overflow."""
        return self.emit(arith.SubiOp(a, b, overflow=_NSW)).result

    def quotient(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a // b of numbers that are not negative."""
        return self.compute(arith.DivUIOp, a, self._operand(b))

    def rest(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a % b of numbers that are not negative."""
        return self.compute(arith.RemUIOp, a, self._operand(b))

    def least(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The smaller one."""
        return self.compute(arith.MinSIOp, a, self._operand(b))

    def most(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The larger one."""
        return self.compute(arith.MaxSIOp, a, self._operand(b))

    def bits(self, a: SSAValue, mask: int) -> SSAValue:
        """The bits of a mask."""
        return self.compute(arith.AndIOp, a, self.number(mask))

    def is_(self, predicate: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """A comparison, as an i1."""
        return self.emit(arith.CmpiOp(a, self._operand(b), predicate)).result

    def both(self, a: SSAValue | None, b: SSAValue) -> SSAValue:
        """Whether both hold, the first one if there is one."""
        return b if a is None else self.compute(arith.AndIOp, a, b)

    def choose(self, condition: SSAValue, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a if the condition holds, else b."""
        return self.emit(arith.SelectOp(condition, a, self._operand(b))).result

    def _operand(self, value: SSAValue | int) -> SSAValue:
        return self.number(value) if isinstance(value, int) else value

    @contextmanager
    def counted(
        self, first: SSAValue, last: SSAValue, unrolled: int | None = None
    ) -> Generator[SSAValue]:
        """A loop over [first, last), of their type, unrolled as said; its body is emitted in the `with`."""
        block = Block(arg_types=[first.type])
        with self.at(block):
            yield block.args[0]
            self.emit(scf.YieldOp())
        one = self.constant(first.type, 1)
        set_unroll_factor(self.emit(scf.ForOp(first, last, one, (), Region(block))), unrolled)

    @contextmanager
    def striding(
        self, first: SSAValue, reach: SSAValue | int, end: SSAValue, step: SSAValue
    ) -> Generator[tuple[SSAValue, list[SSAValue]]]:
        """A loop over first, first + step, ... while that plus `reach` is below `end`; `scf.for` would divide.

        Yields:
            The counter, and a list that holds what it is after the loop, after the `with`.
        """
        before, after = Block(arg_types=[i64]), Block(arg_types=[i64])
        with self.at(before):
            goes_on = self.is_("slt", self.plus(before.args[0], reach), end)
            self.emit(scf.ConditionOp(goes_on, before.args[0]))
        left: list[SSAValue] = []
        with self.at(after):
            yield after.args[0], left
            self.emit(scf.YieldOp(self.plus(after.args[0], step)))
        loop = scf.WhileOp([first], [i64], Region(before), Region(after))
        left.append(self.emit(loop).results[0])

    def position(self, is_row: bool) -> Position:
        """Where the thread is.

        Args:
            is_row: whether grid and block have only a size along x.
        """
        return Position(
            *self._linear(BlockIdxOp, GridDimOp, is_row),
            *self._linear(ThreadIdxOp, BlockDimOp, is_row),
        )

    def _linear(
        self, index: type[CoordinateOp], size: type[CoordinateOp], is_row: bool
    ) -> tuple[SSAValue, SSAValue]:
        """The number, x first, and how many there are."""
        number, count = self.number(0), self.number(1)
        for axis in "x" if is_row else "zyx":
            extent = self._coordinate(size, axis)
            number = self.plus(self.times(number, extent), self._coordinate(index, axis))
            count = self.times(count, extent)
        return number, count

    def _coordinate(self, kind: type[CoordinateOp], axis: str) -> SSAValue:
        return self.wide(self.emit(kind(axis)).result)
