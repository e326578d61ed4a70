# SPDX-License-Identifier: Apache-2.0
"""Clocks and profilers: `simt.timer`, `simt.record`, `simt.track_profiler`, `simt.mark`; `simt.sm_id`.

In: arguments of a profiler's methods. Out: operations that the pass `expand_profiler_events` turns into plain
ones, once all of a kernel is known: which events there are, and how often each is recorded. Clocks are never moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import (
    I32,
    I64,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import (
    BaseOperation,
    fixed_result,
    flag,
    operand,
    operation_definition,
    opt_operand,
    result_of,
    string,
    text_attribute,
)
from weft.dialects.simt.kernel import UNIT
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, OpResult, SSAValue
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Flag, String


INIT: Final = "init"
"""The kind of a mark where a thread takes its track; the other kinds are those of records."""
RECORD_KINDS: Final = (
    *("start", "end", "instant", "finalize"),
    *("counter", "async_begin", "async_end"),
)
"""In the order of their numbers in both wire formats."""


@irdl_attr_definition
class ProfilerType(ParametrizedAttribute, TypeAttribute):
    """`!simt.profiler`: what marks belong to; nothing when the kernel runs."""

    name = "simt.profiler"


@operation_definition
class TrackProfilerOp(IRDLOperation):
    """Makes a profiler that records in the `track` format; at the top level of its kernel.

    Without `buffer` it records into memory that each launch is given. `enabled` switches it at run time, `leader` says
    which threads may record; without, the first of its group that comes to its `init`.

    Properties:
        kernel: its name in the source, which the decoder shows.
        events: names by number; empty for a number without a name.
        groups: names of a block's tracks.
        records: most records per track.
        blocks: first, end and step of the blocks that record; all where absent.
        wide: records of 16 bytes with 64-bit clocks.
        ring: the last records are kept and not the first.
    """

    name = "simt.track_profiler"

    buffer = opt_operand_def(TensorType)
    leader = opt_operand_def(i1)
    enabled = opt_operand_def(i1)
    profiler = result_def(ProfilerType)
    kernel = prop_def(StringAttr)
    events = prop_def(ArrayAttr[StringAttr])
    groups = prop_def(ArrayAttr[StringAttr])
    records = opt_prop_def(IntegerAttr[I64])
    blocks = opt_prop_def(DenseArrayBase.constr(i64))
    wide = opt_prop_def(UnitAttr)
    ring = opt_prop_def(UnitAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = "(`buffer` $buffer^ `:` type($buffer))? (`leader` $leader^)? (`enabled` $enabled^)? attr-dict"

    def __init__(
        self,
        buffer: SSAValue | None,
        leader: SSAValue | None,
        enabled: SSAValue | None,
        kernel: str,
        groups: Sequence[str],
        properties: Mapping[str, Attribute | None],
    ) -> None:
        super().__init__(
            operands=[buffer, leader, enabled],
            result_types=[ProfilerType()],
            properties={
                "kernel": text_attribute(kernel),
                "groups": texts_attribute(groups),
                **properties,
            },
        )
        self.name_events(())

    def name_events(self, names: Sequence[str]) -> None:
        """Names the events, by number."""
        self.events = texts_attribute(names)

    def verify_(self) -> None:
        _verify_buffer(self.buffer)
        if self.blocks is not None and len(self.blocks.get_values()) != 3:
            raise VerifyException("blocks has a first, an end and a step")


@operation_definition
class TirxProfilerOp(BaseOperation):
    """Makes a profiler that records in the format of TIRx's CudaProfiler; at the top level of its kernel.

    `stride` and `groups` are i64: the words between two records of a track, and the tracks of a block. `leader` is
    which threads record where a mark does not say; `fence` makes starts and ends wait for memory accesses.
    """

    name = "simt.tirx_profiler"

    buffer: Operand = operand(TensorType)
    stride: Operand = operand(i64)
    groups: Operand = operand(i64)
    leader: OptOperand = opt_operand(i1)
    enabled: OptOperand = opt_operand(i1)
    fence: Flag = flag()
    profiler = fixed_result(ProfilerType())

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "`buffer` $buffer `:` type($buffer) `stride` $stride `groups` $groups "
        "(`leader` $leader^)? (`enabled` $enabled^)? attr-dict"
    )

    def verify_(self) -> None:
        _verify_buffer(self.buffer)


@operation_definition
class MarkOp(IRDLOperation):
    """Start of a thread's track (`init`), and its records.

    `group` names the track of an `init`, `leader` whether this thread records; without it, the profiler says so.
    `payload` is recorded beside the event; one marked `long` needs more than 16 bits. Code computed from the result
    waits for the record, which waits for the `anchor`.
    """

    name = "simt.mark"

    profiler = operand_def(ProfilerType)
    group = opt_operand_def(i64)
    leader = opt_operand_def(i1)
    payload = opt_operand_def(i32)
    anchor = opt_operand_def()
    anchored = opt_result_def()
    kind = prop_def(StringAttr)
    event = opt_prop_def(IntegerAttr[I32])
    long = opt_prop_def(UnitAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$kind $profiler (`event` $event^)? (`group` $group^)? (`leader` $leader^)? (`payload` $payload^)? "
        "(`anchor` $anchor^ `:` type($anchor))? (`->` type($anchored)^)? attr-dict"
    )

    def __init__(
        self,
        profiler: SSAValue,
        kind: str,
        event: int | None = None,
        *,
        group: SSAValue | None = None,
        leader: SSAValue | None = None,
        payload: SSAValue | None = None,
        is_long: bool = False,
        anchor: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[profiler, group, leader, payload, anchor],
            result_types=[anchor.type if anchor is not None else None],
            properties={
                "kind": StringAttr(kind),
                "event": None if event is None else IntegerAttr(event, i32),
                "long": UNIT if is_long else None,
            },
        )

    def verify_(self) -> None:
        if self.kind.data != INIT and self.kind.data not in RECORD_KINDS:
            raise VerifyException(f"{self.kind.data!r} is not a kind of mark")
        anchor, anchored = self.anchor, self.anchored
        if (anchor and anchor.type) != (anchored and anchored.type):
            raise VerifyException("the result of a mark has the type of its anchor")


def texts_attribute(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    """Texts that a user wrote."""
    return ArrayAttr(map(text_attribute, texts))


def _verify_buffer(buffer: SSAValue | None) -> None:
    kind = None if buffer is None else buffer.type
    if isinstance(kind, TensorType) and (kind.element_type, kind.rank) != (i64, 1):
        raise VerifyException("a profiler records into a tensor of rank 1 of i64")


TIMERS: Final = {"globaltimer": i64, "clock64": i64, "clock32": i32}


@operation_definition
class TimerOp(BaseOperation):
    """Reads a clock: `globaltimer` in nanoseconds, `clock64` and `clock32` in cycles.

    On the CPU all three count nanoseconds of the monotonic clock.
    """

    name = "simt.timer"

    kind: String = string()
    result: OpResult[IntegerType] = result_of("kind", IntegerType, TIMERS.__getitem__)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$kind attr-dict `:` type($result)"

    def verify_(self) -> None:
        if self.kind.data not in TIMERS:
            raise VerifyException(f"timer {self.kind.data!r} is not one of {tuple(TIMERS)}")
        if self.result.type != TIMERS[self.kind.data]:
            raise VerifyException(f"{self.kind.data} yields {TIMERS[self.kind.data]}")


@operation_definition
class SmIdOp(BaseOperation):
    """The multiprocessor that runs the thread; on the CPU, the number of the worker."""

    name = "simt.sm_id"

    result = fixed_result(i32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class RecordOp(BaseOperation):
    """If a condition holds: reads a clock, and writes its low 32 bits above a tag into an element.

    Reading and storing are one operation, so that nothing comes between, and a GPU needs no branch.
    """

    name = "simt.record"

    kind: String = string()
    condition: Operand = operand(i1)
    tag: Operand = operand(i32)
    tensor: Operand = operand(TensorType)
    index: Operand = operand(IntegerType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind $condition `,` $tag `,` $tensor `[` $index `:` type($index) `]` attr-dict "
        "`:` type($tensor)"
    )

    def verify_(self) -> None:
        if self.kind.data not in TIMERS:
            raise VerifyException(f"timer {self.kind.data!r} is not one of {tuple(TIMERS)}")
        tensor = self.tensor.type
        assert isinstance(tensor, TensorType)
        if tensor.element_type != i64 or tensor.rank != 1 or tensor.space.data != "global":
            raise VerifyException("simt.record writes into a global tensor of rank 1 of i64")
