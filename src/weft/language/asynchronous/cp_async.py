# SPDX-License-Identifier: Apache-2.0
"""Copies of single threads into shared memory that run beside them: ``weft.cp_async``.

In: adjacent elements of a tensor, and their place in shared memory. Out: copies in groups, which a thread waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.dialects.nvgpu.async_copy import (
    COPY_BYTES,
    CpAsyncCommitOp,
    CpAsyncCopyOp,
    CpAsyncWaitOp,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory.vectors import adjacent_place
from weft.language.numbers.convert import expect_scalar, truth
from weft.language.operation import operation
from weft.language.values import Tensor, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_MOST_PENDING: Final = 255


@operation(name="cp_async.copy")
def copy(
    builder: Builder,
    to: object,
    index: object,
    source: object,
    source_index: object,
    count: object,
    *,
    pred: object = True,
) -> None:
    """Copies `count` adjacent elements of a tensor into shared memory asynchronously, past the registers.

    Each thread copies for itself: 4, 8 or 16 bytes, adjacent along the last dimension of both, which begin at
    multiples of their size, as for `load_vector`. `cp_async.commit` closes a group of copies. After `cp_async.wait`
    the thread sees them, and the others after a barrier. On the CPU a copy runs when it is waited for: a missing wait
    shows.

    Args:
        to: an array in shared memory, swizzled or not.
        index: of the first element there: an integer, or a tuple with one per dimension.
        source: a tensor of the kernel with the same element type.
        source_index: of the first element there; it may lie outside where `pred` is false.
        count: of elements; a constant.
        pred: a condition: where it is false zeros are written, and `source` is not read.

    Raises:
        TypeMismatchError: for anything else, too little known alignment, or elements that are not adjacent.
        ValueRangeError: for a count of another size, or an unaligned constant index.
        UnavailableError: before sm_80.

    Example:
        ``weft.cp_async.copy(tile, 4 * tid, points, 4 * tid, 4, pred=tid < 8); weft.cp_async.commit()``
    """
    target = _tensor(to, "shared", "an array in shared memory")
    found = _tensor(source, "global", "a tensor of the kernel's parameters")
    if found.dtype != target.dtype:
        raise TypeMismatchError(
            "CP_ASYNC_COPY",
            f"cp_async.copy: {found.name} holds {found.dtype}, and {target.name} {target.dtype}",
            hint="load, convert and store the elements where they are of different types",
        )
    number = _count(target, count)
    places = adjacent_place(builder, "cp_async.copy", target, index, number)
    source_places = adjacent_place(builder, "cp_async.copy", found, source_index, number)
    condition = None
    if pred is not True:
        condition = truth(builder, expect_scalar(builder, pred, "cp_async.copy: the condition")).ssa
    builder.emit(CpAsyncCopyOp(number, target.ssa, places, found.ssa, source_places, condition))


@operation(name="cp_async.commit")
def commit(builder: Builder) -> None:
    """Closes a group: this thread's copies since the last one. A group may be empty.

    Raises:
        UnavailableError: before sm_80.

    Example:
        ``weft.cp_async.commit()``
    """
    builder.emit(CpAsyncCommitOp())


@operation(name="cp_async.wait")
def wait(builder: Builder, *, pending: object = 0) -> None:
    """Waits until all but the `pending` newest groups of this thread are complete.

    Args:
        pending: how many may still run; a constant from 0 up.

    Raises:
        TypeMismatchError: unless it is such a constant.
        UnavailableError: before sm_80.

    Example:
        ``weft.cp_async.wait(pending=2); weft.sync_threads()``
    """
    if (
        not isinstance(pending, int)
        or isinstance(pending, bool)
        or not 0 <= pending <= _MOST_PENDING
    ):
        raise TypeMismatchError(
            "CP_ASYNC_WAIT",
            f"cp_async.wait: pending is {describe(pending)}; expected a constant, 0 to {_MOST_PENDING}",
        )
    builder.emit(CpAsyncWaitOp(pending))


def _tensor(value: object, space: str, what: str) -> Tensor:
    if isinstance(value, Tensor) and value.type.space.data == space:
        return value
    raise TypeMismatchError(
        "CP_ASYNC_COPY", f"cp_async.copy: received {describe(value)}; expected {what}"
    )


def _count(tensor: Tensor, count: object) -> int:
    size = tensor.dtype.itemsize
    counts = [each // size for each in COPY_BYTES if each >= size]
    if isinstance(count, int) and not isinstance(count, bool) and count in counts:
        return count
    raise ValueRangeError(
        "CP_ASYNC_COPY",
        f"cp_async.copy: count is {describe(count)}; expected a constant, "
        f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}: a copy has 4, 8 or 16 bytes",
    )
