# SPDX-License-Identifier: Apache-2.0
"""Thread and block coordinates on the CPU, defined by the loops around a thread's code.

In: simt.thread_idx and similar operations. Out: the loops' induction variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.dialects.simt.grid import BlockDimOp, BlockIdxOp, CoordinateOp, GridDimOp, ThreadIdxOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    dimension = op.properties["dimension"].data  # pyright: ignore
    printer.values[op.results[0]] = printer.coordinates[f"{op.name[5:]}.{dimension}"]


COORDINATES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ThreadIdxOp: _print_coordinate,
    BlockIdxOp: _print_coordinate,
    BlockDimOp: _print_coordinate,
    GridDimOp: _print_coordinate,
}
