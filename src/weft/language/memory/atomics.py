# SPDX-License-Identifier: Apache-2.0
"""Atomic read-modify-write: ``atomic_add``, ``atomic_max``, ``atomic_cas`` and the others.

In: a tensor in global or shared memory, an index, a value, a memory order and scope. Out: the old element.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Concatenate, Final

from xdsl.dialects import arith

from weft.dialects.simt.atomics import MEMORY_ORDERS, MEMORY_SCOPES, AtomicCasOp, AtomicRmwOp
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
PLAIN: Final = ("load", "store")
"""Those that are single accesses on all hardware, whatever memory they reach."""


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
    """Emits any of them except `atomic_cas`; they differ only in kind."""
    kind = name.removeprefix("atomic_")
    tensor = check_atomic(tensor, kind, order, scope)
    places = index_values(builder, tensor, index)
    element = atomic_element(builder, tensor, kind, value)
    if kind == "sub" and tensor.dtype.is_float:
        # No target subtracts floats atomically; adding the negated value gives the same bits.
        element = Scalar(builder.emit(arith.NegfOp(element.ssa)).result, tensor.dtype)
        kind = "add"
    if kind in ("max", "min") and tensor.dtype.kind == "uint":
        kind = f"u{kind}"
    made = AtomicRmwOp(kind, element.ssa, tensor.ssa, places, order=order, scope=scope)
    return Scalar(builder.emit(made).result, tensor.dtype)


def _like(
    emit: Callable[Concatenate[str, Builder, Parameters], Scalar],
) -> Callable[[Callable[[], None]], Operation[Parameters]]:
    """A decorator: a function's name and documentation for an operation with the parameters of `emit`."""

    def decorate(named: Callable[[], None]) -> Operation[Parameters]:
        function = partial(emit, named.__name__)
        function.__doc__ = named.__doc__
        return Operation(function, named.__name__, on_host=False)

    return decorate


_modifying = _like(_modify)


@_modifying
def atomic_add() -> None:
    """Atomically adds `value` to an element; returns the old element.

    Integers wrap. A sum of floats depends on the order of threads; in global memory a GPU treats subnormal f32 numbers
    as 0.

    On 32- and 64-bit elements a GPU has one instruction for every atomic operation, except in shared memory for float
    sums, 64-bit integer operations and f64 extrema, which take a loop. On 8- and 16-bit elements, all but `atomic_and`,
    `atomic_or` and `atomic_xor` loop over the enclosing 32-bit word, so that threads changing elements of one word
    wait for each other.

    f16, bf16 and the 8-bit floats compute in f32 and round once.

    Args:
        tensor: in global or shared memory, of any integer or float type.
        index: an integer, or a tuple with one per dimension.
        value: a number that fits the element type.
        order: ``relaxed``, ``acquire``, ``release``, ``acq_rel`` or ``seq_cst``: what it orders besides the element
            itself; see docs/memory-model.md.
        scope: ``block``, ``device`` or ``system``: the threads it is atomic for.

    Raises:
        TypeMismatchError: for another element type, 64 bits in another block's shared memory, a wrong index, or a value
            that needs an explicit conversion.
        ValueRangeError: for an unknown order or scope, or a constant out of range.

    Example:
        ``weft.atomic_add(histogram, weft.i32(pixels[i]), 1)``
    """


@_modifying
def atomic_sub() -> None:
    """Atomically subtracts `value` from an element; returns the old element.

    Arguments, types and errors as in `atomic_add`.

    Example:
        ``left = weft.atomic_sub(pending, 0, 1) - 1``
    """


@_modifying
def atomic_max() -> None:
    """Atomically raises an element to `value` if that is larger; returns the old element.

    Compares by the element type's sign. A number wins over NaN; on a GPU an element that is already NaN may stay so.
    Arguments, types and errors as in `atomic_add`.

    Example:
        ``weft.atomic_max(largest, 0, a[i])``
    """


@_modifying
def atomic_min() -> None:
    """Atomically lowers an element to `value` if that is smaller; returns the old element.

    Compares by the element type's sign. A number wins over NaN; on a GPU an element that is already NaN may stay so.
    Arguments, types and errors as in `atomic_add`.

    Example:
        ``weft.atomic_min(distance, node, candidate)``
    """


@_modifying
def atomic_and() -> None:
    """Atomically clears the bits of an element that are 0 in `value`; returns the old element.

    For integers and `bool_`; arguments and errors as in `atomic_add`.

    Example:
        ``weft.atomic_and(flags, word, ~bit)``
    """


@_modifying
def atomic_or() -> None:
    """Atomically sets the bits of an element that are 1 in `value`; returns the old element.

    For integers and `bool_`; arguments and errors as in `atomic_add`.

    Example:
        ``seen = weft.atomic_or(visited, i >> 5, weft.u32(1) << (i & 31))``
    """


@_modifying
def atomic_xor() -> None:
    """Atomically flips the bits of an element that are 1 in `value`; returns the old element.

    For integers and `bool_`; arguments and errors as in `atomic_add`.

    Example:
        ``weft.atomic_xor(parity, word, bits)``
    """


@_modifying
def atomic_exchange() -> None:
    """Atomically writes `value` to an element; returns the old element.

    For every element type; arguments and errors as in `atomic_add`.

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
    """Atomically writes `value` if the element equals `expected`; returns the old element.

    It was written if the result equals `expected`. Elements are compared bit for bit, so 0.0 differs from −0.0 and a
    NaN equals itself; a `bool_` is compared by truth. For every element type.

    Args:
        tensor: in global or shared memory.
        index: an integer, or a tuple with one per dimension.
        expected: to compare with the element.
        value: to write.
        order: as in `atomic_add`; only its acquire part if nothing is written.
        scope: as in `atomic_add`.

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
    """The value in the tensor's element type; errors name the operation."""
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
    """Checks an atomic operation's tensor, order and scope; returns the tensor.

    Raises:
        TypeMismatchError: for a non-tensor, a thread's own memory, or an unsupported element type. Of 64 bits in
            another block's shared memory ptxas makes a load and a store for sm_90, by which sums are lost.
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
    if tensor.type.space.data == "cluster" and tensor.dtype.bits == 64 and kind not in PLAIN:
        raise TypeMismatchError(
            "ATOMIC_DTYPE",
            f"{name}: {tensor.name} is another block's memory and holds {tensor.dtype}; "
            "no hardware changes 64 bits there in one step",
            hint="use elements of 32 bits, or the block's own or global memory",
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
