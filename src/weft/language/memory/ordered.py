# SPDX-License-Identifier: Apache-2.0
"""Ordered and volatile accesses: ``atomic_load``, ``atomic_store``, ``volatile_load``, ``volatile_store``.

In: a tensor, an index, a value, a memory order and scope. Out: loads and stores with the guarantees of
docs/memory-model.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.atomics import LOAD_ORDERS, STORE_ORDERS, AtomicLoadOp, AtomicStoreOp
from weft.errors import TypeMismatchError
from weft.language.memory.access import index_values, load, store
from weft.language.memory.atomics import atomic_element, check_atomic
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


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

    With ``acquire`` it makes visible what the writing thread did before its ``release``. Use it in loops that wait for
    another thread.

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
