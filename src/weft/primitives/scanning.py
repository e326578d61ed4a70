# SPDX-License-Identifier: Apache-2.0
"""Running results over a block's threads, for scans and sorts.

Written in weft's language. In: a value per thread. Out: what the values up to each one combine to. Each warp scans its
values, the first warp scans those of the warps, and each adds what is before it: two barriers.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import where
from weft.language.threads.barrier import sync_threads
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives import trees
from weft.primitives.threads import ALL, block_threads, last_lane
from weft.primitives.values import board, chosen, moved, put, take
from weft.types.launch_limits import WARP_SIZE


def over_block(value: Any, function: Any, name: str, is_shifted: Any, with_total: Any) -> Any:
    """The scan up to each thread; where asked for, else any value: that of the thread before; and the total."""
    threads, lane = block_threads(), lane_id()
    value = trees.scanned(value, function, WARP_SIZE, name)
    total = moved("idx", value, last_lane(), ALL) if with_total else value
    before = moved("up", value, 1, ALL) if is_shifted else value
    if threads > WARP_SIZE:
        values, sums = board(value, WARP_SIZE), board(value, WARP_SIZE)
        warp, last_warp = warp_id(), (threads - 1) >> 5
        if lane == last_lane():
            put(values, warp, value)
        sync_threads()
        if warp == 0:
            of_warps = take(values, where(lane <= last_warp, lane, 0))
            put(sums, lane, trees.scanned(of_warps, function, WARP_SIZE, name))
        sync_threads()
        if warp > 0:
            of_earlier = take(sums, warp - 1)
            value = trees.combined(function, of_earlier, value, name)
            if is_shifted:
                shifted = trees.combined(function, of_earlier, before, name)
                before = chosen(lane == 0, of_earlier, shifted)
        if with_total:
            total = take(sums, last_warp)
    return value, before, total
