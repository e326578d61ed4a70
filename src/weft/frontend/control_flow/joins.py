# SPDX-License-Identifier: Apache-2.0
"""Joins: where two paths of control flow meet, their values become one.

In: a variable's value at the end of each path. Out: one value, and the two regions' yields for it; or a marker whose
use is an error that names both places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.frontend.state.constants import kind
from weft.frontend.structure import flatten, rebuild, same_constant
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import constant, operand
from weft.language.numbers.promotion import common_dtype
from weft.language.values import Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.frontend.state.changes import State
    from weft.frontend.structure import Shape
    from weft.types.dtype import DType

_JOIN_HINT = "convert one of them, such as weft.f32(x), so that both paths agree"


class Mismatch(Exception):
    """Two leaves that cannot become one.

    Attributes:
        hint: what to do.
    """

    def __init__(self, hint: str) -> None:
        super().__init__(hint)
        self.hint = hint


@dataclass(slots=True, eq=False)
class _Yielded:
    """A leaf yielded by the regions: the operation's result of that index."""

    index: int
    dtype: DType


class Join:
    """Collects the yields of two regions; variables with equal values share one result.

    Attributes:
        firsts, seconds: the values that the first and the second region yield, in order.
    """

    __slots__ = ("_builder", "_found", "_state", "firsts", "seconds")

    def __init__(self, builder: Builder, state: State) -> None:
        self._builder = builder
        self._state = state
        self._found: dict[tuple[SSAValue, SSAValue], _Yielded] = {}
        self.firsts: list[SSAValue] = []
        self.seconds: list[SSAValue] = []

    def add(self, first: object, second: object) -> Any:
        """One value for both; leaves that are yielded are replaced by `finish`.

        Raises:
            Mismatch: if there is none.
        """
        if first is second:
            return first
        shape, first_leaves = flatten(first)
        other_shape, second_leaves = flatten(second)
        if shape != other_shape:
            raise Mismatch("containers must have the same type and length on both paths")
        # Which one it is, is decided in the kernel, so neither may change any more.
        self._state.forget(first)
        self._state.forget(second)
        joined = [self._leaf(*pair) for pair in zip(first_leaves, second_leaves, strict=True)]
        return rebuild(shape, iter(joined))

    def add_beside_nothing(self, value: object, side: int) -> Any:
        """As `add`, where the region other than `side` yields a value that is never read."""
        shape, leaves = flatten(value)
        if not any(isinstance(leaf, Scalar) for leaf in leaves):
            return value
        blank = rebuild(shape, iter([blank_like(self._builder, leaf) for leaf in leaves]))
        return self.add(value, blank) if side == 0 else self.add(blank, value)

    def _leaf(self, first: object, second: object) -> object:
        if first is second:
            return first
        first, second = typed_leaf(self._builder, first), typed_leaf(self._builder, second)
        dtype = joined_dtype(first, second)
        if dtype is None:
            return first
        one, other = (typed_value(self._builder, value, dtype) for value in (first, second))
        if one is other:
            return Scalar(one, dtype)
        found = self._found.get((one, other))
        if found is None or found.dtype is not dtype:
            found = _Yielded(len(self.firsts), dtype)
            self._found[one, other] = found
            self.firsts.append(one)
            self.seconds.append(other)
        return found

    def finish(self, value: Any, results: Sequence[SSAValue]) -> Any:
        """The value from `add`, with the operation's results."""
        shape, leaves = flatten(value)
        if not any(isinstance(leaf, _Yielded) for leaf in leaves):
            return value
        finished = [
            Scalar(results[leaf.index], leaf.dtype) if isinstance(leaf, _Yielded) else leaf
            for leaf in leaves
        ]
        return rebuild(shape, iter(finished))


def blank_like(builder: Builder, value: object) -> object:
    """A value like this one that is never read: a zero for a scalar."""
    if not isinstance(value, Scalar):
        return value
    zero = 0.0 if value.dtype.is_float else 0
    return Scalar(builder.constant(ir_type(value.dtype), zero), value.dtype)


def typed_leaf(builder: Builder, value: Any) -> Any:
    """A leaf for joining: a NumPy scalar becomes a typed constant."""
    if isinstance(value, Scalar | Tensor | int | float | str) and not hasattr(value, "dtype"):
        return value
    is_numpy = getattr(value, "ndim", None) == 0 and not isinstance(value, Scalar | Tensor)
    return operand(builder, value) if is_numpy else value


def joined_leaves(builder: Builder, value: Any) -> tuple[Shape | None, list[Any]]:
    """The shape of a value, and its leaves for joining."""
    shape, leaves = flatten(value)
    return shape, [typed_leaf(builder, leaf) for leaf in leaves]


def typed_value(builder: Builder, leaf: Any, dtype: DType) -> SSAValue:
    """A leaf as a value of its type, or a constant converted to that type."""
    return leaf.ssa if isinstance(leaf, Scalar) else constant(builder, leaf, dtype).ssa


def is_number(value: object) -> bool:
    """Whether a compile-time value can become a scalar."""
    return isinstance(value, int | float)


def joined_dtype(first: object, second: object) -> DType | None:
    """The type in which two leaves meet; None if they are the same value.

    Scalars must agree; a constant takes the scalar's type; two constants the type of both.

    Raises:
        Mismatch: if there is none.
    """
    if isinstance(first, Scalar):
        if isinstance(second, Scalar):
            if first.dtype is not second.dtype:
                raise Mismatch(_JOIN_HINT)
            return None if first.ssa is second.ssa else first.dtype
        return weak_dtype(second, first.dtype)
    if isinstance(second, Scalar):
        return weak_dtype(first, second.dtype)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        if first.ssa is second.ssa:
            return None
        raise Mismatch("a variable can hold only one tensor; access each tensor in its own branch")
    if same_constant(first, second):
        return None
    if not is_number(first) or not is_number(second):
        raise Mismatch(
            "values that are not numbers must be the same on both paths; decide at compile time"
        )
    if isinstance(first, bool) != isinstance(second, bool):
        raise Mismatch(_JOIN_HINT)
    return joined_constants(first, second)


def joined_constants(first: object, second: object) -> DType:
    """The type in which two different constants meet: that of the wider, a float for an int with a float."""
    try:
        if isinstance(first, bool):
            from weft.types.dtype import bool_

            return bool_
        return common_dtype(first, second)  # pyright: ignore[reportArgumentType]
    except WeftError as error:
        raise Mismatch(error.message) from None


def weak_dtype(value: object, dtype: DType) -> DType:
    """`dtype`, if a compile-time value can be a scalar of that type.

    Raises:
        Mismatch: if it cannot.
    """
    if not is_number(value):
        raise Mismatch("a number and something else cannot be one variable; decide at compile time")
    if isinstance(value, bool) != dtype.is_bool:
        raise Mismatch(_JOIN_HINT)
    if isinstance(value, float) and not dtype.is_float:
        raise Mismatch(_JOIN_HINT)
    if not isinstance(value, float) and dtype.is_integer:
        number = int(value)  # pyright: ignore[reportArgumentType]
        if not dtype.minimum <= number <= dtype.maximum:
            raise Mismatch(f"{dtype} holds {dtype.minimum} to {dtype.maximum}")
    return dtype


def describe_side(value: object) -> str:
    """A path's value for a message; a container by its items."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"the tensor '{value.name}'"
    if isinstance(value, tuple):
        items: list[str] = [describe_side(item) for item in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return kind(value)


def conflict(first: object, first_line: int, second: object, second_line: int) -> str:
    """The sentence about a variable whose values cannot be joined, with both places."""
    return (
        f"is {describe_side(first)} (line {first_line}) on one path and "
        f"{describe_side(second)} (line {second_line}) on the other"
    )
