# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors: `nvgpu.tma_prefetch`.

In: a tensor map, the first element of a box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32
from xdsl.irdl import IRDLOperation, operand_def, traits_def, var_operand_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.nvgpu.tensor_map import TensorMapType

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
