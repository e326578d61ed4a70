# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors: sm_90's `cp.async.bulk.tensor` and what belongs to it.

In: the operations of dialects/nvgpu/tma. Out: NVVM's intrinsics, convergent, with coordinates fastest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.dialects.nvgpu.tma import TmaPrefetchOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_FIRST: Final = 90
_NO_POLICY: Final = ("i64 0", "i1 false")


def _print_prefetch(printer: FunctionPrinter, op: TmaPrefetchOp) -> None:
    require(printer, op, _FIRST, "weft.tma.prefetch")
    pointer = f"ptr {printer.values[op.tensor_map]}"
    if not op.indices:
        call_convergent(printer, "void", "prefetch.tensormap", pointer)
        return
    coordinates = [printer.typed(index) for index in reversed(op.indices)]
    name = f"cp.async.bulk.tensor.prefetch.tile.{len(coordinates)}d"
    call_convergent(printer, "void", name, pointer, *coordinates, *_NO_POLICY)


TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TmaPrefetchOp: _print_prefetch,
}
