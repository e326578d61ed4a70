# SPDX-License-Identifier: Apache-2.0
"""The profilers inside a kernel: ``weft.profiler.CudaProfiler`` and ``weft.profiler.Profiler``.

In: a buffer and who records. Out: an object whose methods mark the kernel's regions.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64

from weft.dialects.builder import source_location
from weft.dialects.simt.kernel import UNIT
from weft.dialects.simt.profiling import TirxProfilerOp, TrackProfilerOp
from weft.errors import CompileError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import convert, truth
from weft.language.operation import operation
from weft.language.profiling.methods import (
    EventTable,
    TirxProfiler,
    TrackProfiler,
    known_integer,
    switch,
)
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.location import SourceLocation


@operation(name="profiler.CudaProfiler")
def CudaProfiler(  # the name that programs for TIRx use
    builder: Builder,
    profiler_buffer: object,
    write_stride: object,
    num_groups: object,
    default_leader: object = None,
    profiler_enabled: object = True,
    fence: object = False,
) -> TirxProfiler:
    """Records events of a kernel into a buffer, in the wire format of TIRx's profiler of the same name.

    Made at the top level of the kernel. Its methods: ``init(group_id)`` points a thread at its track, once
    and before all else; ``start(event, leader=None)`` and ``end(event, leader=None)`` open and close a
    region; ``mark(event, leader=None)`` is an instant; ``finalize(leader=None)`` ends the track;
    ``with p.range(event):`` is a start and an end. Every thread executes them, and the leaders record.
    An event is a number from 0 to 1023, or a member of an `enum.Enum` with such a value.

    A record that does not fit the buffer is dropped, and never written elsewhere. A launch that the format
    cannot hold (more than 2^20 tracks, too small a stride) is an error where its grid is constant; else it
    records nothing, and the decoder says why.

    Args:
        profiler_buffer: a ``u64`` or ``i64`` tensor of rank 1, filled with zeros before the launch.
        write_stride: words between two records of a track; at least blocks × num_groups.
        num_groups: tracks per block.
        default_leader: whether this thread records, where a call does not say; true for one thread of each
            group.
        profiler_enabled: False leaves nothing in the compiled kernel; a run-time bool switches at run time.
        fence: whether each start and end also waits for the thread's memory accesses, as in TIRx.

    Raises:
        TypeMismatchError: for a buffer of another type or rank, or a value that is not an integer or bool.
        ValueRangeError: for constants that the format cannot hold.
        CompileError: if it is made in a branch or loop; if the kernel never calls ``init``; for an ``end``
            without a ``start``.

    Example:
        ``p = weft.profiler.CudaProfiler(records, write_stride=4, num_groups=1, default_leader=tid == 0)``
    """
    enabled = switch(builder, profiler_enabled)
    if enabled is False:
        return TirxProfiler(None, num_groups)
    if not isinstance(fence, bool):
        raise TypeMismatchError(
            "PROFILER_TYPE", f"CudaProfiler: fence is {describe(fence)}; expected True or False"
        )
    buffer = _words("CudaProfiler", profiler_buffer)
    _check_top_level(builder, "CudaProfiler")
    stride = _positive(builder, "write_stride", write_stride, wire.TIRX_MOST_STRIDE)
    groups = _positive(builder, "num_groups", num_groups, wire.TIRX_MOST_TRACKS)
    if isinstance(groups, int):
        _check_block(buffer, stride, groups)
    made = TirxProfilerOp(
        buffer.ssa,
        convert(builder, stride, types.i64).ssa,
        convert(builder, groups, types.i64).ssa,
        None if default_leader is None else truth(builder, default_leader).ssa,
        None if enabled is True else truth(builder, enabled).ssa,
        fence=fence,
    )
    return TirxProfiler(builder.emit(made), groups)


def _check_block(buffer: Tensor, stride: Scalar | int, groups: int) -> None:
    """Refuses what not even one block fits; the pass knows the launches.

    Raises:
        ValueRangeError: with both numbers.
    """
    if isinstance(stride, int) and stride < groups:
        raise ValueRangeError(
            "PROFILER_STRIDE",
            f"CudaProfiler: write_stride is {stride}, and each block alone has {groups} groups",
            hint="write_stride is at least the number of blocks times num_groups",
        )
    length = buffer.type.dims[0]
    if 0 <= length <= groups:
        raise ValueRangeError(
            "PROFILER_BUFFER",
            f"CudaProfiler: '{buffer.name}' has {length} words; {groups} groups need {groups + 1} for one "
            "record each",
            hint="it holds 1 word, and then one per record of every track",
        )


_FORMATS: Final = ("track", "wide")
_OVERFLOWS: Final = ("drop", "ring")
_MOST_GROUPS: Final = 1024


@operation(name="profiler.Profiler")
def Profiler(
    builder: Builder,
    events: object = None,
    groups: object = 1,
    *,
    buffer: object = None,
    leader: object = None,
    records: object = None,
    format: object = "track",
    overflow: object = "drop",
    blocks: object = None,
    enabled: object = True,
) -> TrackProfiler:
    """Records events of a kernel, with 64-bit times, payloads and counters; `capture` on the host reads them.

    Made at the top level of the kernel. A thread takes part once it has called ``p.init(group)``: of each
    group of each block one thread records, the *leader*; without `leader` it is the first of the group that
    comes to ``init``. Every thread executes the methods, and the leaders record:

    ``start(event)``, ``end(event)`` and ``with p.range(event):`` open and close a region; ``mark(event)`` is an
    instant; ``count(event, value)`` a sample of a counter; ``begin_async(event, key)`` and
    ``end_async(event, key)`` a region that another group of the block may end; ``finalize()`` ends the track,
    which otherwise the end of the kernel does. ``payload=`` adds an integer of up to 32 bits.
    ``x = p.start(event, anchor=x)`` and ``x = p.end(event, anchor=x)`` keep the arithmetic of a 32-bit ``x``
    after the start and before the end. ``range_push``, ``range_pop``, ``range_start`` and ``range_end`` are
    other names for the same.

    Nothing is stored outside the buffer. What does not fit is dropped and counted. Where the kernel's loops say how
    many records there are and the launch's buffer is too small for all tracks, nothing is recorded and the report
    says how many words it takes; `records` keeps the beginnings instead. Threads that call ``init`` with a group
    that does not exist record nothing, and the report says so.

    Args:
        events: an `enum.Enum` or a sequence of names; without, names count as they come.
        groups: how many tracks a block has, or their names, or an `enum.Enum`.
        buffer: a tensor from `weft.profiler.buffer`; without one, `weft.profiler.capture` provides it.
        leader: which thread of a group records; true for one of each.
        records: most records per track; without, as many as the kernel needs where its loops say so, else as
            many as the buffer holds.
        format: ``"track"``, 8 bytes per record; or ``"wide"``, 16 bytes with a 64-bit clock and payload.
        overflow: ``"drop"`` keeps the first records of a track, ``"ring"`` the last.
        blocks: records only the first so many blocks, or those of a `range`.
        enabled: False leaves nothing in the compiled kernel; a run-time bool switches at run time.

    Raises:
        TypeMismatchError, ValueRangeError: for arguments of other types or out of range.
        CompileError: if it is made in a branch or loop; if another one of the kernel has the same buffer; if the
            kernel never calls ``init``; for an ``end`` without a ``start``.

    Example:
        ``p = weft.profiler.Profiler(events=("load", "compute"), groups=("producer", "consumer"))``
    """
    names, table = _group_names(groups), EventTable(events)
    switched = switch(builder, enabled)
    if switched is False:
        return TrackProfiler(None, table, names)
    options = {
        "records": _records(records),
        "blocks": _blocks(blocks),
        "wide": UNIT if _one_of("format", format, _FORMATS) == "wide" else None,
        "ring": UNIT if _one_of("overflow", overflow, _OVERFLOWS) == "ring" else None,
    }
    _check_top_level(builder, "Profiler")
    words = None if buffer is None else _words("Profiler", buffer).ssa
    _check_alone(builder, words)
    leads = None if leader is None else truth(builder, leader).ssa
    is_on = None if switched is True else truth(builder, switched).ssa
    made = TrackProfilerOp(words, leads, is_on, _kernel_name(builder.location), names, options)
    return TrackProfiler(builder.emit(made), table, names)


def _check_top_level(builder: Builder, what: str) -> None:
    """Raises if a profiler is made where not all of the kernel comes by.

    Raises:
        CompileError: naming it.
    """
    if builder.block is not builder.entry:
        raise CompileError(
            "PROFILER_PLACE",
            f"{what} is made in a branch or a loop",
            hint="make it at the top level of the kernel, before the first `if ...: return`",
        )


def _check_alone(builder: Builder, buffer: SSAValue | None) -> None:
    """Raises if another profiler of the kernel has the buffer: each would write over the other's prologue.

    Raises:
        CompileError: naming where the other was made.
    """
    for op in builder.entry.ops:
        if isinstance(op, TrackProfilerOp) and op.buffer is buffer:
            place = source_location(op.location)
            raise CompileError(
                "PROFILER_BUFFER_SHARED",
                "another Profiler of this kernel"
                + (f", made in line {place.line}," if place else "")
                + " records into the same buffer"
                + (": the one of weft.profiler.capture" if buffer is None else ""),
                hint="give one Profiler more events and groups, or the second a buffer= of its own",
            )


def _words(what: str, value: object) -> Tensor:
    """The buffer of a profiler.

    Raises:
        TypeMismatchError: if the buffer is not a u64 or i64 tensor of rank 1 in global memory.
    """
    if (
        not isinstance(value, Tensor)
        or value.rank != 1
        or value.dtype not in (types.u64, types.i64)
        or value.type.space.data != "global"
    ):
        raise TypeMismatchError(
            "PROFILER_BUFFER",
            f"{what}: the buffer is {describe(value)}; expected a tensor argument of rank 1 with u64 "
            "(or i64) elements",
            hint='annotate the parameter as weft.Tensor[weft.u64, ("words",)]',
        )
    return value


def _positive(builder: Builder, name: str, value: object, most: int) -> Scalar | int:
    """A positive integer, staged or not.

    Raises:
        TypeMismatchError, ValueRangeError: for anything else.
    """
    found = known_integer(builder, value)
    if found is None:
        raise TypeMismatchError(
            "PROFILER_TYPE", f"CudaProfiler: {name} is {describe(value)}; expected an integer"
        )
    if isinstance(found, int) and not 1 <= found <= most:
        raise ValueRangeError(
            "PROFILER_RANGE", f"CudaProfiler: {name} is {found}; expected 1 to {most}"
        )
    return found


def _kernel_name(place: SourceLocation) -> str:
    """The function that all calls around a place began in."""
    while place.caller is not None:
        place = place.caller
    return place.function


def _group_names(groups: object) -> list[str]:
    if isinstance(groups, int) and not isinstance(groups, bool):
        names = [f"group {number}" for number in range(groups)]
    elif isinstance(groups, type) and issubclass(groups, Enum):
        members = sorted(groups, key=lambda member: member.value)
        if [member.value for member in members] != list(range(len(members))):
            raise ValueRangeError(
                "PROFILER_GROUPS",
                f"Profiler: the values of {groups.__name__} are not 0, 1, ..., which number the groups",
            )
        names = [member.name for member in members]
    elif isinstance(groups, tuple | list) and all(
        isinstance(name, str) for name in cast("list[Any]", groups)
    ):
        names = list(cast("list[str]", groups))
    else:
        raise TypeMismatchError(
            "PROFILER_GROUPS",
            f"Profiler: groups is {describe(cast('object', groups))}; expected a number, names or an Enum",
        )
    if len(set(names)) < len(names):
        raise ValueRangeError(
            "PROFILER_GROUPS", f"Profiler: a name stands twice in the groups {', '.join(names)}"
        )
    if not 1 <= len(names) <= _MOST_GROUPS:
        raise ValueRangeError(
            "PROFILER_GROUPS", f"Profiler: {len(names)} groups; expected 1 to {_MOST_GROUPS}"
        )
    return names


def _records(records: object) -> IntegerAttr[Any] | None:
    if records is None:
        return None
    if not isinstance(records, int) or isinstance(records, bool):
        raise TypeMismatchError(
            "PROFILER_TYPE",
            f"Profiler: records is {describe(records)}; expected an int known at compile time",
        )
    if not 1 <= records < wire.TRACK_MOST_WORDS // 2:
        raise ValueRangeError(
            "PROFILER_RANGE", f"Profiler: records is {records}; expected 1 or more"
        )
    return IntegerAttr(records, i64)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise ValueRangeError(
        "PROFILER_OPTION",
        f"Profiler: {name} is {describe(value)}; expected one of {', '.join(map(repr, known))}",
    )


def _blocks(blocks: object) -> DenseArrayBase[Any] | None:
    if blocks is None:
        return None
    chosen = range(blocks) if isinstance(blocks, int) and not isinstance(blocks, bool) else blocks
    if not isinstance(chosen, range):
        raise TypeMismatchError(
            "PROFILER_TYPE",
            f"Profiler: blocks is {describe(blocks)}; expected a number of blocks or a range",
            hint="range(0, 1000, 10) records every tenth block",
        )
    if not len(chosen) or chosen.start < 0 or chosen.step < 1:
        raise ValueRangeError(
            "PROFILER_RANGE", f"Profiler: blocks is {blocks}, which holds no block, or goes down"
        )
    bounds = (chosen.start, chosen.stop, chosen.step)
    return DenseArrayBase.from_list(i64, [min(part, types.i64.maximum) for part in bounds])
