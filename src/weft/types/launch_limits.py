# SPDX-License-Identifier: Apache-2.0
"""Limits of a grid, a block and a cluster, and the notation of their sizes.

In: an int, or one to three. Out: (x, y, z), checked. The limits are CUDA's, which every target keeps, so that a launch
means the same on all of them; native/runtime/launch/launch_limits.h has the numbers and checks what only a call knows.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

from weft._native import LAUNCH_LIMITS
from weft.errors import brief

_MOST_GRID, _MOST_BLOCK, _MAX_THREADS, MOST_SHARED_BYTES, _WARP_SIZE, _MOST_CLUSTER = LAUNCH_LIMITS

MAX_THREADS: Final[int] = _MAX_THREADS
"""The most threads of a block: 1024 on every target.

Example:
    ``threads = min(weft.MAX_THREADS, 512)``
"""
VECTOR_BYTES: Final = 16
"""Bytes of a thread's largest access, and its alignment: 16; GPUs from sm_100 on have loads of 32 bytes beside it.

Example:
    ``width = 8 * weft.VECTOR_BYTES // a.dtype.bits``
"""
WARP_SIZE: Final[int] = _WARP_SIZE
"""The threads of a warp: 32 on every target.

Example:
    ``warps = weft.block_dim.x // weft.WARP_SIZE``
"""

# The least of a size, the most along x, y and z, and the most of all three together.
GRID: Final = 0, _MOST_GRID, math.prod(_MOST_GRID)  # of no blocks: nothing is launched
BLOCK: Final = 1, _MOST_BLOCK, MAX_THREADS
CLUSTER: Final = 1, (_MOST_CLUSTER,) * 3, _MOST_CLUSTER


def padded(value: Any) -> tuple[Any, ...] | None:
    """The sizes along x, y and z, 1 by default; None unless it is one to three things."""
    parts: Any = value if isinstance(value, tuple | list) else (value,)  # pyright: ignore[reportUnknownVariableType]
    return (*parts, 1, 1)[:3] if 1 <= len(parts) <= 3 else None


def as_sizes(
    value: Any, name: str, limits: tuple[int, tuple[int, ...], int] | None = None
) -> tuple[int, int, int]:
    """One to three integers as (x, y, z).

    Args:
        value: an int or a tuple or list of ints; anything with `__index__` is one, but no bool.
        name: for errors.
        limits: `GRID`, `BLOCK`, `CLUSTER`, or others; None for none.
    Raises:
        TypeError: it is neither an int nor one to three of them.
        ValueError: it is out of range.
    Example:
        >>> as_sizes(4, "grid"), as_sizes((4, 2), "block", BLOCK)
        ((4, 1, 1), (4, 2, 1))
    """
    parts: Any = padded(value)
    try:
        if parts is None or any(isinstance(part, bool) for part in parts):
            raise TypeError
        x, y, z = map(operator.index, parts)
    except TypeError:
        text = f"{name} is {brief(value)}, expected an int or one to three of them"
        raise TypeError(text) from None
    if limits is not None:
        least, most, total = limits
        for axis, size, limit in zip("xyz", (x, y, z), most, strict=True):
            if not least <= size <= limit:
                raise ValueError(f"{name}.{axis} is {size}, expected {least} to {limit}")
        if x * y * z > total:
            unit = "threads" if limits is BLOCK else "blocks"
            raise ValueError(f"{name} has {x * y * z} {unit}, expected at most {total}")
    return x, y, z
