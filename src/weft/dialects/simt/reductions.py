# SPDX-License-Identifier: Apache-2.0
"""Sums into memory without a result: `simt.red_add`.

In: elements, and the place of the first. Out: nothing; each element of the tensor is added to in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses
from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import TensorType
from weft.dialects.simt.views import check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue


@operation_definition
class RedAddOp(IRDLOperation):
    """Adds values to consecutive elements along the last dimension, each in one step, relaxed and for the whole device.

    The vector as a whole is not one step: another thread may see some of its sums and not yet the others.
    """

    name = "simt.red_add"

    elements = var_operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="elements", is_atomic=True),)),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` attr-dict "
        "`:` type($tensor)"
    )

    def __init__(
        self, elements: Sequence[SSAValue], tensor: SSAValue, indices: Sequence[SSAValue]
    ) -> None:
        super().__init__(operands=[elements, tensor, indices])

    def verify_(self) -> None:
        kind = check_vector(self.tensor, self.indices, self.elements)
        if kind.space.data == "local":
            raise VerifyException("no other thread reaches a thread's own memory")
        if kind.element_type == i1:
            raise VerifyException("bools have no sum")
