# SPDX-License-Identifier: Apache-2.0
"""Users' own instructions: `nvgpu.inline_ptx`.

In: PTX with numbered places, scalars and tensors. Out: scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.access import NeedsParts
from weft.dialects.builder import text_attribute
from weft.dialects.definition import operation_definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue


@operation_definition
class InlinePtxOp(IRDLOperation):
    """PTX from the source. `$0`, `$1`, … are the results, then the operands; a tensor is its address.

    It may read and write any memory, and is executed together by all threads that reach it.
    """

    name = "nvgpu.inline_ptx"

    text = prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_result_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), NeedsParts(pointer=True))
    assembly_format = "$text (`in` `(` $inputs^ `:` type($inputs) `)`)? (`out` `(` type($outputs)^ `)`)? attr-dict"

    def __init__(self, text: str, inputs: Sequence[SSAValue], outputs: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[inputs], properties={"text": text_attribute(text)}, result_types=[outputs]
        )
