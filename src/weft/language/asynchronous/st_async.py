# SPDX-License-Identifier: Apache-2.0
"""`weft.st_async`: stores into another block of the cluster, whose bytes come to a barrier there.

In: a shared array, an index, values, a barrier, a rank. Out: a store that is done for those who wait for the barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.nvgpu.threads import MapSharedOp, StAsyncOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.cluster import checked_rank
from weft.language.asynchronous.mbarrier import Mbarrier
from weft.language.memory.access import index_values
from weft.language.memory.vectors import vector_element, vector_place
from weft.language.operation import operation
from weft.language.values import Tensor, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_SIZES: Final = (4, 8, 16)


@operation
def st_async(
    builder: Builder, array: object, index: object, value: object, barrier: object, rank: object
) -> None:
    """Writes adjacent elements of this array in another block asynchronously; the bytes come to the barrier there.

    Who waits for that block's barrier sees them: neither side needs a `sync_cluster` for it. One of its threads has
    arrived with ``expect_bytes=`` of all that come in the phase. On the CPU the write is done when a thread waits for
    the barrier, so that a missing wait shows, and a block that ends with one in flight is an error.

    Args:
        array: in shared memory, of this block; the one at the same place in the other is written.
        index: of the element: an integer, or a tuple with one per dimension. For several adjacent ones, a multiple
            of their number, as for `store_vector`.
        value: a number, or a tuple for adjacent elements along the last dimension: 4, 8 or 16 bytes.
        barrier: of `mbarrier`: ``full[0]``, which stands for the other block's.
        rank: of the other block in the cluster, or of this one; as for `map_shared`.

    Raises:
        TypeMismatchError: for an array that is not in shared memory, what is not a barrier, or as `store_vector` and
            `map_shared`.
        ValueRangeError: for another number of bytes, or as these.

    Example:
        ``full[0].arrive(expect_bytes=4); weft.st_async(tile, tid, 1.0, full[0], other); full[0].wait(0)``
    """
    if not isinstance(array, Tensor) or array.type.space.data != "shared":
        where = f"a tensor in {array.type.space.data} memory" if isinstance(array, Tensor) else ""
        raise TypeMismatchError(
            "ST_ASYNC",
            f"st_async: expected an array in shared memory, received {where or describe(array)}",
            hint="give the block's own array; rank says whose is written",
        )
    if not isinstance(barrier, Mbarrier):
        raise TypeMismatchError(
            "ST_ASYNC",
            f"st_async: the barrier is {describe(barrier)}; expected one of weft.mbarrier, such as full[0]",
        )
    items = cast("tuple[object, ...]", value if isinstance(value, tuple | list) else (value,))
    size = len(items) * array.dtype.itemsize
    if size not in _SIZES:
        raise ValueRangeError(
            "ST_ASYNC",
            f"st_async: {len(items)} {array.dtype} take {size} bytes; expected 4, 8 or 16",
            hint="write several adjacent elements at once, as a tuple" if size < _SIZES[0] else "",
        )
    block = checked_rank(builder, rank, "st_async")
    if len(items) == 1:
        places = index_values(builder, array, index)
    else:
        _, places, _ = vector_place(builder, "st_async", array, index, len(items))
    elements = [vector_element(builder, "st_async", array, *item) for item in enumerate(items)]
    there, words = (
        builder.emit(MapSharedOp(own.ssa, block)).result for own in (array, barrier.words)
    )
    builder.emit(StAsyncOp(elements, there, places, words, barrier.index.ssa))
