# SPDX-License-Identifier: Apache-2.0
"""``weft.math``: its names, from the files that define them.

Out: one name per function, as users write it after ``weft.math.``.
"""

from __future__ import annotations

from weft.language.numbers.bits import clz, ctz, ffs, mulhi, popcount
from weft.language.numbers.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    fma,
    log,
    log1p,
    log2,
    log10,
    rsqrt,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from weft.language.numbers.elementary import pow_ as pow
from weft.language.numbers.rounding import abs_ as abs
from weft.language.numbers.rounding import ceil, copysign, floor, isfinite, isinf, isnan, trunc
from weft.language.numbers.rounding import max_ as max
from weft.language.numbers.rounding import min_ as min
from weft.language.numbers.rounding import round_ as round

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "ctz",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "ffs",
    "floor",
    "fma",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
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
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
