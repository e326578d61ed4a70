# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a thread: `simt.thread_idx`, `simt.block_idx`, `simt.block_dim`, `simt.grid_dim`.

In: a dimension, x, y or z. Out: an i32, since a CUDA coordinate has 32 bits and `index` would cost a cast.
"""

from __future__ import annotations

from typing import Final

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition

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
