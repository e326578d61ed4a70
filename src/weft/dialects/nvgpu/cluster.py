# SPDX-License-Identifier: Apache-2.0
"""Clusters: blocks that run at the same time, synchronize, and access each other's shared memory.

In: nothing; a tensor in the block's shared memory and a rank. Out: the block's rank; the same tensor in another block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, StartsAsync, Synchronizes
from weft.dialects.definition import operation_definition
from weft.dialects.simt.memory import check_indices
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue


@operation_definition
class ClusterRankOp(IRDLOperation):
    """The block's number in its cluster, x fastest; the kernel says how many blocks a cluster has."""

    name = "nvgpu.cluster_rank"

    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class ClusterBarrierOp(IRDLOperation):
    """Barrier: all threads of the cluster that have not exited."""

    name = "nvgpu.cluster_barrier"

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Synchronizes("cluster"), CalledAs("sync_cluster")
    )
    assembly_format = "attr-dict"


@operation_definition
class MapSharedOp(IRDLOperation):
    """A tensor at the same place in the shared memory of the cluster's block of that rank."""

    name = "nvgpu.map_shared"

    tensor = operand_def(TensorType)
    rank = operand_def(i32)
    result = result_def(TensorType)

    traits = traits_def(Pure(), CalledAs("map_shared"))
    assembly_format = "$tensor `,` $rank attr-dict `:` type($tensor) `to` type($result)"

    def __init__(self, tensor: SSAValue, rank: SSAValue) -> None:
        kind = tensor.type
        assert isinstance(kind, TensorType)
        super().__init__(operands=[tensor, rank], result_types=[kind.in_space("cluster")])

    def verify_(self) -> None:
        source = self.tensor.type
        assert isinstance(source, TensorType)
        if source.space.data != "shared" or self.result.type != source.in_space("cluster"):
            raise VerifyException("a tensor in shared memory becomes the same one in the cluster's")


@operation_definition
class StAsyncOp(IRDLOperation):
    """Begins to write consecutive elements into a mapped tensor; their bytes come to a barrier of the same block."""

    name = "nvgpu.st_async"

    elements = var_operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    words = operand_def(TensorType)
    index = operand_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("words", "updated", "barrier", indices="index"),
                Access("tensor", "written", elements="elements", argument=0),
            ),
            is_required=True,
        ),
        StartsAsync("phase"),
        CalledAs("st_async"),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` `for` $words `[` $index `]` "
        "attr-dict `:` type($tensor) `,` type($words)"
    )

    def __init__(
        self,
        elements: Sequence[SSAValue],
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        words: SSAValue,
        index: SSAValue,
    ) -> None:
        super().__init__(operands=[elements, tensor, indices, words, index])

    def verify_(self) -> None:
        kind = check_indices(self.tensor, self.indices)
        if any(element.type != kind.element_type for element in self.elements):
            raise VerifyException("the values' type differs from the elements'")
        for tensor in (self.tensor, self.words):
            assert isinstance(tensor.type, TensorType)
            if tensor.type.space.data != "cluster":
                raise VerifyException(
                    "the tensor and its barrier are those of a block of the cluster"
                )
