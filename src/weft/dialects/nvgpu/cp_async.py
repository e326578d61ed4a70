# SPDX-License-Identifier: Apache-2.0
"""Copies of single threads into shared memory that run beside them: `nvgpu.cp_async_copy`, `_commit`, `_wait`.

In: consecutive elements of a tensor, and a place in shared memory. Out: the elements there, after a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, Orders, StartsAsync, Synchronizes
from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

COPY_BYTES: Final = (4, 8, 16)


@operation_definition
class CpAsyncCopyOp(IRDLOperation):
    """Begins to copy `count` consecutive elements; where `condition` is false, zeros are written."""

    name = "nvgpu.cp_async_copy"

    tensor = operand_def(TensorType)
    indices = var_operand_def()
    source = operand_def(TensorType)
    source_indices = var_operand_def()
    condition = opt_operand_def(i1)
    count = prop_def(IntegerAttr.constr(i32))

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("tensor", "written", number="count", argument=0),
                Access(
                    "source", "read", indices="source_indices", number="count", unless="condition"
                ),
            )
        ),
        StartsAsync("elements"),
        CalledAs("cp_async.copy"),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$count `to` $tensor `[` $indices `:` type($indices) `]` `from` $source `[` $source_indices `:` "
        "type($source_indices) `]` (`when` $condition^)? attr-dict `:` type($tensor) `,` type($source)"
    )

    def __init__(
        self,
        count: int,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        source: SSAValue,
        source_indices: Sequence[SSAValue],
        condition: SSAValue | None,
    ) -> None:
        super().__init__(
            operands=[tensor, indices, source, source_indices, condition],
            properties={"count": IntegerAttr(count, i32)},
        )

    @property
    def bytes(self) -> int:
        """How many one copy has."""
        element = cast("FixedBitwidthType", cast("TensorType", self.tensor.type).element_type)
        return self.count.value.data * element.size

    def verify_(self) -> None:
        to, source = cast("TensorType", self.tensor.type), cast("TensorType", self.source.type)
        if to.element_type != source.element_type:
            raise VerifyException(f"elements of {source} are not those of {to}")
        if (to.space.data, source.space.data) != ("shared", "global"):
            raise VerifyException("copies go from global to shared memory")
        if self.bytes not in COPY_BYTES:
            raise VerifyException(f"a copy of {self.bytes} bytes; there are those of 4, 8 and 16")


class _GroupOp(IRDLOperation):
    """Base of what a thread says of its groups of copies."""

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@operation_definition
class CpAsyncCommitOp(_GroupOp):
    """This thread's copies since the last one are a group."""

    name = "nvgpu.cp_async_commit"
    traits = traits_def(Orders("commit"), CalledAs("cp_async.commit"))

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@operation_definition
class CpAsyncWaitOp(_GroupOp):
    """Waits until all but the newest `pending` groups of this thread are complete."""

    name = "nvgpu.cp_async_wait"
    traits = traits_def(Synchronizes("copies", "elements"), CalledAs("cp_async.wait"))

    pending = prop_def(IntegerAttr.constr(i32))
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": IntegerAttr(pending, i32)})
