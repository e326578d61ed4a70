# SPDX-License-Identifier: Apache-2.0
"""The table of weft's math library.

Out: `LIBRARY`, name → printer. A function is printed into the modules that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.error_function import ERROR_FUNCTION
from weft.codegen.math_library.exponential import EXPONENTIAL
from weft.codegen.math_library.hyperbolic import HYPERBOLIC
from weft.codegen.math_library.inverse_trigonometric import INVERSE_TRIGONOMETRIC
from weft.codegen.math_library.logarithm import LOGARITHM
from weft.codegen.math_library.power import POWER
from weft.codegen.math_library.range_reduction import RANGE_REDUCTION
from weft.codegen.math_library.remainder import REMAINDER
from weft.codegen.math_library.small_floats import SMALL_FLOATS
from weft.codegen.math_library.trigonometric import TRIGONOMETRIC

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry

LIBRARY: Final[dict[str, LibraryEntry]] = {
    **SMALL_FLOATS,
    **REMAINDER,
    **EXPONENTIAL,
    **LOGARITHM,
    **RANGE_REDUCTION,
    **TRIGONOMETRIC,
    **INVERSE_TRIGONOMETRIC,
    **HYPERBOLIC,
    **POWER,
    **ERROR_FUNCTION,
}
