# SPDX-License-Identifier: Apache-2.0
"""Decoupled look-back: the exclusive prefix of each part of a row, in a single pass over memory.

Traced in kernels. In: the total of each part of a row, from its block. Out: the exclusive
prefix. Blocks wait for earlier ones, which always run or have run (docs/memory-model.md).

Each block publishes its part's value; the last one of 32 parts those of its group, the last one of 32 groups those of
all before the next 32. So a block waits for at most 31 parts, 31 groups and one more, each a lane's, and combines them
in an order that does not depend on time: equal calls give equal bits, unlike with a look-back that stops at the first
one that is complete (Merrill and Garland, 2016).
"""

from __future__ import annotations

from typing import Any, Final

import weft
from weft.kernels.annotations import ElementType, Function, Int, Number, Numbers
from weft.kernels.device.values import map_numbers

_UNSIGNED: Final = {8: weft.u8, 16: weft.u16, 32: weft.u32, 64: weft.u64}
_SET: Final = 1 << 32


def words_of(*dtypes: Any) -> int:
    """Words of a published value, a number or a tuple of them: each has 32 bits, and says that they are there."""
    return sum(2 if dtype.bits == 64 else 1 for dtype in dtypes)


def slots_of(parts: Int) -> Int:
    """Values that a row of that many parts publishes; traced in host functions."""
    groups = weft.ceil_div(weft.i64(parts), weft.WARP_SIZE)
    return parts + groups + weft.ceil_div(groups, weft.WARP_SIZE) + 1


@weft.device
def before_part(
    total: Number, part: Int, parts: Int, words: weft.Tensor, function: Function
) -> Any:
    """Computes the exclusive prefix of a part, in every lane of the calling warp; any value for the first part.

    Args:
        total: of this part, the same in every lane; a number or a tuple of them.
        part: its number in its row.
        parts: of the row.
        words: memory of u64 for the row's `slots_of` values, `words_of` for each, which was zero.
        function: combines two values, the earlier one first.
    """
    lane, group = weft.lane_id(), part // weft.WARP_SIZE
    groups, own, other = (
        weft.ceil_div(parts, weft.WARP_SIZE),
        part % weft.WARP_SIZE,
        group % weft.WARP_SIZE,
    )
    above = group // weft.WARP_SIZE
    if lane == 0:
        publish(words, part, total)
    # All loads are in flight before the first one is looked at; lanes beyond the last ask for a value that is not used.
    slots = (
        part - own + min(lane, own),
        parts + group - other + min(lane, other),
        parts + groups + above,
    )
    of_parts, of_groups, of_all = [asked(words, slot, total) for slot in slots]
    found = total
    if own > 0:
        found = _first(words, slots[0], of_parts, own, total, function)
    if own == weft.WARP_SIZE - 1:
        if lane == 0:
            publish(words, parts + group, function(found, total))
    if other > 0:
        earlier = _first(words, slots[1], of_groups, other, total, function)
        found = function(earlier, found) if own > 0 else earlier
    if above > 0:
        earlier = arrived(words, slots[2], of_all, total)
        found = function(earlier, found) if own + other > 0 else earlier
    if (own == weft.WARP_SIZE - 1) & (other == weft.WARP_SIZE - 1):
        if lane == 0:
            publish(words, parts + groups + above + 1, function(found, total))
    return found


@weft.device
def _first(
    words: weft.Tensor, slot: Int, asked_for: Int, count: Int, like: Number, function: Function
) -> Any:
    """So many published values combined, a lane each; in every lane."""
    value = like
    if weft.lane_id() < count:
        value = arrived(words, slot, asked_for, like)
    for step in (1, 2, 4, 8, 16):
        other = map_numbers(lambda one, step=step: weft.shfl_down(one, step), value)
        if weft.lane_id() + step < count:
            value = function(value, other)
    return weft.warp.shuffle(value, 0)


@weft.device
def publish(words: weft.Tensor, slot: Int, value: Number) -> None:
    """Makes a value known to other blocks, in words that are their own message: no fence is needed."""
    numbers = _numbers(value)
    at = slot * words_of(*(number.dtype for number in numbers))
    for number in numbers:
        dtype = number.dtype
        bits = (
            weft.u64(number)
            if dtype is weft.bool_
            else weft.u64(weft.bitcast(number, _UNSIGNED[dtype.bits]))
        )
        for k in weft.static_range(words_of(dtype)):
            part = (bits >> (32 * k)) & 0xFFFFFFFF
            weft.atomic_store(words, at, part | weft.u64(_SET))
            at += 1


@weft.device
def asked(words: weft.Tensor, slot: Int, like: Number) -> Int:
    """A published value's words, which may not be there yet."""
    count = words_of(*(number.dtype for number in _numbers(like)))
    return [weft.atomic_load(words, slot * count + k) for k in weft.static_range(count)]


@weft.device
def arrived(words: weft.Tensor, slot: Int, asked_for: Int, like: Number) -> Int:
    """The value whose words were asked for, once it is published."""
    numbers, at = _numbers(like), slot * len(asked_for)
    parts: Any = []
    for k, word in enumerate(asked_for):
        while word < weft.u64(_SET):
            word = weft.atomic_load(words, at + k)
        parts.append(word & 0xFFFFFFFF)
    values: Any = ()
    for number in numbers:
        values = (*values, _from_parts(parts[: words_of(number.dtype)], number.dtype))
        parts = parts[words_of(number.dtype) :]
    return values if isinstance(like, tuple) else values[0]


@weft.device
def _numbers(value: Number) -> Numbers:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


@weft.device
def _from_parts(parts: Int, dtype: ElementType) -> Number:
    """A number from words with 32 bits of it each."""
    bits = parts[0] if len(parts) == 1 else parts[0] | (parts[1] << 32)
    if dtype is weft.bool_:
        return bits != 0
    return weft.bitcast(_UNSIGNED[dtype.bits](bits), dtype)
