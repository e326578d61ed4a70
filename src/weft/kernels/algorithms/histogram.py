# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.histogram``: how often integers occur, or how many numbers fall into each of equal bins.

In: an array of any rank and layout. Out: a vector of counts. Each block counts in shared memory, if the bins fit there.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.device.row import elements, index_of
from weft.kernels.device.views import aligned, flat
from weft.kernels.host.arrays import Array, Constant, Float64, Int32, given, output
from weft.kernels.host.autograd import differentiable
from weft.kernels.host.calls import Call, remembered
from weft.language.memory.atomics import atomic_add
from weft.language.memory.shared import dynamic_shared
from weft.language.numbers.math import floor
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.types.dtype import f64, i32, i64

_THREADS: Final = 512
_MOST_SHARED: Final = 8192  # bins
_MOST_BLOCKS: Final = 528
_ELEMENTS: Final = 8192  # that are worth a block


def _like_counts(x: Any, bins: int, *_: Any) -> Any:
    return x.new_empty((bins,)).long()


def _histogram_of_list(x: Any, bins: int, range: tuple[float, float] | None = None) -> Any:
    return histogram(x, int(bins), range)


@differentiable(_like_counts, run=_histogram_of_list)
@remembered
def histogram(x: Any, bins: int, range: tuple[float, float] | None = None, out: Any = None) -> Any:
    """How often each of the integers 0 to bins − 1 occurs, or how many numbers fall into each of equal bins.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        bins: how many, at least 1.
        range: None for integers: what is below 0 or from `bins` on is not counted. Else the first bin's start and the
            last one's end, which belongs to it: a number is in bin ⌊(x − start) · bins / (end − start)⌋, computed in
            f64; others and NaN are not counted.
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
    source = given(x, "x")
    if not isinstance(bins, int) or not 1 <= bins < 1 << 31:
        raise ValueError(f"bins is {brief(bins)}, expected a number of bins, at least 1")
    low = high = 0.0
    if range is not None:
        if not (isinstance(range, tuple | list) and len(range) == 2):
            raise TypeError(f"range is {brief(range)}, expected a start and an end")
        low, high = map(float, range)
        if not low < high:
            raise ValueError(f"range is {brief(range)}, expected a start below its end")
    elif source.dtype.is_float:
        raise TypeError(f"x has elements of {source.type_name}: bins of floats need a range")
    out = output(source, (bins,), i64, "int64", out, x=x)
    is_flat = source.is_contiguous or not source.size
    width = source.flat_width if is_flat else 1
    blocks = -(-source.size // _ELEMENTS)
    blocks = blocks if blocks < _MOST_BLOCKS else _MOST_BLOCKS
    is_shared = bins <= _MOST_SHARED
    plan = blocks, is_shared, width, is_flat, range is not None
    return Call(_histogram, (x, out, low, high, *plan), out)


@jit
def _histogram(
    x: Array,
    out: Array,
    low: Float64,
    high: Float64,
    blocks: Int32,
    is_shared: Constant,
    width: Constant,
    is_flat: Constant,
    has_range: Constant,
) -> None:
    x = flat(x) if is_flat else x
    zero_kernel(out).launch(over=out.shape[0])
    histogram_kernel(x, out, low, high, is_shared, width, has_range).launch(
        grid=blocks,
        block=_THREADS,
        shared_memory_bytes=i32(out.shape[0]) * i32.itemsize if is_shared else 0,
    )


@kernel
def zero_kernel(out: Array) -> None:
    """No counts."""
    for i in each(out.shape[0]):
        out[i] = 0


@kernel
def histogram_kernel(
    x: Array,
    out: Array,
    low: Float64,
    high: Float64,
    is_shared: Constant,
    width: Constant,
    has_range: Constant,
) -> None:
    """Each block: some of the elements, as many neighbors at a time as `width`.

    Args:
        x: an array; one of several dimensions is read element by element.
        out: the counts, which are added to.
        low, high: the range.
        is_shared: whether the counts fit into shared memory.
        width: neighbors of an access.
        has_range: whether bins are of the range; else integers are counted.
    """
    counts, bins = out, i32(out.shape[0])
    if is_shared:
        counts = dynamic_shared(bins, i32)
        for i in range(thread_idx.x, bins, _THREADS):
            counts[i] = 0
        sync_threads()
    scale = f64(out.shape[0]) / (high - low)
    first, step = i64(block_idx.x) * _THREADS + thread_idx.x, grid_dim.x * _THREADS
    for i in range(first * width, x.size, i64(step) * width):
        if x.ndim == 1:
            found = elements(aligned(x, width), i, width)
        else:
            found = [x[index_of(i, x.shape)]]
        for value in found:
            _count(counts, out.shape[0], value, low, high, scale, has_range)
    if is_shared:
        sync_threads()
        for i in range(thread_idx.x, bins, _THREADS):
            if counts[i] > 0:
                atomic_add(out, i, i64(counts[i]))


def _count(
    counts: Any, bins: Any, value: Any, low: Any, high: Any, scale: Any, has_range: Any
) -> None:
    if has_range:
        wide = f64(value)
        if (wide >= low) & (wide <= high):
            atomic_add(counts, min(i32(floor((wide - low) * scale)), i32(bins) - 1), 1)
    elif (value >= 0) & (value < bins):
        atomic_add(counts, i32(value), 1)
