# SPDX-License-Identifier: Apache-2.0
"""What the profilers of a kernel have in common, and `CudaProfiler`'s methods.

In: what the user passes. Out: checked values, and markers.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import operand, truth
from weft.language.operation import Operation
from weft.language.profiling.marks import INIT, Mark, checked_range
from weft.language.values import Scalar, StagedContext, StagedNamespace, Tensor, describe
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.language.profiling.tirx import TirxRecorder


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


def buffer_words(what: str, value: object) -> Tensor:
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


def switch(builder: Builder, value: object) -> Scalar | bool:
    """A condition: a bool at compile time, or a staged one."""
    found = operand(builder, value)
    if not isinstance(found, Scalar):
        return bool(found)
    staged = truth(builder, found)
    return staged if staged.constant is None else bool(staged.constant)


def positive(builder: Builder, name: str, value: object, most: int) -> Scalar | int:
    """A positive integer, staged or not.

    Raises:
        TypeMismatchError, ValueRangeError: for anything else.
    """
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
            NameResolutionError: if there is not one of that name.
        """
        del builder
        return method(self, _TIRX_METHODS, name, "CudaProfiler")

    def init(self, builder: Builder, group_id: object = 0) -> None:
        """Points this thread at the track of its group."""
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
            most = self._groups if isinstance(self._groups, int) else wire.TIRX_MOST_TRACKS
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
        """Ends the track: no record of it follows."""
        self._record(builder, wire.FINALIZE, 0, leader)

    def range(self, builder: Builder, event_type: object, leader: object = None) -> Range:
        """A region for `with`: a start before the body and an end after it."""
        del builder
        return Range(
            lambda inner: self.start(inner, event_type, leader),
            lambda inner: self.end(inner, event_type, leader),
        )

    def _record(self, builder: Builder, kind: int, event: object, leader: object) -> None:
        if self._recorder is None:
            return
        number = event_number(event, wire.TIRX_MOST_EVENTS)
        chosen = None if leader is None else switch(builder, leader)
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


def method(owner: object, names: tuple[str, ...], name: str, what: str) -> Operation[...]:
    """A method of a compile-time object as an operation that a kernel can call.

    Raises:
        NameResolutionError: if there is not one of that name.
    """
    if name not in names:
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{what} has no method {name!r}",
            hint=f"there are {', '.join(names)}",
        )
    bound: Any = getattr(owner, name)
    return Operation(bound, f"profiler.{what}.{name}", on_host=False)
