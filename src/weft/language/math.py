# SPDX-License-Identifier: Apache-2.0
"""``weft.math``: its names, from the files that define them.

In: nothing. Out: one name per function, as users write it after ``weft.math.``. Next: atomics.
"""

from __future__ import annotations

from weft.language.bits import clz, ctz, ffs, mulhi, popcount
from weft.language.elementary import (
    acos,
    asin,
    atan,
    atan2,
    cos,
    erf,
    exp,
    exp2,
    fma,
    log,
    log2,
    log10,
    rsqrt,
    sin,
    sqrt,
    tan,
    tanh,
)
from weft.language.elementary import pow_ as pow
from weft.language.rounding import abs_ as abs
from weft.language.rounding import ceil, copysign, floor, isfinite, isinf, isnan, trunc
from weft.language.rounding import max_ as max
from weft.language.rounding import min_ as min
from weft.language.rounding import round_ as round

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "ctz",
    "erf",
    "exp",
    "exp2",
    "ffs",
    "floor",
    "fma",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "max",
    "min",
    "mulhi",
    "popcount",
    "pow",
    "round",
    "rsqrt",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
