# SPDX-License-Identifier: Apache-2.0
"""Users' own instructions: `nvgpu.inline_ptx`.

In: PTX with numbered places, scalars and tensors. Out: scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.irdl import (
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.access import NeedsParts
from weft.dialects.definition import (
    BaseOperation,
    operands,
    operation_definition,
    results,
    string,
)

if TYPE_CHECKING:
    from xdsl.ir import Attribute

    from weft.dialects.definition import Operands, Results, String


@operation_definition
class InlinePtxOp(BaseOperation):
    """PTX from the source. `$0`, `$1`, … are the results, then the operands; a tensor is its address.

    It may read and write any memory, and is executed together by all threads that reach it.
    """

    name = "nvgpu.inline_ptx"

    text: String = string()
    inputs: Operands = operands()
    outputs: Results[Attribute] = results()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), NeedsParts(pointer=True))
    assembly_format = "$text (`in` `(` $inputs^ `:` type($inputs) `)`)? (`out` `(` type($outputs)^ `)`)? attr-dict"
