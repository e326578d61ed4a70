# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.histogram``: counts of integers, or of numbers in bins of equal width.

counts[b] = |{i : bin(x[i]) = b}|. Each block counts by atomics in shared memory, if the bins fit, and adds its counts
to the result.
"""

from __future__ import annotations

from typing import Final

import weft
from weft.kernels.annotations import Array, Bool, Int, Number
from weft.kernels.device.row import aligned, elements, index_of
from weft.kernels.host.arrays import describe, output, unexpected
from weft.kernels.host.autograd import differentiable
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_THREADS: Final = 512
_MOST_SHARED: Final = 8192  # bins
_MOST_BLOCKS: Final = 528
_ELEMENTS: Final = 8192  # of a block, at least


@weft.kernel
def zero_kernel(out: weft.Tensor) -> None:
    """Zeros the counts."""
    for i in weft.each(out.shape[0]):
        out[i] = 0


@weft.kernel
def histogram_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    low: weft.f64,
    high: weft.f64,
    is_shared: weft.Constexpr[bool],
    width: weft.Constexpr[int],
    has_range: weft.Constexpr[bool],
) -> None:
    """A block counts a share of the elements.

    Args:
        x: an array; with several dimensions it is loaded element by element.
        out: the counts.
        low, high: the range.
        is_shared: whether the counts fit into shared memory.
        width: elements per load.
        has_range: whether bins divide the range; else integers are counted.
    """
    counts, bins = out, weft.i32(out.shape[0])
    if is_shared:
        counts = weft.dynamic_shared(bins, weft.i32)
        for i in range(weft.thread_idx.x, bins, _THREADS):
            counts[i] = 0
        weft.sync_threads()
    scale = weft.f64(out.shape[0]) / (high - low)
    first, step = (
        weft.i64(weft.block_idx.x) * _THREADS + weft.thread_idx.x,
        weft.grid_dim.x * _THREADS,
    )
    for i in range(first * width, x.size, weft.i64(step) * width):
        if x.ndim == 1:
            found = elements(aligned(x, width), i, width)
        else:
            found = [x[index_of(i, x.shape)]]
        for value in found:
            _count(counts, out.shape[0], value, low, high, scale, has_range)
    if is_shared:
        weft.sync_threads()
        for i in range(weft.thread_idx.x, bins, _THREADS):
            if counts[i] > 0:
                weft.atomic_add(out, i, weft.i64(counts[i]))


@weft.device
def _count(
    counts: weft.Tensor,
    bins: Int,
    value: Number,
    low: Number,
    high: Number,
    scale: Number,
    has_range: Bool,
) -> None:
    if has_range:
        wide = weft.f64(value)
        if (wide >= low) & (wide <= high):
            weft.atomic_add(
                counts, min(weft.i32(weft.math.floor((wide - low) * scale)), weft.i32(bins) - 1), 1
            )
    elif (value >= 0) & (value < bins):
        weft.atomic_add(counts, weft.i32(value), 1)


@weft.jit
def _histogram(
    x: weft.Tensor,
    out: weft.Tensor,
    low: weft.f64,
    high: weft.f64,
    blocks: weft.i32,
    is_shared: weft.Constexpr[bool],
    width: weft.Constexpr[int],
    is_flat: weft.Constexpr[bool],
    has_range: weft.Constexpr[bool],
) -> None:
    x = x.reshape(x.size) if is_flat else x
    zero_kernel(out).launch(over=out.shape[0])
    histogram_kernel(x, out, low, high, is_shared, width, has_range).launch(
        grid=blocks,
        block=_THREADS,
        shared_memory_bytes=weft.i32(out.shape[0]) * weft.i32.itemsize if is_shared else 0,
    )


def _like_counts(x: Array, bins: int, *_: object) -> Array:
    return x.new_empty((bins,)).long()


def _histogram_of_list(x: Array, bins: int, range: tuple[float, float] | None = None) -> Array:
    return histogram(x, int(bins), range)


@differentiable(_like_counts, run=_histogram_of_list)
@cached_dispatch
def histogram(
    x: Array, bins: int, range: tuple[float, float] | None = None, out: Array = None
) -> Array:
    """Counts the integers 0 to bins − 1, or the numbers in each of `bins` bins of equal width.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        bins: their number, at least 1.
        range: None for integers, where numbers below 0 or from `bins` on are not counted. Else the first bin's start
            and the last one's end, which belongs to it: a number is in bin ⌊(x − start) · bins / (end − start)⌋,
            computed in f64; others and NaN are not counted.
        out: a vector of `bins` i64, which is overwritten; None: a new one of x's library.

    Returns:
        `out`, or the new vector.

    Raises:
        TypeError: for something else than an array of numbers, or floats without a range.
        ValueError: for a number of bins or a range that is empty; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.histogram(np.array([0, 2, 2, 7]), 4).tolist()
        [1, 0, 2, 0]
        >>> weft.kernels.histogram(np.array([0.1, 0.9, 1.0]), 2, (0, 1)).tolist()
        [1, 2]
    """
    source = describe(x, "x")
    if not isinstance(bins, int) or not 1 <= bins < 1 << 31:
        raise ValueError(unexpected("bins", bins, "a number of bins, at least 1"))
    low = high = 0.0
    if range is not None:
        if not (isinstance(range, tuple | list) and len(range) == 2):
            raise TypeError(unexpected("range", range, "a start and an end"))
        low, high = map(float, range)
        if not low < high:
            raise ValueError(unexpected("range", range, "a start below its end"))
    elif source.dtype.is_float:
        raise TypeError(f"x has elements of {source.type_name}: bins of floats need a range")
    out = output(source, (bins,), weft.i64, "int64", out, x=x)
    is_flat = source.is_contiguous or not source.size
    width = source.flat_width if is_flat else 1
    blocks = -(-source.size // _ELEMENTS)
    blocks = blocks if blocks < _MOST_BLOCKS else _MOST_BLOCKS
    is_shared = bins <= _MOST_SHARED
    plan = blocks, is_shared, width, is_flat, range is not None
    return Call(_histogram, (x, out, low, high, *plan), out)
