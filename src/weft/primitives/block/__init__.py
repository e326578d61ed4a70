# SPDX-License-Identifier: Apache-2.0
"""``weft.block``: what the threads of a block do together, as functions that kernels inline.

All threads of the block make the call together, whatever the block's size and shape; none may have returned. Each
call has shared memory of its own and may stand in a loop.
"""

from __future__ import annotations

from weft.primitives import TYPE_CHECKING, resolver

if TYPE_CHECKING:
    from weft.primitives.block.exchanges import exchange as exchange
    from weft.primitives.block.exchanges import shuffle as shuffle
    from weft.primitives.block.exchanges import to_blocked as to_blocked
    from weft.primitives.block.exchanges import to_striped as to_striped
    from weft.primitives.block.histograms import histogram as histogram
    from weft.primitives.block.reductions import argmax as argmax
    from weft.primitives.block.reductions import argmin as argmin
    from weft.primitives.block.reductions import max as max
    from weft.primitives.block.reductions import min as min
    from weft.primitives.block.reductions import reduce as reduce
    from weft.primitives.block.reductions import sum as sum
    from weft.primitives.block.scans import exclusive_scan as exclusive_scan
    from weft.primitives.block.scans import scan as scan
    from weft.primitives.block.sorting import merge_sort as merge_sort
    from weft.primitives.block.sorting import radix_sort as radix_sort
    from weft.primitives.block.transfers import load as load
    from weft.primitives.block.transfers import store as store
    from weft.primitives.block.votes import all as all
    from weft.primitives.block.votes import any as any
    from weft.primitives.block.votes import count as count

_MODULES = {
    "all": "votes",
    "any": "votes",
    "argmax": "reductions",
    "argmin": "reductions",
    "count": "votes",
    "exchange": "exchanges",
    "exclusive_scan": "scans",
    "histogram": "histograms",
    "load": "transfers",
    "max": "reductions",
    "merge_sort": "sorting",
    "min": "reductions",
    "radix_sort": "sorting",
    "reduce": "reductions",
    "scan": "scans",
    "shuffle": "exchanges",
    "store": "transfers",
    "sum": "reductions",
    "to_blocked": "exchanges",
    "to_striped": "exchanges",
}
__all__ = (
    "all",
    "any",
    "argmax",
    "argmin",
    "count",
    "exchange",
    "exclusive_scan",
    "histogram",
    "load",
    "max",
    "merge_sort",
    "min",
    "radix_sort",
    "reduce",
    "scan",
    "shuffle",
    "store",
    "sum",
    "to_blocked",
    "to_striped",
)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = resolver(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)
