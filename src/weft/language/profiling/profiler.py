# SPDX-License-Identifier: Apache-2.0
"""The profilers inside a kernel: ``weft.profiler.CudaProfiler`` and ``weft.profiler.Profiler``.

In: a buffer and who records. Out: an object whose methods mark the kernel's regions: they check users' arguments, and
each call is a `simt.mark`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64

from weft.dialects.builder import source_location
from weft.dialects.simt.kernel import UNIT
from weft.dialects.simt.profiling import INIT, MarkOp, TirxProfilerOp, TrackProfilerOp
from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import convert, operand, truth
from weft.language.operation import Operation, operation
from weft.language.values import Scalar, StagedContext, StagedNamespace, Tensor, describe
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        blocks: records only that many first blocks, or those of a `range`.
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


def switch(builder: Builder, value: object) -> Scalar | bool:
    """A condition: a bool at compile time, or a staged one."""
    found = operand(builder, value)
    if not isinstance(found, Scalar):
        return bool(found)
    staged = truth(builder, found)
    return staged if staged.constant is None else bool(staged.constant)


def known_integer(builder: Builder, value: object) -> Scalar | int | None:
    """An integer: a Python int where it is known, else staged; None for anything else."""
    found = operand(builder, value)
    if isinstance(found, Scalar):
        if not found.dtype.is_integer:
            return None
        return found if found.constant is None else int(found.constant)
    return None if isinstance(found, bool | float) else found


class Range(StagedContext):
    """A region that `with` opens and closes."""

    __slots__ = ("_close", "_open")

    def __init__(
        self, opening: Callable[[Builder], object], closing: Callable[[Builder], object]
    ) -> None:
        self._open = opening
        self._close = closing

    def enter(self, builder: Builder) -> object:
        """Emits the start."""
        self._open(builder)
        return self

    def leave(self, builder: Builder) -> None:
        """Emits the end."""
        self._close(builder)


class KernelProfiler(StagedNamespace):
    """An object of the kernel's compile time, whose methods are operations of the language.

    Attributes:
        what: as users call it.
        methods: names of its methods.
    """

    __slots__ = ("_op",)

    on_host: Final = False
    what: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

    def __init__(self, op: TrackProfilerOp | TirxProfilerOp | None) -> None:
        self._op = op

    def __repr__(self) -> str:
        return self.what

    def attribute(self, builder: Builder, name: str) -> object:
        """A method, as an operation of the language.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        del builder
        if name not in self.methods:
            raise NameResolutionError(
                "UNKNOWN_ATTRIBUTE",
                f"{self.what} has no method {name!r}",
                hint=f"there are {', '.join(self.methods)}",
            )
        return Operation(getattr(self, name), f"profiler.{self.what}.{name}", on_host=False)

    def _mark(
        self,
        builder: Builder,
        kind: str,
        event: int | None = None,
        *,
        group: Scalar | int | None = None,
        leader: Scalar | bool | None = None,
        payload: Scalar | int | None = None,
        anchor: Scalar | None = None,
    ) -> Scalar | None:
        """Leaves a mark; the value stands for its anchor from here on. Nothing where the profiler is off."""
        if self._op is None:
            return anchor
        made = MarkOp(
            self._op.profiler,
            kind,
            event,
            group=None if group is None else convert(builder, group, types.i64).ssa,
            leader=None if leader is None else truth(builder, leader).ssa,
            payload=None if payload is None else convert(builder, payload, types.u32).ssa,
            is_long=payload is not None and _is_long(payload),
            anchor=None if anchor is None else anchor.ssa,
        )
        builder.emit(made)
        return (
            None if anchor is None or made.anchored is None else Scalar(made.anchored, anchor.dtype)
        )


def _is_long(payload: Scalar | int) -> bool:
    """Whether a payload may need more than 16 bits."""
    return payload.dtype.bits > 16 if isinstance(payload, Scalar) else payload > 0xFFFF


def _event_number(value: object, most: int, names: str = "") -> int:
    """The number of an event: an int, or an Enum member's value.

    Raises:
        TypeMismatchError: for anything else.
        ValueRangeError: beyond the format's range.
    """
    number = value.value if isinstance(value, Enum) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeMismatchError(
            "PROFILER_EVENT",
            f"the event is {describe(value)}; expected {names}an int known at compile time, or a member of "
            "an Enum with such a value",
        )
    if not 0 <= number < most:
        raise ValueRangeError(
            "PROFILER_RANGE", f"the event is {number}; expected a number from 0 to {most - 1}"
        )
    return number


class TirxProfiler(KernelProfiler):
    """A profiler made by `CudaProfiler`.

    Args:
        op: makes it; None where the profiler is off.
        groups: groups per block.
    """

    __slots__ = ("_groups",)

    what = "CudaProfiler"
    methods = ("init", "start", "end", "mark", "finalize", "range")

    def __init__(self, op: TirxProfilerOp | None, groups: object) -> None:
        super().__init__(op)
        self._groups = groups

    def init(self, builder: Builder, group_id: object = 0) -> None:
        """Points this thread at the track of its group."""
        if self._op is None:
            return
        group = known_integer(builder, group_id)
        if group is None:
            raise TypeMismatchError(
                "PROFILER_TYPE", f"init: group_id is {describe(group_id)}; expected an integer"
            )
        most = self._groups if isinstance(self._groups, int) else wire.TIRX_MOST_TRACKS
        if isinstance(group, int) and not 0 <= group < most:
            raise ValueRangeError(
                "PROFILER_RANGE",
                f"init: group_id is {group}; expected 0 to {most - 1}, as num_groups is {most}",
            )
        self._mark(builder, INIT, group=group)

    def start(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Opens a region: one record by each leader."""
        self._record(builder, "start", event_type, leader)

    def end(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Closes a region: one record by each leader."""
        self._record(builder, "end", event_type, leader)

    def mark(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Records an instant, which the format has and TIRx's own class does not emit."""
        self._record(builder, "instant", event_type, leader)

    def finalize(self, builder: Builder, leader: object = None) -> None:
        """Ends the track: no record of it follows."""
        self._record(builder, "finalize", 0, leader)

    def range(self, builder: Builder, event_type: object, leader: object = None) -> Range:
        """A region for `with`: a start before the body and an end after it."""
        del builder
        return Range(
            lambda inner: self.start(inner, event_type, leader),
            lambda inner: self.end(inner, event_type, leader),
        )

    def _record(self, builder: Builder, kind: str, event: object, leader: object) -> None:
        if self._op is None:
            return
        number = _event_number(event, wire.TIRX_MOST_EVENTS)
        chosen = None if leader is None else switch(builder, leader)
        if chosen is None and self._op.leader is None:
            raise CompileError(
                "PROFILER_LEADER",
                "no thread is named that records: every thread of the group would write the same word",
                hint="give CudaProfiler a default_leader=, or this call a leader=, such as tid == 0",
            )
        self._mark(builder, kind, number, leader=chosen)


class EventTable:
    """The numbers of a profiler's events.

    Args:
        declared: an Enum class, a sequence of names, or None: then names are numbered as they come.
    """

    __slots__ = ("_is_open", "_numbers")

    def __init__(self, declared: object) -> None:
        self._numbers: dict[str, int] = {}
        self._is_open = declared is None
        if declared is None:
            return
        if isinstance(declared, type) and issubclass(declared, Enum):
            self._numbers = {member.name: self._checked(member) for member in declared}
            return
        names = cast("list[Any]", declared)
        if not isinstance(declared, tuple | list) or not all(isinstance(n, str) for n in names):
            raise TypeMismatchError(
                "PROFILER_EVENT",
                f"Profiler: events is {describe(cast('object', declared))}; expected an Enum or a sequence of names",
            )
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            raise ValueRangeError(
                "PROFILER_EVENT", f"Profiler: the event {twice[0]!r} stands in events twice"
            )
        self._numbers = {name: self._checked(number) for number, name in enumerate(names)}

    @property
    def names(self) -> list[str]:
        """By number; empty for one that no name was given to."""
        named = {number: name for name, number in self._numbers.items()}
        return [named.get(number, "") for number in range(max(named, default=-1) + 1)]

    def number(self, event: object) -> int:
        """The number of an event: a name, an Enum member or an int.

        Raises:
            TypeMismatchError: for anything else, or a name that was not declared.
            ValueRangeError: for a number that the format does not hold.
        """
        if isinstance(event, str) and event not in self._numbers:
            if not self._is_open:
                known = ", ".join(map(repr, self._numbers))
                raise TypeMismatchError(
                    "PROFILER_EVENT",
                    f"the event {event!r} is not one of {known}"
                    if known
                    else f"the event {event!r} is not in events, which is empty",
                )
            self._numbers[event] = self._checked(max(self._numbers.values(), default=-1) + 1)
        if isinstance(event, str):
            return self._numbers[event]
        number = self._checked(event)
        if isinstance(event, Enum) and self._is_open:
            return self._numbers.setdefault(event.name, number)
        return number

    @staticmethod
    def _checked(event: object) -> int:
        return _event_number(event, wire.TRACK_MOST_EVENTS, "a name, ")


class TrackProfiler(KernelProfiler):
    """A profiler made by `Profiler`.

    Args:
        op: makes it; None where the profiler is off. Learns the names of events.
        events: the numbers of its events.
        groups: names of a block's tracks.
    """

    __slots__ = ("_events", "_groups", "_pushed")

    what = "Profiler"
    methods = (
        *("init", "start", "end", "range", "mark", "count", "begin_async", "end_async", "finalize"),
        *("range_push", "range_pop", "range_start", "range_end"),
    )

    def __init__(
        self, op: TrackProfilerOp | None, events: EventTable, groups: Sequence[str]
    ) -> None:
        super().__init__(op)
        self._events = events
        self._groups = list(groups)
        self._pushed: list[int] = []
        self._name_events()

    def init(self, builder: Builder, group: object = 0, leader: object = None) -> None:
        """This thread is of that group; one of its threads takes the track."""
        if self._op is None:
            return
        number = self._group(builder, group)
        chosen = None if leader is None else switch(builder, leader)
        self._mark(builder, INIT, group=number, leader=chosen)

    def start(
        self, builder: Builder, event: object, payload: object = None, anchor: object = None
    ) -> object:
        """Opens a region; the value is the anchor's, to go on with."""
        return self._record(builder, "start", event, payload, anchor)

    def end(
        self, builder: Builder, event: object, payload: object = None, anchor: object = None
    ) -> object:
        """Closes a region; the value is the anchor's."""
        return self._record(builder, "end", event, payload, anchor)

    def range(self, builder: Builder, event: object, payload: object = None) -> Range:
        """A region for `with`."""
        del builder
        return Range(
            lambda inner: self.start(inner, event, payload), lambda inner: self.end(inner, event)
        )

    def mark(self, builder: Builder, event: object, payload: object = None) -> None:
        """Records an instant."""
        self._record(builder, "instant", event, payload)

    def count(self, builder: Builder, event: object, value: object) -> None:
        """Records a counter's value."""
        self._record(builder, "counter", event, value)

    def begin_async(self, builder: Builder, event: object, key: object = 0) -> None:
        """Opens a region that any track of the block may close with the same event and key."""
        self._record(builder, "async_begin", event, key)

    def end_async(self, builder: Builder, event: object, key: object = 0) -> None:
        """Closes the oldest region that `begin_async` opened with this event and key in the block."""
        self._record(builder, "async_end", event, key)

    def finalize(self, builder: Builder) -> None:
        """Ends this thread's track."""
        self._mark(builder, "finalize")

    def range_push(self, builder: Builder, event: object, payload: object = None) -> None:
        """`start`, closed by the next `range_pop`."""
        self.start(builder, event, payload)
        self._pushed.append(self._events.number(event))

    def range_pop(self, builder: Builder) -> None:
        """Closes the region of the last `range_push`."""
        if not self._pushed:
            raise CompileError("PROFILER_PAIR", "range_pop() without a range_push() before it")
        self.end(builder, self._pushed.pop())

    def range_start(self, builder: Builder, event: object, payload: object = None) -> int:
        """`start`; the value is what `range_end` takes."""
        self.start(builder, event, payload)
        return self._events.number(event)

    def range_end(self, builder: Builder, token: object) -> None:
        """Closes what `range_start` opened."""
        self.end(builder, token)

    def _group(self, builder: Builder, group: object) -> Scalar | int:
        group = group.value if isinstance(group, Enum) else group
        if isinstance(group, str):
            if group not in self._groups:
                raise TypeMismatchError(
                    "PROFILER_GROUPS",
                    f"init: the group {group!r} is not one of {', '.join(map(repr, self._groups))}",
                )
            return self._groups.index(group)
        number = known_integer(builder, group)
        if number is None:
            raise TypeMismatchError(
                "PROFILER_TYPE", f"init: the group is {describe(group)}; expected an integer"
            )
        if isinstance(number, int) and not 0 <= number < len(self._groups):
            raise ValueRangeError(
                "PROFILER_RANGE",
                f"init: the group is {number}; expected 0 to {len(self._groups) - 1}",
            )
        return number

    def _record(
        self,
        builder: Builder,
        kind: str,
        event: object,
        payload: object = None,
        anchor: object = None,
    ) -> object:
        number = self._events.number(event)
        if self._op is None:
            return anchor
        self._name_events()
        value = None if payload is None else _payload(builder, payload)
        return self._mark(builder, kind, number, payload=value, anchor=_anchor(anchor))

    def _name_events(self) -> None:
        if isinstance(self._op, TrackProfilerOp):
            self._op.name_events(self._events.names)


def _payload(builder: Builder, value: object) -> Scalar | int:
    found = operand(builder, value)
    if isinstance(found, Scalar):
        if (found.dtype.is_integer or found.dtype.is_bool) and found.dtype.bits <= 32:
            return found
    elif not isinstance(found, float):
        if -(1 << 31) <= found < 1 << 32:
            return int(found) & 0xFFFFFFFF
        raise ValueRangeError(
            "PROFILER_RANGE", f"the payload is {found}; expected an integer of 32 bits"
        )
    raise TypeMismatchError(
        "PROFILER_TYPE",
        f"the payload is {describe(found)}; expected an integer of at most 32 bits",
        hint="convert it, such as weft.u32(x)",
    )


def _anchor(value: object) -> Scalar | None:
    if value is None:
        return None
    if isinstance(value, Scalar) and value.dtype.bits == 32:
        return value
    raise TypeMismatchError(
        "PROFILER_TYPE",
        f"the anchor is {describe(value)}; expected an f32, i32 or u32 that is known only at run time",
    )
