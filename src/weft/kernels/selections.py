# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.select``, ``partition`` and ``run_length``: elements of a vector moved together, in a single pass.

In: a vector, and what decides: a mask, a function, or the element before. Out: a vector of the same length, and how
many of its elements count; the number stays on the device. Blocks learn from `lookback` where their elements begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.arrays import (
    Array,
    Constant,
    Given,
    Int32,
    checked_output,
    given,
    output,
    refuse_overlap,
)
from weft.kernels.combining import added
from weft.kernels.lookback import before_part, slots_of, words_of
from weft.kernels.scans import clear_kernel
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_dim, block_idx, thread_idx
from weft.language.threads.warp import warp_id
from weft.primitives.block.exchanges import striped, to_blocked
from weft.primitives.block.scans import exclusive_scan
from weft.types.dtype import i32, i64, u64

if TYPE_CHECKING:
    from collections.abc import Callable

_THREADS: Final = 256
_ITEMS: Final = 8
RUNS: Final = "runs"


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
    values = output(source, source.shape, source.dtype, source.type_name)
    lengths = output(source, source.shape, i64, "int64")
    count = output(source, (), i64, "int64")
    parts = _parts(source)
    _encode(x, values, lengths, count, parts)
    return values, lengths, count


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
    if out is None:
        out = output(source, source.shape, source.dtype, source.type_name)
    else:
        target = checked_output(source, source.shape, source.dtype, source.type_name, out)
        refuse_overlap(source, target, may_be_same=False)
    count = output(source, (), i64, "int64")
    _select(source.array, mask, out, count, _parts(source), function, has_rest)
    return out, count


def _parts(source: Given) -> int:
    return -(-source.shape[0] // (_THREADS * _ITEMS)) or 1


@jit
def _select(
    x: Array,
    mask: Array | None,
    out: Array,
    count: Array,
    parts: Int32,
    function: Constant,
    has_rest: Constant,
) -> None:
    words = scratch((1, slots_of(parts) * words_of(i64)), u64)
    clear_kernel(words).launch(over=words.shape)
    rest = scratch(x.shape[0], x.dtype) if has_rest else None
    select_kernel(x, mask, out, rest, None, count, words, parts, function).launch(
        grid=parts, block=_THREADS
    )
    if rest is not None:
        append_kernel(rest, out, count).launch(over=x.shape[0])


@jit
def _encode(x: Array, values: Array, lengths: Array, count: Array, parts: Int32) -> None:
    words = scratch((1, slots_of(parts) * words_of(i64)), u64)
    starts = scratch(x.shape[0], i64)
    clear_kernel(words).launch(over=words.shape)
    select_kernel(x, None, values, None, starts, count, words, parts, RUNS).launch(
        grid=parts, block=_THREADS
    )
    lengths_kernel(starts, lengths, count).launch(over=x.shape[0])


@kernel
def select_kernel(
    x: Array,
    mask: Array | None,
    out: Array,
    rest: Array | None,
    starts: Array | None,
    count: Array,
    words: Array,
    parts: Int32,
    function: Constant,
) -> None:
    """A block: a part of the vector.

    Args:
        x: a vector.
        mask: what is kept, or None.
        out: what is kept.
        rest: None, or what is not kept.
        starts: None, or where what is kept comes from.
        count: how many are kept.
        words: what parts tell each other.
        parts: of the vector.
        function: what decides without a mask: of a user, or that of the runs of equal elements.
    """
    part, n = block_idx.x, x.shape[0]
    first = n.dtype(part) * (_ITEMS * block_dim.x)
    own = to_blocked([_asked_of(x, mask, first + place, n, function) for place in striped(_ITEMS)])
    places, total = exclusive_scan([i32(is_kept) for _, is_kept in own], with_total=True)
    before = shared(1, i64)
    if warp_id() == 0:
        earlier = before_part(i64(total), part, parts, words[0], added)
        if thread_idx.x == 0:
            before[0] = earlier if part > 0 else i64(0)
            if part == parts - 1:
                count[()] = before[0] + total
    sync_threads()
    base, start = before[0], first + thread_idx.x * _ITEMS
    for k, (value, is_kept) in enumerate(own):
        place, i = base + places[k], start + k
        if is_kept:
            out[place] = value
            if starts is not None:
                starts[place] = i
        elif rest is not None:
            if i < n:
                rest[i - place] = value


def _asked_of(x: Any, mask: Any, i: Any, n: Any, function: Any) -> Any:
    """An element, and whether it is kept; what is beyond the end is not."""
    value, is_kept = x.dtype(0), False
    if i < n:
        value = x[i]
        if mask is not None:
            is_kept = mask[i] != 0
        elif function == RUNS:
            is_kept = True
            if i > 0:
                is_kept = x[i - 1] != value
        else:
            is_kept = function(value) != 0
    return value, is_kept


@kernel
def append_kernel(rest: Array, out: Array, count: Array) -> None:
    """What was not kept follows what was."""
    for i in each(rest.shape[0]):
        place = count[()] + i
        if place < out.shape[0]:
            out[place] = rest[i]


@kernel
def lengths_kernel(starts: Array, lengths: Array, count: Array) -> None:
    """From where runs begin, how long they are."""
    for i in each(lengths.shape[0]):
        runs = count[()]
        if i < runs:
            end = i64(lengths.shape[0])
            if i + 1 < runs:
                end = starts[i + 1]
            lengths[i] = end - starts[i]
