# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.scan`` and ``cumsum``: running results of each row, in a single pass.

In: an array of any rank and layout. Out: one of its shape. A block scans a part of a row, and learns from `lookback`
what is before it, so that each element is read once and written once.
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
from weft.kernels.rows import result_name, row_count, row_of, sum_type, threads_for
from weft.language.memory.scratch import scratch
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_dim, block_idx, thread_idx
from weft.language.threads.warp import warp_id
from weft.primitives.block.exchanges import to_blocked, to_striped
from weft.primitives.block.scans import scan as block_scan
from weft.primitives.block.transfers import load, store
from weft.primitives.values import board, put, take, thread_board
from weft.primitives.warp.trees import combined
from weft.types.dtype import u64

if TYPE_CHECKING:
    from collections.abc import Callable

_ITEM_BYTES: Final = 64  # that a thread has of a row
_MOST_THREADS: Final = 256


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
    return scan(x, out=out)


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
    source = given(x, "x")
    if function is not None and not callable(function):
        raise TypeError(f"function is {brief(function)}, expected a function of two numbers")
    if initial is not None and not isinstance(initial, int | float):
        raise TypeError(f"initial is {brief(initial)}, expected a number or None")
    if exclusive and initial is None:
        if function is not None:
            raise ValueError("initial is None: an exclusive scan with a function needs a number")
        initial = 0
    dtype, name = source.dtype, source.type_name
    if function is None:
        dtype, name = result_name(dtype, name)
    if out is None:
        out = output(source, source.shape, dtype, name)
    else:
        target = checked_output(source, source.shape, dtype, name, out)
        refuse_overlap(source, target, may_be_same=True)
    if source.shape[-1] and source.rows:
        threads, items = _geometry(source)
        parts = -(-source.shape[-1] // (threads * items))
        _scan(x, out, parts, threads, items, parts > 1, function, bool(exclusive), initial)
    return out


def _geometry(source: Given) -> tuple[int, int]:
    """Threads of a block, and how many elements each has."""
    items = _ITEM_BYTES // max(source.dtype.itemsize, 4)
    threads = threads_for(source.shape[-1], items)
    return (threads if threads < _MOST_THREADS else _MOST_THREADS), items


@jit
def _scan(
    x: Array,
    out: Array,
    parts: Int32,
    threads: Constant,
    items: Constant,
    is_cut: Constant,
    function: Constant,
    exclusive: Constant,
    initial: Constant,
) -> None:
    wide = x.dtype if function is not None else sum_type(x.dtype)
    rows, words = row_count(x.shape), None
    if is_cut:
        words = scratch((rows, slots_of(parts) * words_of(wide)), u64)
        clear_kernel(words).launch(over=words.size)
    scan_kernel(x, out, words, parts, items, function, exclusive, initial).launch(
        grid=rows * parts, block=threads
    )


@kernel
def clear_kernel(words: Array) -> None:
    """Zeros."""
    for i, j in each(words.shape):
        words[i, j] = 0


@kernel
def scan_kernel(
    x: Array,
    out: Array,
    words: Array | None,
    parts: Int32,
    items: Constant,
    function: Constant,
    exclusive: Constant,
    initial: Constant,
) -> None:
    """A block: a part of a row.

    Args:
        x: an array.
        out: the results.
        words: what parts tell each other, a row for each row; None: rows have one part.
        parts: of a row.
        items: elements of a thread.
        function: combines two values; None: the sum.
        exclusive: whether an element's own value is left out.
        initial: a number before each row, or None.
    """
    number, part = block_idx.x, 0
    if words is not None:
        number, part = divmod(block_idx.x, parts)
    combine, wide = (added, sum_type(x.dtype)) if function is None else (function, x.dtype)
    source = row_of(x, number)
    first = source.shape[0].dtype(part) * (items * block_dim.x)
    own = to_blocked([wide(value) for value in load(source, first, items, order="striped")])
    through, total = block_scan(own, combine, with_total=True)
    base = wide(0) if initial is None else wide(initial)
    if words is not None:
        on = board(total, 1)
        if part > 0:
            if warp_id() == 0:
                before = before_part(total, part, parts, words[number], combine)
                if thread_idx.x == 0:
                    put(on, 0, before)
            sync_threads()
            before = take(on, 0)
            base = before if initial is None else combined(combine, base, before, "scan")
        elif warp_id() == 0:
            before_part(total, part, parts, words[number], combine)
    if exclusive:
        through = _shifted(through, base, combine)
    elif initial is not None:
        through = [combined(combine, base, value, "scan") for value in through]
    elif part > 0:
        through = [combined(combine, base, value, "scan") for value in through]
    results = to_striped([out.dtype(value) for value in through])
    store(row_of(out, number), first, results, order="striped")


def _shifted(through: Any, base: Any, combine: Any) -> Any:
    """What comes before each item: `base`, and the results of the block's items before it."""
    on = thread_board(through[0], 1)
    put(on, thread_idx.x, through[-1])
    sync_threads()
    first = base
    if thread_idx.x > 0:
        first = combined(combine, base, take(on, thread_idx.x - 1), "scan")
    return [first, *(combined(combine, base, value, "scan") for value in through[:-1])]
