# SPDX-License-Identifier: Apache-2.0
"""Stream compaction in a single pass: ``weft.kernels.compress``, ``partition`` and ``run_length_encode``.

out = x[condition], by decoupled look-back (Merrill and Garland, 2016; `lookback`): each block counts its elements,
publishes the count, and writes them behind those of earlier blocks. The total stays on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import weft
from weft.kernels.algorithms.operators import add
from weft.kernels.algorithms.scan import zero_state_kernel
from weft.kernels.annotations import Arguments, Array, Bool, Function, Int, Number, Numbers
from weft.kernels.device.lookback import before_part, slots_of, words_of
from weft.kernels.device.row import aligned, elements
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_shape,
    describe,
    output,
    output_like,
    unexpected,
)
from weft.kernels.host.autograd import differentiable, function_of, name_of_function
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Callable


_THREADS: Final = 256
_WARPS: Final = _THREADS // weft.WARP_SIZE
_ITEMS: Final = 16
_PART: Final = _THREADS * _ITEMS  # elements of a block


@weft.kernel(max_threads=_THREADS, min_blocks=6)
def compress_kernel(
    x: weft.Tensor,
    mask: weft.Tensor | None,
    out: weft.Tensor,
    rest: weft.Tensor | None,
    count: weft.Tensor,
    words: weft.Tensor,
    parts: weft.i32,
    counter: weft.Constexpr[weft.DType],
    function: weft.Constexpr[object],
) -> None:
    """A block compacts a part of the vector.

    Args:
        x: a vector.
        mask: the condition, or None.
        out: the kept elements.
        rest: the other elements, or None.
        count: of kept elements.
        words: the look-back state of the parts.
        parts: of the vector.
        counter: the type of published counts.
        function: the condition without a mask.
    """
    part, at = weft.block_idx.x, _offsets()
    first = weft.i64(part) * _PART
    source, valid = x[first:], _valid_count(x, first)
    allowed = mask[first:] if mask is not None else None
    own = [_element_at(source, allowed, i, valid, function) for i in at]
    votes = [weft.ballot(is_kept) for _, is_kept in own]
    place, total = _exclusive_over_warps(_count_votes(votes))
    before = weft.shared(1, weft.i64)
    if weft.warp_id() == 0:
        earlier = before_part(counter(total), part, parts, words[0], add)
        if weft.thread_idx.x == 0:
            before[0] = weft.i64(earlier) if part > 0 else weft.i64(0)
            if part == parts - 1:
                count[()] = before[0] + total
    weft.sync_threads()
    kept, own_bit = out[before[0] :], weft.u32(1) << weft.lane_id()
    left = rest[first - before[0] :] if rest is not None else None
    for i, (value, _), vote in zip(at, own, votes, strict=True):
        to = place + weft.i32(weft.math.popcount(vote & (own_bit - 1)))
        if vote & own_bit != 0:
            kept[to] = value
        elif left is not None:
            if i < valid:
                left[i - to] = value
        place += weft.i32(weft.math.popcount(vote))


@weft.kernel(max_threads=_THREADS, min_blocks=6)
def run_length_kernel(
    x: weft.Tensor,
    values: weft.Tensor,
    lengths: weft.Tensor,
    count: weft.Tensor,
    words: weft.Tensor,
    parts: weft.i32,
    counter: weft.Constexpr[weft.DType],
    width: weft.Constexpr[int],
) -> None:
    """A block writes the values of the runs that begin in its part, and the lengths of the runs before them.

    Args:
        x: a vector.
        values: of the runs.
        lengths: of the runs.
        count: of the runs.
        words: the look-back state of the parts.
        parts: of the vector.
        counter: the type of published counts.
        width: elements per load.
    """
    part, first = weft.block_idx.x, weft.i64(weft.block_idx.x) * _PART
    source, valid = aligned(x[first:], width), _valid_count(x, first)
    at = _vector_offsets(width)
    found = [_load_with_previous(x, source, i, first, valid, width) for i in at]
    flags = [
        _run_starts(own, earlier, i, first, valid)
        for i, (own, earlier) in zip(at, found, strict=True)
    ]
    votes = [[weft.ballot(is_first) for is_first in own] for own in flags]
    place, total = _exclusive_over_warps(sum(_count_votes(own) for own in votes))
    # The starts of the part's runs, after the start of the run before them.
    begins, before, earlier_lanes = (
        weft.shared(_PART + 1, weft.i32),
        weft.shared(2, weft.i64),
        _lower_lanes(),
    )
    for i, own, votes_of in zip(at, flags, votes, strict=True):
        to = place + _count_votes([vote & earlier_lanes for vote in votes_of])
        for k, is_first in enumerate(own):
            if is_first:
                begins[to + 1] = i + k
                to += 1
        place += _count_votes(votes_of)
    weft.sync_threads()
    if weft.warp_id() == 0:
        own_last = counter(first + begins[total]) if total > 0 else counter(-1)
        counted, last = before_part(
            (counter(total), own_last), part, parts, words[0], _combine_runs
        )
        if part == 0:
            counted, last = counter(0), counter(-1)
        if weft.thread_idx.x == 0:
            before[0], before[1] = weft.i64(counted), weft.i64(last)
            if part == parts - 1:
                runs = weft.i64(counted) + total
                count[()] = runs
                if runs > 0:
                    lengths[runs - 1] = first + valid - weft.i64(max(last, own_last))
    weft.sync_threads()
    counted, last = before[0], before[1]
    for j in range(weft.thread_idx.x, total, _THREADS):
        begin = begins[j + 1]
        values[counted + j] = source[begin]
        if counted + j > 0:  # the first run has none before it
            lengths[counted + j - 1] = (
                weft.i64(begin - begins[j]) if j > 0 else first + begin - last
            )


@weft.device
def _offsets() -> Int:
    """The indices of a thread's elements in its part: each warp has adjacent elements, striped over its lanes."""
    first = weft.warp_id() * (_ITEMS * weft.WARP_SIZE) + weft.lane_id()
    return [first + k * weft.WARP_SIZE for k in weft.static_range(_ITEMS)]


@weft.device
def _vector_offsets(width: Int) -> Int:
    """The first indices of a thread's loads of `width` elements, likewise."""
    first = weft.warp_id() * (_ITEMS * weft.WARP_SIZE) + weft.lane_id() * width
    return [first + k * weft.WARP_SIZE for k in weft.static_range(0, _ITEMS, width)]


@weft.device
def _lower_lanes() -> Int:
    return (weft.u32(1) << weft.lane_id()) - 1


@weft.device
def _valid_count(x: weft.Tensor, first: Int) -> Int:
    """The number of elements of a part."""
    return weft.i32(min(weft.i64(x.shape[0]) - first, weft.i64(_PART)))


@weft.device
def _count_votes(votes: Any) -> Any:
    """The number of lanes that voted yes, in all of a warp's votes."""
    count = weft.i32(0)
    for vote in votes:
        count += weft.i32(weft.math.popcount(vote))
    return count


@weft.device
def _exclusive_over_warps(count: Int) -> Int:
    """The exclusive sum of a count over the block's warps, and the total."""
    counts = weft.shared(_WARPS, weft.i32)
    if weft.lane_id() == 0:
        counts[weft.warp_id()] = count
    weft.sync_threads()
    before, total = weft.i32(0), weft.i32(0)
    for warp in weft.static_range(_WARPS):
        before = total if warp == weft.warp_id() else before
        total += counts[warp]
    return before, total


@weft.device
def _combine_runs(one: Numbers, other: Numbers) -> Number:
    """Combines two parts: the number of runs, and the start of the last one."""
    return one[0] + other[0], max(one[1], other[1])


@weft.device
def _run_starts(own: Numbers, before: Numbers, i: Int, first: Int, valid: Bool) -> Numbers:
    """Marks adjacent elements that begin a run; `before` precedes them."""
    is_there, is_start = i < valid, first + i == 0
    found: Any = [is_there & (is_start | (before != own[0]))]
    for one, other in zip(own[1:], own[:-1], strict=True):
        found.append(is_there & (one != other))
    return found


@weft.device
def _load_with_previous(
    x: weft.Tensor, source: weft.Tensor, i: Int, first: Int, valid: Bool, width: Int
) -> Numbers:
    """Loads `width` elements and the one before them, as far as they exist; `source` is x[first:]."""
    own, before = tuple(x.dtype(0) for _ in weft.static_range(width)), x.dtype(0)
    if i < valid:
        own = tuple(elements(source, i, width))
    if (i < valid) & (first + i > 0):
        before = x[first + i - 1]
    return own, before


@weft.device
def _element_at(
    source: weft.Tensor, mask: weft.Tensor | None, i: Int, valid: Bool, function: Function
) -> Int:
    """An element, and whether it is kept; False beyond the end."""
    value, is_kept = source.dtype(0), False
    if i < valid:
        value = source[i]
        is_kept = (mask[i] if mask is not None else function(value)) != 0
    return value, is_kept


@weft.kernel
def append_kernel(rest: weft.Tensor, out: weft.Tensor, count: weft.Tensor) -> None:
    """Appends the other elements to the kept ones."""
    for i in weft.each(rest.shape[0]):
        place = count[()] + i
        if place < out.shape[0]:
            out[place] = rest[i]


@weft.jit
def _compress(
    x: weft.Tensor,
    mask: weft.Tensor | None,
    out: weft.Tensor,
    count: weft.Tensor,
    parts: weft.i32,
    counter: weft.Constexpr[weft.DType],
    function: weft.Constexpr[object],
    has_rest: weft.Constexpr[bool],
) -> None:
    words = weft.scratch((1, slots_of(parts) * words_of(counter)), weft.u64)
    zero_state_kernel(words).launch(over=words.shape)
    rest = weft.scratch(x.shape[0], x.dtype) if has_rest else None
    compress_kernel(x, mask, out, rest, count, words, parts, counter, function).launch(
        grid=parts, block=_THREADS
    )
    if rest is not None:
        append_kernel(rest, out, count).launch(over=x.shape[0])


@weft.jit
def _encode_runs(
    x: weft.Tensor,
    values: weft.Tensor,
    lengths: weft.Tensor,
    count: weft.Tensor,
    parts: weft.i32,
    counter: weft.Constexpr[weft.DType],
    width: weft.Constexpr[int],
) -> None:
    words = weft.scratch((1, slots_of(parts) * words_of(counter, counter)), weft.u64)
    zero_state_kernel(words).launch(over=words.shape)
    run_length_kernel(x, values, lengths, count, words, parts, counter, width).launch(
        grid=parts, block=_THREADS
    )


def _compress_by_name(
    x: Array, condition: Array = None, function: Function = None
) -> tuple[Array, Array]:
    return compress(condition if function is None else function_of(function), x)


def _partition_by_name(
    x: Array, condition: Array = None, function: Function = None
) -> tuple[Array, Array]:
    return partition(condition if function is None else function_of(function), x)


def _like_kept(x: Array, *_: object) -> tuple[Array, Array]:
    return x.new_empty(x.shape), x.new_empty(()).long()


def _like_runs(x: Array) -> tuple[Array, Array, Array]:
    return x.new_empty(x.shape), x.new_empty(x.shape).long(), x.new_empty(()).long()


def _mask_or_name(condition: Array, x: Array) -> Arguments:
    is_mask = hasattr(condition, "shape") or not callable(condition)
    return (x, condition, None) if is_mask else (x, None, name_of_function(condition))


def _vector(x: Array, name: str) -> ArrayInfo:
    source = describe(x, name)
    if len(source.shape) != 1:
        raise ValueError(f"{name} has shape {source.shape}, expected a vector")
    return source


def _checked(x: Array, condition: Array) -> tuple[ArrayInfo, Any, Callable[[Any], Any] | None]:
    """The vector, and the mask or the function."""
    source = _vector(x, "x")
    try:
        mask = _vector(condition, "condition")
    except TypeError:
        if callable(condition):
            return source, None, condition
        raise TypeError(unexpected("condition", condition, "a mask or a function")) from None
    check_shape(mask, "condition", source, source.shape)
    if mask.dtype.is_float:
        raise TypeError(f"condition has elements of {mask.type_name}, expected bools or integers")
    return source, condition, None


def _compacted(
    source: ArrayInfo, mask: Array, function: Function, out: Array, has_rest: bool
) -> tuple[Array, Array]:
    out = output_like(source, out, x=source.array, condition=mask)
    count = output(source, (), weft.i64, "int64")
    decided = _parts(source), _counter(source), function, has_rest
    return Call(_compress, (source.array, mask, out, count, *decided), (out, count))  # type: ignore[return-value]


def _parts(source: ArrayInfo) -> int:
    return -(-source.shape[0] // _PART) or 1


def _counter(source: ArrayInfo) -> weft.DType:
    """The type of published counts: i32 takes half the words where it suffices."""
    return weft.i32 if source.shape[0] < 1 << 31 else weft.i64


@differentiable(_like_kept, None, _mask_or_name, run=_compress_by_name)
@cached_dispatch
def compress(condition: Array, x: Array, out: Array = None) -> tuple[Array, Array]:
    """Selects the elements of a vector where a condition holds, in their order, as NumPy's `compress`.

    The count stays on the device, so that nothing waits for it: ``out[: int(count)]`` is the result.

    Args:
        condition: a mask, a vector of as many bools or integers; or a function of an element that returns a bool and is
            compiled into the kernel, once for each function object.
        x: a vector of numbers of any layout.
        out: a vector of x's length and type that does not overlap with `x`; None: a new one of x's library.

    Returns:
        ``(out, count)``: the elements from `count` on are undefined; `count` is an i64 of no dimension.

    Raises:
        TypeError: for something else than an array of numbers, and a mask or a function.
        ValueError: for another rank than 1, a mask of another length, `out` of another shape, type or device.

    Example:
        >>> import numpy as np, weft
        >>> x = np.array([3, -1, 4, -1, 5])
        >>> kept, count = weft.kernels.compress(lambda element: element > 0, x)
        >>> kept[: int(count)].tolist()
        [3, 4, 5]
    """
    source, mask, function = _checked(x, condition)
    return _compacted(source, mask, function, out, False)


@differentiable(_like_kept, None, _mask_or_name, run=_partition_by_name)
@cached_dispatch
def partition(condition: Array, x: Array, out: Array = None) -> tuple[Array, Array]:
    """Moves the elements where a condition holds to the front, and the others after these, both in their order.

    Arguments, result and errors as in `compress`; all of `out` is defined, and the others begin at `count`.

    Example:
        >>> import numpy as np, weft
        >>> parts, count = weft.kernels.partition(np.array([0, 1, 0, 1, 0, 1]), np.arange(6))
        >>> parts.tolist(), int(count)
        ([1, 3, 5, 0, 2, 4], 3)
    """
    source, mask, function = _checked(x, condition)
    return _compacted(source, mask, function, out, True)


@differentiable(_like_runs)
@cached_dispatch
def run_length_encode(x: Array) -> tuple[Array, Array, Array]:
    """Run-length encoding of a vector: the value and the length of each run of equal elements.

    NaN equals nothing, so each NaN is a run.

    Args:
        x: a vector of numbers of any layout.

    Returns:
        ``(values, lengths, count)``: vectors of x's length whose first `count` elements are defined; lengths
        are i64, and `count` is one of no dimension.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for another rank than 1.

    Example:
        >>> import numpy as np, weft
        >>> values, lengths, count = weft.kernels.run_length_encode(np.array([7, 7, 7, 2, 7]))
        >>> values[: int(count)].tolist(), lengths[: int(count)].tolist()
        ([7, 2, 7], [3, 1, 1])
    """
    source = _vector(x, "x")
    values = output_like(source)
    lengths = output(source, source.shape, weft.i64, "int64")
    count = output(source, (), weft.i64, "int64")
    width = min(source.width, _ITEMS)
    arguments = x, values, lengths, count, _parts(source), _counter(source), width
    return Call(_encode_runs, arguments, (values, lengths, count))  # type: ignore[return-value]
