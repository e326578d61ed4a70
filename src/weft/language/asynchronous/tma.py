# SPDX-License-Identifier: Apache-2.0
"""Copies by TMA: of boxes of tensors, ``weft.tma``, and of adjacent elements, ``weft.bulk_copy``.

In: a tensor map, the index of a box, offsets, a tile in shared memory; or two tensors without gaps, one of them in
shared memory; a barrier, blocks of the cluster, the L2 cache's part. Out: copies that run beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import i32

from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.async_copy import (
    BULK_BYTES,
    CACHES,
    GATHERED_ROWS,
    BulkLoadOp,
    BulkReduceOp,
    BulkStoreOp,
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
    gathered_rows,
)
from weft.dialects.simt.types import TILE_ALIGNMENT
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.cluster import checked_rank
from weft.language.asynchronous.mbarrier import Mbarrier
from weft.language.asynchronous.tensor_map import (
    PITCH_BYTES,
    checked_map,
    copy_map,
    edit_map,
    map_at,
)
from weft.language.debug import emit_assert
from weft.language.memory.access import size
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import factor_of
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


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
_BULK_REDUCED: Final = {
    "add": (*_INTEGERS, *_FLOATS, types.f32, types.f64),
    **dict.fromkeys(("min", "max"), (*_INTEGERS, *_FLOATS)),
    **dict.fromkeys(("and", "or", "xor"), _INTEGERS),
}


@operation(name="tma.prefetch")
def prefetch(builder: Builder, tensor_map: object, index: object = None) -> None:
    """Fetches a tensor map before it is first used, or a box of its tensor into the L2 cache.

    One thread of a grid's blocks is enough. It changes nothing but times, and does nothing on the CPU.

    Args:
        tensor_map: a parameter of the kernel.
        index: of the first element of a box, as for `tma.load`; without it the map itself is fetched.

    Raises:
        TypeMismatchError: unless it is a tensor map, or for a wrong number of indices.
        ValueRangeError: for an index as `tma.load`.
        UnavailableError: before sm_90.

    Example:
        ``weft.tma.prefetch(source)``
    """
    found = checked_map(tensor_map, "prefetch")
    if index is not None and found.type.is_im2col:
        raise TypeMismatchError(
            "TMA_MAP",
            f"tma.prefetch: {found.name} is of im2col_map, and only the map itself is fetched",
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
    tiles that come in this phase; threads that wait for the phase see the tile. The box's bytes count in full; elements
    outside of the tensor becomes zeros, or NaN if the map says so. On the CPU the copy runs when a thread waits for the
    barrier and no other can run, so that a missing wait shows.

    Args:
        tensor_map: a parameter of the kernel.
        index: of the box's first element, in elements: an integer, or a tuple with one per dimension. It may be
            negative, or beyond the end. Along the last dimension it is a multiple of 16 bytes: a GPU ends a kernel
            whose box begins elsewhere with an illegal instruction. What does not show it is checked like an `assert`:
            always on the CPU, on a GPU with ``--enable-assertions``. Of a map whose box is one row of a matrix it may
            be ``((r0, r1, r2, r3), column)``: four rows or a multiple, wherever they are (`gather4`, sm_100); a row
            outside of the tensor is zeros.
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
        UnavailableError: before sm_90; `multicast` on sm_120 and sm_121; rows by index before sm_100.

    Example:
        ``full[0].arrive(expect_bytes=part.nbytes); weft.tma.load(source, (0, 0), part, full[0])``
    """
    place = box_place(builder, "load", tensor_map, index)
    target = checked_tile("load", place[0], tile, place[1])
    words = barrier_words("tma.load", barrier)
    further = map_offsets(builder, place[0], offsets)
    ranks = multicast_ranks(builder, "tma.load", multicast)
    if ranks and gathered_rows(place[0].type, place[1]):
        raise TypeMismatchError(
            "TMA_GATHER",
            f"tma.load: rows by index come into the block's own memory, and multicast is {describe(multicast)}",
            hint="load them in each block",
        )
    policy = cache_policy("tma.load", cache)
    made = TmaLoadOp(place[0].ssa, target.ssa, *words, place[1], further, ranks, policy)
    builder.emit(made)


@operation(name="tma.store")
def store(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to copy a tile of shared memory into a box of a tensor; elements outside of the tensor are not written.

    One thread calls it, after `fence_proxy` by those that wrote the tile and a barrier. Each store is a group of its
    own, which `tma.wait` of the same thread waits for: before the tile is overwritten, and before the thread ends. On
    the CPU the copy runs when the thread waits, and a block that ends with one in flight is an error.

    Args:
        tensor_map, tile, cache: as for `tma.load`.
        index: as for `tma.load`, but from 0 up: a GPU ends a kernel that writes a box that begins before the tensor.
            Rows by index (`scatter4`) need sm_100a, 103a or 110a; of a row that is given twice one is kept, whichever.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.load`.

    Example:
        ``weft.tma.store(target, (0, 0), part); weft.tma.wait()``
    """
    found, indices = box_place(builder, "store", tensor_map, index)
    source = checked_tile("store", found, tile, indices)
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
    """Reduces a tile of shared memory into a box of a tensor; elements outside of the tensor are skipped.

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
    kind = _reduction("tma.reduce", op)
    found, indices = box_place(builder, "reduce", tensor_map, index)
    source = checked_tile("reduce", found, tile)
    _check_reduced("tma.reduce", kind, found, _REDUCED)
    policy = cache_policy("tma.reduce", cache)
    builder.emit(TmaReduceOp(found.ssa, source.ssa, indices, policy, kind))


def _reduction(name: str, op: object) -> str:
    """The name of a reduction."""
    if not isinstance(op, str) or op not in _REDUCED:
        names = ", ".join(f'"{one}"' for one in _REDUCED)
        raise ValueRangeError(
            "TMA_REDUCE", f"{name}: op is {describe(op)}; expected one of {names}"
        )
    return op


def _check_reduced(
    name: str, op: str, found: TensorMap | Tensor, known: dict[str, tuple[DType, ...]]
) -> None:
    """Checks that elements have the reduction."""
    if found.dtype in known[op]:
        return
    listed = [str(dtype) for dtype in known[op]]
    raise TypeMismatchError(
        "TMA_REDUCE",
        f"{name}: {found.name} holds {found.dtype}; TMA takes {', '.join(listed[:-1])} and {listed[-1]} for "
        f'op="{op}"',
    )


@operation(name="tma.wait")
def wait(builder: Builder, *, pending: object = 0, read: object = False) -> None:
    """Waits until all but the `pending` newest of this thread's copies out of shared memory are complete.

    These are those of `tma.store`, `tma.reduce` and the others, and `bulk_copy`; each is a group of its own.

    Args:
        pending: how many may still run; a constant from 0 up.
        read: whether it is enough that the tiles have been read, so that they can be overwritten; a constant. What was
            written is then not there for anyone yet: before a flag for other blocks, wait without it.

    Raises:
        TypeMismatchError: unless it is such a constant.
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
    """Makes this thread's earlier writes to memory, and those ordered before, visible to copies and MMAs.

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


def barrier_words(name: str, barrier: object) -> tuple[SSAValue, SSAValue]:
    """The array of a barrier and its index.

    Raises:
        TypeMismatchError: unless it is one of `mbarrier`.
    """
    if not isinstance(barrier, Mbarrier):
        raise TypeMismatchError(
            "TMA_BARRIER",
            f"{name}: the barrier is {describe(barrier)}; expected one of weft.mbarrier, such as full[0]",
        )
    return barrier.words.ssa, barrier.index.ssa


def multicast_ranks(builder: Builder, name: str, multicast: object) -> list[SSAValue]:
    """The blocks that a load goes to; none if it is its own alone.

    Raises:
        TypeMismatchError: without clusters, or for a rank that is not an integer.
        ValueRangeError: for a rank that no block has, the same one twice, or none at all.
    """
    if multicast is None:
        return []
    several = isinstance(multicast, tuple | list | range)
    listed = cast("Iterable[object]", multicast) if several else (multicast,)
    ranks = [checked_rank(builder, rank, f"{name}: multicast") for rank in listed]
    known = [constant_integer(rank) for rank in ranks]
    if not ranks or any(known.count(rank) > 1 for rank in known if rank is not None):
        raise ValueRangeError(
            "CLUSTER_RANK",
            f"{name}: multicast is {describe(multicast)}; expected different ranks, one at least",
        )
    return ranks


def cache_policy(name: str, cache: object) -> str | None:
    """A name of `CACHES`, or None.

    Raises:
        ValueRangeError: for anything else.
    """
    if cache is None or (isinstance(cache, str) and cache in CACHES):
        return cache
    listed = ", ".join(map(repr, CACHES[:-1]))
    raise ValueRangeError(
        "TMA_CACHE",
        f"{name}: cache is {describe(cache)}; expected None, {listed} or {CACHES[-1]!r}",
    )


# The number of spatial dimensions → the most of an im2col offset.
_MOST_OFFSET: Final = {1: 65535, 2: 255, 3: 31}


def map_offsets(builder: Builder, tensor_map: TensorMap, offsets: object) -> list[SSAValue]:
    """Offset of an element from the kernel's first one, for an im2col map; nothing for another.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    kind = tensor_map.type
    count = kind.rank - 2 if kind.is_im2col else 0
    if offsets is None and not count:
        return []
    parts = _parts(offsets)
    if offsets is None or len(parts) != count:
        raise TypeMismatchError(
            "TMA_OFFSETS",
            f"tma.load: offsets is {describe(offsets)}; "
            + (
                f"expected {count}, one for each spatial dimension"
                if count
                else "the map is not of im2col_map"
            ),
            hint="give an element (r, s) of the kernel as offsets=(r, s)"
            if count
            else "leave it out",
        )
    most = _MOST_OFFSET[count]
    found: list[SSAValue] = []
    for part in parts:
        offset = _index(builder, "load", part)
        known = constant_integer(offset)
        if known is not None and not 0 <= known <= most:
            raise ValueRangeError(
                "TMA_OFFSETS", f"tma.load: an offset is {known}; expected 0 to {most}"
            )
        if known is None:
            inside = compare(builder, "<=", Scalar(offset, types.i32), most)
            text = f"tma.load: an offset into {tensor_map.name} is 0 to {most}"
            emit_assert(builder, inside, text)
            emit_assert(builder, compare(builder, ">=", Scalar(offset, types.i32), 0), text)
        found.append(offset)
    return found


def box_place(
    builder: Builder, name: str, tensor_map: object, index: object
) -> tuple[TensorMap, list[SSAValue]]:
    """The map and the index of a box's first element; of copies out of shared memory none is negative.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load` and `tma.store`.
    """
    found = checked_map(tensor_map, name)
    indices = box_index(builder, name, found, index)
    if name != "load":
        _check_not_before(builder, name, found, indices)
    return found, indices


def _check_not_before(
    builder: Builder, name: str, tensor_map: TensorMap, indices: Sequence[SSAValue]
) -> None:
    """Checks that a box that is written begins at no negative index: a GPU ends the kernel there."""
    for place, index in enumerate(indices):
        known, dimension = constant_integer(index), place
        if len(indices) > tensor_map.type.rank:  # rows, and a column
            dimension = int(place == len(indices) - 1)
        expected = f"0 or more along dimension {dimension}"
        if known is not None and known < 0:
            raise ValueRangeError(
                "TMA_INDEX",
                f"tma.{name}: the box of {tensor_map.name} begins at {known}; expected {expected}",
                hint="only loads begin before a tensor; make the map of a view that begins earlier",
            )
        if known is None:
            text = f"tma.{name}: the box of {tensor_map.name} begins at {expected}"
            emit_assert(builder, compare(builder, ">=", Scalar(index, types.i32), 0), text)


def checked_tile(
    name: str, tensor_map: TensorMap, tile: object, indices: Sequence[SSAValue] = ()
) -> Tensor:
    """The tile, checked against the map; with `indices` of rows, if there are some.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    if tensor_map.type.is_im2col and name != "load":
        raise TypeMismatchError(
            "TMA_MAP",
            f"tma.{name}: {tensor_map.name} is of im2col_map, which tma.load alone takes",
            hint="make a map of the result with weft.tensor_map",
        )
    if not isinstance(tile, Tensor):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: the tile is {describe(tile)}; expected an array in shared memory",
        )
    kind, swizzle = tensor_map.type, tile.type.swizzle_atoms
    rows = gathered_rows(kind, indices)
    whole = (rows, kind.box[1]) if rows else kind.box
    box = tuple(size for size in whole if size != 1)
    dims = tuple(size for size in tile.type.dims if size != 1)
    width = swizzle.row_bytes.data if swizzle else None
    if dims != box or tile.dtype != tensor_map.dtype or width != (kind.swizzle or None):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} with swizzle={width} is not "
            f"{f'{rows} rows' if rows else 'a box'} of {tensor_map.name}, {whole} of {tensor_map.dtype} with "
            f"swizzle={kind.swizzle or None}",
            hint="give the array a row for each index, and the map's dtype and swizzle="
            if rows
            else "make box=, swizzle= and the array's shape, dtype and swizzle= the same",
        )
    wrong = _as_it_lies(tile)
    if wrong:
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} {wrong}",
            hint="copy a whole array of weft.shared, or an item of one: not its .T, nor some of its columns",
        )
    step = GATHERED_ROWS * kind.box[-1] * kind.itemsize
    if rows > GATHERED_ROWS and swizzle is None and step % TILE_ALIGNMENT:
        raise ValueRangeError(
            "TMA_GATHER",
            f"tma.{name}: {GATHERED_ROWS} rows of {tile.name} take {step} bytes; expected a multiple of "
            f"{TILE_ALIGNMENT}, where the next {GATHERED_ROWS} begin",
            hint=f"copy {GATHERED_ROWS} rows into each array",
        )
    needed = swizzle.alignment_bytes if swizzle else TILE_ALIGNMENT
    if tile.type.alignment_bytes.data % needed:
        raise ValueRangeError(
            "TMA_TILE",
            f"tma.{name}: {tile.name} is known to begin at a multiple of {tile.type.alignment_bytes.data} bytes; "
            + (f"its swizzle repeats every {needed}" if swizzle else f"expected one of {needed}"),
            hint="copy into a tile of whole swizzle atoms, with a multiple of 8 rows"
            if swizzle
            else f"make arrays, and the items of an array, take a multiple of {needed} bytes",
        )
    return tile


def _as_it_lies(tile: Tensor) -> str:
    """The reason why a tensor is not an array in shared memory; empty if it is one."""
    swizzle = tile.type.swizzle_atoms
    if tile.type.space.data != "shared":
        return "is not in shared memory"
    if swizzle is not None and swizzle.is_transposed.data:
        return "has its rows and columns exchanged"
    if swizzle is None and tile.type.layout.data != "contiguous":
        return "has gaps between its rows"
    return ""


def box_index(builder: Builder, name: str, tensor_map: TensorMap, index: object) -> list[SSAValue]:
    """The index of a box's first element, one i32 per dimension; it may be outside the tensor.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    parts = _parts(index)
    rank = tensor_map.type.rank
    if any(isinstance(part, tuple) for part in parts):
        parts = _gathered_parts(name, tensor_map, parts)
    elif len(parts) != rank:
        raise TypeMismatchError(
            "TMA_INDEX",
            f"tma.{name}: {tensor_map.name} has rank {rank}, received "
            f"{len(parts)} {'index' if len(parts) == 1 else 'indices'}",
            hint="give the index of the box's first element, in elements, one number per dimension",
        )
    indices = [_index(builder, name, part) for part in parts]
    _check_start(builder, name, tensor_map, indices[-1])
    return indices


def _gathered_parts(
    name: str, tensor_map: TensorMap, parts: tuple[object, ...]
) -> tuple[object, ...]:
    """The indices of rows, and that of their first column."""
    kind = tensor_map.type
    if name not in ("load", "store"):
        raise TypeMismatchError(
            "TMA_GATHER", f"tma.{name} takes no indices of rows; tma.load and tma.store do"
        )
    if kind.is_im2col or kind.rank != 2 or kind.box[0] != 1:
        raise TypeMismatchError(
            "TMA_GATHER",
            f"tma.{name}: rows by index are of a map of two dimensions whose box is one row; {tensor_map.name} has "
            f"boxes of {kind.box}",
            hint="make it with weft.tensor_map(a, box=(1, columns), ...)",
        )
    if len(parts) != 2 or not isinstance(parts[0], tuple):
        raise TypeMismatchError(
            "TMA_GATHER",
            f"tma.{name}: the index is {describe(parts)}; expected the rows and a column",
            hint="write ((r0, r1, r2, r3), column)",
        )
    rows = cast("tuple[object, ...]", parts[0])
    if not rows or len(rows) % GATHERED_ROWS:
        raise TypeMismatchError(
            "TMA_GATHER",
            f"tma.{name}: received {len(rows)} rows; expected a multiple of {GATHERED_ROWS}",
            hint="repeat the last one, or give a row beyond the end, which is zeros",
        )
    return *rows, parts[1]


def _check_start(builder: Builder, name: str, tensor_map: TensorMap, start: SSAValue) -> None:
    """Checks that a box begins at a multiple of 16 bytes along the last dimension: a GPU ends the kernel elsewhere."""
    multiple, known = PITCH_BYTES // tensor_map.dtype.itemsize, constant_integer(start)
    expected = f"a multiple of {multiple} elements, {PITCH_BYTES} bytes, along dimension {tensor_map.type.rank - 1}"
    if known is not None and known % multiple:
        raise ValueRangeError(
            "TMA_INDEX",
            f"tma.{name}: the box of {tensor_map.name} begins at {known}; expected {expected}",
            hint="copy a wider box that begins at such a place, and read from within the tile",
        )
    if factor_of(builder, start) % multiple:
        rest = binary(builder, "&", Scalar(start, types.i32), multiple - 1)
        text = f"tma.{name}: the box of {tensor_map.name} begins at {expected}"
        emit_assert(builder, compare(builder, "==", rest, 0), text)


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)


def _index(builder: Builder, name: str, part: object) -> SSAValue:
    found = expect_scalar(builder, part, f"tma.{name}: an index")
    if isinstance(found, Scalar):
        is_integer = found.dtype.is_integer and not found.dtype.is_bool
    else:
        is_integer = isinstance(found, int) and not isinstance(found, bool)
    if not is_integer:
        raise TypeMismatchError(
            "TMA_INDEX", f"tma.{name}: an index is {describe(part)}; expected an integer"
        )
    return convert(builder, found, types.i32).ssa


_SPACES: Final = {("shared", "global"), ("global", "shared")}


@operation
def bulk_copy(
    builder: Builder,
    to: object,
    source: object,
    barrier: object = None,
    *,
    cache: object = None,
) -> None:
    """Copies adjacent elements asynchronously from a tensor into shared memory, or from shared memory into a tensor.

    One thread calls it, and TMA does the rest; no tensor map is needed. Into shared memory the bytes come
    to a barrier, as those of `tma.load`: a thread has arrived there with ``expect_bytes=``. Out of shared memory each
    copy is a group of its own, which `tma.wait` of the same thread waits for; those that wrote the array have said
    `fence_proxy`. On the CPU the copy runs as late as is legal, when a thread waits for it.

    Both begin at multiples of 16 bytes, and the size is one. The alignment, of tensors, of tiles, of slices that begin
    at ``128 * i`` or at the ``i`` of ``range(0, n, 128)``, is checked at compile time, and so are lengths if they are
    constants; others are checked like an `assert`: always on the CPU, on a GPU with ``--enable-assertions``.

    Args:
        to, source: a tensor of the kernel's parameters, or a slice or tile of one, and an array of shared memory, or a
            part of one, in either order; without gaps, of as many elements of one type. Arrays with a swizzle are for
            `tma.load` and `tma.store`.
        barrier: of `mbarrier`, such as ``full[state]``, for a copy into shared memory; otherwise None.
        cache: as for `tma.load`.

    Raises:
        TypeMismatchError: for other memory, elements that are not adjacent or not of one type, too little known
            alignment, or a barrier too many or too few.
        ValueRangeError: for sizes that differ, or are not a multiple of 16 bytes; another `cache`.
        UnavailableError: before sm_90.

    Example:
        ``full[0].arrive(expect_bytes=tile.nbytes); weft.bulk_copy(tile, a.tile(32, block), full[0])``
    """
    target, origin = (_checked("bulk_copy", one) for one in (to, source))
    spaces = target.type.space.data, origin.type.space.data
    if spaces not in _SPACES:
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_copy: from {spaces[1]} to {spaces[0]} memory; expected a tensor of the kernel's parameters and an "
            "array of weft.shared",
        )
    length = _checked_length(builder, "bulk_copy", target, origin)
    policy = cache_policy("bulk_copy", cache)
    if spaces[0] == "shared" and barrier is None:
        raise TypeMismatchError(
            "TMA_BARRIER",
            "bulk_copy: a copy into shared memory reports to a barrier, and none is given",
            hint="make one with weft.mbarrier, and pass full[0]",
        )
    if spaces[0] == "shared":
        words = barrier_words("bulk_copy", barrier)
        builder.emit(BulkLoadOp(target.ssa, origin.ssa, length, *words, policy))
        return
    if barrier is not None:
        raise TypeMismatchError(
            "TMA_BARRIER",
            f"bulk_copy: {describe(barrier)} is given for a copy out of shared memory, which reports to none",
            hint="wait with weft.tma.wait() in the same thread",
        )
    builder.emit(BulkStoreOp(target.ssa, origin.ssa, length, policy))


@operation
def bulk_reduce(
    builder: Builder, to: object, source: object, *, op: object = "add", cache: object = None
) -> None:
    """Reduces an array of shared memory into adjacent elements of a tensor, asynchronously, without a tensor map.

    As `bulk_copy` out of shared memory, but each element of the tensor is changed in one atomic step, as by
    `tma.reduce`: several blocks may reduce into the same elements, in any order. Sums of floats are rounded to the
    element's type each time, those of integers wrap.

    Args:
        to: a tensor of the kernel's parameters, or a slice or tile of one.
        source: an array of shared memory, or a part of one, of as many elements of the same type.
        op: a constant: ``"add"`` of i32, u32, i64, u64, f16, bf16, f32 or f64; ``"min"`` and ``"max"`` of i32, u32,
            i64, u64, f16 or bf16; ``"and"``, ``"or"`` and ``"xor"`` of i32, u32, i64 or u64.
        cache: as for `tma.load`.

    Raises:
        TypeMismatchError: for elements of another type, other memory, or as `bulk_copy`.
        ValueRangeError: for another `op`, or as `bulk_copy`.
        UnavailableError: before sm_90.

    Example:
        ``weft.bulk_reduce(a.tile(32, 0), tile); weft.tma.wait()``
    """
    kind = _reduction("bulk_reduce", op)
    target, origin = (_checked("bulk_reduce", one) for one in (to, source))
    spaces = target.type.space.data, origin.type.space.data
    if spaces != ("global", "shared"):
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_reduce: from {spaces[1]} to {spaces[0]} memory; expected an array of weft.shared and a tensor of "
            "the kernel's parameters",
        )
    length = _checked_length(builder, "bulk_reduce", target, origin)
    _check_reduced("bulk_reduce", kind, target, _BULK_REDUCED)
    policy = cache_policy("bulk_reduce", cache)
    builder.emit(BulkReduceOp(target.ssa, origin.ssa, length, policy, kind, str(target.dtype)))


def _checked_length(builder: Builder, name: str, to: Tensor, source: Tensor) -> SSAValue:
    """The bytes of a copy."""
    if to.dtype != source.dtype:
        raise TypeMismatchError(
            "BULK_COPY", f"{name}: {source.name} holds {source.dtype}, and {to.name} {to.dtype}"
        )
    return _bytes(builder, _count(builder, name, to, source), to.dtype.itemsize)


def _checked(name: str, value: object) -> Tensor:
    """A tensor whose elements are adjacent, at a multiple of 16 bytes."""
    if not isinstance(value, Tensor) or value.type.is_pointer:
        raise TypeMismatchError(
            "BULK_COPY",
            f"{name}: received {describe(value)}; expected a tensor, or a part of one",
            hint="give a pointer a length: p[a:b]" if isinstance(value, Tensor) else "",
        )
    kind = value.type
    if kind.layout.data != "contiguous" and (kind.rank != 1 or kind.layout.data != "inner"):
        raise TypeMismatchError(
            "BULK_COPY",
            f"{name}: {tensor_text(value, value.name)} is not known to be contiguous",
            hint='annotate a layout of "contiguous", and take a part without gaps'
            if kind.space.data == "global"
            else "weft.tma copies boxes and swizzled tiles",
        )
    if kind.alignment_bytes.data % BULK_BYTES:
        raise TypeMismatchError(
            "VECTOR_ALIGNMENT",
            f"{name}: {value.name} is known to begin at a multiple of {kind.alignment_bytes.data} bytes; expected "
            f"{BULK_BYTES}",
            hint=f"annotate weft.fake_tensor(..., alignment_bytes={BULK_BYTES}), and begin parts at multiples, such as "
            f"a[{BULK_BYTES // value.dtype.itemsize} * i:]"
            if kind.space.data == "global"
            else f"make arrays, and the items of an array, take a multiple of {BULK_BYTES} bytes",
        )
    return value


def _count(builder: Builder, name: str, to: Tensor, source: Tensor) -> int | Scalar:
    """Number of elements of both."""
    one, other = size(builder, to), size(builder, source)
    if isinstance(one, int) and isinstance(other, int):
        if one != other:
            raise ValueRangeError(
                "BULK_COPY_SIZE",
                f"{name}: {to.name} has {one} elements, and {source.name} {other}",
            )
    else:
        same = compare(builder, "==", one, other)
        emit_assert(builder, same, f"{name}: {to.name} has as many elements as {source.name}")
    count = one if isinstance(one, int) else other
    multiple = BULK_BYTES // to.dtype.itemsize
    if isinstance(count, int):
        if count % multiple:
            raise ValueRangeError(
                "BULK_COPY_SIZE",
                f"{name}: {count} {to.dtype} take {count * to.dtype.itemsize} bytes; expected a multiple of "
                f"{BULK_BYTES}",
                hint=f"copy a multiple of {multiple} elements",
            )
    elif factor_of(builder, count.ssa) % multiple:
        rest = binary(builder, "&", count, multiple - 1)
        text = f"{name}: the number of elements is a multiple of {multiple}"
        emit_assert(builder, compare(builder, "==", rest, 0), text)
    return count


def _bytes(builder: Builder, count: int | Scalar, itemsize: int) -> SSAValue:
    """The size of as many elements, as an i32."""
    if isinstance(count, int):
        return builder.constant(i32, count * itemsize)
    return convert(builder, binary(builder, "*", count, itemsize), types.i32).ssa
