# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors on the CPU.

In: the operations of dialects/nvgpu/tma. Out: nothing for a prefetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.dialects.nvgpu.tma import TmaPrefetchOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_prefetch(_printer: FunctionPrinter, _op: TmaPrefetchOp) -> None:
    pass


TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TmaPrefetchOp: _print_prefetch,
}
