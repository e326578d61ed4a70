# SPDX-License-Identifier: Apache-2.0
"""``weft.warp``: collective operations of a warp's lanes, as functions that kernels inline.

Each lane calls with its value. Without a mask all lanes that the warp has take part; they make the call together.
"""

# ruff: noqa: PLC0414  type checkers treat an alias of the same name as public

from __future__ import annotations

from weft.primitives import TYPE_CHECKING, resolver

if TYPE_CHECKING:
    from weft.primitives.warp_functions import all as all
    from weft.primitives.warp_functions import any as any
    from weft.primitives.warp_functions import argmax as argmax
    from weft.primitives.warp_functions import argmin as argmin
    from weft.primitives.warp_functions import bitwise_and as bitwise_and
    from weft.primitives.warp_functions import bitwise_or as bitwise_or
    from weft.primitives.warp_functions import bitwise_xor as bitwise_xor
    from weft.primitives.warp_functions import count as count
    from weft.primitives.warp_functions import exchange as exchange
    from weft.primitives.warp_functions import exclusive_scan as exclusive_scan
    from weft.primitives.warp_functions import load as load
    from weft.primitives.warp_functions import max as max
    from weft.primitives.warp_functions import merge_sort as merge_sort
    from weft.primitives.warp_functions import min as min
    from weft.primitives.warp_functions import radix_sort as radix_sort
    from weft.primitives.warp_functions import reduce as reduce
    from weft.primitives.warp_functions import scan as scan
    from weft.primitives.warp_functions import shuffle as shuffle
    from weft.primitives.warp_functions import store as store
    from weft.primitives.warp_functions import sum as sum
    from weft.primitives.warp_functions import to_blocked as to_blocked
    from weft.primitives.warp_functions import to_striped as to_striped

__all__ = (
    "all",
    "any",
    "argmax",
    "argmin",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
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
__getattr__ = resolver(__name__, dict.fromkeys(__all__, "warp_functions"))

THREAD_GROUP = "warp"
"""The meaning of the module in ``weft.elect_one(weft.warp)``."""


def __dir__() -> list[str]:
    return sorted(__all__)
