# SPDX-License-Identifier: Apache-2.0
"""Clocks and the multiprocessor's number: `simt.timer`, `simt.sm_id`; a clock into memory: `simt.record`.

Out: integers that differ from run to run; reads are never moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i32, i64
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

TIMERS: Final = {"globaltimer": i64, "clock64": i64, "clock32": i32}


@operation_definition
class TimerOp(IRDLOperation):
    """Reads a clock: `globaltimer` in nanoseconds, `clock64` and `clock32` in cycles.

    On the CPU all three count nanoseconds of the monotonic clock.
    """

    name = "simt.timer"

    kind = prop_def(StringAttr)
    result = result_def(IntegerType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$kind attr-dict `:` type($result)"

    def __init__(self, kind: str) -> None:
        super().__init__(properties={"kind": StringAttr(kind)}, result_types=[TIMERS[kind]])

    def verify_(self) -> None:
        if self.kind.data not in TIMERS:
            raise VerifyException(f"timer {self.kind.data!r} is not one of {tuple(TIMERS)}")
        if self.result.type != TIMERS[self.kind.data]:
            raise VerifyException(f"{self.kind.data} yields {TIMERS[self.kind.data]}")


@operation_definition
class SmIdOp(IRDLOperation):
    """The multiprocessor that runs the thread; on the CPU, the number of the worker."""

    name = "simt.sm_id"

    result = result_def(i32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class RecordOp(IRDLOperation):
    """If a condition holds: reads a clock, and writes its low 32 bits above a tag into an element.

    Reading and storing are one operation, so that nothing comes between, and a GPU needs no branch.
    """

    name = "simt.record"

    kind = prop_def(StringAttr)
    condition = operand_def(i1)
    tag = operand_def(i32)
    tensor = operand_def(TensorType)
    index = operand_def(IntegerType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind $condition `,` $tag `,` $tensor `[` $index `:` type($index) `]` attr-dict "
        "`:` type($tensor)"
    )

    def __init__(
        self, kind: str, condition: SSAValue, tag: SSAValue, tensor: SSAValue, index: SSAValue
    ) -> None:
        super().__init__(
            operands=[condition, tag, tensor, index], properties={"kind": StringAttr(kind)}
        )

    def verify_(self) -> None:
        if self.kind.data not in TIMERS:
            raise VerifyException(f"timer {self.kind.data!r} is not one of {tuple(TIMERS)}")
        tensor = self.tensor.type
        assert isinstance(tensor, TensorType)
        if tensor.element_type != i64 or tensor.rank != 1 or tensor.space.data != "global":
            raise VerifyException("simt.record writes into a global tensor of rank 1 of i64")
