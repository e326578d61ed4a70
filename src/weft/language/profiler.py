# SPDX-License-Identifier: Apache-2.0
"""The profiler inside a kernel: ``weft.profiler.CudaProfiler``.

In: a buffer and who records. Out: an object whose methods mark the kernel's regions. Next: tracing.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.convert import operand, truth
from weft.language.operation import Operation, operation
from weft.language.tracing.marks import INIT, Mark, checked_range
from weft.language.tracing.tirx import TirxRecorder
from weft.language.values import Scalar, StagedContext, StagedNamespace, Tensor, describe
from weft.types import dtype as types
from weft.types import trace_format as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder


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

    Made at the top level of the kernel. Its methods: ``init(group_id)`` points a thread at its lane, once
    and before all else; ``start(event, leader=None)`` and ``end(event, leader=None)`` open and close a
    region; ``mark(event, leader=None)`` is an instant; ``finalize(leader=None)`` ends the lane;
    ``with p.range(event):`` is a start and an end. Every thread executes them, and the leaders record.
    An event is a number from 0 to 1023, or a member of an `enum.Enum` with such a value.

    A record that does not fit the buffer is dropped, and never written elsewhere. A launch that the format
    cannot hold (more than 2^20 lanes, too small a stride) records nothing, and the decoder says why.

    Args:
        builder: where operations go; users leave it out.
        profiler_buffer: a ``u64`` or ``i64`` tensor of rank 1, filled with zeros before the launch.
        write_stride: words between two records of a lane; at least blocks × num_groups.
        num_groups: lanes per block.
        default_leader: whether this thread records, where a call does not say; true for one thread of each
            group.
        profiler_enabled: False leaves nothing in the compiled kernel; a run-time bool switches at run time.
        fence: whether each start and end also waits for the thread's memory accesses, as in TIRx.

    Raises:
        TypeMismatchError: for a buffer of another type or rank, or what is no integer or bool.
        ValueRangeError: for constants that the format cannot hold.
        CompileError: if it is made in a branch or loop; if the kernel never calls ``init``; for an ``end``
            without a ``start``.

    Example:
        ``p = weft.profiler.CudaProfiler(trace, write_stride=4, num_groups=1, default_leader=tid == 0)``
    """
    enabled = _switch(builder, profiler_enabled, "profiler_enabled")
    if enabled is False:
        return TirxProfiler(None, None, num_groups)
    if not isinstance(fence, bool):
        raise TypeMismatchError(
            "PROFILER_TYPE", f"CudaProfiler: fence is {describe(fence)}; expected True or False"
        )
    buffer = _buffer(profiler_buffer)
    check_top_level(builder, "CudaProfiler")
    stride = _count(builder, "write_stride", write_stride, types.u32.maximum)
    groups = _count(builder, "num_groups", num_groups, wire.TIRX_MOST_LANES)
    if isinstance(stride, int) and isinstance(groups, int) and stride < groups:
        raise ValueRangeError(
            "PROFILER_STRIDE",
            f"CudaProfiler: write_stride is {stride}, and each block alone has {groups} groups",
            hint="write_stride is at least the number of blocks times num_groups",
        )
    length = buffer.type.dims[0]
    if isinstance(groups, int) and 0 <= length <= groups:
        raise ValueRangeError(
            "PROFILER_BUFFER",
            f"CudaProfiler: '{buffer.name}' has {length} words; {groups} groups need {groups + 1} for one "
            "record each",
            hint="it holds 1 word, and then one per record of every lane",
        )
    leader = None if default_leader is None else _switch(builder, default_leader, "default_leader")
    recorder = TirxRecorder(builder, buffer, stride, groups, leader, enabled, fence)
    return TirxProfiler(recorder, leader, groups)


def check_top_level(builder: Builder, what: str) -> None:
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


def _buffer(value: object) -> Tensor:
    if (
        not isinstance(value, Tensor)
        or value.rank != 1
        or value.dtype not in (types.u64, types.i64)
        or value.type.space.data != "global"
    ):
        raise TypeMismatchError(
            "PROFILER_BUFFER",
            f"CudaProfiler: the buffer is {describe(value)}; expected a tensor argument of rank 1 with u64 "
            "(or i64) elements",
            hint='annotate the parameter as weft.Tensor[weft.u64, ("words",)]',
        )
    return value


def _switch(builder: Builder, value: object, name: str) -> Scalar | bool:
    """A condition: a bool at compile time, or a staged one."""
    found = operand(builder, value)
    if not isinstance(found, Scalar):
        return bool(found)
    staged = truth(builder, found)
    return staged if staged.constant is None else bool(staged.constant)


def _count(builder: Builder, name: str, value: object, most: int) -> Scalar | int:
    """A positive integer, staged or not."""
    found = operand(builder, value)
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return found
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "PROFILER_TYPE", f"CudaProfiler: {name} is {describe(value)}; expected an integer"
        )
    if not 1 <= known <= most:
        raise ValueRangeError(
            "PROFILER_RANGE", f"CudaProfiler: {name} is {known}; expected 1 to {most}"
        )
    return known


def event_number(value: object, most: int) -> int:
    """The number of an event: an int, or an Enum member's value.

    Raises:
        TypeMismatchError: for anything else.
        ValueRangeError: beyond what the format holds.
    """
    number = value.value if isinstance(value, Enum) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeMismatchError(
            "PROFILER_EVENT",
            f"the event is {describe(value)}; expected an int known at compile time, or a member of an Enum "
            "with such a value",
        )
    checked_range("the event", number, most - 1, "a number")
    return number


class TirxProfiler(StagedNamespace):
    """What `CudaProfiler` makes: an object of the kernel's compile time.

    Args:
        recorder: leaves the markers; None where the profiler is off.
        leader: the default leader, or None.
        groups: groups per block.
    """

    __slots__ = ("_groups", "_leader", "_recorder")

    on_host: Final = False

    def __init__(
        self, recorder: TirxRecorder | None, leader: Scalar | bool | None, groups: object
    ) -> None:
        self._recorder = recorder
        self._leader = leader
        self._groups = groups

    def __repr__(self) -> str:
        return "CudaProfiler"

    def attribute(self, builder: Builder, name: str) -> object:
        """A method, as an operation of the language.

        Raises:
            NameResolutionError: if there is none of that name.
        """
        del builder
        return method(self, _TIRX_METHODS, name, "CudaProfiler")

    def init(self, builder: Builder, group_id: object = 0) -> None:
        """Points this thread at the lane of its group."""
        if self._recorder is None:
            return
        group = operand(builder, group_id)
        known = group.constant if isinstance(group, Scalar) else group
        if isinstance(known, float | bool) or (
            isinstance(group, Scalar) and not group.dtype.is_integer
        ):
            raise TypeMismatchError(
                "PROFILER_TYPE", f"init: group_id is {describe(group_id)}; expected an integer"
            )
        if isinstance(known, int):
            most = self._groups if isinstance(self._groups, int) else wire.TIRX_MOST_LANES
            if not 0 <= known < most:
                raise ValueRangeError(
                    "PROFILER_RANGE",
                    f"init: group_id is {known}; expected 0 to {most - 1}, as num_groups is {most}",
                )
            group = known
        assert not isinstance(group, float)
        self._recorder.add(builder, Mark(INIT, group=group))

    def start(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Opens a region: one record by each leader."""
        self._record(builder, wire.START, event_type, leader)

    def end(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Closes a region: one record by each leader."""
        self._record(builder, wire.END, event_type, leader)

    def mark(self, builder: Builder, event_type: object, leader: object = None) -> None:
        """Records an instant, which the format has and TIRx's own class does not emit."""
        self._record(builder, wire.INSTANT, event_type, leader)

    def finalize(self, builder: Builder, leader: object = None) -> None:
        """Ends the lane: no record of it follows."""
        self._record(builder, wire.FINALIZE, 0, leader)

    def range(self, builder: Builder, event_type: object, leader: object = None) -> Range:
        """A region for `with`: a start before the body and an end behind it."""
        del builder
        return Range(
            lambda inner: self.start(inner, event_type, leader),
            lambda inner: self.end(inner, event_type, leader),
        )

    def _record(self, builder: Builder, kind: int, event: object, leader: object) -> None:
        if self._recorder is None:
            return
        number = event_number(event, wire.TIRX_MOST_EVENTS)
        chosen = None if leader is None else _switch(builder, leader, "leader")
        if chosen is None and self._leader is None:
            raise CompileError(
                "PROFILER_LEADER",
                "no thread is named that records: every thread of the group would write the same word",
                hint="give CudaProfiler a default_leader=, or this call a leader=, such as tid == 0",
            )
        self._recorder.add(builder, Mark(kind, number, leader=chosen))


_TIRX_METHODS: Final = ("init", "start", "end", "mark", "finalize", "range")


class Range(StagedContext):
    """A region that `with` opens and closes."""

    __slots__ = ("_close", "_open")

    def __init__(
        self, opening: Callable[[Builder], None], closing: Callable[[Builder], None]
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


def method(owner: object, names: tuple[str, ...], name: str, what: str) -> Operation:
    """A method of a compile-time object as an operation that a kernel can call.

    Raises:
        NameResolutionError: if there is none of that name.
    """
    if name not in names:
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{what} has no method {name!r}",
            hint=f"there are {', '.join(names)}",
        )
    bound: Any = getattr(owner, name)
    return Operation(bound, f"profiler.{what}.{name}", on_host=False)
