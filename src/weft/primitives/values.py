# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations of primitives on a value: a number, or a tuple or frozen dataclass of numbers.

In: such a value. Out: one of the same structure. Operations of the language, for the primitives alone.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from weft.errors import TypeMismatchError, ValueRangeError
from weft.frontend.structure import flatten, rebuild
from weft.language.control import where
from weft.language.memory.access import load, store
from weft.language.memory.arrays import shared, shared_per_thread
from weft.language.numbers.convert import (
    constant,
    convert,
    default_dtype,
    expect_scalar,
    materialize,
    wide_dtype,
)
from weft.language.numbers.operators import binary
from weft.language.numbers.rounding import max_, min_
from weft.language.operation import operation
from weft.language.threads.warp import (
    over_lanes,
    shfl_down,
    shfl_idx,
    shfl_up,
    shfl_xor,
)
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.launch_limits import VECTOR_BYTES, WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

_SHUFFLES: Final = {"up": shfl_up, "down": shfl_down, "idx": shfl_idx, "xor": shfl_xor}


def _each(value: object, change: Callable[[Any], object]) -> Any:
    """The value with each of its numbers replaced."""
    shape, leaves = flatten(value)
    return rebuild(shape, iter([change(leaf) for leaf in leaves]))


@operation(takes_complex=True)
def numbers(builder: Builder, value: object, name: str) -> Any:
    """The value with literals in their own types.

    Raises:
        TypeMismatchError: if a part of it is not a number.
    """

    def number(leaf: object) -> Scalar:
        found = expect_scalar(builder, leaf, f"{name}: the value")
        if isinstance(found, Scalar):
            return found
        return constant(builder, found, default_dtype(found))

    return _each(value, number)


@operation(takes_complex=True)
def widened(builder: Builder, value: object) -> Any:
    """The numbers in the types of their sums: f32 for smaller floats, i32 for smaller integers and bools."""

    def wide(leaf: Scalar) -> Scalar:
        return convert(builder, leaf, types.i32 if leaf.dtype.is_bool else wide_dtype(leaf.dtype))

    return _each(value, wide)


@operation(takes_complex=True)
def fitted(builder: Builder, result: object, value: object, name: str) -> Any:
    """The result of a user's function of two values, checked to be such a value.

    Raises:
        TypeMismatchError: if its structure or types differ.
    """
    shape, leaves = flatten(value)
    made_shape, made = flatten(result)
    if shape == made_shape and all(map(_fits, made, leaves)):
        found = (
            materialize(builder, one, leaf.dtype) for one, leaf in zip(made, leaves, strict=True)
        )
        return rebuild(shape, found)
    raise TypeMismatchError(
        "PRIMITIVE_FUNCTION",
        f"{name}: the function makes {_text(result)} of two values that are {_text(value)}",
        hint="it has to return the type of its parameters: convert the values before, or its result",
    )


@operation(takes_complex=True)
def like(builder: Builder, given: object, value: object, name: str) -> Any:
    """An initial value, in the types of the others.

    Raises:
        TypeMismatchError: for None, or if its structure or types differ.
    """
    shape, leaves = flatten(value)
    given_shape, parts = flatten(given)
    if shape == given_shape and not any(part is None for part in parts):
        fitting = (
            materialize(builder, one, to.dtype) for one, to in zip(parts, leaves, strict=True)
        )
        return rebuild(shape, fitting)
    raise TypeMismatchError(
        "PRIMITIVE_INITIAL",
        f"{name}: the initial value is {_text(given)}; expected {_text(value)}",
        hint="the first one gets it: for a product 1, for a maximum the smallest number",
    )


def _fits(made: object, leaf: Scalar) -> bool:
    return made.dtype is leaf.dtype if isinstance(made, Scalar) else isinstance(made, int | float)


def _text(value: object) -> str:
    shape, leaves = flatten(value)
    found = [str(leaf.dtype) if isinstance(leaf, Scalar) else describe(leaf) for leaf in leaves]
    return found[0] if shape is None else f"{shape.kind.__name__}({', '.join(found)})"


@operation(takes_complex=True)
def moved(
    builder: Builder, kind: str, value: object, lane: object, mask: object, width: object = 32
) -> Any:
    """A shuffle of each number: ``"up"``, ``"down"``, ``"xor"`` or ``"idx"``."""
    shuffle = _SHUFFLES[kind].emit
    return _each(value, lambda leaf: shuffle(builder, leaf, lane, mask, width))


@operation(takes_complex=True)
def over_warp(builder: Builder, kind: str, value: object, mask: object) -> Any:
    """The ``"sum"``, ``"max"``, … of each number over the lanes of a mask, by the machine's own instructions."""
    return _each(value, lambda leaf: over_lanes.emit(builder, kind, leaf, mask))


@operation(takes_complex=True)
def of_two(builder: Builder, kind: str, left: object, right: object) -> Any:
    """The ``"sum"``, ``"max"`` or ``"min"`` of two values, number by number."""
    others = iter(flatten(right)[1])
    return _each(left, lambda leaf: _OF_TWO[kind](builder, leaf, next(others)))


def _sum(builder: Builder, left: Scalar, right: Scalar) -> object:
    return binary(builder, "+", left, right)


_OF_TWO: Final[dict[str, Callable[[Builder, Scalar, Scalar], object]]] = {
    "sum": _sum,
    "max": max_.emit,
    "min": min_.emit,
    "max or NaN": functools.partial(max_.emit, nan=True),
    "min or NaN": functools.partial(min_.emit, nan=True),
}


@operation(takes_complex=True)
def partials(builder: Builder, value: object, slots: int) -> Any:
    """Shared memory for that many such values: an array per number."""
    return _each(value, lambda leaf: shared.emit(builder, slots, leaf.dtype))


@operation(takes_complex=True)
def thread_partials(builder: Builder, value: object, slots: int) -> Any:
    """Shared memory for that many such values of each thread of the block."""
    return _each(value, lambda leaf: shared_per_thread(builder, leaf.dtype, slots))


@operation(takes_complex=True)
def vector_width(builder: Builder, a: Tensor, count: int) -> int:
    """The widest access in elements that may be used to read or write `count` of them."""
    del builder
    type_ = a.type
    if type_.layout.data not in ("contiguous", "inner"):
        return 1
    width = 1
    while count % (2 * width) == 0 and 2 * width * a.dtype.itemsize <= min(
        VECTOR_BYTES, type_.alignment_bytes.data
    ):
        width *= 2
    return width


@operation(takes_complex=True)
def put(builder: Builder, on: object, slot: object, value: object) -> None:
    """Writes a value into a slot of shared partial results."""
    for array, leaf in zip(flatten(on)[1], flatten(value)[1], strict=True):
        store(builder, array, slot, leaf)


@operation(takes_complex=True)
def take(builder: Builder, on: object, slot: object) -> Any:
    """Reads a value from a slot of shared partial results."""
    return _each(on, lambda array: load(builder, array, slot))


@operation(takes_complex=True)
def chosen(builder: Builder, condition: object, left: object, right: object) -> Any:
    """The left value where the condition holds, else the right one; both are computed."""
    others = iter(flatten(right)[1])
    return _each(left, lambda leaf: where.emit(builder, condition, leaf, next(others)))


@operation(takes_complex=True)
def is_repeated(builder: Builder) -> bool:
    """Whether a run-time loop is around this, so that its shared memory is used again."""
    return builder.loops > 0


@operation(takes_complex=True)
def neutral(builder: Builder, value: object) -> Any:
    """The identity of sums: 0, and for floats −0.0, so that a sum of −0.0 stays one."""
    return _each(value, lambda leaf: constant(builder, _zero(leaf.dtype), leaf.dtype))


def _zero(dtype: DType) -> float:
    return -0.0 if dtype.is_float else 0


@operation(takes_complex=True)
def group_width(builder: Builder, width: object, mask: object, name: str) -> int:
    """The lanes of a group, checked.

    Raises:
        TypeMismatchError, ValueRangeError: unless it is a power of two up to 32, and 32 if there is a mask.
    """
    del builder
    if not isinstance(width, int) or isinstance(width, bool):
        raise TypeMismatchError(
            "WARP_WIDTH",
            f"{name}: the width must be known at compile time, received {describe(width)}",
            hint="use a literal, a global or a weft.Constexpr[int] parameter",
        )
    if not 1 <= width <= WARP_SIZE or width & (width - 1):
        raise ValueRangeError(
            "WARP_WIDTH", f"{name}: the width is {width}; expected 1, 2, 4, 8, 16 or 32"
        )
    if mask is not None and width != WARP_SIZE:
        raise ValueRangeError(
            "WARP_WIDTH",
            f"{name}: groups of {width} lanes and a mask",
            hint="leave the mask out: every group takes part; or the width, for one group of any lanes",
        )
    return width
