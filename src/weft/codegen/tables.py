# SPDX-License-Identifier: Apache-2.0
"""The printers common to all targets, in one table.

Out: `SCALAR`, for kernels and host functions; `KERNEL`, which adds memory. A
backend builds its own from these with `|`. `LIBRARY`: the math library, printed into the modules that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import (
    ERROR_FUNCTION,
    EXPONENTIAL,
    HYPERBOLIC,
    LOGARITHM,
    POWER,
)
from weft.codegen.math_library.remainder import REMAINDER
from weft.codegen.math_library.small_floats import SMALL_FLOATS
from weft.codegen.math_library.trigonometric import (
    INVERSE_TRIGONOMETRIC,
    RANGE_REDUCTION,
    TRIGONOMETRIC,
)
from weft.codegen.operations.arithmetic import FLOATING_POINT, INTEGER, MATHEMATICS
from weft.codegen.operations.atomics import ATOMICS
from weft.codegen.operations.control_flow import CONTROL_FLOW
from weft.codegen.operations.conversions import CONVERSIONS
from weft.codegen.operations.host_function import HOST
from weft.codegen.operations.memory import (
    MEMORY,
    print_dim,
    print_reinterpret,
    print_reshape,
    print_stride,
    print_view,
)
from weft.dialects.simt.memory import DimOp, ReinterpretOp, ReshapeOp, StrideOp, ViewOp

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter
    from weft.codegen.llvm.module_printer import LibraryEntry


SCALAR: Final[dict[type[Operation], OperationPrinter]] = {
    **INTEGER,
    **CONVERSIONS,
    **FLOATING_POINT,
    **MATHEMATICS,
    **CONTROL_FLOW,
}

KERNEL: Final[dict[type[Operation], OperationPrinter]] = {
    **SCALAR,
    **MEMORY,
    **ATOMICS,
}

HOST_FUNCTION: Final[dict[type[Operation], OperationPrinter]] = {
    **SCALAR,
    **HOST,
    DimOp: print_dim,
    StrideOp: print_stride,
    ViewOp: print_view,
    ReinterpretOp: print_reinterpret,
    ReshapeOp: print_reshape,
}

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
