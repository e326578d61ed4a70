# SPDX-License-Identifier: Apache-2.0
"""Where a thread is in its block and its warp, and how many there are.

Written in weft's language. In: nothing, or the lanes of a group. Out: i32 numbers.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import where
from weft.language.threads.barrier import FULL_MASK, sync_threads, sync_warp
from weft.language.threads.grid import block_dim
from weft.language.threads.warp import lane_id, warp_id
from weft.types.launch_limits import WARP_SIZE

ALL: Final = FULL_MASK
BLOCK: Final = "block"
WARP: Final = "warp"
"""Whose threads make a call together."""
_ANY: Final = 2 * WARP_SIZE


def block_threads() -> Any:
    """Threads of a block."""
    return block_dim.x * block_dim.y * block_dim.z


def thread_rank() -> Any:
    """This thread's number in its block: x first, then y, then z."""
    return first_of_warp() | lane_id()


def first_of_warp() -> Any:
    """The number in the block of this warp's first thread."""
    return warp_id() * WARP_SIZE


def last_lane() -> Any:
    """The last lane that this thread's warp has."""
    threads = block_threads()
    last = WARP_SIZE - 1
    return where(threads & last == 0, last, min(last, threads - 1 - first_of_warp()))


def rank_in(scope: Any) -> Any:
    """This thread's number in its block or warp."""
    return lane_id() if scope == WARP else thread_rank()


def members_of(scope: Any) -> Any:
    """Threads of this thread's block or warp."""
    return last_lane() + 1 if scope == WARP else block_threads()


def first_of(scope: Any) -> Any:
    """The number in the block of the first thread of this thread's block or warp."""
    return first_of_warp() if scope == WARP else 0


def meet(scope: Any) -> None:
    """A barrier of the block's or the warp's threads."""
    if scope == WARP:
        sync_warp()
    else:
        sync_threads()


def group_lane(width: Any = WARP_SIZE) -> Any:
    """This thread's number in its group of lanes."""
    return lane_id() if width == WARP_SIZE else lane_id() & (width - 1)


def group_lanes(width: Any = WARP_SIZE) -> Any:
    """How many lanes of this thread's group the block has.

    Where no group is partial it is more than any lane, so that comparisons with it vanish for a constant block.
    """
    threads = block_threads()
    return where(threads & (width - 1) == 0, _ANY, min(width, threads - (thread_rank() & -width)))
