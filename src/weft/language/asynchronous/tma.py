# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes of tensors by TMA: ``weft.tma``.

In: a tensor map, the index of a box, a tile in shared memory. Out: copies that run beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.dialects.nvgpu.async_copy import (
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.boxes import (
    box_index,
    box_place,
    checked_map,
    checked_tile,
    map_offsets,
)
from weft.language.asynchronous.copies import barrier_words, cache_policy, multicast_ranks
from weft.language.asynchronous.device_maps import copy_map, edit_map, map_at
from weft.language.operation import operation
from weft.language.values import describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

__all__ = [
    "copy_map",
    "edit_map",
    "fence_proxy",
    "load",
    "map_at",
    "prefetch",
    "reduce",
    "store",
    "wait",
]

_MOST_PENDING: Final = 255
# Reduction → the types that it takes.
_FLOATS: Final = (types.f16, types.bf16)
_INTEGERS: Final = (types.i32, types.u32, types.i64, types.u64)
_REDUCED: Final = {
    "add": (types.i32, types.u32, types.u64, *_FLOATS, types.f32),
    **dict.fromkeys(("min", "max"), (*_INTEGERS, *_FLOATS)),
    # An H200 refuses bits of i64 as an illegal instruction, and takes those of u64.
    **dict.fromkeys(("and", "or", "xor"), (types.i32, types.u32, types.u64)),
}


@operation(name="tma.prefetch")
def prefetch(builder: Builder, tensor_map: object, index: object = None) -> None:
    """Fetches a tensor map before it is first used, or a box of its tensor into the L2 cache.

    One thread of a grid's blocks is enough. It changes nothing but times, and does nothing on the CPU.

    Args:
        tensor_map: a parameter of the kernel.
        index: of the first element of a box, as for `tma.load`; without it the map itself is fetched.

    Raises:
        TypeMismatchError: for what is not a tensor map, or a wrong number of indices.
        ValueRangeError: for an index as `tma.load`.
        UnavailableError: before sm_90.

    Example:
        ``weft.tma.prefetch(source)``
    """
    found = checked_map(tensor_map, "prefetch")
    if index is not None and found.type.is_im2col:
        raise TypeMismatchError(
            "TMA_MAP",
            f"tma.prefetch: {found.name} is of im2col_map, of which only the map itself is fetched",
            hint="leave the index out",
        )
    indices = [] if index is None else box_index(builder, "prefetch", found, index)
    builder.emit(TmaPrefetchOp(found.ssa, indices))


@operation(name="tma.load")
def load(
    builder: Builder,
    tensor_map: object,
    index: object,
    tile: object,
    barrier: object,
    *,
    offsets: object = None,
    multicast: object = None,
    cache: object = None,
) -> None:
    """Begins to copy a box of a tensor into a tile of shared memory; its bytes come to a barrier.

    One thread calls it, such as that of `elect_one`, after it has arrived at the barrier with ``expect_bytes=`` of all
    tiles that come in this phase; who waits for the phase sees the tile. The box's bytes count in full; what is outside
    of the tensor becomes zeros, or NaN if the map says so. On the CPU the copy runs when a thread waits for the
    barrier and no other can run, so that a missing wait shows.

    Args:
        tensor_map: a parameter of the kernel.
        index: of the box's first element, in elements: an integer, or a tuple with one per dimension. It may be
            negative, or beyond the end. Along the last dimension it is a multiple of 16 bytes: a GPU ends a kernel
            whose box begins elsewhere with an illegal instruction. What does not show it is checked like an `assert`:
            always on the CPU, on a GPU with ``--enable-assertions``.
        tile: an array in shared memory with the map's element type, swizzle, and the shape of its box, in which
            dimensions of 1 are left out: a swizzled matrix, or an array of any rank without gaps.
        barrier: of `mbarrier`: ``full[state]``.
        offsets: of a map of `im2col_map`: how far the kernel's element lies from its first one along each spatial
            dimension, in pixels, with the dilation: from 0 up, less than 32 with three spatial dimensions, than 256
            with two. Not of other maps.
        multicast: a rank or a tuple of different ranks in the cluster, constants or not: the box is read once, and
            comes into the tile of each of these blocks, its bytes to this barrier there. Each of them has begun and
            expects them.
        cache: what becomes of the data in the L2 cache: ``"evict_first"`` if it is not read again, ``"evict_last"`` if
            it is read by many, ``"evict_normal"``, or None for the map's way.

    Raises:
        TypeMismatchError: for anything else, with both types; `multicast` in a kernel without clusters.
        ValueRangeError: for a tile that does not begin at a multiple of 128 bytes, or where its swizzle repeats; a
            constant index that is not a multiple of 16 bytes along the last dimension; a constant rank that no block
            has; another `cache`.
        UnavailableError: before sm_90.

    Example:
        ``full[0].arrive(expect_bytes=part.nbytes); weft.tma.load(source, (0, 0), part, full[0])``
    """
    place = box_place(builder, "load", tensor_map, index)
    target = checked_tile("load", place[0], tile)
    words = barrier_words("tma.load", barrier)
    further = map_offsets(builder, place[0], offsets)
    ranks = multicast_ranks(builder, "tma.load", multicast)
    policy = cache_policy("tma.load", cache)
    made = TmaLoadOp(place[0].ssa, target.ssa, *words, place[1], further, ranks, policy)
    builder.emit(made)


@operation(name="tma.store")
def store(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to copy a tile of shared memory into a box of a tensor; what is outside of the tensor is not written.

    One thread calls it, after `fence_proxy` by those that wrote the tile and a barrier. Each store is a group of its
    own, which `tma.wait` of the same thread waits for: before the tile is overwritten, and before the thread ends. On
    the CPU the copy runs when the thread waits, and a block that ends with one in flight is an error.

    Args:
        tensor_map, tile, cache: as for `tma.load`.
        index: as for `tma.load`, but from 0 up: a GPU ends a kernel that writes a box that begins before the tensor.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.load`.

    Example:
        ``weft.tma.store(target, (0, 0), part); weft.tma.wait()``
    """
    found, indices = box_place(builder, "store", tensor_map, index)
    source = checked_tile("store", found, tile)
    builder.emit(TmaStoreOp(found.ssa, source.ssa, indices, cache_policy("tma.store", cache)))


@operation(name="tma.reduce")
def reduce(
    builder: Builder,
    tensor_map: object,
    index: object,
    tile: object,
    *,
    op: object = "add",
    cache: object = None,
) -> None:
    """Reduces a tile of shared memory into a box of a tensor; what is outside of the tensor is left alone.

    As `tma.store`, but each element of the tensor is changed in one atomic step, so that several blocks may reduce into
    the same box; in which order they do is not known. Sums of floats are rounded to the element's type each time, those
    of integers wrap.

    Args:
        tensor_map, index, tile, cache: as for `tma.store`.
        op: a constant: ``"add"`` of i32, u32, u64, f16, bf16 or f32; ``"min"`` and ``"max"`` of i32, u32, i64, u64, f16
            or bf16; ``"and"``, ``"or"`` and ``"xor"`` of i32, u32 or u64.

    Raises:
        TypeMismatchError: for elements of another type, or as `tma.store`.
        ValueRangeError: for another `op`, or as `tma.store`.
        UnavailableError: as `tma.store`.

    Example:
        ``weft.tma.reduce(counts, (0, 0), numbers, op="max"); weft.tma.wait()``
    """
    if not isinstance(op, str) or op not in _REDUCED:
        names = ", ".join(f'"{one}"' for one in _REDUCED)
        raise ValueRangeError(
            "TMA_REDUCE", f"tma.reduce: op is {describe(op)}; expected one of {names}"
        )
    found, indices = box_place(builder, "reduce", tensor_map, index)
    source = checked_tile("reduce", found, tile)
    if found.dtype not in _REDUCED[op]:
        listed = [str(dtype) for dtype in _REDUCED[op]]
        raise TypeMismatchError(
            "TMA_REDUCE",
            f"tma.reduce: {found.name} holds {found.dtype}; TMA takes {', '.join(listed[:-1])} and {listed[-1]} for "
            f'op="{op}"',
        )
    policy = cache_policy("tma.reduce", cache)
    builder.emit(TmaReduceOp(found.ssa, source.ssa, indices, policy, op))


@operation(name="tma.wait")
def wait(builder: Builder, *, pending: object = 0, read: object = False) -> None:
    """Waits until all but the `pending` newest of this thread's copies out of shared memory are complete.

    These are those of `tma.store`, `tma.reduce` and the others, and `bulk_copy`; each is a group of its own.

    Args:
        pending: how many may still run; a constant from 0 up.
        read: whether it is enough that the tiles have been read, so that they can be overwritten; a constant. What was
            written is then not there for anyone yet: before a flag for other blocks, wait without it.

    Raises:
        TypeMismatchError: for what is not such a constant.
        UnavailableError: before sm_90.

    Example:
        ``weft.tma.wait(pending=1, read=True)``
    """
    if (
        not isinstance(pending, int)
        or isinstance(pending, bool)
        or not 0 <= pending <= _MOST_PENDING
    ):
        raise TypeMismatchError(
            "TMA_WAIT",
            f"tma.wait: pending is {describe(pending)}; expected a constant, 0 to {_MOST_PENDING}",
        )
    if not isinstance(read, bool):
        raise TypeMismatchError(
            "TMA_WAIT", f"tma.wait: read is {describe(read)}; expected True or False"
        )
    builder.emit(TmaWaitOp(pending, read=read))


@operation(name="fence_proxy")
def fence_proxy(builder: Builder, *, space: object = "shared") -> None:
    """Lets copies and products see what this thread wrote to shared or global memory before, or learned of.

    Copies and tensor cores reach memory by another way than loads and stores do. Each thread that wrote calls it, then
    they meet at a barrier or pass a flag on, then one thread begins the copy. A missing fence gives wrong results now
    and then on a GPU; on the CPU there is one way to memory, so that `weft.sanitize("async")` alone finds it. Between
    launches none is needed.

    Args:
        space: the memory; a constant: "shared", for `tma.store`, `tma.reduce` and the like, `bulk_copy` and
            `wgmma.mma` of tiles that threads wrote; "global", for `tma.load` and `bulk_copy` of arrays that threads of
            the same launch wrote, and for `tma.store` and the like into them.

    Raises:
        ValueRangeError: for another memory.
        UnavailableError: before sm_90.

    Example:
        ``tile[0] = 1.0; weft.fence_proxy(); weft.sync_threads()``
    """
    if space not in ("shared", "global"):
        raise ValueRangeError(
            "FENCE_SPACE", f'fence_proxy: space is {describe(space)}; expected "shared" or "global"'
        )
    builder.emit(FenceProxyOp(is_global=space == "global"))
