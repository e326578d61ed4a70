# SPDX-License-Identifier: Apache-2.0
"""Sorting within a block or a warp by a user's comparison.

Written in weft's language. In: items of any structure, and which of two comes first. Out: them in order, thread by
thread. In each iteration runs of a length are merged in pairs: an item searches its place in the other run of its pair.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import where
from weft.primitives import items as lists
from weft.primitives.exchanging import blocked
from weft.primitives.threads import first_of, meet, members_of
from weft.primitives.values import chosen, is_repeated, put, take, thread_board


def merge_sorted(items: Any, less: Any, count: Any, scope: Any, name: str) -> Any:
    """The items in order."""
    given = lists.counted(items, name)
    own = given if lists.is_list(given) else [given]
    places = blocked(len(own), scope)
    size = members_of(scope) * len(own) if count is None else count
    on, start = thread_board(own[0], len(own)), first_of(scope) * len(own)
    for item, place in zip(own, places, strict=True):
        put(on, start + place, item)
    meet(scope)
    run = 1
    while run < size:
        own = [take(on, start + place) for place in places]
        targets = [
            _target(on, start, item, place, run, size, less)
            for item, place in zip(own, places, strict=True)
        ]
        meet(scope)
        for item, target in zip(own, targets, strict=True):
            put(on, start + target, item)
        meet(scope)
        run *= 2
    own = [take(on, start + place) for place in places]
    if is_repeated():
        meet(scope)
    return own if lists.is_list(given) else own[0]


def _target(on: Any, start: Any, item: Any, place: Any, run: Any, size: Any, less: Any) -> Any:
    """Where an item belongs once its run is merged with the other one of its pair."""
    pair = place & -(2 * run)
    is_left = place < pair + run
    first = min(where(is_left, pair + run, pair), size)
    low, high = first, min(first + run, size)
    if place >= size:
        high = low
    while low < high:
        middle = (low + high) >> 1
        other = take(on, start + middle)
        is_less = less(chosen(is_left, other, item), chosen(is_left, item, other)) != 0
        # Of equal items those of the left run come first.
        if is_less == is_left:
            low = middle + 1
        else:
            high = middle
    target = place + (low - first) - where(is_left, 0, run)
    return where(place < size, target, place)
