# SPDX-License-Identifier: Apache-2.0
"""``weft.warp``: what the lanes of a warp do together, as functions that kernels inline.

Each lane calls with its value. Without a mask all lanes that the warp has take part; they make the call together.
"""

from __future__ import annotations

from weft.primitives import TYPE_CHECKING, resolver

if TYPE_CHECKING:
    from weft.primitives.warp.exchanges import exchange as exchange
    from weft.primitives.warp.exchanges import to_blocked as to_blocked
    from weft.primitives.warp.exchanges import to_striped as to_striped
    from weft.primitives.warp.reductions import argmax as argmax
    from weft.primitives.warp.reductions import argmin as argmin
    from weft.primitives.warp.reductions import max as max
    from weft.primitives.warp.reductions import min as min
    from weft.primitives.warp.reductions import reduce as reduce
    from weft.primitives.warp.reductions import sum as sum
    from weft.primitives.warp.scans import exclusive_scan as exclusive_scan
    from weft.primitives.warp.scans import scan as scan
    from weft.primitives.warp.sorting import merge_sort as merge_sort
    from weft.primitives.warp.sorting import radix_sort as radix_sort
    from weft.primitives.warp.transfers import load as load
    from weft.primitives.warp.transfers import store as store
    from weft.primitives.warp.votes import all as all
    from weft.primitives.warp.votes import any as any
    from weft.primitives.warp.votes import count as count
    from weft.primitives.warp.votes import shuffle as shuffle

_MODULES = {
    "all": "votes",
    "any": "votes",
    "argmax": "reductions",
    "argmin": "reductions",
    "count": "votes",
    "exchange": "exchanges",
    "exclusive_scan": "scans",
    "load": "transfers",
    "max": "reductions",
    "merge_sort": "sorting",
    "min": "reductions",
    "radix_sort": "sorting",
    "reduce": "reductions",
    "scan": "scans",
    "shuffle": "votes",
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

THREAD_GROUP = "warp"
"""The meaning of the module in ``weft.elect_one(weft.warp)``."""


def __dir__() -> list[str]:
    return sorted(_MODULES)
