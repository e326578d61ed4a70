# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.copy`` and ``transpose``: elements move from one layout to another.

In: an array of any rank and layout. Out: one with the same elements, its dimensions in another order. Where both arrays
lie along the same dimension, neighboring threads take neighboring elements; else a block moves a tile through shared
memory, so that reads run along the one dimension and writes along the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.dialects.simt.views import VECTOR_BYTES
from weft.errors import brief
from weft.kernels.device.row import elements, index_of, put_elements, row_count
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import Array, Constant, Given, given, integer, output, output_like
from weft.kernels.host.autograd import differentiable, like_first
from weft.kernels.host.calls import Call, remembered
from weft.kernels.host.devices import capabilities
from weft.kernels.host.words import Words, words_of
from weft.language.control import ceil_div, static_range, unroll, where
from weft.language.memory.shared import shared
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx, thread_idx
from weft.types.dtype import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

_THREADS: Final = 256
_TURNS: Final = 4  # elements that a thread has under way


def _copy_backward(gradient: Any, _: Any, __: Any) -> Any:
    return (gradient,)


@differentiable(like_first, _copy_backward, rows={"x": 1})
@remembered
def copy(x: Any, out: Any = None) -> Any:
    """The same elements in memory of their own, without gaps, or in `out`.

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
        return _move_words(words, out, tuple(range(words.rank)), x)
    source = given(x, "x")
    out = output_like(source, out, ("x",), x=x)
    return _move(x, out, tuple(range(len(source.shape))))


def _like_turned(x: Any, axes: Sequence[int] | None = None) -> Any:
    return x.new_empty([x.shape[axis] for axis in _order(axes, x.ndim)])


def _turn_backward(gradient: Any, _: Any, x: Any, axes: Sequence[int] | None) -> Any:
    order = _order(axes, x.ndim)
    return gradient.permute([order.index(axis) for axis in range(x.ndim)]), None


def _turn_list(x: Any, axes: Sequence[int] | None = None) -> Any:
    return transpose(x, None if axes is None else tuple(axes))


@differentiable(_like_turned, _turn_backward, run=_turn_list)
@remembered
def transpose(x: Any, axes: Sequence[int] | None = None, out: Any = None) -> Any:
    """The elements with the dimensions in another order, in memory of their own: ``out[j, i] = x[i, j]``.

    Args:
        x: as in `copy`.
        axes: the dimension of x that each dimension of the result is, negative ones from the end; None: the last two
            change places.
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
        return _move_words(words, out, _order(axes, words.rank), x)
    source = given(x, "x")
    order = _order(axes, len(source.shape))
    shape = [source.shape[axis] for axis in order]
    out = output(source, shape, source.dtype, source.type_name, out, x=x)
    return _move(x, out, order)


def _order(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The dimension of the argument that each dimension of a transposed array is."""
    if axes is None:
        return (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else (0,)
    found = [integer(axis) for axis in axes] if isinstance(axes, tuple | list) else [None]
    if None in found:
        raise TypeError(f"axes is {brief(axes)}, expected a tuple of integers")
    order = tuple(axis + rank if axis < 0 else axis for axis in found if axis is not None)
    if sorted(order) != list(range(rank)):
        raise ValueError(f"axes is {tuple(axes)}, expected each of {tuple(range(rank))} once")
    return order


def _move_words(source: Words, out: Any, axes: tuple[int, ...], x: Any) -> Any:
    """`_move` for elements of a type that kernels do not have, as unsigned integers of their size."""
    shape, is_copy = [source.shape[axis] for axis in axes], axes == tuple(range(source.rank))
    result, target = source.output(shape, out, x, may_be_same=is_copy)
    pairs = range(source.rank, len(source.array.shape))  # of halves, where an element has 128 bits
    made = _move(source.array, target, (*axes, *pairs))
    if isinstance(made, Call):
        made.function(*made.arguments)
    return result


def _move(x: Any, out: Any, axes: tuple[int, ...]) -> Any:
    """``out[i, ...] = x[...]``, where dimension d of `out` is dimension ``axes[d]`` of `x`."""
    source, target = given(x, "x"), given(out, "out")
    if 0 in target.shape:
        return out
    order = _by_stride(target)
    column = axes.index(_by_stride(source)[-1])  # along which x lies, a dimension of out
    is_whole = _has_whole_accesses(source, target, order[-1], axes[column])
    if column != order[-1]:
        if is_whole:
            return Call(_turn_tiles, (x, out, axes, column), out)
        return Call(_move_tiles, (x, out, axes, order[-1], column), out)
    if is_whole and len(axes) > 2 and capabilities(source.device).number > 0:
        plan = row_plan_for(target.shape[-1] // target.width, target.width)
        return Call(_move_rows, (x, out, axes, order, plan), out)
    return Call(_move_along, (x, out, axes, order), out)


def _has_whole_accesses(source: Given, target: Given, row: int, along: int) -> bool:
    """Whether both arrays lie along their last dimensions, and all of their rows are multiples of 16 bytes."""
    last, whole = len(target.shape) - 1, VECTOR_BYTES // source.dtype.itemsize
    return row == along == last and source.width == target.width == whole


def _by_stride(a: Given) -> tuple[int, ...]:
    """The dimensions of an array, the one along which it lies last; those of one element first."""
    strides, shape = a.strides, a.shape
    return tuple(
        sorted(
            range(len(shape)), key=lambda axis: (shape[axis] == 1, abs(strides[axis])), reverse=True
        )
    )


def _taken(values: Any, axes: Any) -> Any:
    """The values of these dimensions; traced in kernels."""
    return tuple(values[axis] for axis in axes)


def _inverse(axes: Any) -> Any:
    """Where each dimension is among `axes`; computed when compiling."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


@jit
def _move_along(x: Array, out: Array, axes: Constant, order: Constant) -> None:
    move_along_kernel(x, out, axes, order).launch(over=_taken(out.shape, order))


@kernel
def move_along_kernel(x: Array, out: Array, axes: Constant, order: Constant) -> None:
    """A round: an element, the dimensions in `order`."""
    for place in each(_taken(out.shape, order)):
        index = _taken(place, _inverse(order))
        out[index] = x[_taken(index, _inverse(axes))]


class RowPlan(NamedTuple):
    """How threads copy rows; constants.

    Attributes:
        lanes: threads of a row.
        several: accesses of a thread to a row that are under way.
        width: neighbors of an access.
    """

    lanes: int
    several: int
    width: int

    @property
    def rows(self) -> int:
        """Rows of a thread that are under way."""
        return _TURNS // self.several

    @property
    def lines(self) -> int:
        """Threads of a block that have rows of their own."""
        return _THREADS // self.lanes


def row_plan_for(accesses: int, width: int) -> RowPlan:
    """How rows of so many accesses are copied: short ones by some threads of a block, several of them at once."""
    several = lanes = 1
    while lanes < _THREADS and lanes < accesses:
        lanes *= 2
    while several < _TURNS and lanes * several < accesses:
        several *= 2
    return RowPlan(lanes, several, width)


@jit
def _move_rows(x: Array, out: Array, axes: Constant, order: Constant, plan: Constant) -> None:
    rows = row_count(_taken(out.shape, order))
    move_rows_kernel(x, out, axes, order, plan).launch(
        grid=(
            ceil_div(rows, plan.lines * plan.rows),
            ceil_div(out.shape[-1], plan.lanes * plan.several * plan.width),
        ),
        block=(plan.lanes, plan.lines),
    )


@kernel(max_threads=_THREADS)
def move_rows_kernel(x: Array, out: Array, axes: Constant, order: Constant, plan: Constant) -> None:
    """A thread: some accesses to some rows that follow each other, so that it divides for the first one alone."""
    sizes, columns, width = _taken(out.shape, order)[:-1], out.shape[-1], plan.width
    count = row_count((*sizes, 1))
    first = (i64(block_idx.x) * plan.lines + thread_idx.y) * plan.rows
    start = (block_idx.y * (plan.lanes * plan.several) + thread_idx.x) * width
    starts = [start + k * (plan.lanes * width) for k in static_range(plan.several)]
    place, places = index_of(first, sizes), []
    for _ in static_range(plan.rows):
        places = [*places, _taken((*place, i64(0)), _inverse(order))]
        place = _following(place, sizes)
    found: Any = []
    for k, index in enumerate(places):
        source = _taken(index, _inverse(axes))[:-1]
        for at in starts:
            values = (x.dtype(0),) * width
            if first + k < count and at < columns:
                values = tuple(elements(aligned(x[source], width), at, width))
            found.append(values)
    for k, index in enumerate(places):
        for j, at in enumerate(starts):
            if first + k < count and at < columns:
                row = aligned(out[index[:-1]], width)
                put_elements(row, at, found[k * plan.several + j])


def _following(place: Any, sizes: Any) -> Any:
    """The indices of the next element of an array with these sizes."""
    found, step = (), i64(1)
    for index, size in zip(place[:0:-1], sizes[:0:-1], strict=True):
        index += step
        is_over = index >= size
        found = (where(is_over, i64(0), index), *found)
        step = where(is_over, i64(1), i64(0))
    return (place[0] + step, *found)


@jit
def _move_tiles(x: Array, out: Array, axes: Constant, row: Constant, column: Constant) -> None:
    blocks = i64(1)
    for axis, size in enumerate(out.shape):
        blocks *= ceil_div(size, tile_size(x.dtype)) if axis in (row, column) else size
    move_tiles_kernel(x, out, axes, row, column).launch(grid=blocks, block=_THREADS)


def tile_size(dtype: Any) -> int:
    """Elements of a tile's side: rows of 64 bytes and more, in some 16 KB at most."""
    return 32 if dtype.itemsize == 8 else 64


@jit
def _turn_tiles(x: Array, out: Array, axes: Constant, column: Constant) -> None:
    blocks = i64(1)
    for axis, size in enumerate(out.shape):
        is_side = axis in (out.ndim - 1, column)
        blocks *= ceil_div(size, tile_side(x.dtype)) if is_side else size
    turn_tiles_kernel(x, out, axes, column).launch(grid=blocks, block=_THREADS)


def tile_side(dtype: Any) -> int:
    """Elements of a tile's side whose rows are read by accesses of 16 bytes, eight or sixteen to a row."""
    return {1: 128, 2: 64, 4: 64, 8: 32}[dtype.itemsize]


def _corner(out: Any, row: Any, column: Any, size: Any) -> Any:
    """Where in `out` this block's tile begins."""
    sides = row, column
    counts = tuple(
        ceil_div(extent, size) if axis in sides else extent for axis, extent in enumerate(out.shape)
    )
    return tuple(
        place * size if axis in sides else place
        for axis, place in enumerate(index_of(block_idx.x, counts))
    )


@kernel(max_threads=_THREADS)
def turn_tiles_kernel(x: Array, out: Array, axes: Constant, column: Constant) -> None:
    """A block: a tile, read and written by 16 bytes. In shared memory threads take words of neighbors in a row of x."""
    row, size, width = out.ndim - 1, tile_side(x.dtype), VECTOR_BYTES // x.dtype.itemsize
    word, accesses = max(1, 4 // x.dtype.itemsize), size // width
    tile = shared((size, size + word), x.dtype)
    corner = _corner(out, row, column, size)
    rows = lesser(out.shape[row] - corner[row], size)
    columns = lesser(out.shape[column] - corner[column], size)

    def row_at(a: Any, i: Any, j: Any, order: Any) -> Any:
        steps = {row: i, column: j}
        index = tuple(place + steps.get(axis, 0) for axis, place in enumerate(corner))
        index = _taken(index, order)[:-1]
        return aligned(a[index], width)

    found: Any = []
    for first in static_range(0, size * accesses, _THREADS):
        i, j = divmod(thread_idx.x + first, accesses)
        values = (x.dtype(0),) * width
        if i < rows and width * j < columns:
            source = row_at(x, i, 0, _inverse(axes))
            values = tuple(elements(source, corner[column] + width * j, width))
        found.append(values)
    for first, values in zip(static_range(0, size * accesses, _THREADS), found, strict=True):
        i, j = divmod(thread_idx.x + first, accesses)
        for k in static_range(0, width, word):
            put_elements(tile[i], width * j + k, values[k : k + word])
    sync_threads()
    for first in static_range(0, size // word * accesses, _THREADS):
        j, i = divmod(thread_idx.x + first, accesses)
        words = [elements(tile[width * i + k], word * j, word) for k in static_range(width)]
        for k in static_range(word):
            if width * i < rows and word * j + k < columns:
                target = row_at(out, 0, word * j + k, tuple(range(out.ndim)))
                put_elements(target, corner[row] + width * i, [one[k] for one in words])


@kernel
def move_tiles_kernel(
    x: Array, out: Array, axes: Constant, row: Constant, column: Constant
) -> None:
    """A block: a tile, whose columns are neighbors in x and whose rows are neighbors in out."""
    size = tile_size(x.dtype)
    # A column lies in different banks, since a row is one 4-byte word longer than the banks go around.
    tile = shared((size, size + max(1, 4 // x.dtype.itemsize)), x.dtype)
    corner = _corner(out, row, column, size)
    rows = lesser(out.shape[row] - corner[row], size)
    columns = lesser(out.shape[column] - corner[column], size)

    def index(i: Any, j: Any) -> Any:
        steps = {row: i, column: j}
        return tuple(place + steps.get(axis, 0) for axis, place in enumerate(corner))

    def fetch(i: Any, j: Any) -> Any:
        return x[_taken(index(i, j), _inverse(axes))]

    if rows == size and columns == size:
        for first in range(thread_idx.x, size * size, _THREADS * _TURNS):
            places = [divmod(first + _THREADS * turn, size) for turn in static_range(_TURNS)]
            values = [fetch(i, j) for i, j in places]  # all under way at once
            for (i, j), value in zip(places, values, strict=True):
                tile[i, j] = value
        sync_threads()
        for place in unroll(range(thread_idx.x, size * size, _THREADS), _TURNS):
            j, i = divmod(place, size)
            out[index(i, j)] = tile[i, j]
    else:
        for place in range(thread_idx.x, size * size, _THREADS):
            i, j = divmod(place, size)
            if i < rows and j < columns:
                tile[i, j] = fetch(i, j)
        sync_threads()
        for place in range(thread_idx.x, size * size, _THREADS):
            j, i = divmod(place, size)
            if i < rows and j < columns:
                out[index(i, j)] = tile[i, j]
