# SPDX-License-Identifier: Apache-2.0
"""Operations that print nothing on a CPU: hints and fences of GPUs.

In: fences between ways to memory, dependent launches. Out: no code; kernels run one after the
other here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.dialects.nvgpu.async_copy import FenceProxyOp
from weft.dialects.nvgpu.threads import GridDependencyLaunchOp, GridDependencyWaitOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_nothing(printer: FunctionPrinter, op: Operation) -> None:
    """The operation has no effect here."""


UNNEEDED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **dict.fromkeys((FenceProxyOp, GridDependencyLaunchOp, GridDependencyWaitOp), _print_nothing),
}
