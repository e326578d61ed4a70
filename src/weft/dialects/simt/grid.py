# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a thread: `simt.thread_idx`, `simt.block_idx`, `simt.block_dim`, `simt.grid_dim`; `simt.each`.

In: a dimension, x, y or z. Out: an i32, since a CUDA coordinate has 32 bits and `index` would cost a cast. And
iterations that the threads of the grid share; `simt.multiprocessors` and `simt.max_clusters`, of which hosts make
grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr, i32, i64
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Region, SSAValue

DIMENSIONS: Final = ("x", "y", "z")


class CoordinateOp(IRDLOperation):
    """Base of the four coordinates: one dimension in, one i32 out."""

    dimension = prop_def(StringAttr)
    result = result_def(i32)
    assembly_format = "$dimension attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def __init__(self, dimension: str) -> None:
        super().__init__(properties={"dimension": StringAttr(dimension)}, result_types=[i32])

    def verify_(self) -> None:
        if self.dimension.data not in DIMENSIONS:
            raise VerifyException(f"dimension {self.dimension.data!r} is not one of {DIMENSIONS}")


@operation_definition
class ThreadIdxOp(CoordinateOp):
    """Index of the thread in its block, 0 ≤ value < block_dim."""

    name = "simt.thread_idx"


@operation_definition
class BlockIdxOp(CoordinateOp):
    """Index of the block in the grid, 0 ≤ value < grid_dim."""

    name = "simt.block_idx"


@operation_definition
class BlockDimOp(CoordinateOp):
    """Threads per block in one dimension."""

    name = "simt.block_dim"


@operation_definition
class GridDimOp(CoordinateOp):
    """Blocks of the grid in one dimension."""

    name = "simt.grid_dim"


@operation_definition
class MultiprocessorsOp(IRDLOperation):
    """How many multiprocessors the call's device has, in a host function."""

    name = "simt.multiprocessors"

    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class MaxClustersOp(IRDLOperation):
    """How many clusters of these kernels the call's device holds at once, in a host function: the least of them.

    Clusters, blocks and shared memory are the kernels' own.
    """

    name = "simt.max_clusters"

    kernels = prop_def(ArrayAttr[SymbolRefAttr])
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$kernels attr-dict `:` type($result)"

    def __init__(self, kernels: Sequence[str] = ()) -> None:
        super().__init__(result_types=[i32], properties={"kernels": _symbols(kernels)})

    def name_kernels(self, kernels: Sequence[str]) -> None:
        """Says which kernels are meant, once their names are known."""
        self.kernels = _symbols(kernels)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The kernels' names."""
        return tuple(symbol.string_value() for symbol in self.kernels.data)

    def verify_(self) -> None:
        if not self.kernels.data:
            raise VerifyException("no kernel is named")


def _symbols(names: Sequence[str]) -> ArrayAttr[SymbolRefAttr]:
    return ArrayAttr([SymbolRefAttr(name) for name in names])


@operation_definition
class EachOp(IRDLOperation):
    """One iteration for each index below the extents, the last one fastest; the whole grid shares them, each runs once.

    Iterations are independent: they may run in any order, and parts of several in turn, each iteration's own parts in
    order. Every thread of the grid arrives here with the same extents. The region has an argument per extent, of its
    type; a negative extent is 0.
    """

    name = "simt.each"

    extents = var_operand_def()
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())
    assembly_format = "$extents `:` type($extents) $body attr-dict"

    def __init__(self, extents: Sequence[SSAValue], body: Region) -> None:
        super().__init__(operands=[extents], regions=[body])

    def verify_(self) -> None:
        kinds = [extent.type for extent in self.extents]
        if not kinds or any(kind not in (i32, i64) for kind in kinds):
            raise VerifyException("each extent is i32 or i64, and there is one or more")
        if [argument.type for argument in self.body.block.args] != kinds:
            raise VerifyException("the region has an argument of each extent's type")
