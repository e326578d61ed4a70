# SPDX-License-Identifier: Apache-2.0
"""The methods of `Profiler` inside a kernel.

In: events, payloads, anchors. Out: markers.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import CompileError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import operand
from weft.language.profiling.marks import INIT, Mark
from weft.language.profiling.methods import Range, method, switch
from weft.language.values import Scalar, StagedNamespace, describe
from weft.types import record_format as wire

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.language.profiling.track import TrackRecorder


class EventTable:
    """The numbers of a profiler's events.

    Args:
        declared: an Enum class, a sequence of names, or None: then names are numbered as they come.

    Attributes:
        numbers: name → number.
    """

    __slots__ = ("_is_open", "numbers")

    def __init__(self, declared: object) -> None:
        self.numbers: dict[str, int] = {}
        self._is_open = declared is None
        if declared is None:
            return
        if isinstance(declared, type) and issubclass(declared, Enum):
            for member in declared:
                self.numbers[member.name] = _checked_number(member.value, member)
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
        self.numbers = {name: number for number, name in enumerate(names)}
        if names:
            _checked_number(len(names) - 1, names[-1])

    def number(self, event: object) -> int:
        """The number of an event: a name, an Enum member or an int.

        Raises:
            TypeMismatchError: for anything else, or a name that was not declared.
            ValueRangeError: for a number that the format does not hold.
        """
        if isinstance(event, str):
            found = self.numbers.get(event)
            if found is None and self._is_open:
                found = max(self.numbers.values(), default=-1) + 1
                self.numbers[event] = _checked_number(found, event)
            if found is None:
                known = ", ".join(map(repr, self.numbers))
                raise TypeMismatchError(
                    "PROFILER_EVENT",
                    f"the event {event!r} is not one of {known}"
                    if known
                    else f"the event {event!r} is not in events, which is empty",
                )
            return found
        if isinstance(event, Enum):
            number = _checked_number(event.value, event)
            return self.numbers.setdefault(event.name, number) if self._is_open else number
        return _checked_number(event, event)


def _checked_number(number: object, event: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeMismatchError(
            "PROFILER_EVENT",
            f"the event is {describe(event)}; expected a name, an int known at compile time, or a member of "
            "an Enum with such a value",
        )
    if not 0 <= number < wire.TRACK_MOST_EVENTS:
        raise ValueRangeError(
            "PROFILER_RANGE",
            f"the event is {number}; expected a number from 0 to {wire.TRACK_MOST_EVENTS - 1}",
        )
    return number


class TrackProfiler(StagedNamespace):
    """What `Profiler` makes: an object of the kernel's compile time.

    Args:
        recorder: leaves the markers; None where the profiler is off.
        events: the numbers of its events.
        groups: names of a block's tracks.
    """

    __slots__ = ("_events", "_groups", "_pushed", "_recorder")

    on_host: Final = False

    def __init__(
        self, recorder: TrackRecorder | None, events: EventTable, groups: list[str]
    ) -> None:
        self._recorder = recorder
        self._events = events
        self._groups = groups
        self._pushed: list[int] = []

    def __repr__(self) -> str:
        return "Profiler"

    def attribute(self, builder: Builder, name: str) -> object:
        """A method, as an operation of the language.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        del builder
        return method(self, _METHODS, name, "Profiler")

    def init(self, builder: Builder, group: object = 0, leader: object = None) -> None:
        """This thread is of that group; one of its threads takes the track."""
        if self._recorder is None:
            return
        number = self._group(builder, group)
        chosen = None if leader is None else switch(builder, leader)
        self._recorder.add(builder, Mark(INIT, group=number, leader=chosen))

    def start(
        self, builder: Builder, event: object, payload: object = None, anchor: object = None
    ) -> object:
        """Opens a region; the value is the anchor's, to go on with."""
        return self._record(builder, wire.START, event, payload, anchor)

    def end(
        self, builder: Builder, event: object, payload: object = None, anchor: object = None
    ) -> object:
        """Closes a region; the value is the anchor's."""
        return self._record(builder, wire.END, event, payload, anchor)

    def range(self, builder: Builder, event: object, payload: object = None) -> Range:
        """A region for `with`."""
        del builder

        def opening(inner: Builder) -> None:
            self.start(inner, event, payload)

        def closing(inner: Builder) -> None:
            self.end(inner, event)

        return Range(opening, closing)

    def mark(self, builder: Builder, event: object, payload: object = None) -> None:
        """Records an instant."""
        self._record(builder, wire.INSTANT, event, payload)

    def count(self, builder: Builder, event: object, value: object) -> None:
        """Records a counter's value."""
        self._record(builder, wire.COUNTER, event, value)

    def begin_async(self, builder: Builder, event: object, key: object = 0) -> None:
        """Opens a region that any track of the block may close with the same event and key."""
        self._record(builder, wire.ASYNC_BEGIN, event, key)

    def end_async(self, builder: Builder, event: object, key: object = 0) -> None:
        """Closes the oldest region that `begin_async` opened with this event and key in the block."""
        self._record(builder, wire.ASYNC_END, event, key)

    def finalize(self, builder: Builder) -> None:
        """Ends this thread's track."""
        if self._recorder is not None:
            self._recorder.add(builder, Mark(wire.FINALIZE))

    def range_push(self, builder: Builder, event: object, payload: object = None) -> None:
        """`start`, closed by the next `range_pop`."""
        self.start(builder, event, payload)
        self._pushed.append(self._events.number(event))

    def range_pop(self, builder: Builder) -> None:
        """Closes what the last `range_push` opened."""
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
        if isinstance(group, Enum):
            group = group.value
        if isinstance(group, str):
            if group not in self._groups:
                raise TypeMismatchError(
                    "PROFILER_GROUPS",
                    f"init: the group {group!r} is not one of {', '.join(map(repr, self._groups))}",
                )
            return self._groups.index(group)
        number = operand(builder, group)
        known = number.constant if isinstance(number, Scalar) else number
        if known is None and isinstance(number, Scalar) and number.dtype.is_integer:
            return number
        if not isinstance(known, int) or isinstance(known, bool):
            raise TypeMismatchError(
                "PROFILER_TYPE", f"init: the group is {describe(group)}; expected an integer"
            )
        if not 0 <= known < len(self._groups):
            raise ValueRangeError(
                "PROFILER_RANGE",
                f"init: the group is {known}; expected 0 to {len(self._groups) - 1}",
            )
        return known

    def _record(
        self,
        builder: Builder,
        kind: int,
        event: object,
        payload: object = None,
        anchor: object = None,
    ) -> object:
        number = self._events.number(event)
        if self._recorder is None:
            return anchor
        mark = Mark(
            kind,
            number,
            payload=None if payload is None else _payload(builder, payload),
            anchor=_anchor(anchor),
        )
        changed = self._recorder.add(builder, mark)
        return anchor if changed is None else changed


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


_METHODS: Final = (
    *("init", "start", "end", "range", "mark", "count", "begin_async", "end_async", "finalize"),
    *("range_push", "range_pop", "range_start", "range_end"),
)
