# SPDX-License-Identifier: Apache-2.0
"""Atomics: read-modify-write, sums that return nothing (``red_add``), ordered and volatile loads and stores.

In: a tensor in global or shared memory, an index, a value (for sums also a tuple), a memory order and scope. Out: the
old element; one atomic sum, or one of a vector; loads and stores with the guarantees of docs/memory-model.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Concatenate, Final, cast

from xdsl.dialects import arith

from weft.dialects.simt.atomics import (
    LOAD_ORDERS,
    MEMORY_ORDERS,
    MEMORY_SCOPES,
    STORE_ORDERS,
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    RedAddOp,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory.access import index_values, load, store
from weft.language.memory.vectors import vector_element, vector_place
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
        order: ``relaxed``, ``acquire``, ``release``, ``acq_rel`` or ``seq_cst``: the order besides that of the element
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


@operation
def atomic_load(
    builder: Builder,
    tensor: Tensor,
    index: object,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Scalar:
    """Reads an element atomically: a value that some thread wrote, never parts of two.

    With ``acquire`` it makes the writing thread's accesses before its ``release`` visible. Use it in loops that wait
    for another thread.

    Args:
        tensor: in global or shared memory, of any element type.
        index: an integer, or a tuple with one per dimension.
        order: ``relaxed``, ``acquire`` or ``seq_cst``.
        scope: ``block``, ``device`` or ``system``: the threads that may take part.

    Raises:
        TypeMismatchError: for a non-tensor, a tensor in the thread's own memory, or a wrong index.
        ValueRangeError: for another order or scope.

    Example:
        ``is_ready = weft.atomic_load(ready, 0, order="acquire") != 0``
    """
    tensor = check_atomic(tensor, "load", order, scope, LOAD_ORDERS)
    places = index_values(builder, tensor, index)
    return Scalar(builder.emit(AtomicLoadOp(tensor.ssa, places, order, scope)).result, tensor.dtype)


@operation
def atomic_store(
    builder: Builder,
    tensor: Tensor,
    index: object,
    value: object,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> None:
    """Writes an element atomically.

    With ``release``, a thread that reads the value with ``acquire`` also sees this thread's earlier writes.

    Args:
        tensor: in global or shared memory, of any element type.
        index: an integer, or a tuple with one per dimension.
        value: a number that the element type holds.
        order: ``relaxed``, ``release`` or ``seq_cst``.
        scope: ``block``, ``device`` or ``system``: the threads that may take part.

    Raises:
        TypeMismatchError: as `atomic_load`, or for a value that needs an explicit conversion.
        ValueRangeError: for another order or scope, or a constant out of range.

    Example:
        ``values[0] = x; weft.atomic_store(ready, 0, 1, order="release")``
    """
    tensor = check_atomic(tensor, "store", order, scope, STORE_ORDERS)
    places = index_values(builder, tensor, index)
    element = atomic_element(builder, tensor, "store", value)
    builder.emit(AtomicStoreOp(element.ssa, tensor.ssa, places, order, scope))


@operation
def volatile_load(builder: Builder, tensor: Tensor, index: object) -> Scalar:
    """Reads an element from memory each time: never dropped, moved or combined.

    It guarantees neither order nor atomicity: between threads, use `atomic_load`. It is for memory changed by a device
    or the host, and for measurements.

    Args:
        tensor: in any memory, of any element type.
        index: an integer, or a tuple with one per dimension.

    Raises:
        TypeMismatchError: for a non-tensor, or a wrong index.
        ValueRangeError: for a constant index out of range.

    Example:
        ``now = weft.volatile_load(ready, 0)``
    """
    return load(builder, _tensor("volatile_load", tensor), index, volatile=True)


@operation
def volatile_store(builder: Builder, tensor: Tensor, index: object, value: object) -> None:
    """Writes an element to memory each time: never dropped, moved or combined.

    Arguments and errors are those of `volatile_load`, and those of ``tensor[index] = value`` for the value.

    Example:
        ``weft.volatile_store(ready, 0, 1)``
    """
    store(builder, _tensor("volatile_store", tensor), index, value, volatile=True)


def _tensor(name: str, tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "VOLATILE_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
            hint=f"write {name}(tensor, index, ...), not {name}(tensor[index], ...)",
        )
    return tensor


RED_DTYPES: Final = (
    *(types.f16, types.bf16, types.f32, types.f64),
    *(types.i32, types.u32, types.i64, types.u64),
)
"""Element types that a GPU adds in one instruction, one or several."""


@operation
def red_add(builder: Builder, tensor: object, index: object, values: object) -> None:
    """Adds a number to an element, or a tuple of numbers to adjacent elements, each in one step; returns nothing.

    Relaxed and for the whole device, as `atomic_add`. A vector as a whole is not one step: another thread may see some
    of its sums before the others. In global memory GPUs from sm_90 on add up to 16 bytes of f32, f16 and bf16 with one
    instruction, and since sm_60 pairs of f16; everything else is added element by element, with the same meaning.
    There, a GPU treats subnormal f32 numbers as 0.

    Args:
        tensor: in global or shared memory, of f16, bf16, f32, f64, i32, u32, i64 or u64; for a tuple with a last stride
            of 1 and known to be aligned to the whole size, as for `load_vector`.
        index: of the first element: an integer, or a tuple with one per dimension.
        values: a number, or a tuple of 2, 4 or 8 of at most 16 bytes in all. They are rounded to the element type as in
            a store.

    Raises:
        TypeMismatchError: for a non-tensor, another element type, a thread's own memory, a wrong index, a layout whose
            last stride is not 1, or too little known alignment.
        ValueRangeError: for another count, more than 16 bytes, or an unaligned constant index.

    Example:
        ``weft.red_add(weft.shared(8, weft.f32), 4, (x, y, z, 1.0))``
    """
    found = _checked(tensor)
    if not isinstance(values, tuple | list):
        element = Scalar(vector_element(builder, "red_add", found, 0, values), found.dtype)
        atomic_add.emit(builder, found, index, element)
        return
    items = cast("tuple[object, ...]", values)
    _, places, _ = vector_place(builder, "red_add", found, index, len(items))
    elements = [
        vector_element(builder, "red_add", found, number, item) for number, item in enumerate(items)
    ]
    builder.emit(RedAddOp(elements, found.ssa, places))


def _checked(tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "ATOMIC_TENSOR",
            f"red_add: the first argument must be a tensor, received {describe(tensor)}",
            hint="write red_add(tensor, index, values), not red_add(tensor[index], values)",
        )
    if tensor.type.space.data == "local":
        raise TypeMismatchError(
            "ATOMIC_SPACE",
            f"red_add: {tensor.name} is in the thread's own memory, which no other thread can reach",
            hint="use a plain load and store",
        )
    if tensor.dtype not in RED_DTYPES:
        listed = ", ".join(dtype.name for dtype in RED_DTYPES)
        raise TypeMismatchError(
            "ATOMIC_DTYPE",
            f"red_add: {tensor.name} holds {tensor.dtype}; expected one of {listed}",
            hint="use atomic_add, which loops over the word around a smaller element",
        )
    return tensor
