# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sort``, ``argsort`` and ``top_k`` of rows.

A block sorts a short row (`weft.block.radix_sort`); longer ones take a pass over memory for each eight bits of a key
(`radix_sort`), and a small k of a long row one pass (`topk`). All are stable.
"""

from __future__ import annotations

from typing import Any, Final

import weft
from weft.kernels.algorithms.radix_sort import sort_config, sort_long
from weft.kernels.algorithms.topk import is_small_k, launch_topk
from weft.kernels.annotations import Arguments, Array, Int, Numbers
from weft.kernels.device.row import row_count, row_of, threads_for
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_shape,
    describe,
    integer,
    output,
    output_like,
    unexpected,
)
from weft.kernels.host.autograd import differentiable
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_SHORT: Final = 2048  # elements of the longest row that one block sorts
_ITEMS: Final = 8
_BLOCKS: Final = 1056  # of the digit counts, for all rows together


@weft.kernel(max_threads=256)
def row_kernel(
    x: weft.Tensor,
    values: weft.Tensor | None,
    out: weft.Tensor | None,
    moved: weft.Tensor | None,
    items: weft.Constexpr[int],
    descending: weft.Constexpr[bool],
) -> None:
    """A block sorts a row.

    Args:
        x: the keys.
        values: of the keys; None: their indices, if `moved` is there.
        out: sorted keys, or None.
        moved: sorted values, or None.
        items: elements of a thread.
        descending: whether the largest comes first.
    """
    row = row_of(x, weft.block_idx.x)
    n, places = len(row), [weft.thread_idx.x + k * weft.block_dim.x for k in range(items)]
    keys = weft.block.to_blocked([row[i] if i < n else row.dtype(0) for i in places])
    found = None
    if moved is not None:
        if values is None:
            found = [weft.thread_idx.x * items + k for k in range(items)]
        else:
            own = row_of(values, weft.block_idx.x)
            found = weft.block.to_blocked([own[i] if i < n else own.dtype(0) for i in places])
        keys, found = weft.block.radix_sort(keys, found, descending, n)
    else:
        keys = weft.block.radix_sort(keys, None, descending, n)
    if out is not None:
        _store(row_of(out, weft.block_idx.x), keys, places, n)
    if moved is not None:
        _store(row_of(moved, weft.block_idx.x), found, places, n)


@weft.device
def _store(row: weft.Tensor, items: Numbers, places: Numbers, n: Int) -> None:
    for value, i in zip(weft.block.to_striped(items), places, strict=True):
        if i < min(len(row), n):
            row[i] = row.dtype(value)


@weft.jit
def _sort_short(
    x: weft.Tensor,
    values: weft.Tensor | None,
    out: weft.Tensor | None,
    moved: weft.Tensor | None,
    threads: weft.Constexpr[int],
    items: weft.Constexpr[int],
    descending: weft.Constexpr[bool],
) -> None:
    row_kernel(x, values, out, moved, items, descending).launch(
        grid=row_count(x.shape), block=threads
    )


def _sort_with_places(x: Array, descending: bool = False) -> tuple[Array, Array]:
    source = describe(x, "x")
    keys, places = output_like(source), output(source, source.shape, weft.i64, "int64")
    found = _sorted(source, None, keys, places, descending, (keys, places))
    if isinstance(found, Call):
        found.function(*found.arguments)
    return keys, places


def _like_both(x: Array, *_: object) -> tuple[Array, Array]:
    return x.new_empty(x.shape), _like_places(x)


def _like_places(x: Array, *_: object) -> Array:
    return x.new_empty(x.shape).long()


def _without_values(x: Array, values: Array = None, descending: bool = False) -> Arguments:
    return x, bool(descending)


def _with_values(
    found: Array, _: object, values: Array = None, *__: object, **___: object
) -> Array:
    keys, places = found
    return keys if values is None else (keys, weft.kernels.gather(values, places))


def _sort_backward(gradient: Array, found: Array, x: Array, *others: Array) -> Array:
    """Scatters the gradient to the elements' places in x."""
    return x.new_zeros(x.shape).scatter(-1, found[1], gradient), *[None] * len(others)


def _like_largest(x: Array, k: int, *_: object) -> tuple[Array, Array]:
    values = x.new_empty((*x.shape[:-1], k))
    return values, values.long()


def _sorted(
    source: ArrayInfo, values: Array, out: Array, moved: Array, descending: bool, result: Any
) -> Array:
    """Sorts into `out` and `moved`, as many of each row as these have; without values `moved` gets indices."""
    rows, columns = source.rows, source.shape[-1]
    if not rows or not columns:
        return result
    if columns <= _SHORT:
        threads = threads_for(columns, _ITEMS)
        items = 1
        while threads * items < columns:
            items *= 2
        arguments = source.array, values, out, moved, threads, items, bool(descending)
        return Call(_sort_short, arguments, result)
    moved_bytes = 0
    if moved is not None:
        moved_bytes = describe(values, "values").dtype.itemsize if values is not None else 4
    config = sort_config(source, moved_bytes, bool(descending))
    return Call(sort_long, (source.array, values, out, moved, count_blocks(source), config), result)


def count_blocks(source: ArrayInfo) -> int:
    """The blocks that count the digits of each row."""
    return min(-(-_BLOCKS // source.rows), -(-source.shape[-1] // _SHORT))


@differentiable(
    _like_both,
    _sort_backward,
    _without_values,
    result=_with_values,
    run=_sort_with_places,
    rows={"x": 1},
)
@cached_dispatch
def sort(x: Array, values: Array = None, descending: bool = False, out: Array = None) -> Array:
    """Sorts each row, along the last dimension.

    Equal elements keep their order, in either direction, and -0.0 and 0.0 are equal, as in NumPy and CUB. NaN comes
    last, in either direction, as one NaN.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        values: an array of x's shape that is permuted as the keys, or None.
        descending: whether the largest comes first.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array; with values a pair, the second one new.

    Raises:
        TypeError: for something else than arrays of numbers.
        ValueError: for values of another shape or device; for `out` of another shape or on another device, or one that
            overlaps in part.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.sort(np.array([3, 1, 2])).tolist()
        [1, 2, 3]
        >>> keys, names = weft.kernels.sort(np.array([3.0, 1.0]), np.array([7, 8]), descending=True)
        >>> names.tolist()
        [7, 8]
    """
    source = describe(x, "x")
    out = output_like(source, out, ("x",), x=x, values=values)
    if values is None:
        return _sorted(source, None, out, None, descending, out)
    with_keys = describe(values, "values")
    check_shape(with_keys, "values", source, source.shape)
    moved = output_like(with_keys)
    return _sorted(source, values, out, moved, descending, (out, moved))


@differentiable(_like_places, rows={"x": 1})
@cached_dispatch
def argsort(x: Array, descending: bool = False, out: Array = None) -> Array:
    """The indices that sort each row, i64.

    Equal elements keep their order; NaN comes last.

    Args:
        x: as in `sort`.
        descending: as in `sort`.
        out: an array of x's shape of i64; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError, ValueError: as `sort`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.argsort(np.array([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    source = describe(x, "x")
    out = output(source, source.shape, weft.i64, "int64", out, x=x)
    return _sorted(source, None, None, out, descending, out)


@differentiable(_like_largest, _sort_backward, rows={"x": 1})
@cached_dispatch
def top_k(x: Array, k: int, largest: bool = True) -> tuple[Array, Array]:
    """The k largest elements of each row in order, the largest first, and their indices.

    Of equal elements the first ones; NaN comes after all numbers.

    Args:
        x: as in `sort`.
        k: their number, from 0 to the length of the rows.
        largest: True for the largest; False for the smallest, the smallest first.

    Returns:
        ``(values, indices)``: arrays whose last dimension is `k`; indices are i64.

    Raises:
        TypeError: as `sort`.
        ValueError: for another `k`.

    Example:
        >>> import numpy as np, weft
        >>> values, indices = weft.kernels.top_k(np.array([3, 1, 4, 1, 5]), 2)
        >>> values.tolist(), indices.tolist()
        ([5, 4], [4, 2])
    """
    source = describe(x, "x")
    count = integer(k)
    if count is None or not 0 <= count <= source.shape[-1]:
        raise ValueError(unexpected("k", k, f"0 to {source.shape[-1]}"))
    shape = (*source.shape[:-1], count)
    values = output(source, shape, source.dtype, source.type_name)
    indices = output(source, shape, weft.i64, "int64")
    if not count or not source.rows:
        return values, indices
    if is_small_k(source, count):
        launch_topk(source, values, indices, count, bool(largest))
        return values, indices
    return _sorted(source, None, values, indices, bool(largest), (values, indices))
