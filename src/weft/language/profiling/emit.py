# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of the profiler's own code: a few short words over the operators of the language.

In: scalars and Python ints. Out: operations at the builder's place.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region

from weft.dialects.simt.memory import LoadOp, StoreOp
from weft.dialects.simt.timing import RecordOp
from weft.language.numbers.bitwise import bitwise
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import binary, compare
from weft.language.threads import grid
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand
    from weft.types.dtype import DType

AXES: Final = ("x", "y", "z")


class Emitter:
    """Emits integer arithmetic, loads and stores where its builder stands.

    Attributes:
        builder: inserts the operations.
    """

    __slots__ = ("builder",)

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # ---- numbers

    def as_type(self, value: Operand, dtype: DType) -> Scalar:
        """The value in that type; wraps where it does not fit."""
        return convert(self.builder, value, dtype)

    def u32(self, value: Operand) -> Scalar:
        """The value as a u32."""
        return self.as_type(value, types.u32)

    def u64(self, value: Operand) -> Scalar:
        """The value as a u64."""
        return self.as_type(value, types.u64)

    def add(self, left: Operand, right: Operand) -> Scalar:
        """``left + right``, which wraps."""
        return self._scalar(binary(self.builder, "+", left, right))

    def subtract(self, left: Operand, right: Operand) -> Scalar:
        """``left - right``, which wraps."""
        return self._scalar(binary(self.builder, "-", left, right))

    def multiply(self, left: Operand, right: Operand) -> Scalar:
        """``left * right``, which wraps."""
        return self._scalar(binary(self.builder, "*", left, right))

    def bit_or(self, left: Operand, right: Operand) -> Scalar:
        """``left | right``."""
        return bitwise(self.builder, "|", left, right)

    def bit_and(self, left: Operand, right: Operand) -> Scalar:
        """``left & right``; of conditions, whether both hold."""
        return bitwise(self.builder, "&", left, right)

    def shifted_left(self, value: Operand, bits: int) -> Scalar:
        """``value << bits``."""
        return self._scalar(binary(self.builder, "<<", value, bits))

    def shifted_right(self, value: Operand, bits: int) -> Scalar:
        """``value >> bits``."""
        return self._scalar(binary(self.builder, ">>", value, bits))

    def packed(self, high: Operand, low: Operand) -> Scalar:
        """Two u32 as one u64."""
        return self.bit_or(self.shifted_left(self.u64(high), 32), self.u64(low))

    def is_below(self, left: Operand, right: Operand) -> Scalar:
        """``left < right``."""
        return self._scalar(compare(self.builder, "<", left, right), types.bool_)

    def is_at_most(self, left: Operand, right: Operand) -> Scalar:
        """``left <= right``."""
        return self._scalar(compare(self.builder, "<=", left, right), types.bool_)

    def is_equal(self, left: Operand, right: Operand) -> Scalar:
        """``left == right``."""
        return self._scalar(compare(self.builder, "==", left, right), types.bool_)

    def chosen(self, condition: Scalar, left: Scalar, right: Operand) -> Scalar:
        """``left if condition else right``, in the type of `left`."""
        other = self.as_type(right, left.dtype)
        made = arith.SelectOp(condition.ssa, left.ssa, other.ssa)
        return Scalar(self.builder.emit(made).result, left.dtype)

    def all_of(self, *conditions: Scalar) -> Scalar:
        """Whether all conditions hold."""
        return functools.reduce(self.bit_and, conditions)

    def _scalar(self, value: Operand, dtype: DType = types.i32) -> Scalar:
        return value if isinstance(value, Scalar) else self.as_type(value, dtype)

    # ---- control flow

    def when(self, condition: Scalar, body: Callable[[], None]) -> None:
        """Emits `body` in a branch that only threads take for which the condition holds."""
        if condition.constant is not None:
            if condition.constant:
                body()
            return
        block = Block()
        with self.builder.at(block):
            body()
        block.add_op(scf.YieldOp())
        self.builder.emit(scf.IfOp(condition.ssa, [], Region(block)))

    # ---- memory

    def load(self, tensor: Tensor, index: int) -> Scalar:
        """An element of a tensor of rank 1."""
        place = self.as_type(index, types.i32).ssa
        return Scalar(self.builder.emit(LoadOp(tensor.ssa, [place])).result, tensor.dtype)

    def load_at(self, tensor: Tensor, index: Scalar) -> Scalar:
        """An element of a tensor of rank 1 at a u32 index."""
        place = self.as_type(index, types.i64).ssa
        return Scalar(self.builder.emit(LoadOp(tensor.ssa, [place])).result, tensor.dtype)

    def store(self, tensor: Tensor, index: Operand, value: Operand) -> None:
        """Writes an element of a tensor of rank 1; a u32 or smaller index is never negative."""
        place = index if isinstance(index, Scalar) else self.as_type(index, types.i32)
        if place.dtype is types.u32:
            place = self.as_type(place, types.i64)
        element = self.as_type(value, tensor.dtype)
        self.builder.emit(StoreOp(element.ssa, tensor.ssa, [place.ssa]))

    def record(self, kind: str, condition: Scalar, tag: Scalar, tensor: Tensor, at: Scalar) -> None:
        """Where the condition holds, writes a clock's low 32 bits above the tag into an element."""
        place = self.as_type(at, types.i64) if at.dtype is types.u32 else at
        self.builder.emit(RecordOp(kind, condition.ssa, tag.ssa, tensor.ssa, place.ssa))

    # ---- where a thread is

    def coordinate(self, of: grid.Coordinate, axis: str) -> Scalar:
        """``thread_idx.x`` and its like, as a u32."""
        return self.u32(of.attribute(self.builder, axis))

    def count(self, of: grid.Coordinate) -> Scalar:
        """The product of the three sizes, as a u32."""
        return functools.reduce(self.multiply, [self.coordinate(of, axis) for axis in AXES])

    def linear(self, index: grid.Coordinate, size: grid.Coordinate) -> Scalar:
        """The number of a block in the grid, or of a thread in its block: x varies fastest."""
        x, y, z = (self.coordinate(index, axis) for axis in AXES)
        width, height = (self.coordinate(size, axis) for axis in "xy")
        ptrack = self.add(self.multiply(z, height), y)
        return self.add(self.multiply(ptrack, width), x)

    def is_zero(self, *values: Scalar) -> Scalar:
        """Whether all values are 0."""
        return self.is_equal(functools.reduce(self.bit_or, values), 0)
