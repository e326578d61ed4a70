# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors: `nvgpu.tma_load`, `nvgpu.tma_store`, `nvgpu.tma_wait`, `nvgpu.tma_prefetch`.

In: a tensor map, the first element of a box, a tile in shared memory, a barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue


def _check_place(tensor_map: SSAValue, indices: Sequence[SSAValue]) -> TensorMapType:
    kind = tensor_map.type
    assert isinstance(kind, TensorMapType)
    if len(indices) != len(kind.box):
        raise VerifyException(f"{len(indices)} indices for {kind}")
    return kind


@operation_definition
class TmaPrefetchOp(IRDLOperation):
    """Fetches a map into the GPU's cache for maps, or, with the indices of a box, the box into the L2 cache.

    It changes nothing but times; the CPU does nothing.
    """

    name = "nvgpu.tma_prefetch"

    tensor_map = operand_def(TensorMapType)
    indices = var_operand_def(i32)

    # Of the cache: so that it is neither removed nor moved across copies.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$tensor_map (`[` $indices^ `:` type($indices) `]`)? attr-dict `:` type($tensor_map)"
    )

    def __init__(self, tensor_map: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[tensor_map, indices])

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()

    def verify_(self) -> None:
        if self.indices:
            _check_place(self.tensor_map, self.indices)


def _check_tile(tensor_map: SSAValue, indices: Sequence[SSAValue], tile: SSAValue) -> None:
    kind, of = _check_place(tensor_map, indices), tile.type
    assert isinstance(of, TensorType)
    dims = tuple(size for size in kind.box if size != 1)
    if tuple(size for size in of.dims if size != 1) != dims or of.element_type != kind.element_type:
        raise VerifyException(f"a box of {kind} is not the tile {of}")
    if of.panels is None or of.panels.row_bytes.data != kind.swizzle:
        raise VerifyException(f"the swizzle of {kind} is not that of the tile {of}")


@operation_definition
class TmaLoadOp(IRDLOperation):
    """Begins to copy a box into a tile; its bytes come to a barrier. What is outside of the tensor is filled.

    One thread executes it. The box's size in bytes counts in full.
    """

    name = "nvgpu.tma_load"

    tensor_map = operand_def(TensorMapType)
    tile = operand_def(TensorType)
    words = operand_def(TensorType)
    index = operand_def(i32)
    indices = var_operand_def(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$tensor_map `[` $indices `:` type($indices) `]` `to` $tile `for` $words `[` $index `]` attr-dict `:` "
        "type($tensor_map) `,` type($tile) `,` type($words)"
    )

    def __init__(
        self,
        tensor_map: SSAValue,
        indices: Sequence[SSAValue],
        tile: SSAValue,
        words: SSAValue,
        index: SSAValue,
    ) -> None:
        super().__init__(operands=[tensor_map, tile, words, index, indices])

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The tile; the tensor is read."""
        return (self.tile,)

    def verify_(self) -> None:
        _check_tile(self.tensor_map, self.indices, self.tile)


@operation_definition
class TmaStoreOp(IRDLOperation):
    """Begins to copy a tile into a box, as a group of its own; what is outside of the tensor is not written."""

    name = "nvgpu.tma_store"

    tensor_map = operand_def(TensorMapType)
    tile = operand_def(TensorType)
    indices = var_operand_def(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$tensor_map `[` $indices `:` type($indices) `]` `from` $tile attr-dict `:` "
        "type($tensor_map) `,` type($tile)"
    )

    def __init__(self, tensor_map: SSAValue, indices: Sequence[SSAValue], tile: SSAValue) -> None:
        super().__init__(operands=[tensor_map, tile, indices])

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The mapped tensor."""
        return (self.tensor_map,)

    def verify_(self) -> None:
        _check_tile(self.tensor_map, self.indices, self.tile)


@operation_definition
class TmaWaitOp(IRDLOperation):
    """Waits until all but the newest `pending` stores of this thread are complete, or only have read their tiles."""

    name = "nvgpu.tma_wait"

    pending = prop_def(IntegerAttr.constr(i32))
    read = opt_prop_def(UnitAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending (`read` $read^)? attr-dict"

    def __init__(self, pending: int, *, read: bool) -> None:
        super().__init__(
            properties={
                "pending": IntegerAttr(pending, i32),
                **({"read": UnitAttr()} if read else {}),
            }
        )

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()


@operation_definition
class FenceProxyOp(IRDLOperation):
    """What this thread wrote to shared memory before is seen by copies and products that begin after it."""

    name = "nvgpu.fence_proxy"

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"
