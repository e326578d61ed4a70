# SPDX-License-Identifier: Apache-2.0
"""Clusters of blocks: ``cluster_rank``, ``cluster_shape``, ``sync_cluster``, ``map_shared``.

In: a shared array and a rank. Out: the array of the block with that rank. How many blocks a cluster has is known when a
kernel is traced: its decorator or its launch says it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.threads import ClusterBarrierOp, ClusterRankOp, MapSharedOp
from weft.dialects.simt.threads import BarrierOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


@operation
def cluster_rank(builder: Builder) -> Scalar:
    """This block's number in its cluster: an i32, from 0, with ``x`` counted first; 0 without clusters.

    ``cluster=`` of the kernel's decorator or of its launch says how many blocks a cluster has.

    Example:
        ``if weft.cluster_rank() == 0: totals[weft.block_idx.x] = 0.0``
    """
    if builder.cluster is None:
        return Scalar(builder.constant(i32, 0), types.i32)
    found = builder.shared_operation(ClusterRankOp)
    if found is None:
        found = builder.entry_operation(ClusterRankOp(), "cluster_rank", key=ClusterRankOp)
    return Scalar(found.results[0], types.i32)


@operation
def cluster_shape(builder: Builder) -> tuple[int, ...]:
    """The blocks of a cluster along x, y and z, known at compile time; ``(1, 1, 1)`` without clusters.

    Example:
        ``received = weft.shared(weft.cluster_shape()[0], weft.f32)``
    """
    return builder.cluster or (1, 1, 1)


@operation
def sync_cluster(builder: Builder) -> None:
    """Waits for every thread of the cluster that has not returned; without clusters, of the block.

    All of the cluster's threads then see what any of them wrote to memory before. As for `sync_threads`, all running
    threads of the cluster take the same one together.

    Example:
        ``tile[tid] = a[i]; weft.sync_cluster(); b[i] = tile[31 - tid]``
    """
    builder.emit(BarrierOp() if builder.cluster is None else ClusterBarrierOp())


@operation
def map_shared(builder: Builder, array: object, rank: object) -> Tensor:
    """The same array in the shared memory of the cluster's block of that rank: read, written and added to like it.

    The other block must have begun, and must not have returned: put a `sync_cluster` before the first access and one
    after the last. Breaking this is undefined on a GPU. On the CPU, writing into a block that has not begun or has
    returned is an error, and a read there gives garbage.

    Args:
        array: a shared array, or a part of one.
        rank: an integer from 0, less than the blocks of a cluster. One known only at run time is checked on the CPU.

    Raises:
        TypeMismatchError: for a tensor that is not in shared memory, a rank that is not an integer, or a kernel without
            clusters.
        ValueRangeError: for a constant rank that no block has.

    Example:
        ``weft.sync_cluster(); weft.map_shared(tile, 1)[tid] = x; weft.sync_cluster()``
    """
    if not isinstance(array, Tensor) or array.type.space.data != "shared":
        where = f"a tensor in {array.type.space.data} memory" if isinstance(array, Tensor) else ""
        raise TypeMismatchError(
            "MAP_SHARED",
            f"map_shared: expected an array in shared memory, received {where or describe(array)}",
            hint="make it with weft.shared",
        )
    made = MapSharedOp(array.ssa, checked_rank(builder, rank, "map_shared"))
    return Tensor(builder.emit(made, f"{array.name}_mapped").result, array.dtype, array.name)


def checked_rank(builder: Builder, rank: object, name: str) -> SSAValue:
    """A block's number in its cluster, as an i32.

    Args:
        builder: of the kernel.
        rank: an integer.
        name: of the operation, for messages.

    Raises:
        TypeMismatchError, ValueRangeError: as `map_shared`.
    """
    if builder.cluster is None:
        raise TypeMismatchError(
            "CLUSTER_MISSING",
            f"{name}: this kernel is launched without clusters",
            hint="say how many blocks a cluster has: @weft.kernel(cluster=2), or cluster=2 in the launch",
        )
    found = expect_scalar(builder, rank, f"{name}: the rank")
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return convert(builder, found, types.i32).ssa
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "CLUSTER_RANK", f"{name}: the rank is {describe(found)}; expected an integer"
        )
    blocks = math.prod(builder.cluster)
    if not 0 <= known < blocks:
        raise ValueRangeError(
            "CLUSTER_RANK", f"{name}: the rank is {known}; expected 0 to {blocks - 1}"
        )
    return builder.constant(i32, known)
