# SPDX-License-Identifier: Apache-2.0
"""Long sums of few tiles: blocks take parts of a sum each, and a second kernel adds them up, always in the same order.

In: how many tiles a product has, and how long its sums are. Out: a number of parts; memory for them; the result.
"""

from __future__ import annotations

from typing import Any

from weft.api import kernel
from weft.kernels.arrays import Array
from weft.kernels.endings import Ending
from weft.kernels.rows import sum_type
from weft.kernels.tiles import WHOLE, Cut
from weft.language.control import ceil_div
from weft.language.memory.scratch import scratch
from weft.language.threads.each import each


def parts_for(tiles: int, k: int, blocks: int, shortest: int) -> int | None:
    """Into how many parts sums are cut, or None for whole ones.

    As many as give every block of a GPU one, where that is two or more, and each is a sum of so many products at least:
    a shorter one takes less time than its partial sums on their way through memory.

    Args:
        tiles: of the result.
        k: products of a sum.
        blocks: that a GPU runs at once.
        shortest: part of a sum.

    Example:
        >>> parts_for(tiles=32, k=8192, blocks=132, shortest=512), parts_for(100, 8192, 132, 512)
        (4, None)
    """
    parts = min(blocks // max(tiles, 1), k // shortest)
    return parts if parts > 1 else None


def begun(c: Any, dtype: Any, steps: Any, parts: Any) -> Any:
    """What a product writes to, and how it is cut; traced in host functions.

    Args:
        c: the result.
        dtype: of the factors.
        steps: of a sum.
        parts: of a sum, or None.
    """
    if parts is None:
        return c, WHOLE
    of_part = ceil_div(steps, parts)
    return scratch((ceil_div(steps, of_part), *c.shape), sum_type(dtype)), Cut(of_part)


@kernel
def sum_kernel(parts: Array, c: Array, ending: Ending) -> None:
    """A round: an element's parts, added and finished."""
    for place in each(c.shape):
        total = parts[(0, *place)]
        for part in range(1, parts.shape[0]):
            total += parts[(part, *place)]
        bias = None if ending.bias is None else ending.bias[place[-1]]
        residual = None if ending.residual is None else ending.residual[place]
        c[place] = c.dtype(ending.finished(total, bias, residual))
