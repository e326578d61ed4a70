# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.scan`` and ``cumsum``: prefix sums of each row, in a single pass.

out[i] = x[0] ∘ … ∘ x[i]. A block scans a part of a row and gets the prefix of earlier parts by decoupled look-back
(`lookback`), so that each element is read once and written once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import weft
from weft.kernels.algorithms.operators import add, of_one_type
from weft.kernels.annotations import (
    Arguments,
    Array,
    Bool,
    ElementType,
    Function,
    Int,
    Number,
    Numbers,
)
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
from weft.kernels.host.arrays import ArrayInfo, Scalar, describe, number_of, output, unexpected
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    differentiable,
    function_of,
    like_total,
    name_of_function,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Callable

_ITEM_BYTES: Final = 64  # of a thread's elements, in the accumulator's type
_MOST_THREADS: Final = 256


class ScanOp(NamedTuple):
    """The operator of a scan.

    Attributes:
        function: combines two values; None: the sum. A constant.
        exclusive: whether an element's own value is left out; a constant.
        initial: a number before each row, an argument, or None.
    """

    function: weft.Constexpr[object]
    exclusive: weft.Constexpr[bool]
    initial: Scalar | None = None


@weft.kernel
def zero_state_kernel(words: weft.Tensor) -> None:
    """Zeros the look-back state."""
    for i, j in weft.each(words.shape):
        words[i, j] = 0


@weft.kernel(max_threads=_MOST_THREADS, min_blocks=6)
def scan_kernel(
    x: weft.Tensor,
    out: weft.Tensor,
    words: weft.Tensor | None,
    parts: weft.i32,
    items: weft.Constexpr[int],
    width: weft.Constexpr[int],
    op: ScanOp,
) -> None:
    """A block scans a part of a row.

    Args:
        x: an array.
        out: the results.
        words: the look-back state, a row for each row; None where rows have one part.
        parts: of a row.
        items: elements of a thread.
        width: elements per load: 16 bytes, or one element.
        op: the operator.
    """
    function, exclusive, initial = op
    number, part = weft.block_idx.x, 0
    if words is not None:
        number, part = divmod(weft.block_idx.x, parts)
    combine, wide = add, sum_type(x.dtype)
    if function is not None:
        combine, wide = partial(of_one_type, function), x.dtype
    source = row_of(x, number, width)
    target = row_of(out, number, weft.VECTOR_BYTES // out.dtype.itemsize if width > 1 else 1)
    first = source.shape[0].dtype(part) * (items * weft.block_dim.x)
    base = (initial is not None, wide(0) if initial is None else initial.of(wide))
    at: Any = ()
    before: Any = ()
    if width > 1:
        at = [first + place for place in places(items, weft.block_dim.x, width)]
        through, before, total = _scan_vectors(_load_vectors(source, at, width, wide), combine)
    else:
        own = weft.block.load(source, first, items, order="striped")
        own = weft.block.to_blocked([wide(value) for value in own])
        through, total = weft.block.scan(own, combine, with_total=True)
    if words is not None:
        prefix = weft.shared(1, total.dtype)
        if weft.warp_id() == 0:
            prefix[0] = before_part(total, part, parts, words[number], combine)
        weft.sync_threads()
        base = _combine_optional(combine, base, (part > 0, prefix[0]))
    if width > 1:
        for place, vector, earlier in zip(at, through, before, strict=True):
            if place < len(target):
                made = _with_prefix(
                    _combine_optional(combine, base, earlier), vector, combine, exclusive
                )
                _store(target, place, [out.dtype(value) for value in made])
    else:
        if exclusive:
            through = _exclusive(through, base[1], combine)
        else:
            through = _with_prefix(base, through, combine, False)
        results = weft.block.to_striped([out.dtype(value) for value in through])
        weft.block.store(target, first, results, order="striped")


@weft.device
def _load_vectors(row: weft.Tensor, at: Int, width: Int, wide: ElementType) -> Numbers:
    """Loads `width` elements at each place; any values beyond the end."""
    found: Any = []
    for place in at:
        vector = tuple(row.dtype(0) for _ in weft.static_range(width))
        if place < len(row):
            vector = tuple(elements(row, place, width))
        found.append([wide(value) for value in vector])
    return found


@weft.device
def _scan_vectors(vectors: Numbers, combine: Function) -> Numbers:
    """Scans striped vectors, one of each iteration per thread, without exchanging their elements.

    Returns:
        The inclusive scan of each vector; the exclusive prefix of each, with whether it exists; and the total. All
        iterations together have at most 32 warps.
    """
    through: Any = [_running(vector, combine) for vector in vectors]
    lane, warp, warps = weft.lane_id(), weft.warp_id(), weft.block_dim.x // weft.WARP_SIZE
    of_warps = weft.shared(weft.WARP_SIZE, through[0][-1].dtype)
    within: Any = []
    for k, vector in enumerate(through):
        value = weft.warp.scan(vector[-1], combine)
        within.append(weft.shfl_up(value, 1))
        if lane == weft.WARP_SIZE - 1:
            of_warps[k * warps + warp] = value
    weft.sync_threads()
    # Every warp scans the totals itself, which saves a barrier.
    sums = weft.warp.scan(of_warps[lane], combine)
    before: Any = []
    for k, value in enumerate(within):
        entry = k * warps + warp
        earlier = weft.shfl_idx(sums, weft.where(entry > 0, entry - 1, 0))
        before.append(_combine_optional(combine, (entry > 0, earlier), (lane > 0, value)))
    return through, before, weft.shfl_idx(sums, len(through) * warps - 1)


@weft.device
def _running(items: Numbers, combine: Function) -> Numbers:
    """The inclusive scan of a thread's items."""
    found = [items[0]]
    for item in items[1:]:
        found.append(combine(found[-1], item))
    return found


@weft.device
def _combine_optional(combine: Function, one: Number, other: Number) -> Number:
    """Combines two optional values: pairs of whether it exists, and the value."""
    (has_one, value), (has_other, other_value) = one, other
    if has_one:
        if has_other:
            value = combine(value, other_value)
    else:
        value = other_value
    return has_one | has_other, value


@weft.device
def _with_prefix(earlier: Numbers, through: Numbers, combine: Function, exclusive: Bool) -> Number:
    """Applies a prefix, if it exists, to scan results; for an exclusive scan it does."""
    has, value = earlier
    if exclusive:
        return [value, *(combine(value, one) for one in through[:-1])]
    return [combine(value, one) if has else one for one in through]


@weft.device
def _store(row: weft.Tensor, place: Int, values: Numbers) -> None:
    """Stores adjacent elements, 16 bytes at a time."""
    step = weft.VECTOR_BYTES // row.dtype.itemsize
    if step >= len(values):
        put_elements(row, place, values)
    else:
        for k in weft.static_range(0, len(values), step):
            put_elements(row, place + k, values[k : k + step])


@weft.device
def _exclusive(through: Numbers, base: Int, combine: Function) -> Number:
    """The exclusive results: `base` combined with those of the block's items before each."""
    totals = weft.shared(_MOST_THREADS, through[0].dtype)
    totals[weft.thread_idx.x] = through[-1]
    weft.sync_threads()
    first = base
    if weft.thread_idx.x > 0:
        first = combine(base, totals[weft.thread_idx.x - 1])
    return [first, *(combine(base, value) for value in through[:-1])]


@weft.jit
def _scan(
    x: weft.Tensor,
    out: weft.Tensor,
    parts: weft.i32,
    threads: weft.Constexpr[int],
    items: weft.Constexpr[int],
    width: weft.Constexpr[int],
    is_split: weft.Constexpr[bool],
    op: ScanOp,
) -> None:
    wide = x.dtype if op.function is not None else sum_type(x.dtype)
    rows, words = row_count(x.shape), None
    if is_split:
        words = weft.scratch((rows, slots_of(parts) * words_of(wide)), weft.u64)
        zero_state_kernel(words).launch(over=words.size)
    scan_kernel(x, out, words, parts, items, width, op).launch(grid=rows * parts, block=threads)


def _like_totals(x: Array, *_: object) -> Array:
    return like_total(x, x.new_empty(x.shape))


def _cumsum_backward(gradient: Array, _: object, __: object) -> Array:
    return (cumsum(gradient.flip(-1)).flip(-1),)


def _scan_by_name(
    x: Array, function: Function = None, exclusive: bool = False, initial: Number = None
) -> Array:
    return scan(x, None if function is None else function_of(function), exclusive, initial)


def _like_scanned(x: Array, function: str | None = None, *_: object) -> Array:
    return _like_totals(x) if function is None else x.new_empty(x.shape)


def _operator_arguments(
    x: Array, function: Function = None, exclusive: bool = False, initial: float | None = None
) -> Arguments:
    return x, None if function is None else name_of_function(function), exclusive, initial


def _scanned(x: Array, function: Function, exclusive: bool, initial: Number, out: Array) -> Array:
    source = describe(x, "x")
    if function is not None and not callable(function):
        raise TypeError(unexpected("function", function, "a function of two numbers"))
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
        threads, items = _block_shape(source.shape[-1], wide.itemsize)
        parts = -(-source.shape[-1] // (threads * items))
        is_aligned = parts > 1 and _is_aligned(source) and _is_aligned(describe(out, "out"))
        width = min(source.width, items) if is_aligned else 1
        plan, op = (
            (parts, threads, items, width, parts > 1),
            ScanOp(function, bool(exclusive), initial),
        )
        return Call(_scan, (x, out, *plan, op), out)
    return out


def _is_aligned(array: ArrayInfo) -> bool:
    """Whether its rows take 16-byte accesses."""
    return array.width * array.dtype.itemsize == weft.VECTOR_BYTES


def _block_shape(columns: int, item_bytes: int) -> tuple[int, int]:
    """Threads of a block, and elements of a thread."""
    items = _ITEM_BYTES // max(item_bytes, 4)
    return min(threads_for(columns, items), _MOST_THREADS), items


@differentiable(
    _like_totals, _cumsum_backward, autocast=WIDE_ON_GPUS, rows={"x": 1}, saves=frozenset()
)
@cached_dispatch
def cumsum(x: Array, out: Array = None) -> Array:
    """The cumulative sums of each row: out[…, i] = x[…, 0] + … + x[…, i].

    Floats are add as f32, or f64 for f64, and rounded to their type at the end; integers and bools give 64-bit
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


@differentiable(_like_scanned, None, _operator_arguments, run=_scan_by_name, rows={"x": 1})
@cached_dispatch
def scan(
    x: Array,
    function: Callable[[Any, Any], Any] | None = None,
    exclusive: bool = False,
    initial: float | None = None,
    out: Array = None,
) -> Array:
    """The inclusive or exclusive scan of each row with an associative function.

    The function is compiled into the kernel, once for each function object: name a lambda outside of loops. Elements
    are combined in an order that depends on the shape alone: equal calls give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        function: takes two numbers of x's type, the earlier one first, and returns one; associative, and need not be
            commutative. None: the sum, as in `cumsum`.
        exclusive: whether out[i] leaves x[i] out; out[0] is then `initial`.
        initial: a number before each row; None: nothing, and 0 for an exclusive sum.
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
