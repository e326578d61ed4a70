# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes of tensors by the copy engine: ``weft.tma``.

In: a tensor map, the index of a box, a tile in shared memory. Out: copies that run beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.tma import (
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
)
from weft.dialects.simt.types import TILE_ALIGNMENT
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.copies import barrier_words, cache_policy, multicast_ranks
from weft.language.asynchronous.tensor_map import PITCH_BYTES
from weft.language.debug import emit_assert
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import factor_of
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

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
    found = _map(tensor_map, "prefetch")
    indices = [] if index is None else _indices(builder, "prefetch", found, index)
    builder.emit(TmaPrefetchOp(found.ssa, indices))


@operation(name="tma.load")
def load(
    builder: Builder,
    tensor_map: object,
    index: object,
    tile: object,
    barrier: object,
    *,
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
    place = _place(builder, "load", tensor_map, index)
    target = _tile("load", place[0], tile)
    words = barrier_words("tma.load", barrier)
    ranks = multicast_ranks(builder, "tma.load", multicast)
    policy = cache_policy("tma.load", cache)
    builder.emit(TmaLoadOp((place[0].ssa, place[1]), target.ssa, words, ranks, policy))


@operation(name="tma.store")
def store(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to copy a tile of shared memory into a box of a tensor; what is outside of the tensor is not written.

    One thread calls it, after `fence_proxy` by those that wrote the tile and a barrier. Each store is a group of its
    own, which `tma.wait` of the same thread waits for: before the tile is overwritten, and before the thread ends. On
    the CPU the copy runs when the thread waits, and a block that ends with one under way is an error.

    Args:
        tensor_map, index, tile, cache: as for `tma.load`.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.load`.

    Example:
        ``weft.tma.store(target, (0, 0), part); weft.tma.wait()``
    """
    found, indices = _place(builder, "store", tensor_map, index)
    source = _tile("store", found, tile)
    builder.emit(TmaStoreOp(found.ssa, indices, source.ssa, cache_policy("tma.store", cache)))


@operation(name="tma.reduce_add")
def reduce_add(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to add a tile of shared memory to a box of a tensor; what is outside of the tensor is left alone.

    As `tma.store`, but each element of the tensor is added to in one step, so that several blocks may add to the same
    box; in which order they do is not known. Sums of floats are rounded to the element's type each time, those of
    integers wrap.

    Args:
        tensor_map, index, tile, cache: as for `tma.store`. The elements are i32, u32, u64, f16, bf16 or f32.

    Raises:
        TypeMismatchError: for elements of another type, or as `tma.store`.
        ValueRangeError, UnavailableError: as `tma.store`.

    Example:
        ``weft.tma.reduce_add(target, (0, 0), part); weft.tma.wait()``
    """
    _reduce(builder, "add", tensor_map, index, tile, cache)


@operation(name="tma.reduce_min")
def reduce_min(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to replace elements of a box by those of a tile that are less; see `tma.reduce_add`.

    Args:
        tensor_map, index, tile, cache: as for `tma.store`. The elements are i32, u32, i64, u64, f16 or bf16.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.reduce_add`.

    Example:
        ``weft.tma.reduce_min(counts, (0, 0), numbers); weft.tma.wait()``
    """
    _reduce(builder, "min", tensor_map, index, tile, cache)


@operation(name="tma.reduce_max")
def reduce_max(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to replace elements of a box by those of a tile that are greater; see `tma.reduce_add`.

    Args:
        tensor_map, index, tile, cache: as for `tma.reduce_min`.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.reduce_add`.

    Example:
        ``weft.tma.reduce_max(counts, (0, 0), numbers); weft.tma.wait()``
    """
    _reduce(builder, "max", tensor_map, index, tile, cache)


@operation(name="tma.reduce_and")
def reduce_and(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to clear those bits of a box that a tile has not; see `tma.reduce_add`.

    Args:
        tensor_map, index, tile, cache: as for `tma.store`. The elements are i32, u32 or u64.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.reduce_add`.

    Example:
        ``weft.tma.reduce_and(counts, (0, 0), numbers); weft.tma.wait()``
    """
    _reduce(builder, "and", tensor_map, index, tile, cache)


@operation(name="tma.reduce_or")
def reduce_or(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to set those bits of a box that a tile has; see `tma.reduce_add`.

    Args:
        tensor_map, index, tile, cache: as for `tma.reduce_and`.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.reduce_add`.

    Example:
        ``weft.tma.reduce_or(counts, (0, 0), numbers); weft.tma.wait()``
    """
    _reduce(builder, "or", tensor_map, index, tile, cache)


@operation(name="tma.reduce_xor")
def reduce_xor(
    builder: Builder, tensor_map: object, index: object, tile: object, *, cache: object = None
) -> None:
    """Begins to flip those bits of a box that a tile has; see `tma.reduce_add`.

    Args:
        tensor_map, index, tile, cache: as for `tma.reduce_and`.

    Raises:
        TypeMismatchError, ValueRangeError, UnavailableError: as `tma.reduce_add`.

    Example:
        ``weft.tma.reduce_xor(counts, (0, 0), numbers); weft.tma.wait()``
    """
    _reduce(builder, "xor", tensor_map, index, tile, cache)


@operation(name="tma.wait")
def wait(builder: Builder, *, pending: object = 0, read: object = False) -> None:
    """Waits until all but the `pending` newest of this thread's copies out of shared memory are complete.

    These are those of `tma.store`, `tma.reduce_add` and the others, and `bulk_copy`; each is a group of its own.

    Args:
        pending: how many may still run; a constant from 0 up.
        read: whether it is enough that the tiles have been read, so that they can be overwritten; a constant.

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
def fence_proxy(builder: Builder) -> None:
    """Lets copies and products see what this thread wrote to shared memory before.

    Copies and tensor cores read shared memory by another way than loads do. Each thread that wrote calls it, then they
    meet at a barrier, then one thread begins the copy. A missing fence gives wrong results now and then on a GPU; on
    the CPU there is one way to memory, so it finds none.

    Raises:
        UnavailableError: before sm_90.

    Example:
        ``tile[0] = 1.0; weft.fence_proxy(); weft.sync_threads()``
    """
    builder.emit(FenceProxyOp())


def _reduce(
    builder: Builder, kind: str, tensor_map: object, index: object, tile: object, cache: object
) -> None:
    name = f"reduce_{kind}"
    found, indices = _place(builder, name, tensor_map, index)
    source = _tile(name, found, tile)
    if found.dtype not in _REDUCED[kind]:
        listed = [str(dtype) for dtype in _REDUCED[kind]]
        raise TypeMismatchError(
            "TMA_REDUCE",
            f"tma.{name}: {found.name} holds {found.dtype}; the copy engine takes {', '.join(listed[:-1])} and "
            f"{listed[-1]}",
        )
    policy = cache_policy(f"tma.{name}", cache)
    builder.emit(TmaReduceOp(kind, (found.ssa, indices), source.ssa, policy))


def _place(
    builder: Builder, name: str, tensor_map: object, index: object
) -> tuple[TensorMap, list[SSAValue]]:
    found = _map(tensor_map, name)
    return found, _indices(builder, name, found, index)


def _tile(name: str, tensor_map: TensorMap, tile: object) -> Tensor:
    """The tile, checked against the map."""
    if not isinstance(tile, Tensor):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: the tile is {describe(tile)}; expected an array in shared memory",
        )
    kind, swizzle = tensor_map.type, tile.type.panels
    box = tuple(size for size in kind.box if size != 1)
    dims = tuple(size for size in tile.type.dims if size != 1)
    width = swizzle.row_bytes.data if swizzle else None
    if dims != box or tile.dtype != tensor_map.dtype or width != (kind.swizzle or None):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} with swizzle={width} is not a box of {tensor_map.name}, "
            f"{kind.box} of {tensor_map.dtype} with swizzle={kind.swizzle or None}",
            hint="make box=, swizzle= and the array's shape, dtype and swizzle= the same",
        )
    wrong = _as_it_lies(tile)
    if wrong:
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} {wrong}",
            hint="copy a whole array of weft.shared, or an item of one: not its .T, nor some of its columns",
        )
    needed = swizzle.alignment_bytes if swizzle else TILE_ALIGNMENT
    if tile.type.alignment_bytes.data % needed:
        raise ValueRangeError(
            "TMA_TILE",
            f"tma.{name}: {tile.name} is known to begin at a multiple of {tile.type.alignment_bytes.data} bytes; "
            + (f"its swizzle repeats every {needed}" if swizzle else f"expected one of {needed}"),
            hint="copy into a tile of whole panels, with a multiple of 8 rows"
            if swizzle
            else f"make arrays, and the items of an array, take a multiple of {needed} bytes",
        )
    return tile


def _as_it_lies(tile: Tensor) -> str:
    """What keeps a tensor from being an array of shared memory; nothing if it is one."""
    swizzle = tile.type.panels
    if tile.type.space.data != "shared":
        return "is not in shared memory"
    if swizzle is not None and swizzle.is_transposed.data:
        return "has its rows and columns exchanged"
    if swizzle is None and tile.type.layout.data != "contiguous":
        return "has gaps between its rows"
    return ""


def _map(value: object, name: str) -> TensorMap:
    if isinstance(value, TensorMap):
        return value
    raise TypeMismatchError(
        "TMA_MAP",
        f"tma.{name}: the first argument must be a tensor map, received {describe(value)}",
        hint="annotate the kernel's parameter weft.TensorMap, and pass it weft.tensor_map(a, box=...)",
    )


def _indices(builder: Builder, name: str, tensor_map: TensorMap, index: object) -> list[SSAValue]:
    """The index of a box's first element, one i32 per dimension; it may be outside the tensor."""
    parts = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    rank = len(tensor_map.type.box)
    if len(parts) != rank:
        raise TypeMismatchError(
            "TMA_INDEX",
            f"tma.{name}: {tensor_map.name} has rank {rank}, received "
            f"{len(parts)} {'index' if len(parts) == 1 else 'indices'}",
            hint="give the index of the box's first element, in elements, one number per dimension",
        )
    indices = [_index(builder, name, part) for part in parts]
    _check_start(builder, name, tensor_map, indices[-1])
    return indices


def _check_start(builder: Builder, name: str, tensor_map: TensorMap, start: SSAValue) -> None:
    """Checks that a box begins at a multiple of 16 bytes along the last dimension: a GPU ends the kernel elsewhere."""
    multiple, known = PITCH_BYTES // tensor_map.dtype.itemsize, constant_integer(start)
    expected = f"a multiple of {multiple} elements, {PITCH_BYTES} bytes, along dimension {len(tensor_map.type.box) - 1}"
    if known is not None and known % multiple:
        raise ValueRangeError(
            "TMA_INDEX",
            f"tma.{name}: the box of {tensor_map.name} begins at {known}; expected {expected}",
            hint="copy a wider box that begins at such a place, and read from within the tile",
        )
    if factor_of(start) % multiple:
        rest = binary(builder, "&", Scalar(start, types.i32), multiple - 1)
        text = f"tma.{name}: the box of {tensor_map.name} begins at {expected}"
        emit_assert(builder, compare(builder, "==", rest, 0), text)


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
