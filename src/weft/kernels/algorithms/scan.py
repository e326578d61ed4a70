# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.scan`` and ``cumsum``: running results of each row, in a single pass.

In: an array of any rank and layout. Out: one of its shape. A block scans a part of a row, and learns from `lookback`
what is before it, so that each element is read once and written once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.dialects.simt.views import VECTOR_BYTES
from weft.errors import brief
from weft.kernels.algorithms.operators import added
from weft.kernels.device.lookback import before_part, slots_of, words_of
from weft.kernels.device.row import (
    elements,
    places,
    put_elements,
    result_name,
    row_count,
    row_of,
    sum_type,
    threads_for,
)
from weft.kernels.host.arrays import (
    Array,
    Constant,
    Given,
    Int32,
    Scalar,
    given,
    number_of,
    output,
)
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    Function,
    Number,
    differentiable,
    function_of,
    like_total,
    name_of_function,
)
from weft.kernels.host.calls import Call, remembered
from weft.language.control import static_range, where
from weft.language.memory.scratch import scratch
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_dim, block_idx, thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives.block.exchanges import to_blocked, to_striped
from weft.primitives.block.scans import scan as block_scan
from weft.primitives.block.transfers import load, store
from weft.primitives.items import running
from weft.primitives.threads import ALL
from weft.primitives.trees import combined, scanned
from weft.primitives.values import board, moved, put, take, thread_board
from weft.types.dtype import u64
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

_ITEM_BYTES: Final = 64  # that a thread has of a row, as it adds them
_MOST_THREADS: Final = 256


def _like_totals(x: Any, *_: Any) -> Any:
    return like_total(x, x.new_empty(x.shape))


def _cumsum_backward(gradient: Any, _: Any, __: Any) -> Any:
    return (cumsum(gradient.flip(-1)).flip(-1),)


@differentiable(_like_totals, _cumsum_backward, autocast=WIDE_ON_GPUS, rows={"x": 1})
@remembered
def cumsum(x: Any, out: Any = None) -> Any:
    """The running totals of each row: element i is the sum of the elements up to i of the last dimension.

    Floats are added as f32, or f64 for f64, and rounded to their type at the end; integers and bools give 64-bit
    integers. Equal calls give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        out: an array of the result's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cumsum(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
        [[1, 3, 6], [4, 9, 15]]
    """
    return _scanned(x, None, False, None, out)


def _scan_by_name(
    x: Any, function: Function = None, exclusive: bool = False, initial: Number = None
) -> Any:
    return scan(x, None if function is None else function_of(function), exclusive, initial)


def _like_scanned(x: Any, function: str | None = None, *_: Any) -> Any:
    return _like_totals(x) if function is None else x.new_empty(x.shape)


def _named(
    x: Any, function: Any = None, exclusive: bool = False, initial: float | None = None
) -> tuple[Any, ...]:
    return x, None if function is None else name_of_function(function), exclusive, initial


@differentiable(_like_scanned, None, _named, run=_scan_by_name, rows={"x": 1})
@remembered
def scan(
    x: Any,
    function: Callable[[Any, Any], Any] | None = None,
    exclusive: bool = False,
    initial: float | None = None,
    out: Any = None,
) -> Any:
    """The running results of each row: what the elements up to each one of the last dimension combine to.

    The function is compiled into the kernel, once for each function object: name a lambda outside of loops. Elements
    are combined in an order that depends on the shape alone: equal calls give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        function: takes two numbers of x's type, the earlier one first, and returns one; associative, and need not be
            commutative. None: the sum, as in `cumsum`.
        exclusive: whether the element itself is left out; the first result is then `initial`.
        initial: a number that comes before each row; None: nothing, and for an exclusive sum 0.
        out: an array of x's shape and the result's type, which is x's but for sums; it may be `x` itself. None: a new
            one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of numbers, a function, a number.
        CompileError: for a function that gives another type.
        ValueError: for `out` of another shape or on another device; for an exclusive scan with a function and without
            an initial number.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.scan(np.array([3, 1, 4, 1, 5]), max).tolist()
        [3, 3, 4, 4, 5]
        >>> weft.kernels.scan(np.array([3, 1, 4]), exclusive=True).tolist()
        [0, 3, 4]
    """
    return _scanned(x, function, exclusive, initial, out)


def _scanned(x: Any, function: Any, exclusive: Any, initial: Any, out: Any) -> Any:
    source = given(x, "x")
    if function is not None and not callable(function):
        raise TypeError(f"function is {brief(function)}, expected a function of two numbers")
    if exclusive and initial is None:
        if function is not None:
            raise ValueError("initial is None: an exclusive scan with a function needs a number")
        initial = 0
    wide = sum_type(source.dtype) if function is None else source.dtype
    if initial is not None:
        initial = number_of(initial, "initial", wide)
    dtype, name = source.dtype, source.type_name
    if function is None:
        dtype, name = result_name(dtype, name)
    out = output(source, source.shape, dtype, name, out, ("x",), x=x)
    if source.shape[-1] and source.rows:
        threads, items = _geometry(source.shape[-1], wide.itemsize)
        parts = -(-source.shape[-1] // (threads * items))
        is_aligned = parts > 1 and _is_aligned(source) and _is_aligned(given(out, "out"))
        width = min(source.width, items) if is_aligned else 1
        plan, way = (
            (parts, threads, items, width, parts > 1),
            Way(function, bool(exclusive), initial),
        )
        return Call(_scan, (x, out, *plan, way), out)
    return out


def _is_aligned(array: Given) -> bool:
    """Whether its rows are read or written 16 bytes at a time."""
    return array.width * array.dtype.itemsize == VECTOR_BYTES


def _geometry(columns: int, item_bytes: int) -> tuple[int, int]:
    """Threads of a block, and how many elements each has."""
    items = _ITEM_BYTES // max(item_bytes, 4)
    return min(threads_for(columns, items), _MOST_THREADS), items


class Way(NamedTuple):
    """How rows are scanned.

    Attributes:
        function: combines two values; None: the sum. A constant.
        exclusive: whether an element's own value is left out; a constant.
        initial: a number before each row, an argument, or None.
    """

    function: Constant
    exclusive: Constant
    initial: Scalar | None = None


@jit
def _scan(
    x: Array,
    out: Array,
    parts: Int32,
    threads: Constant,
    items: Constant,
    width: Constant,
    is_cut: Constant,
    way: Way,
) -> None:
    wide = x.dtype if way.function is not None else sum_type(x.dtype)
    rows, words = row_count(x.shape), None
    if is_cut:
        words = scratch((rows, slots_of(parts) * words_of(wide)), u64)
        clear_kernel(words).launch(over=words.size)
    scan_kernel(x, out, words, parts, items, width, way).launch(grid=rows * parts, block=threads)


@kernel
def clear_kernel(words: Array) -> None:
    """Zeros."""
    for i, j in each(words.shape):
        words[i, j] = 0


@kernel(max_threads=_MOST_THREADS, min_blocks=6)
def scan_kernel(
    x: Array,
    out: Array,
    words: Array | None,
    parts: Int32,
    items: Constant,
    width: Constant,
    way: Way,
) -> None:
    """A block: a part of a row.

    Args:
        x: an array.
        out: the results.
        words: what parts tell each other, a row for each row; None: rows have one part.
        parts: of a row.
        items: elements of a thread.
        width: neighbors of an access, as many as 16 bytes have; or 1.
        way: how they are scanned.
    """
    function, exclusive, initial = way
    number, part = block_idx.x, 0
    if words is not None:
        number, part = divmod(block_idx.x, parts)
    combine, wide = (added, sum_type(x.dtype)) if function is None else (function, x.dtype)
    source = row_of(x, number, width)
    target = row_of(out, number, VECTOR_BYTES // out.dtype.itemsize if width > 1 else 1)
    first = source.shape[0].dtype(part) * (items * block_dim.x)
    base = (initial is not None, wide(0) if initial is None else initial.of(wide))
    at: Any = ()
    before: Any = ()
    if width > 1:
        at = [first + place for place in places(items, block_dim.x, width)]
        through, before, total = _rounds(_vectors(source, at, width, wide), combine)
    else:
        own = load(source, first, items, order="striped")
        own = to_blocked([wide(value) for value in own])
        through, total = block_scan(own, combine, with_total=True)
    if words is not None:
        on = board(total, 1)
        if warp_id() == 0:
            put(on, 0, before_part(total, part, parts, words[number], combine))
        sync_threads()
        base = _joined(combine, base, (part > 0, take(on, 0)))
    if width > 1:
        for place, vector, earlier in zip(at, through, before, strict=True):
            if place < len(target):
                made = _results(_joined(combine, base, earlier), vector, combine, exclusive)
                _put(target, place, [out.dtype(value) for value in made])
    else:
        if exclusive:
            through = _shifted(through, base[1], combine)
        else:
            through = _results(base, through, combine, False)
        results = to_striped([out.dtype(value) for value in through])
        store(target, first, results, order="striped")


def _vectors(row: Any, at: Any, width: Any, wide: Any) -> Any:
    """A thread's neighbors from each place on; any values beyond the end."""
    found: Any = []
    for place in at:
        vector = tuple(row.dtype(0) for _ in static_range(width))
        if place < len(row):
            vector = tuple(elements(row, place, width))
        found.append([wide(value) for value in vector])
    return found


def _rounds(vectors: Any, combine: Any) -> Any:
    """Scans vectors of which each round has one per thread, without moving them to other threads.

    Returns:
        Each vector's own running results; for each what the block's vectors before it combine to, with whether there
        are any; and what all combine to. All rounds together have at most as many warps as a warp has lanes.
    """
    through: Any = [running(vector, combine, "scan") for vector in vectors]
    lane, warp, warps = lane_id(), warp_id(), block_dim.x // WARP_SIZE
    of_warps: Any = board(through[0][-1], WARP_SIZE)
    within: Any = []
    for k, vector in enumerate(through):
        value = scanned(vector[-1], combine, WARP_SIZE, "scan")
        within.append(moved("up", value, 1, ALL))
        if lane == WARP_SIZE - 1:
            put(of_warps, k * warps + warp, value)
    sync_threads()
    # Every warp scans them for itself, which saves a barrier.
    sums = scanned(take(of_warps, lane), combine, WARP_SIZE, "scan")
    before: Any = []
    for k, value in enumerate(within):
        entry = k * warps + warp
        earlier = moved("idx", sums, where(entry > 0, entry - 1, 0), ALL)
        before.append(_joined(combine, (entry > 0, earlier), (lane > 0, value)))
    return through, before, moved("idx", sums, len(through) * warps - 1, ALL)


def _joined(combine: Any, one: Any, other: Any) -> Any:
    """Two values, each with whether it is there, as one such pair."""
    (has_one, value), (has_other, other_value) = one, other
    if has_one:
        if has_other:
            value = combined(combine, value, other_value, "scan")
    else:
        value = other_value
    return has_one | has_other, value


def _results(earlier: Any, through: Any, combine: Any, exclusive: Any) -> Any:
    """Running results after what is before them, if that is there; of an exclusive scan it always is."""
    has, value = earlier
    if exclusive:
        return [value, *(combined(combine, value, one, "scan") for one in through[:-1])]
    return [combined(combine, value, one, "scan") if has else one for one in through]


def _put(row: Any, place: Any, values: Any) -> None:
    """Writes neighbors, 16 bytes at a time."""
    step = VECTOR_BYTES // row.dtype.itemsize
    if step >= len(values):
        put_elements(row, place, values)
    else:
        for k in static_range(0, len(values), step):
            put_elements(row, place + k, values[k : k + step])


def _shifted(through: Any, base: Any, combine: Any) -> Any:
    """What comes before each item: `base`, and the results of the block's items before it."""
    on = thread_board(through[0], 1)
    put(on, thread_idx.x, through[-1])
    sync_threads()
    first = base
    if thread_idx.x > 0:
        first = combined(combine, base, take(on, thread_idx.x - 1), "scan")
    return [first, *(combined(combine, base, value, "scan") for value in through[:-1])]
