# SPDX-License-Identifier: Apache-2.0
"""Tensor maps that kernels write: `nvgpu.copy_map`, `nvgpu.edit_map` and `nvgpu.map_at`.

In: a map, a place for one in global memory, a tensor. Out: a map whose type says that it is in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i1
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, NeedsParts
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.types import TensorType, array_bytes

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

MAP_BYTES: Final = 128
"""Of a map, and what divides the address of one that kernels write."""


def _check_place(place: SSAValue, space: str) -> None:
    """Raises VerifyException for what does not hold one map."""
    kind = place.type
    assert isinstance(kind, TensorType)
    if kind.space.data != space:
        raise VerifyException(f"{kind} is not in {space} memory")
    if -1 in kind.dims or array_bytes(kind.dims, kind.element_type) != MAP_BYTES:
        raise VerifyException(f"{kind} has not the {MAP_BYTES} bytes of a map")


def _check_type(kind: object) -> TensorMapType:
    if not isinstance(kind, TensorMapType) or not kind.in_memory:
        raise VerifyException("the map is not in memory")
    return kind


@operation_definition
class CopyMapOp(IRDLOperation):
    """A warp writes a map to a place in global memory, where copies of its threads find it from then on.

    All of its threads come, and `elected` is true for the one that writes.
    """

    name = "nvgpu.copy_map"

    tensor_map = operand_def(TensorMapType)
    place = operand_def(TensorType)
    elected = operand_def(i1)
    result = result_def(TensorMapType)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("place", "written", "tile"),), is_required=True),
    )
    assembly_format = (
        "$tensor_map `to` $place `by` $elected attr-dict "
        "`:` type($tensor_map) `,` type($place) `->` type($result)"
    )

    def __init__(self, tensor_map: SSAValue, place: SSAValue, elected: SSAValue) -> None:
        kind = tensor_map.type
        assert isinstance(kind, TensorMapType)
        operands = [tensor_map, place, elected]
        super().__init__(operands=operands, result_types=[kind.placed_in_memory()])

    def verify_(self) -> None:
        _check_place(self.place, "global")
        kind = self.tensor_map.type
        assert isinstance(kind, TensorMapType)
        if _check_type(self.result.type) != kind.placed_in_memory():
            raise VerifyException("a copied map has the same boxes")


@operation_definition
class MapAtOp(IRDLOperation):
    """The map that some warp has written to a place before; copies of this thread find it from then on."""

    name = "nvgpu.map_at"

    place = operand_def(TensorType)
    result = result_def(TensorMapType)

    # What was written before is seen after it: neither removed nor moved.
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("place", "read", "tile"),), is_required=True),
    )
    assembly_format = "$place attr-dict `:` type($place) `->` type($result)"

    def __init__(self, place: SSAValue, kind: TensorMapType) -> None:
        super().__init__(operands=[place], result_types=[kind.placed_in_memory()])

    def verify_(self) -> None:
        _check_place(self.place, "global")
        _check_type(self.result.type)


@operation_definition
class EditMapOp(IRDLOperation):
    """A warp makes a map in memory that of a tensor, in `slot`, 128 bytes of shared memory that is its own.

    Copies of its threads find the tensor from then on. All of its threads come, and `elected` is true for the one that
    writes; copies that this one has begun before find the map as it was.
    """

    name = "nvgpu.edit_map"

    tensor_map = operand_def(TensorMapType)
    tensor = operand_def(TensorType)
    slot = operand_def(TensorType)
    elected = operand_def(i1)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("slot", "written", "tile"),), is_required=True),
        NeedsParts(pointer=True, dims="all", strides="all"),
    )
    assembly_format = (
        "$tensor_map `to` $tensor `in` $slot `by` $elected attr-dict "
        "`:` type($tensor_map) `,` type($tensor) `,` type($slot)"
    )

    def __init__(
        self, tensor_map: SSAValue, tensor: SSAValue, slot: SSAValue, elected: SSAValue
    ) -> None:
        super().__init__(operands=[tensor_map, tensor, slot, elected])

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The map's place and the slot; the tensor's elements are neither read nor written."""
        owner = self.tensor_map.owner
        known = isinstance(owner, CopyMapOp | MapAtOp)
        return owner.place if known else self.tensor_map, self.slot

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _check_type(self.tensor_map.type).itemsize

    def verify_(self) -> None:
        kind, of = _check_type(self.tensor_map.type), self.tensor.type
        assert isinstance(of, TensorType)
        if kind.is_im2col:
            raise VerifyException("maps of images are not edited")
        if of.space.data != "global" or of.element_type != kind.element_type:
            raise VerifyException("the tensor is in global memory, and its elements are the map's")
        if of.rank != kind.rank:
            raise VerifyException("the tensor's rank is the map's")
        _check_place(self.slot, "shared")
