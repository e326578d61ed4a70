# SPDX-License-Identifier: Apache-2.0
"""Read-modify-write as one step: ``atomic_add``, ``atomic_max``, ``atomic_cas`` and the others.

In: a tensor in global or shared memory, an index, a value, a memory order and scope. Out: the element as it was before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Concatenate, Final

from xdsl.dialects import arith

from weft.dialects.simt.memory import MEMORY_ORDERS, MEMORY_SCOPES, AtomicCasOp, AtomicRmwOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory.access import index_values
from weft.language.numbers.convert import materialize
from weft.language.operation import Operation, operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.language.operation import Parameters
    from weft.types.dtype import DType

_INTEGERS: Final = tuple(dtype for dtype in DTYPES if dtype.is_integer)
_NUMBERS: Final = (*_INTEGERS, *(dtype for dtype in DTYPES if dtype.is_float))

ATOMIC_DTYPES: Final[dict[str, tuple[DType, ...]]] = {
    **dict.fromkeys(("add", "sub", "max", "min"), _NUMBERS),
    **dict.fromkeys(("and", "or", "xor"), (*_INTEGERS, types.bool_)),
    **dict.fromkeys(("load", "store", "exchange", "cas"), (*_NUMBERS, types.bool_)),
}
"""Element types of each atomic operation, on every target."""


def _modify(
    name: str,
    builder: Builder,
    tensor: Tensor,
    index: object,
    value: object,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Scalar:
    """Emits any of them but `atomic_cas`: they differ in their kind alone."""
    kind = name.removeprefix("atomic_")
    tensor = check_atomic(tensor, kind, order, scope)
    places = index_values(builder, tensor, index)
    element = atomic_element(builder, tensor, kind, value)
    if kind == "sub" and tensor.dtype.is_float:
        # No target subtracts floats atomically; adding the negated value is the same to the last bit.
        element = Scalar(builder.emit(arith.NegfOp(element.ssa)).result, tensor.dtype)
        kind = "add"
    if kind in ("max", "min") and tensor.dtype.kind == "uint":
        kind = f"u{kind}"
    made = AtomicRmwOp(kind, element.ssa, tensor.ssa, places, order=order, scope=scope)
    return Scalar(builder.emit(made).result, tensor.dtype)


def _like(
    emit: Callable[Concatenate[str, Builder, Parameters], Scalar],
) -> Callable[[Callable[[], None]], Operation[Parameters]]:
    """A decorator: the operation that a function names and documents is emitted, and called, as `emit` is."""

    def decorate(named: Callable[[], None]) -> Operation[Parameters]:
        function = partial(emit, named.__name__)
        function.__doc__ = named.__doc__
        return Operation(function, named.__name__, on_host=False)

    return decorate


_modifying = _like(_modify)


@_modifying
def atomic_add() -> None:
    """Adds `value` to an element as one step; returns the element as it was before.

    Integers wrap. The sum of floats depends on the order in which threads arrive; in global memory a GPU takes
    subnormal f32 numbers for 0.

    A GPU has one instruction for every atomic operation on elements of 32 and 64 bits, but for these, which take
    a loop: in shared memory sums of floats and what combines 64-bit integers or extrema of f64. On elements of 8
    and 16 bits it takes a loop over the 32-bit word that they are part of, but for `atomic_and`, `atomic_or` and
    `atomic_xor`; threads that change neighbors in one word then wait for each other.

    f16, bf16 and the 8-bit floats compute in f32 and round once.

    Args:
        tensor: in global or shared memory, of any integer or float type.
        index: an integer, or a tuple with one per dimension.
        value: a number that the element type holds.
        order: ``relaxed``, ``acquire``, ``release``, ``acq_rel`` or ``seq_cst``: what it orders besides
            the element itself, as docs/memory-model.md says.
        scope: ``block``, ``device`` or ``system``: which threads it is one step for.

    Raises:
        TypeMismatchError: for another element type, a wrong index, or a value to be converted in writing.
        ValueRangeError: for an unknown order or scope, or a constant out of range.

    Example:
        ``weft.atomic_add(histogram, weft.i32(pixels[i]), 1)``
    """


@_modifying
def atomic_sub() -> None:
    """Subtracts `value` from an element as one step; returns the element as it was before.

    Arguments, types and errors are those of `atomic_add`.

    Example:
        ``left = weft.atomic_sub(pending, 0, 1) - 1``
    """


@_modifying
def atomic_max() -> None:
    """Raises an element to `value` if that is larger, as one step; returns the element as it was before.

    Compares by the element type's sign. Of a float and NaN the float remains; on a GPU an element that is
    NaN already may stay so. Arguments, types and errors are those of `atomic_add`.

    Example:
        ``weft.atomic_max(largest, 0, a[i])``
    """


@_modifying
def atomic_min() -> None:
    """Lowers an element to `value` if that is smaller, as one step; returns the element as it was before.

    Compares by the element type's sign. Of a float and NaN the float remains; on a GPU an element that is
    NaN already may stay so. Arguments, types and errors are those of `atomic_add`.

    Example:
        ``weft.atomic_min(distance, node, candidate)``
    """


@_modifying
def atomic_and() -> None:
    """Clears the bits of an element that are 0 in `value`, as one step; returns the element before.

    For integers and `bool_`; arguments and errors are those of `atomic_add`.

    Example:
        ``weft.atomic_and(flags, word, ~bit)``
    """


@_modifying
def atomic_or() -> None:
    """Sets the bits of an element that are 1 in `value`, as one step; returns the element before.

    For integers and `bool_`; arguments and errors are those of `atomic_add`.

    Example:
        ``seen = weft.atomic_or(visited, i >> 5, weft.u32(1) << (i & 31))``
    """


@_modifying
def atomic_xor() -> None:
    """Flips the bits of an element that are 1 in `value`, as one step; returns the element before.

    For integers and `bool_`; arguments and errors are those of `atomic_add`.

    Example:
        ``weft.atomic_xor(parity, word, bits)``
    """


@_modifying
def atomic_exchange() -> None:
    """Writes `value` to an element and returns what was there, as one step.

    For every element type; arguments and errors are those of `atomic_add`.

    Example:
        ``previous = weft.atomic_exchange(head, 0, node)``
    """


@operation
def atomic_cas(
    builder: Builder,
    tensor: Tensor,
    index: object,
    expected: object,
    value: object,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Scalar:
    """Writes `value` if the element equals `expected`, as one step; returns the element as it was before.

    It was written exactly where the result equals `expected`. Elements are compared bit for bit, so 0.0
    differs from −0.0 and a NaN equals itself; of a `bool_` its truth is compared. For every element type.

    Args:
        builder: where operations go; users leave it out.
        tensor: in global or shared memory.
        index: an integer, or a tuple with one per dimension.
        expected: what the element is compared with.
        value: what is written.
        order: as of `atomic_add`; where nothing is written, its acquire part only.
        scope: as of `atomic_add`.

    Raises:
        TypeMismatchError, ValueRangeError: as `atomic_add`.

    Example:
        ``won = weft.atomic_cas(lock, 0, 0, 1) == 0``
    """
    check_atomic(tensor, "cas", order, scope)
    places = index_values(builder, tensor, index)
    before = atomic_element(builder, tensor, "cas", expected)
    after = atomic_element(builder, tensor, "cas", value)
    made = AtomicCasOp(before.ssa, after.ssa, tensor.ssa, places, order=order, scope=scope)
    return Scalar(builder.emit(made).result, tensor.dtype)


def atomic_element(builder: Builder, tensor: Tensor, kind: str, value: object) -> Scalar:
    """A value as the tensor's elements are; what it cannot be says so in the operation's name."""
    try:
        return materialize(builder, value, tensor.dtype)
    except (TypeMismatchError, ValueRangeError) as error:
        text = f"atomic_{kind}: {tensor.name} holds {tensor.dtype}: {error.message}"
        raise type(error)(error.code, text, hint=error.hint) from None


def check_atomic(
    tensor: object,
    kind: str,
    order: object,
    scope: object,
    orders: tuple[str, ...] = MEMORY_ORDERS,
) -> Tensor:
    """The tensor of an atomic operation, once tensor, order and scope are found to be possible.

    Raises:
        TypeMismatchError: for no tensor, a thread's own memory, or an element type that the kind does not take.
        ValueRangeError: for an unknown order or scope.
    """
    name = f"atomic_{kind}"
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "ATOMIC_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
            hint=f"write {name}(tensor, index, ...), not {name}(tensor[index], ...)",
        )
    if tensor.type.space.data == "local":
        raise TypeMismatchError(
            "ATOMIC_SPACE",
            f"{name}: {tensor.name} is in the thread's own memory, which no other thread can reach",
            hint="use a plain load and store",
        )
    allowed = ATOMIC_DTYPES[kind]
    if tensor.dtype not in allowed:
        raise TypeMismatchError(
            "ATOMIC_DTYPE",
            f"{name}: {tensor.name} holds {tensor.dtype}; "
            f"expected one of {', '.join(dtype.name for dtype in allowed)}",
        )
    if order not in orders:
        raise ValueRangeError(
            "ATOMIC_ORDER",
            f"{name}: order is {describe(order)}; expected one of {', '.join(orders)}",
        )
    if scope not in MEMORY_SCOPES:
        raise ValueRangeError(
            "ATOMIC_SCOPE",
            f"{name}: scope is {describe(scope)}; expected one of {', '.join(MEMORY_SCOPES)}",
        )
    return tensor
