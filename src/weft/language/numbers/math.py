# SPDX-License-Identifier: Apache-2.0
"""The names of ``weft.math``.

Out: one name per function, as users write it after ``weft.math.``.
"""

# ruff: noqa: PLC0414  type checkers treat an alias of the same name as public

from __future__ import annotations

from weft.language.numbers import elementary, rounding
from weft.language.numbers.elementary import acos as acos
from weft.language.numbers.elementary import acosh as acosh
from weft.language.numbers.elementary import angle as angle
from weft.language.numbers.elementary import asin as asin
from weft.language.numbers.elementary import asinh as asinh
from weft.language.numbers.elementary import atan as atan
from weft.language.numbers.elementary import atan2 as atan2
from weft.language.numbers.elementary import atanh as atanh
from weft.language.numbers.elementary import cbrt as cbrt
from weft.language.numbers.elementary import cos as cos
from weft.language.numbers.elementary import cosh as cosh
from weft.language.numbers.elementary import divide as divide
from weft.language.numbers.elementary import erf as erf
from weft.language.numbers.elementary import exp as exp
from weft.language.numbers.elementary import exp2 as exp2
from weft.language.numbers.elementary import expm1 as expm1
from weft.language.numbers.elementary import fma as fma
from weft.language.numbers.elementary import log as log
from weft.language.numbers.elementary import log1p as log1p
from weft.language.numbers.elementary import log2 as log2
from weft.language.numbers.elementary import log10 as log10
from weft.language.numbers.elementary import rsqrt as rsqrt
from weft.language.numbers.elementary import sin as sin
from weft.language.numbers.elementary import sinh as sinh
from weft.language.numbers.elementary import sqrt as sqrt
from weft.language.numbers.elementary import tan as tan
from weft.language.numbers.elementary import tanh as tanh
from weft.language.numbers.rounding import ceil as ceil
from weft.language.numbers.rounding import clz as clz
from weft.language.numbers.rounding import copysign as copysign
from weft.language.numbers.rounding import ctz as ctz
from weft.language.numbers.rounding import ffs as ffs
from weft.language.numbers.rounding import floor as floor
from weft.language.numbers.rounding import isfinite as isfinite
from weft.language.numbers.rounding import isinf as isinf
from weft.language.numbers.rounding import isnan as isnan
from weft.language.numbers.rounding import mulhi as mulhi
from weft.language.numbers.rounding import popcount as popcount
from weft.language.numbers.rounding import trunc as trunc

# Named with an underscore where they are defined, beside Python's own.
abs = rounding.abs_
max = rounding.max_
min = rounding.min_
pow = elementary.pow_
round = rounding.round_
