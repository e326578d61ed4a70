# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.select``, ``partition`` and ``run_length``: elements of a vector moved together, in a single pass.

In: a vector, and what decides: a mask, a function, or the element before. Out: a vector of the same length, and how
many of its elements count; the number stays on the device. Blocks learn from `lookback` where their elements begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.algorithms.operators import added
from weft.kernels.algorithms.scan import clear_kernel
from weft.kernels.device.lookback import before_part, slots_of, words_of
from weft.kernels.device.row import elements
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import (
    Array,
    Constant,
    Given,
    Int32,
    given,
    output,
    output_like,
)
from weft.kernels.host.autograd import Function, differentiable, function_of, name_of_function
from weft.kernels.host.calls import Call, remembered
from weft.language.control import static_range
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import popcount
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx, thread_idx
from weft.language.threads.warp import ballot, lane_id, warp_id
from weft.types.dtype import i32, i64, u32, u64
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.types.dtype import DType

_THREADS: Final = 256
_WARPS: Final = _THREADS // WARP_SIZE
_ITEMS: Final = 16
_PART: Final = _THREADS * _ITEMS  # elements of a block


def _select_by_name(x: Any, keep: Any = None, function: Function = None) -> tuple[Any, Any]:
    return select(x, keep if function is None else function_of(function))


def _partition_by_name(x: Any, keep: Any = None, function: Function = None) -> tuple[Any, Any]:
    return partition(x, keep if function is None else function_of(function))


def _like_kept(x: Any, *_: Any) -> tuple[Any, Any]:
    return x.new_empty(x.shape), x.new_empty(()).long()


def _like_runs(x: Any) -> tuple[Any, Any, Any]:
    return x.new_empty(x.shape), x.new_empty(x.shape).long(), x.new_empty(()).long()


def _mask_or_name(x: Any, keep: Any) -> tuple[Any, ...]:
    is_mask = hasattr(keep, "shape") or not callable(keep)
    return (x, keep, None) if is_mask else (x, None, name_of_function(keep))


@differentiable(_like_kept, None, _mask_or_name, run=_select_by_name)
@remembered
def select(x: Any, keep: Any, out: Any = None) -> tuple[Any, Any]:
    """The elements of a vector that a mask or a function chooses, moved together in their order.

    How many there are stays on the device, so that nothing waits for it: ``out[: int(count)]`` is the result.

    Args:
        x: a vector of numbers of any layout.
        keep: a vector of as many bools or integers, where 0 leaves out; or a function of an element that gives a bool,
            compiled in, once for each function object.
        out: a vector of x's length and type that does not overlap with `x`; None: a new one of x's library.

    Returns:
        ``(out, count)``: the elements from `count` on are undefined; `count` is an i64 of no dimension.

    Raises:
        TypeError: for something else than an array of numbers, and a mask or a function.
        ValueError: for another rank than 1, a mask of another length, `out` of another shape, type or device.

    Example:
        >>> import numpy as np, weft
        >>> x = np.array([3, -1, 4, -1, 5])
        >>> kept, count = weft.kernels.select(x, lambda element: element > 0)
        >>> kept[: int(count)].tolist()
        [3, 4, 5]
    """
    source, mask, function = _asked(x, keep)
    return _moved(source, mask, function, out, False)


@differentiable(_like_kept, None, _mask_or_name, run=_partition_by_name)
@remembered
def partition(x: Any, keep: Any, out: Any = None) -> tuple[Any, Any]:
    """The elements that a mask or a function chooses, then the others, both in their order.

    Arguments, result and errors as in `select`; all of `out` is defined, and the others begin at `count`.

    Example:
        >>> import numpy as np, weft
        >>> parts, count = weft.kernels.partition(np.arange(6), np.array([0, 1, 0, 1, 0, 1]))
        >>> parts.tolist(), int(count)
        ([1, 3, 5, 0, 2, 4], 3)
    """
    source, mask, function = _asked(x, keep)
    return _moved(source, mask, function, out, True)


@differentiable(_like_runs)
@remembered
def run_length(x: Any) -> tuple[Any, Any, Any]:
    """Runs of equal neighbors of a vector: what each repeats, and how often.

    NaN equals nothing, so that each is a run.

    Args:
        x: a vector of numbers of any layout.

    Returns:
        ``(values, lengths, count)``: vectors of x's length, of which the first `count` elements are defined; lengths
        are i64, and `count` is one of no dimension.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for another rank than 1.

    Example:
        >>> import numpy as np, weft
        >>> values, lengths, count = weft.kernels.run_length(np.array([7, 7, 7, 2, 7]))
        >>> values[: int(count)].tolist(), lengths[: int(count)].tolist()
        ([7, 2, 7], [3, 1, 1])
    """
    source = _vector(x, "x")
    values = output_like(source)
    lengths = output(source, source.shape, i64, "int64")
    count = output(source, (), i64, "int64")
    width = min(source.width, _ITEMS)
    arguments = x, values, lengths, count, _parts(source), _counter(source), width
    return Call(_encode, arguments, (values, lengths, count))  # type: ignore[return-value]


def _vector(x: Any, name: str) -> Given:
    source = given(x, name)
    if len(source.shape) != 1:
        raise ValueError(f"{name} has shape {source.shape}, expected a vector")
    return source


def _asked(x: Any, keep: Any) -> tuple[Given, Any, Callable[[Any], Any] | None]:
    """The vector, and a mask or a function."""
    source = _vector(x, "x")
    try:
        mask = _vector(keep, "keep")
    except TypeError:
        if callable(keep):
            return source, None, keep
        raise TypeError(f"keep is {brief(keep)}, expected a mask or a function") from None
    if mask.shape != source.shape:
        raise ValueError(f"keep has shape {mask.shape}, expected {source.shape}")
    if mask.device != source.device:
        raise ValueError(f"keep is on {mask.device}, expected {source.device}")
    if mask.dtype.is_float:
        raise TypeError(f"keep has elements of {mask.type_name}, expected bools or integers")
    return source, keep, None


def _moved(source: Given, mask: Any, function: Any, out: Any, has_rest: bool) -> tuple[Any, Any]:
    out = output_like(source, out, x=source.array, keep=mask)
    count = output(source, (), i64, "int64")
    decided = _parts(source), _counter(source), function, has_rest
    return Call(_select, (source.array, mask, out, count, *decided), (out, count))  # type: ignore[return-value]


def _parts(source: Given) -> int:
    return -(-source.shape[0] // _PART) or 1


def _counter(source: Given) -> DType:
    """The type in which parts tell each other numbers of elements: half the words, if they are few enough."""
    return i32 if source.shape[0] < 1 << 31 else i64


@jit
def _select(
    x: Array,
    mask: Array | None,
    out: Array,
    count: Array,
    parts: Int32,
    counter: Constant,
    function: Constant,
    has_rest: Constant,
) -> None:
    words = scratch((1, slots_of(parts) * words_of(counter)), u64)
    clear_kernel(words).launch(over=words.shape)
    rest = scratch(x.shape[0], x.dtype) if has_rest else None
    select_kernel(x, mask, out, rest, count, words, parts, counter, function).launch(
        grid=parts, block=_THREADS
    )
    if rest is not None:
        append_kernel(rest, out, count).launch(over=x.shape[0])


@jit
def _encode(
    x: Array,
    values: Array,
    lengths: Array,
    count: Array,
    parts: Int32,
    counter: Constant,
    width: Constant,
) -> None:
    words = scratch((1, slots_of(parts) * words_of(counter, counter)), u64)
    clear_kernel(words).launch(over=words.shape)
    run_kernel(x, values, lengths, count, words, parts, counter, width).launch(
        grid=parts, block=_THREADS
    )


@kernel(max_threads=_THREADS, min_blocks=6)
def select_kernel(
    x: Array,
    mask: Array | None,
    out: Array,
    rest: Array | None,
    count: Array,
    words: Array,
    parts: Int32,
    counter: Constant,
    function: Constant,
) -> None:
    """A block: a part of the vector.

    Args:
        x: a vector.
        mask: what is kept, or None.
        out: what is kept.
        rest: None, or what is not kept.
        count: how many are kept.
        words: what parts tell each other.
        parts: of the vector.
        counter: the type in which they tell it.
        function: what decides without a mask.
    """
    part, at = block_idx.x, _places()
    first = i64(part) * _PART
    source, present = x[first:], _present(x, first)
    allowed = mask[first:] if mask is not None else None
    own = [_asked_of(source, allowed, i, present, function) for i in at]
    votes = [ballot(is_kept) for _, is_kept in own]
    place, total = _before_warp(_ones(votes))
    before = shared(1, i64)
    if warp_id() == 0:
        earlier = before_part(counter(total), part, parts, words[0], added)
        if thread_idx.x == 0:
            before[0] = i64(earlier) if part > 0 else i64(0)
            if part == parts - 1:
                count[()] = before[0] + total
    sync_threads()
    kept, own_bit = out[before[0] :], u32(1) << lane_id()
    left = rest[first - before[0] :] if rest is not None else None
    for i, (value, _), vote in zip(at, own, votes, strict=True):
        to = place + i32(popcount(vote & (own_bit - 1)))
        if vote & own_bit != 0:
            kept[to] = value
        elif left is not None:
            if i < present:
                left[i - to] = value
        place += i32(popcount(vote))


@kernel(max_threads=_THREADS, min_blocks=6)
def run_kernel(
    x: Array,
    values: Array,
    lengths: Array,
    count: Array,
    words: Array,
    parts: Int32,
    counter: Constant,
    width: Constant,
) -> None:
    """A block: the runs that begin in a part of the vector, and the length of the one before each.

    Args:
        x: a vector.
        values: what each run repeats.
        lengths: how often.
        count: how many runs there are.
        words: what parts tell each other.
        parts: of the vector.
        counter: the type in which they tell it.
        width: neighbors of an access.
    """
    part, first = block_idx.x, i64(block_idx.x) * _PART
    source, present = aligned(x[first:], width), _present(x, first)
    at = _vector_places(width)
    found = [_neighbors(x, source, i, first, present, width) for i in at]
    flags = [
        _begun(own, earlier, i, first, present) for i, (own, earlier) in zip(at, found, strict=True)
    ]
    votes = [[ballot(is_first) for is_first in own] for own in flags]
    place, total = _before_warp(sum(_ones(own) for own in votes))
    # Where the part's runs begin, in their order; first of all, where the one before them does.
    begins, before, earlier_lanes = shared(_PART + 1, i32), shared(2, i64), _lanes_before()
    for i, own, votes_of in zip(at, flags, votes, strict=True):
        to = place + _ones([vote & earlier_lanes for vote in votes_of])
        for k, is_first in enumerate(own):
            if is_first:
                begins[to + 1] = i + k
                to += 1
        place += _ones(votes_of)
    sync_threads()
    if warp_id() == 0:
        own_last = counter(first + begins[total]) if total > 0 else counter(-1)
        counted, last = before_part((counter(total), own_last), part, parts, words[0], _later)
        if part == 0:
            counted, last = counter(0), counter(-1)
        if thread_idx.x == 0:
            before[0], before[1] = i64(counted), i64(last)
            if part == parts - 1:
                runs = i64(counted) + total
                count[()] = runs
                if runs > 0:
                    lengths[runs - 1] = first + present - i64(max(last, own_last))
    sync_threads()
    counted, last = before[0], before[1]
    for j in range(thread_idx.x, total, _THREADS):
        begin = begins[j + 1]
        values[counted + j] = source[begin]
        if counted + j > 0:  # the first run has none before it
            lengths[counted + j - 1] = i64(begin - begins[j]) if j > 0 else first + begin - last


def _places() -> Any:
    """Where a thread's elements are in its part: a warp has neighbors, a lane each of 32 that follow each other."""
    first = warp_id() * (_ITEMS * WARP_SIZE) + lane_id()
    return [first + k * WARP_SIZE for k in static_range(_ITEMS)]


def _vector_places(width: Any) -> Any:
    """Where a thread's accesses of `width` neighbors begin, likewise."""
    first = warp_id() * (_ITEMS * WARP_SIZE) + lane_id() * width
    return [first + k * WARP_SIZE for k in static_range(0, _ITEMS, width)]


def _lanes_before() -> Any:
    return (u32(1) << lane_id()) - 1


def _present(x: Any, first: Any) -> Any:
    """How many elements a part has."""
    return i32(min(i64(x.shape[0]) - first, i64(_PART)))


def _ones(votes: Any) -> Any:
    """How many lanes voted for, in all of a warp's votes."""
    count = i32(0)
    for vote in votes:
        count += i32(popcount(vote))
    return count


def _before_warp(count: Any) -> Any:
    """The sums of what the warps before this one have, and of what all have."""
    counts = shared(_WARPS, i32)
    if lane_id() == 0:
        counts[warp_id()] = count
    sync_threads()
    before, total = i32(0), i32(0)
    for warp in static_range(_WARPS):
        before = total if warp == warp_id() else before
        total += counts[warp]
    return before, total


def _later(one: Any, other: Any) -> Any:
    """How many runs begin in two parts, and where the last one does."""
    return one[0] + other[0], max(one[1], other[1])


def _begun(own: Any, before: Any, i: Any, first: Any, present: Any) -> Any:
    """Of neighbors, after an element, which ones begin a run."""
    is_there, is_start = i < present, first + i == 0
    found: Any = [is_there & (is_start | (before != own[0]))]
    for one, other in zip(own[1:], own[:-1], strict=True):
        found.append(is_there & (one != other))
    return found


def _neighbors(x: Any, source: Any, i: Any, first: Any, present: Any, width: Any) -> Any:
    """Neighbors and the element before them, where they are there; `source` is x from `first` on."""
    own, before = tuple(x.dtype(0) for _ in static_range(width)), x.dtype(0)
    if i < present:
        own = tuple(elements(source, i, width))
    if (i < present) & (first + i > 0):
        before = x[first + i - 1]
    return own, before


def _asked_of(source: Any, mask: Any, i: Any, present: Any, function: Any) -> Any:
    """An element, and whether it is kept; what is beyond the end is not."""
    value, is_kept = source.dtype(0), False
    if i < present:
        value = source[i]
        is_kept = (mask[i] if mask is not None else function(value)) != 0
    return value, is_kept


@kernel
def append_kernel(rest: Array, out: Array, count: Array) -> None:
    """What was not kept follows what was."""
    for i in each(rest.shape[0]):
        place = count[()] + i
        if place < out.shape[0]:
            out[place] = rest[i]
