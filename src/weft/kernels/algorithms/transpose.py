# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.copy`` and ``transpose``: permuted copies from any layout to any other.

out[i₀, i₁, …] = x[…], with the dimensions in another order. Where both arrays are contiguous along the same dimension,
adjacent threads copy adjacent elements; else a block transposes a tile in shared memory, so that loads and stores are
both coalesced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Array, ElementType, Int, Numbers, Shape
from weft.kernels.device.row import aligned, elements, index_of, put_elements, row_count
from weft.kernels.host.arrays import ArrayInfo, describe, integer, output, output_like, unexpected
from weft.kernels.host.autograd import differentiable, like_first
from weft.kernels.host.devices import capabilities
from weft.kernels.host.dispatch_cache import Call, cached_dispatch
from weft.kernels.host.words import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_THREADS: Final = 256
_IN_FLIGHT: Final = 4  # elements of a thread in flight


class RowCopyConfig(NamedTuple):
    """Launch configuration for copies of rows; constants.

    Attributes:
        lanes: threads of a row.
        several: loads of a thread from a row in flight.
        width: elements per access.
    """

    lanes: int
    several: int
    width: int

    @property
    def rows(self) -> int:
        """Rows of a thread in flight."""
        return _IN_FLIGHT // self.several

    @property
    def lines(self) -> int:
        """Rows of a block at once."""
        return _THREADS // self.lanes


def _pick(values: Numbers, axes: Shape) -> Numbers:
    """The values at these dimensions; traced in kernels."""
    return tuple(values[axis] for axis in axes)


def _inverse(axes: Shape) -> Shape:
    """The inverse permutation; computed when compiling."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


@weft.kernel
def copy_elements_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    order: weft.Constexpr[tuple[int, ...]],
) -> None:
    """An iteration copies an element, the dimensions in `order`."""
    for place in weft.each(_pick(out.shape, order)):
        index = _pick(place, _inverse(order))
        out[index] = x[_pick(index, _inverse(axes))]


@weft.kernel(max_threads=_THREADS)
def copy_rows_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    order: weft.Constexpr[tuple[int, ...]],
    config: weft.Constexpr[RowCopyConfig],
) -> None:
    """A thread copies vectors of consecutive rows, so that only the first row's index takes divisions."""
    sizes, columns, width = _pick(out.shape, order)[:-1], out.shape[-1], config.width
    count = row_count((*sizes, 1))
    first = (weft.i64(weft.block_idx.x) * config.lines + weft.thread_idx.y) * config.rows
    start = (weft.block_idx.y * (config.lanes * config.several) + weft.thread_idx.x) * width
    starts = [start + k * (config.lanes * width) for k in weft.static_range(config.several)]
    place, places = index_of(first, sizes), []
    for _ in weft.static_range(config.rows):
        places = [*places, _pick((*place, weft.i64(0)), _inverse(order))]
        place = _next_index(place, sizes)
    found: Any = []
    for k, index in enumerate(places):
        source = _pick(index, _inverse(axes))[:-1]
        for at in starts:
            values = (x.dtype(0),) * width
            if first + k < count and at < columns:
                values = tuple(elements(aligned(x[source], width), at, width))
            found.append(values)
    for k, index in enumerate(places):
        for j, at in enumerate(starts):
            if first + k < count and at < columns:
                row = aligned(out[index[:-1]], width)
                put_elements(row, at, found[k * config.several + j])


@weft.device
def _next_index(place: Shape, sizes: Shape) -> Shape:
    """The index after `place` in an array with these sizes."""
    found, step = (), weft.i64(1)
    for index, size in zip(place[:0:-1], sizes[:0:-1], strict=True):
        index += step
        is_over = index >= size
        found = (weft.where(is_over, weft.i64(0), index), *found)
        step = weft.where(is_over, weft.i64(1), weft.i64(0))
    return (place[0] + step, *found)


def tile_size(dtype: ElementType) -> int:
    """The side of a tile of single elements: rows of at least 64 bytes, 16 KB at most."""
    return 32 if dtype.itemsize == 8 else 64


def tile_side(dtype: ElementType) -> int:
    """The side of a tile with 16-byte accesses: eight or sixteen to a row."""
    return {1: 128, 2: 64, 4: 64, 8: 32}[dtype.itemsize]


def _tile_counts(shape: Shape, row: int, column: int, size: int) -> Shape:
    """The number of tiles along each dimension; traced in kernels and host functions."""
    return tuple(
        weft.ceil_div(extent, size) if axis in (row, column) else extent
        for axis, extent in enumerate(shape)
    )


@weft.device
def _corner(out: weft.Tensor, row: Int, column: Int, size: Int) -> Any:
    """The index in `out` of this block's tile."""
    counts = _tile_counts(out.shape, row, column, size)
    return tuple(
        place * size if axis in (row, column) else place
        for axis, place in enumerate(index_of(weft.block_idx.x, counts))
    )


@weft.kernel(max_threads=_THREADS)
def transpose_vectors_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    column: weft.Constexpr[int],
) -> None:
    """A block transposes a tile with 16-byte loads and stores; shared memory holds 4-byte words of a row of x."""
    row, size, width = out.ndim - 1, tile_side(x.dtype), weft.VECTOR_BYTES // x.dtype.itemsize
    word, accesses = max(1, 4 // x.dtype.itemsize), size // width
    tile = weft.shared((size, size + word), x.dtype)
    corner = _corner(out, row, column, size)
    rows = min(out.shape[row] - corner[row], size)
    columns = min(out.shape[column] - corner[column], size)

    def row_at(a: weft.Tensor, i: Int, j: Int, order: Shape) -> weft.Tensor:
        steps = {row: i, column: j}
        index = tuple(place + steps.get(axis, 0) for axis, place in enumerate(corner))
        index = _pick(index, order)[:-1]
        return aligned(a[index], width)

    found: Any = []
    for first in weft.static_range(0, size * accesses, _THREADS):
        i, j = divmod(weft.thread_idx.x + first, accesses)
        values = (x.dtype(0),) * width
        if i < rows and width * j < columns:
            source = row_at(x, i, 0, _inverse(axes))
            values = tuple(elements(source, corner[column] + width * j, width))
        found.append(values)
    for first, values in zip(weft.static_range(0, size * accesses, _THREADS), found, strict=True):
        i, j = divmod(weft.thread_idx.x + first, accesses)
        for k in weft.static_range(0, width, word):
            put_elements(tile[i], width * j + k, values[k : k + word])
    weft.sync_threads()
    for first in weft.static_range(0, size // word * accesses, _THREADS):
        j, i = divmod(weft.thread_idx.x + first, accesses)
        words = [elements(tile[width * i + k], word * j, word) for k in weft.static_range(width)]
        for k in weft.static_range(word):
            if width * i < rows and word * j + k < columns:
                target = row_at(out, 0, word * j + k, tuple(range(out.ndim)))
                put_elements(target, corner[row] + width * i, [one[k] for one in words])


@weft.kernel
def transpose_tiles_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    row: weft.Constexpr[int],
    column: weft.Constexpr[int],
) -> None:
    """A block transposes a tile element by element."""
    size = tile_size(x.dtype)
    # A column lies in different banks, since a row is one 4-byte word longer than the banks go around.
    tile = weft.shared((size, size + max(1, 4 // x.dtype.itemsize)), x.dtype)
    corner = _corner(out, row, column, size)
    rows = min(out.shape[row] - corner[row], size)
    columns = min(out.shape[column] - corner[column], size)

    def index(i: Int, j: Int) -> Any:
        steps = {row: i, column: j}
        return tuple(place + steps.get(axis, 0) for axis, place in enumerate(corner))

    def fetch(i: Int, j: Int) -> Any:
        return x[_pick(index(i, j), _inverse(axes))]

    if rows == size and columns == size:
        for first in range(weft.thread_idx.x, size * size, _THREADS * _IN_FLIGHT):
            places = [
                divmod(first + _THREADS * turn, size) for turn in weft.static_range(_IN_FLIGHT)
            ]
            values = [fetch(i, j) for i, j in places]  # all in flight at once
            for (i, j), value in zip(places, values, strict=True):
                tile[i, j] = value
        weft.sync_threads()
        for place in weft.unroll(range(weft.thread_idx.x, size * size, _THREADS), _IN_FLIGHT):
            j, i = divmod(place, size)
            out[index(i, j)] = tile[i, j]
    else:
        for place in range(weft.thread_idx.x, size * size, _THREADS):
            i, j = divmod(place, size)
            if i < rows and j < columns:
                tile[i, j] = fetch(i, j)
        weft.sync_threads()
        for place in range(weft.thread_idx.x, size * size, _THREADS):
            j, i = divmod(place, size)
            if i < rows and j < columns:
                out[index(i, j)] = tile[i, j]


@weft.jit
def _copy_elements(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    order: weft.Constexpr[tuple[int, ...]],
) -> None:
    copy_elements_kernel(x, out, axes, order).launch(over=_pick(out.shape, order))


@weft.jit
def _copy_rows(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    order: weft.Constexpr[tuple[int, ...]],
    config: weft.Constexpr[RowCopyConfig],
) -> None:
    rows = row_count(_pick(out.shape, order))
    copy_rows_kernel(x, out, axes, order, config).launch(
        grid=(
            weft.ceil_div(rows, config.lines * config.rows),
            weft.ceil_div(out.shape[-1], config.lanes * config.several * config.width),
        ),
        block=(config.lanes, config.lines),
    )


@weft.jit
def _transpose_tiles(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    row: weft.Constexpr[int],
    column: weft.Constexpr[int],
) -> None:
    counts = _tile_counts(out.shape, row, column, tile_size(x.dtype))
    blocks = row_count((*counts, 1))
    transpose_tiles_kernel(x, out, axes, row, column).launch(grid=blocks, block=_THREADS)


@weft.jit
def _transpose_vectors(
    x: weft.Tensor,
    out: weft.Tensor,
    axes: weft.Constexpr[tuple[int, ...]],
    column: weft.Constexpr[int],
) -> None:
    counts = _tile_counts(out.shape, out.ndim - 1, column, tile_side(x.dtype))
    blocks = row_count((*counts, 1))
    transpose_vectors_kernel(x, out, axes, column).launch(grid=blocks, block=_THREADS)


def _copy_backward(gradient: Array, _: object, __: object) -> Array:
    return (gradient,)


def _like_transposed(x: Array, axes: Sequence[int] | None = None) -> Array:
    return x.new_empty([x.shape[axis] for axis in _order(axes, x.ndim)])


def _transpose_backward(gradient: Array, _: object, x: Array, axes: Sequence[int] | None) -> Array:
    order = _order(axes, x.ndim)
    return gradient.permute([order.index(axis) for axis in range(x.ndim)]), None


def _transpose_list(x: Array, axes: Sequence[int] | None = None) -> Array:
    return transpose(x, None if axes is None else tuple(axes))


def _order(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Normalizes `axes`: for each dimension of the result its dimension of the argument."""
    if axes is None:
        return (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else (0,)
    found = [integer(axis) for axis in axes] if isinstance(axes, tuple | list) else [None]
    if None in found:
        raise TypeError(unexpected("axes", axes, "a tuple of integers"))
    order = tuple(axis + rank if axis < 0 else axis for axis in found if axis is not None)
    if sorted(order) != list(range(rank)):
        raise ValueError(f"axes is {tuple(axes)}, expected each of {tuple(range(rank))} once")
    return order


def _permute_words(source: Words, out: Array, axes: tuple[int, ...], x: Array) -> Array:
    """`_permute` for element types that kernels lack, as unsigned integers of their size."""
    shape, is_copy = [source.shape[axis] for axis in axes], axes == tuple(range(source.rank))
    result, target = source.output(shape, out, x, may_be_same=is_copy)
    pairs = range(source.rank, len(source.array.shape))  # of halves, where an element has 128 bits
    made = _permute(source.array, target, (*axes, *pairs))
    if isinstance(made, Call):
        made.function(*made.arguments)
    return result


def _permute(x: Array, out: Array, axes: tuple[int, ...]) -> Array:
    """``out[i, ...] = x[...]``, where dimension d of `out` is dimension ``axes[d]`` of `x`."""
    source, target = describe(x, "x"), describe(out, "out")
    if 0 in target.shape:
        return out
    order = _by_stride(target)
    column = axes.index(_by_stride(source)[-1])  # the dimension of out along which x is contiguous
    is_whole = _has_whole_accesses(source, target, order[-1], axes[column])
    if column != order[-1]:
        if is_whole:
            return Call(_transpose_vectors, (x, out, axes, column), out)
        return Call(_transpose_tiles, (x, out, axes, order[-1], column), out)
    if is_whole and len(axes) > 2 and capabilities(source.device).number > 0:
        config = row_copy_config(target.shape[-1] // target.width, target.width)
        return Call(_copy_rows, (x, out, axes, order, config), out)
    return Call(_copy_elements, (x, out, axes, order), out)


def _has_whole_accesses(source: ArrayInfo, target: ArrayInfo, row: int, along: int) -> bool:
    """Whether all rows of both arrays take 16-byte accesses along their last dimensions."""
    last, whole = len(target.shape) - 1, weft.VECTOR_BYTES // source.dtype.itemsize
    return row == along == last and source.width == target.width == whole


def _by_stride(a: ArrayInfo) -> tuple[int, ...]:
    """The dimensions by decreasing stride; those of one element first."""
    strides, shape = a.strides, a.shape
    return tuple(
        sorted(
            range(len(shape)), key=lambda axis: (shape[axis] == 1, abs(strides[axis])), reverse=True
        )
    )


def row_copy_config(accesses: int, width: int) -> RowCopyConfig:
    """The configuration for rows of that many accesses: several short rows share a block."""
    several = lanes = 1
    while lanes < _THREADS and lanes < accesses:
        lanes *= 2
    while several < _IN_FLIGHT and lanes * several < accesses:
        several *= 2
    return RowCopyConfig(lanes, several, width)


@differentiable(like_first, _copy_backward, rows={"x": 1}, saves=frozenset())
@cached_dispatch
def copy(x: Array, out: Array = None) -> Array:
    """Copies an array to contiguous memory of its own, or to `out`.

    Args:
        x: an array of any type, complex and 8-bit floats of every kind too, any rank from 1 on and any layout.
        out: an array of x's shape and type and of any layout that does not overlap `x`; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array.
        ValueError: for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.copy(np.arange(6).reshape(2, 3).T).tolist()
        [[0, 3], [1, 4], [2, 5]]
    """
    if (words := words_of(x, "x")) is not None:
        return _permute_words(words, out, tuple(range(words.rank)), x)
    source = describe(x, "x")
    out = output_like(source, out, ("x",), x=x)
    return _permute(x, out, tuple(range(len(source.shape))))


@differentiable(_like_transposed, _transpose_backward, run=_transpose_list, saves=frozenset())
@cached_dispatch
def transpose(x: Array, axes: Sequence[int] | None = None, out: Array = None) -> Array:
    """Copies an array with its dimensions permuted: ``out[j, i] = x[i, j]``.

    Args:
        x: as in `copy`.
        axes: for each dimension of the result its dimension of x, negative ones from the end; None swaps the last two.
        out: as in `copy`, of the result's shape.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array.
        ValueError: for axes that are not the dimensions of x, each once; as `copy`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.transpose(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
        [[1, 4], [2, 5], [3, 6]]
        >>> weft.kernels.transpose(np.zeros((2, 3, 4)), (1, 2, 0)).shape
        (3, 4, 2)
    """
    if (words := words_of(x, "x")) is not None:
        return _permute_words(words, out, _order(axes, words.rank), x)
    source = describe(x, "x")
    order = _order(axes, len(source.shape))
    shape = [source.shape[axis] for axis in order]
    out = output(source, shape, source.dtype, source.type_name, out, x=x)
    return _permute(x, out, order)
