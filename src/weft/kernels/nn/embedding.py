# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.embedding``, ``gather`` and ``scatter_add``: elements at places that an array of integers says.

Computes out[i, :] = table[indices[i], :], out[i, j] = x[indices[i, j], j] and its transpose, out[indices[i, j], j] +=
values[i, j]. In: an array, and indices into one of its dimensions. Out: the elements there, or the array with values
added there. The CPU reports an index that is out of range; a GPU reads zeros there and adds nothing.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import weft
from weft.kernels.algorithms.radix_sort import sort_config, sort_long
from weft.kernels.algorithms.sort import count_blocks, row_kernel
from weft.kernels.algorithms.transpose import copy, row_copy_config
from weft.kernels.annotations import Array, Constant, Int, Int32, Number, Shape
from weft.kernels.device.row import (
    aligned,
    elements,
    index_of,
    put_elements,
    row_count,
    row_of,
    sum_type,
)
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_device,
    common_width,
    describe,
    describe_alike,
    integer_from,
    output,
    output_like,
)
from weft.kernels.host.autograd import WIDEST, differentiable, like_first
from weft.kernels.host.devices import capabilities
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_THREADS: Final = 256
_IN_FLIGHT: Final = 4  # loads of a thread in flight
_ITEMS: Final = 8  # keys of a thread, where one block sorts all
_CHUNK: Final = 32  # sorted uses that a thread adds
_SECTOR: Final = 32  # bytes that a GPU reads for an element
_LONG: Final = 4096  # bytes of a row that the first cache does not keep for some blocks at once
_KEPT_BYTES: Final = 1 << 15  # of a row in shared memory; six blocks then run at once


@weft.kernel
def embed_kernel(table: Array, indices: Array, out: Array) -> None:
    """An iteration: an element."""
    for place in weft.each(out.shape):
        index = indices[place[:-1]]
        inside = 0 <= index < len(table)
        assert inside, "an index of embedding is out of range"
        out[place] = table[index, place[-1]] if inside else table.dtype(0)


@weft.kernel
def embed_rows_kernel(table: Array, indices: Array, out: Array, config: Constant) -> None:
    """A thread: some loads of some rows, all in flight at once."""
    lines, width, count = config.lines, config.width, row_count(out.shape)
    first = weft.i64(weft.block_idx.x) * (lines * config.rows) + weft.thread_idx.y
    numbers = [first + k * lines for k in weft.static_range(config.rows)]
    start = (weft.block_idx.y * (config.lanes * config.several) + weft.thread_idx.x) * width
    starts = [start + k * (config.lanes * width) for k in weft.static_range(config.several)]
    rows = [indices[index_of(min(number, count - 1), indices.shape)] for number in numbers]
    found: Any = []
    for index in rows:
        inside = 0 <= index < len(table)
        assert inside, "an index of embedding is out of range"
        for place in starts:
            values = (table.dtype(0),) * width
            if inside and place < table.shape[1]:
                values = tuple(elements(aligned(table[index], width), place, width))
            found.append(values)
    for k, number in enumerate(numbers):
        for j, place in enumerate(starts):
            if number < count and place < table.shape[1]:
                put_elements(row_of(out, number, width), place, found[k * config.several + j])


@weft.kernel
def fill_kernel(out: Array, width: Constant) -> None:
    """An iteration: `width` adjacent zeros of a row."""
    for row, line in weft.each((out.shape[0], out.shape[1] // width)):
        put_elements(row_of(out, row, width), line * width, (out.dtype(0),) * width)


@weft.kernel
def add_rows_kernel(gradient: Array, indices: Array, sums: Array) -> None:
    """An iteration: an element of the gradient."""
    for place in weft.each(gradient.shape):
        index = indices[place[:-1]]
        inside = 0 <= index < len(sums)
        assert inside, "an index of embedding_backward is out of range"
        if inside:
            weft.atomic_add(sums, (index, place[-1]), sums.dtype(gradient[place]))


@weft.kernel
def keys_kernel(indices: Array, keys: Array, num_embeddings: Int) -> None:
    """An iteration: an index as a key; one that is out of range is the last."""
    for place in weft.each(indices.shape):
        index, number = indices[place], weft.i64(0)
        for at, size in zip(place, indices.shape, strict=True):
            number = number * size + at
        inside = 0 <= index < num_embeddings
        assert inside, "an index of embedding_backward is out of range"
        keys[number] = weft.u32(index) if inside else weft.u32(num_embeddings)


@weft.kernel
def add_runs_kernel(
    gradient: Array, keys: Array, order: Array, partial: Array, out: Array, width: Constant
) -> None:
    """An iteration: `width` columns of a chunk of sorted uses.

    A run of equal keys within the chunk is a row of `out`. Sums of a run that began in an earlier chunk, or that goes
    on in the next one, are `partial[chunk, 0]` and `partial[chunk, 1]`.
    """
    wide, count = sum_type(out.dtype), len(keys)
    for chunk, line in weft.each((partial.shape[0], out.shape[1] // width)):
        first, column = weft.i64(chunk) * _CHUNK, line * width
        end = min(first + _CHUNK, count)
        key, total = keys[first], (wide(0.0),) * width
        goes_on = first > 0 and keys[max(first - 1, 0)] == key
        for at in range(first, end):
            values = elements(row_of(gradient, order[at], width), column, width)
            total = tuple([one + wide(value) for one, value in zip(total, values, strict=True)])
            following = keys[min(at + 1, count - 1)]
            is_last = at + 1 == count or following != key
            if is_last or at + 1 == end:
                if goes_on:
                    put_elements(aligned(partial[chunk, 0], width), column, total)
                elif not is_last:
                    put_elements(aligned(partial[chunk, 1], width), column, total)
                elif key < len(out):
                    found = [out.dtype(one) for one in total]
                    put_elements(row_of(out, key, width), column, found)
                key, goes_on, total = following, False, (wide(0.0),) * width


@weft.kernel
def add_chunks_kernel(keys: Array, partial: Array, out: Array, width: Constant) -> None:
    """An iteration: `width` columns of the row whose run begins in a chunk and goes on in the next one."""
    count = len(keys)
    for chunk, line in weft.each((partial.shape[0], out.shape[1] // width)):
        first, column = weft.i64(chunk) * _CHUNK, line * width
        end = min(first + _CHUNK, count)
        key = keys[end - 1]
        is_earlier = first > 0 and keys[max(first - 1, 0)] == key
        if end < count and keys[min(end, count - 1)] == key and not is_earlier and key < len(out):
            low, high = end, count  # the end of the run is in (low, high]
            while high - low > 1:
                middle = (low + high) // 2
                if keys[middle] == key:
                    low = middle
                else:
                    high = middle
            total = tuple(elements(aligned(partial[chunk, 1], width), column, width))
            for other in weft.unroll(range(chunk + 1, low // _CHUNK + 1), _IN_FLIGHT):
                values = elements(aligned(partial[other, 0], width), column, width)
                total = tuple([one + value for one, value in zip(total, values, strict=True)])
            put_elements(row_of(out, key, width), column, [out.dtype(one) for one in total])


@weft.kernel
def convert_kernel(source: Array, out: Array) -> None:
    """An iteration: an element, in the type of the result."""
    for place in weft.each(out.shape):
        out[place] = out.dtype(source[place])


@weft.device
def _with(place: Shape, axis: Any, index: Shape) -> Shape:
    """A place with another index along a dimension; traced in kernels."""
    return (*place[:axis], index, *place[axis + 1 :])


@weft.kernel
def gather_kernel(x: Array, indices: Array, out: Array, axis: Constant) -> None:
    """An iteration: an index."""
    for place in weft.each(indices.shape):
        index = indices[place]
        inside = 0 <= index < x.shape[axis]
        assert inside, "an index of gather is out of range"
        out[place] = x[_with(place, axis, index)] if inside else x.dtype(0)


@weft.kernel
def gather_rows_kernel(
    x: Array, indices: Array, out: Array, kept: Constant, width: Constant, index_width: Constant
) -> None:
    """A block: a row, in shared memory."""
    row, places = row_of(x, weft.block_idx.x, width), row_of(indices, weft.block_idx.x, index_width)
    target, smem = row_of(out, weft.block_idx.x, index_width), weft.shared(kept, x.dtype)
    for i in weft.unroll(range(weft.thread_idx.x * width, len(row), _THREADS * width), _IN_FLIGHT):
        put_elements(smem, i, elements(row, i, width))
    weft.sync_threads()
    step = _THREADS * index_width
    whole = len(places) // (step * _IN_FLIGHT) * (step * _IN_FLIGHT)
    first = weft.thread_idx.x * index_width
    for i in weft.unroll(range(first, whole, step * _IN_FLIGHT), 1):
        found = [elements(places, i + k * step, index_width) for k in weft.static_range(_IN_FLIGHT)]
        for k, several in enumerate(found):
            values = [_one_of(smem, index, len(row)) for index in several]
            put_elements(target, i + k * step, values)
    for i in weft.unroll(range(whole + first, len(places), step), 1):
        values = [_one_of(smem, index, len(row)) for index in elements(places, i, index_width)]
        put_elements(target, i, values)


@weft.device
def _one_of(smem: weft.Tensor, index: Int, count: Int) -> Number:
    """An element of shared memory, or 0 where the index is out of range."""
    inside = 0 <= index < count
    assert inside, "an index of gather is out of range"
    return weft.where(inside, smem[weft.i32(weft.where(inside, index, 0))], smem.dtype(0))


@weft.kernel
def scatter_add_kernel(out: Array, indices: Array, values: Array, axis: Constant) -> None:
    """An iteration: a value."""
    for place in weft.each(indices.shape):
        index = indices[place]
        inside = 0 <= index < out.shape[axis]
        assert inside, "an index of scatter_add is out of range"
        if inside:
            weft.atomic_add(out, _with(place, axis, index), out.dtype(values[place]))


@weft.jit
def _embed(table: Array, indices: Array, out: Array) -> None:
    embed_kernel(table, indices, out).launch(over=out.shape)


@weft.jit
def _embed_rows(table: Array, indices: Array, out: Array, config: Constant) -> None:
    embed_rows_kernel(table, indices, out, config).launch(
        grid=(
            weft.ceil_div(indices.size, config.lines * config.rows),
            weft.ceil_div(table.shape[1], config.lanes * config.several * config.width),
        ),
        block=(config.lanes, config.lines),
    )


@weft.jit
def _embed_backward(gradient: Array, indices: Array, out: Array, width: Constant) -> None:
    fill_kernel(out, width).launch(over=(out.shape[0], out.shape[1] // width))
    add_rows_kernel(gradient, indices, out).launch(over=gradient.shape)


@weft.jit
def _embed_backward_sorted(
    gradient: Array, indices: Array, out: Array, width: Constant, blocks: Int32, config: Constant
) -> None:
    count = indices.size
    keys, sorted_keys = (weft.scratch(count, weft.u32) for _ in range(2))
    order = weft.scratch(count, weft.i64)
    keys_kernel(indices, keys, len(out)).launch(over=indices.shape)
    if config is None:
        row_kernel(keys, None, sorted_keys, order, _ITEMS, False).launch(grid=1, block=_THREADS)
    else:
        sort_long(keys, None, sorted_keys, order, blocks, config)
    shape = weft.ceil_div(count, _CHUNK), out.shape[1] // width
    partial = weft.scratch((shape[0], 2, out.shape[1]), sum_type(out.dtype))
    fill_kernel(out, width).launch(over=(out.shape[0], shape[1]))
    add_runs_kernel(gradient, sorted_keys, order, partial, out, width).launch(over=shape)
    add_chunks_kernel(sorted_keys, partial, out, width).launch(over=shape)


@weft.jit
def _gather(x: Array, indices: Array, out: Array, axis: Constant) -> None:
    gather_kernel(x, indices, out, axis).launch(over=indices.shape)


@weft.jit
def _gather_rows(
    x: Array, indices: Array, out: Array, kept: Constant, width: Constant, index_width: Constant
) -> None:
    gather_rows_kernel(x, indices, out, kept, width, index_width).launch(
        grid=row_count(out.shape), block=_THREADS
    )


@weft.jit
def _scatter_add(out: Array, indices: Array, values: Array, axis: Constant) -> None:
    if out.dtype.is_float and out.dtype.bits < weft.f32.bits:
        sums = weft.scratch(out.shape, weft.f32)
        convert_kernel(out, sums).launch(over=sums.shape)
        scatter_add_kernel(sums, indices, values, axis).launch(over=indices.shape)
        convert_kernel(sums, out).launch(over=out.shape)
    else:
        scatter_add_kernel(out, indices, values, axis).launch(over=indices.shape)


def _like_rows(table: Array, indices: Array, *_: object) -> Array:
    return table.new_empty((*indices.shape, table.shape[1]))


def _embedding_backward(gradient: Array, _: object, table: Array, indices: Array) -> Array:
    torch: Any = sys.modules["torch"]
    is_fixed = torch.are_deterministic_algorithms_enabled()
    return embedding_backward(gradient, indices, table.shape[0], is_fixed), None


def _like_table(gradient: Array, indices: Array, num_embeddings: int, *_: object) -> Array:
    return gradient.new_empty((num_embeddings, gradient.shape[-1]))


def _added_backward(gradient: Array, _: object, __: object, indices: Array, *___: object) -> Array:
    return embedding(gradient, indices), None, None, None


def _like_gathered(x: Array, indices: Array, *_: object) -> Array:
    return x.new_empty(indices.shape)


def _gather_backward(gradient: Array, _: object, x: Array, indices: Array, axis: int) -> Array:
    return scatter_add(x.new_zeros(x.shape), indices, gradient, axis), None, None


def _kept(source: ArrayInfo, places: ArrayInfo) -> int:
    """Elements of shared memory for rows that a GPU reads once as a whole; 0 where single elements are fewer bytes."""
    columns, size = source.shape[-1], source.dtype.itemsize
    if capabilities(source.device).number == 0 or source.width < 2 or size < 2 or not places.size:
        return 0
    if not _LONG <= columns * size <= _KEPT_BYTES or columns * size > _SECTOR * places.shape[-1]:
        return 0
    return 1 << (columns - 1).bit_length()


def _scatter_backward(
    gradient: Array, _: object, __: object, indices: Array, values: Array, axis: int
) -> Array:
    by_values = gather(gradient, indices, axis) if values.requires_grad else None
    return gradient, None, by_values, None


def _matrix(array: object, name: str) -> ArrayInfo:
    found = describe(array, name)
    if len(found.shape) != 2:
        raise ValueError(f"{name} has shape {found.shape}, expected a matrix")
    return found


def _indices(source: ArrayInfo, indices: object) -> ArrayInfo:
    found = describe(indices, "indices")
    if not found.dtype.is_integer:
        raise TypeError(f"indices has elements of {found.type_name}, expected integers")
    check_device(found, "indices", source)
    return found


def _axis(source: ArrayInfo, axis: int) -> int:
    rank = len(source.shape)
    return integer_from(axis, "axis", -rank, rank) % rank


def _along(source: ArrayInfo, indices: object, axis: int) -> ArrayInfo:
    found = _indices(source, indices)
    expected = (*source.shape[:axis], ..., *source.shape[axis + 1 :])
    fits = len(found.shape) == len(expected)
    if not fits or (*found.shape[:axis], ..., *found.shape[axis + 1 :]) != expected:
        text = ", ".join("any" if size is ... else str(size) for size in expected)
        raise ValueError(f"indices has shape {found.shape}, expected ({text})")
    return found


@differentiable(_like_rows, _embedding_backward, saves=frozenset({"indices"}))
@cached_dispatch
def embedding(table: Array, indices: Array, out: Array = None) -> Array:
    """Rows of a table: ``out[..., :] = table[indices[...], :]``.

    Args:
        table: a matrix of numbers of any layout.
        indices: an array of integers of any rank from 1 on and any layout, each from 0 below the number of rows.
        out: an array of the shape of `indices` with the table's columns, of the table's type, that does not overlap
            the table; None: a new one of its library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays; for indices that are not integers.
        ValueError: for a table that is not a matrix; for arrays on different devices; for `out` of another shape.
        AssertionError: for an index out of range on the CPU. A GPU writes a row of zeros for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.embedding(np.array([[1, 2], [3, 4]]), np.array([1, 1, 0])).tolist()
        [[3, 4], [3, 4], [1, 2]]
    """
    source = _matrix(table, "table")
    places = _indices(source, indices)
    columns = source.shape[1]
    shape = (*places.shape, columns)
    inputs = {"table": table, "indices": indices}
    out = output(source, shape, source.dtype, source.type_name, out, **inputs)
    width = common_width(source, describe(out, "out"))
    if width > 1 and columns * places.size and capabilities(source.device).number > 0:
        config = row_copy_config(columns // width, width)
        return Call(_embed_rows, (table, indices, out, config), out)
    return Call(_embed, (table, indices, out), out)


@differentiable(_like_table, _added_backward, saves=frozenset({"indices"}))
@cached_dispatch
def embedding_backward(
    gradient: Array,
    indices: Array,
    num_embeddings: int,
    deterministic: bool = False,
    out: Array = None,
) -> Array:
    """The derivative of `embedding` by its table: each row is the sum of the gradients of its uses.

    Sums are in f32, or f64 for f64. Those of 8- and 16-bit floats, and with `deterministic` all, are of uses sorted by
    their rows, which takes memory for a share of the gradient, none of the table's size, and gives equal bits in equal
    calls. Others are in any order: their last bits may differ between calls on a GPU.

    Args:
        gradient: of the result, an array of floats of the shape of `indices` with the table's columns, any layout.
        indices: as in `embedding`.
        num_embeddings: rows of the table.
        deterministic: whether equal calls give equal bits for 32- and 64-bit floats, too. The derivative that torch
            computes is so under `torch.use_deterministic_algorithms`.
        out: a matrix of num_embeddings rows, of gradient's type; None: a new one of its library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `embedding`; for a gradient that has no floats.
        ValueError: for a gradient of another shape; as `embedding`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.embedding_backward(np.ones((3, 1)), np.array([1, 1, 0]), 3).tolist()
        [[1.0], [2.0], [0.0]]
    """
    source = describe(gradient, "gradient", is_float=True)
    places = _indices(source, indices)
    if source.shape[:-1] != places.shape:
        raise ValueError(
            f"gradient has shape {source.shape}, expected {(*places.shape, 'columns')}"
        )
    num_embeddings = integer_from(num_embeddings, "num_embeddings", 0, 1 << 31)
    shape, inputs = (num_embeddings, source.shape[-1]), {"gradient": gradient, "indices": indices}
    out = output(source, shape, source.dtype, source.type_name, out, **inputs)
    target = describe(out, "out")
    if not deterministic and source.dtype.itemsize >= 4:
        return Call(_embed_backward, (gradient, indices, out, target.width), out)
    width, config, blocks = common_width(source, target), None, 0
    if places.size > _THREADS * _ITEMS:
        keys = ArrayInfo(None, (places.size,), weft.u32, "uint32", source.device, (1,), 0)
        config = sort_config(keys, 4, descending=False)
        passes = max(2, -(-num_embeddings.bit_length() // 8))
        config, blocks = config._replace(digits=config.digits[:passes]), count_blocks(keys)
    return Call(_embed_backward_sorted, (gradient, indices, out, width, blocks, config), out)


@differentiable(_like_gathered, _gather_backward)
@cached_dispatch
def gather(x: Array, indices: Array, axis: int = -1, out: Array = None) -> Array:
    """Elements along a dimension: for ``axis=1`` of matrices ``out[i, j] = x[i, indices[i, j]]``.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        indices: an array of integers with x's shape but along `axis`, each from 0 below x's length there.
        axis: the dimension; negative ones count from the end.
        out: an array of the shape of `indices` and x's type, that does not overlap x; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays; for indices that are not integers.
        ValueError: for shapes that do not fit; for arrays on different devices; for an axis that x lacks.
        AssertionError: for an index out of range on the CPU. A GPU gives 0 for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.gather(np.array([[1, 2], [3, 4]]), np.array([[1], [0]])).tolist()
        [[2], [3]]
    """
    source = describe(x, "x")
    axis = _axis(source, axis)
    places = _along(source, indices, axis)
    inputs = {"x": x, "indices": indices}
    out = output(source, places.shape, source.dtype, source.type_name, out, **inputs)
    if axis == len(source.shape) - 1 and (kept := _kept(source, places)):
        width = common_width(places, describe(out, "out"))
        return Call(_gather_rows, (x, indices, out, kept, source.width, width), out)
    return Call(_gather, (x, indices, out, axis), out)


@differentiable(like_first, _scatter_backward, autocast=WIDEST)
def scatter_add(
    x: Array, indices: Array, values: Array, axis: int = -1, out: Array = None
) -> Array:
    """Adds values along a dimension; for ``axis=1`` of matrices: ``out[i, indices[i, j]] += values[i, j]``, out was x.

    Values of one place are added in any order, floats of 8 and 16 bits in f32 and rounded once: the last bits of floats
    may differ between calls on a GPU.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        indices: as in `gather`.
        values: an array of the shape of `indices` and of x's type.
        axis: as in `gather`.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `gather`; for values of another type; for bools.
        ValueError: as `gather`.
        AssertionError: for an index out of range on the CPU. A GPU adds nothing for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.scatter_add(np.zeros(3), np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0])).tolist()
        [2.0, 0.0, 4.0]
    """
    source = describe(x, "x")
    if source.dtype is weft.bool_:
        raise TypeError("x has elements of bool, expected numbers that can be added")
    axis = _axis(source, axis)
    places = _along(source, indices, axis)
    describe_alike(source, values, "values", places.shape)
    out = output_like(source, out, ("x",), x=x, indices=indices, values=values)
    if out is not x:
        copy(x, out)
    _scatter_add(out, indices, values, axis)
    return out
