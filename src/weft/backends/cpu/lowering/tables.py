# SPDX-License-Identifier: Apache-2.0
"""The CPU's tables: shared rows of codegen, and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`. Next: stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cpu.lowering.coordinates import COORDINATES
from weft.backends.cpu.lowering.debug import DEBUG
from weft.backends.cpu.lowering.launch import LAUNCH
from weft.codegen.tables import HOST_FUNCTION, KERNEL

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.module_printer import OperationPrinter

KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {**KERNEL, **COORDINATES, **DEBUG}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {**HOST_FUNCTION, **LAUNCH}
