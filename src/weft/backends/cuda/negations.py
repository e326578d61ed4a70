# SPDX-License-Identifier: Apache-2.0
"""Negations of 16-bit integers that wrap, whichever ptxas assembles them.

In: PTX. Out: the same with products by -1 in place of `neg.s16`. ptxas 13.0 negates in 32 bits and does not extend the
sign of the result again, so that -(-32768), which is -32768, was 32768 (seen on an H100; ptxas 13.5 is right). The
product is one instruction too, and right in both.
"""

from __future__ import annotations

import re
from typing import Final

_NEGATION: Final = re.compile(r"\b(?:neg\.s16(\s+%\w+, )|sub\.s16(\s+%\w+, )0, )(%\w+);")


def wrap_negations(ptx: str) -> str:
    """The PTX, in which no 16-bit integer is negated but by a product.

    Example:
        >>> wrap_negations("neg.s16 %rs2, %rs1;")
        'mul.lo.s16 %rs2, %rs1, -1;'
    """
    return _NEGATION.sub(lambda found: f"mul.lo.s16{found[1] or found[2]}{found[3]}, -1;", ptx)
