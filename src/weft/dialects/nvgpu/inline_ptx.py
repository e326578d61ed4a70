# SPDX-License-Identifier: Apache-2.0
"""Users' own instructions: `nvgpu.inline_ptx`; hints: `nvgpu.nanosleep`, `nvgpu.prefetch`.

In: PTX with numbered places, scalars and tensors. Out: scalars. In: a duration; an element. Out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import (
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import NeedsParts
from weft.dialects.definition import (
    BaseOperation,
    operand,
    operands,
    operation_definition,
    results,
    string,
)
from weft.dialects.simt.memory import check_indices
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue
    from xdsl.irdl import Operand

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


@operation_definition
class NanosleepOp(BaseOperation):
    """Lets the thread sleep for up to twice that many nanoseconds, an unsigned number."""

    name = "nvgpu.nanosleep"

    duration: Operand = operand(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$duration attr-dict"


@operation_definition
class PrefetchOp(BaseOperation):
    """If a condition holds: asks for the line of an element in global memory to be brought into the L2 cache."""

    name = "nvgpu.prefetch"

    condition: Operand = operand(i1)
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), NeedsParts(pointer=True, strides="all")
    )
    assembly_format = (
        "$condition `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict `:` type($tensor)"
    )

    @property
    def written(self) -> Sequence[SSAValue]:
        """Nothing: the effect only keeps it where it is."""
        return ()

    def verify_(self) -> None:
        if check_indices(self.tensor, self.indices).space.data != "global":
            raise VerifyException("only global memory is prefetched")
