# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.embedding``, ``gather`` and ``scatter_add``: elements at places that an array of integers says.

In: an array, and indices into one of its dimensions. Out: what is there, or the array with values added there. The CPU
reports an index that is out of range; a GPU reads zeros there and adds nothing.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Given, given, integer_from, output, output_like
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable
from weft.kernels.movers import copy
from weft.kernels.vectors import Aligned, read, vector_width, write
from weft.language.memory.atomics import atomic_add
from weft.language.memory.scratch import scratch
from weft.language.threads.each import each
from weft.types.dtype import f32, f64


def _like_rows(table: Any, indices: Any, *_: Any) -> Any:
    return table.new_empty((*indices.shape, table.shape[1]))


def _embedding_backward(gradient: Any, _: Any, table: Any, indices: Any) -> Any:
    return embedding_backward(gradient, indices, table.shape[0]), None


@differentiable(_like_rows, _embedding_backward)
@remembered
def embedding(table: Any, indices: Any, out: Any = None) -> Any:
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
    width = vector_width(table, out)
    if columns % width:
        width = 1
    return Call(_embed_aligned if width > 1 else _embed, (table, indices, out, width), out)


def _like_table(gradient: Any, indices: Any, rows: int, *_: Any) -> Any:
    return gradient.new_empty((rows, gradient.shape[-1]))


@differentiable(_like_table)
@remembered
def embedding_backward(gradient: Any, indices: Any, rows: int, out: Any = None) -> Any:
    """The derivative of `embedding` by its table: each row is the sum of the gradients of its uses.

    Sums are in f32, or f64 for f64, in any order: the last bits may differ between calls on a GPU.

    Args:
        gradient: of the result, an array of floats of the shape of `indices` with the table's columns, any layout.
        indices: as in `embedding`.
        rows: of the table.
        out: a matrix of so many rows, of gradient's type; None: a new one of its library.

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
    source = given(gradient, "gradient", is_float=True)
    places = _indices(source, indices)
    if source.shape[:-1] != places.shape:
        raise ValueError(
            f"gradient has shape {source.shape}, expected {(*places.shape, 'columns')}"
        )
    rows = integer_from(rows, "rows", 0, 1 << 31)
    shape, inputs = (rows, source.shape[-1]), {"gradient": gradient, "indices": indices}
    out = output(source, shape, source.dtype, source.type_name, out, **inputs)
    return Call(_embed_backward, (gradient, indices, out), out)


@remembered
def gather(x: Any, indices: Any, axis: int = -1, out: Any = None) -> Any:
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
    source = given(x, "x")
    axis = _axis(source, axis)
    places = _along(source, indices, axis)
    inputs = {"x": x, "indices": indices}
    out = output(source, places.shape, source.dtype, source.type_name, out, **inputs)
    return Call(_gather, (x, indices, out, axis), out)


def scatter_add(x: Any, indices: Any, values: Any, axis: int = -1, out: Any = None) -> Any:
    """Adds values along a dimension; for ``axis=1`` of matrices: ``out[i, indices[i, j]] += values[i, j]``, out was x.

    Values of one place are added in any order, each sum rounded to x's type: the last bits of floats may differ between
    calls on a GPU.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        indices: as in `gather`.
        values: an array of the shape of `indices` and of x's type.
        axis: as in `gather`.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `gather`; for values of another type.
        ValueError: as `gather`.
        AssertionError: for an index out of range on the CPU. A GPU adds nothing for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.scatter_add(np.zeros(3), np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0])).tolist()
        [2.0, 0.0, 4.0]
    """
    source = given(x, "x")
    axis = _axis(source, axis)
    places = _along(source, indices, axis)
    added = given(values, "values")
    if added.dtype is not source.dtype:
        raise TypeError(f"values has elements of {added.type_name}, expected {source.type_name}")
    if added.shape != places.shape:
        raise ValueError(f"values has shape {added.shape}, expected {places.shape}")
    out = output_like(source, out, ("x",), x=x, indices=indices, values=values)
    if out is not x:
        copy(x, out)
    _scatter_add(out, indices, values, axis)
    return out


def _matrix(array: object, name: str) -> Given:
    found = given(array, name)
    if len(found.shape) != 2:
        raise ValueError(f"{name} has shape {found.shape}, expected a matrix")
    return found


def _indices(source: Given, indices: object) -> Given:
    found = given(indices, "indices")
    if not found.dtype.is_integer:
        raise TypeError(f"indices has elements of {found.type_name}, expected integers")
    if found.device != source.device:
        raise ValueError(f"indices is on {found.device}, expected {source.device}")
    return found


def _axis(source: Given, axis: int) -> int:
    rank = len(source.shape)
    return integer_from(axis, "axis", -rank, rank) % rank


def _along(source: Given, indices: object, axis: int) -> Given:
    found = _indices(source, indices)
    expected = (*source.shape[:axis], ..., *source.shape[axis + 1 :])
    if (*found.shape[:axis], ..., *found.shape[axis + 1 :]) != expected:
        text = ", ".join("any" if size is ... else str(size) for size in expected)
        raise ValueError(f"indices has shape {found.shape}, expected ({text})")
    return found


@jit
def _embed(table: Array, indices: Array, out: Array, width: Constant) -> None:
    embed_kernel(table, indices, out, width).launch(over=out.shape)


@jit
def _embed_aligned(table: Aligned, indices: Array, out: Aligned, width: Constant) -> None:
    rounds = (*indices.shape, table.shape[1] // width)
    embed_kernel(table, indices, out, width).launch(over=rounds)


@kernel
def embed_kernel(table: Array, indices: Array, out: Array, width: Constant) -> None:
    """A round: some neighbors of a row."""
    for place in each((*indices.shape, table.shape[1] // width)):
        token, first = place[:-1], width * place[-1]
        index = indices[token]
        inside = 0 <= index < len(table)
        assert inside, "an index of embedding is out of range"
        if inside:
            write(out, (*token, first), read(table, (index, first), width))
        else:
            write(out, (*token, first), (table.dtype(0),) * width)


@jit
def _embed_backward(gradient: Array, indices: Array, out: Array) -> None:
    if out.dtype is f32 or out.dtype is f64:
        fill_kernel(out).launch(over=out.shape)
        add_rows_kernel(gradient, indices, out).launch(over=gradient.shape)
    else:
        sums = scratch(out.shape, f32)
        fill_kernel(sums).launch(over=sums.shape)
        add_rows_kernel(gradient, indices, sums).launch(over=gradient.shape)
        round_kernel(sums, out).launch(over=out.shape)


@kernel
def fill_kernel(out: Array) -> None:
    """A round: a zero."""
    for place in each(out.shape):
        out[place] = out.dtype(0)


@kernel
def add_rows_kernel(gradient: Array, indices: Array, sums: Array) -> None:
    """A round: an element of the gradient."""
    for place in each(gradient.shape):
        index = indices[place[:-1]]
        inside = 0 <= index < len(sums)
        assert inside, "an index of embedding_backward is out of range"
        if inside:
            atomic_add(sums, (index, place[-1]), sums.dtype(gradient[place]))


@kernel
def round_kernel(sums: Array, out: Array) -> None:
    """A round: an element of the result."""
    for place in each(out.shape):
        out[place] = out.dtype(sums[place])


def _with(place: Any, axis: Any, index: Any) -> Any:
    """A place with another index along a dimension; traced in kernels."""
    return (*place[:axis], index, *place[axis + 1 :])


@jit
def _gather(x: Array, indices: Array, out: Array, axis: Constant) -> None:
    gather_kernel(x, indices, out, axis).launch(over=indices.shape)


@kernel
def gather_kernel(x: Array, indices: Array, out: Array, axis: Constant) -> None:
    """A round: an index."""
    for place in each(indices.shape):
        index = indices[place]
        inside = 0 <= index < x.shape[axis]
        assert inside, "an index of gather is out of range"
        out[place] = x[_with(place, axis, index)] if inside else x.dtype(0)


@jit
def _scatter_add(out: Array, indices: Array, values: Array, axis: Constant) -> None:
    scatter_add_kernel(out, indices, values, axis).launch(over=indices.shape)


@kernel
def scatter_add_kernel(out: Array, indices: Array, values: Array, axis: Constant) -> None:
    """A round: a value."""
    for place in each(indices.shape):
        index = indices[place]
        inside = 0 <= index < out.shape[axis]
        assert inside, "an index of scatter_add is out of range"
        if inside:
            atomic_add(out, _with(place, axis, index), values[place])
