# SPDX-License-Identifier: Apache-2.0
"""``weft.block``: collective operations of a block's threads, as functions that kernels inline.

All threads of the block make the call together, whatever the block's size and shape; none may have returned. Each
call has shared memory of its own and may stand in a loop.
"""

# ruff: noqa: PLC0414  type checkers treat an alias of the same name as public

from __future__ import annotations

from weft.primitives import TYPE_CHECKING, resolver

if TYPE_CHECKING:
    from weft.primitives.block_functions import all as all
    from weft.primitives.block_functions import any as any
    from weft.primitives.block_functions import argmax as argmax
    from weft.primitives.block_functions import argmin as argmin
    from weft.primitives.block_functions import count as count
    from weft.primitives.block_functions import exchange as exchange
    from weft.primitives.block_functions import exclusive_scan as exclusive_scan
    from weft.primitives.block_functions import histogram as histogram
    from weft.primitives.block_functions import load as load
    from weft.primitives.block_functions import max as max
    from weft.primitives.block_functions import merge_sort as merge_sort
    from weft.primitives.block_functions import min as min
    from weft.primitives.block_functions import radix_sort as radix_sort
    from weft.primitives.block_functions import reduce as reduce
    from weft.primitives.block_functions import scan as scan
    from weft.primitives.block_functions import shuffle as shuffle
    from weft.primitives.block_functions import store as store
    from weft.primitives.block_functions import sum as sum
    from weft.primitives.block_functions import to_blocked as to_blocked
    from weft.primitives.block_functions import to_striped as to_striped

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
__getattr__ = resolver(__name__, dict.fromkeys(__all__, "block_functions"))


def __dir__() -> list[str]:
    return sorted(__all__)
