# SPDX-License-Identifier: Apache-2.0
"""The GPU's tables: shared rows of codegen, and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cuda.lowering.atomics import ATOMICS
from weft.backends.cuda.lowering.barrier import BARRIERS
from weft.backends.cuda.lowering.debug import DEBUG
from weft.backends.cuda.lowering.inline_ptx import INLINE_PTX
from weft.backends.cuda.lowering.kernel import KERNEL_OPERATIONS
from weft.backends.cuda.lowering.launch import LAUNCH
from weft.backends.cuda.lowering.mathematics import MATHEMATICS
from weft.backends.cuda.lowering.shared import SHARED
from weft.backends.cuda.lowering.timing import TIMING
from weft.backends.cuda.lowering.warp import WARP
from weft.backends.cuda.lowering.warp_reduce import WARP_REDUCE
from weft.codegen.tables import HOST_FUNCTION, KERNEL

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter

KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **KERNEL,
    **MATHEMATICS,
    **ATOMICS,
    **DEBUG,
    **SHARED,
    **BARRIERS,
    **WARP,
    **WARP_REDUCE,
    **TIMING,
    **INLINE_PTX,
    **KERNEL_OPERATIONS,
}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {**HOST_FUNCTION, **LAUNCH}
