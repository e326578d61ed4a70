# SPDX-License-Identifier: Apache-2.0
"""A thread's trace as text: the lines that it ran, in order, with what happened there as comments.

In: launches with their events. Out: text. Functions that were inlined stand further right, below the line that calls
them; of a loop, the first rounds and the last are shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.location import SourceLocation
    from weft.testing.trace_event import TracedLaunch, TraceEvent

    Triple = tuple[int, int, int]

_WIDEST: Final = 68
"""Characters before the comments, unless a line is longer."""
_STEP: Final = "    "


def trace_text(
    launches: Sequence[TracedLaunch], places: tuple[Triple, Triple], dropped: int, rounds: int
) -> str:
    """The text of all launches.

    Args:
        launches: of the function, in order.
        places: the block and the thread.
        dropped: events that are missing at the end.
        rounds: how many of a loop are shown before the last one; at least 1.
    """
    parts = [_launch_text(launch, places, max(rounds, 1)) for launch in launches]
    if dropped:
        parts.append(f"and {dropped} more events, which were not kept")
    return "\n\n".join(parts)


def _launch_text(launch: TracedLaunch, places: tuple[Triple, Triple], rounds: int) -> str:
    block, thread = places
    title = f"{launch.kernel}: block {block} of {launch.grid}, thread {thread} of {launch.block}"
    if not launch.has_thread:
        return f"{title}: there is no such thread"
    lines = list(_shown(_Tree(launch.events).items, rounds))
    width = min(max((len(left) for left, _ in lines), default=0), _WIDEST)
    texts = [f"{left:<{width}}  # {notes}" if notes else left for left, notes in lines]
    return "\n".join([title, *texts])


class _Row:
    """A line of the source that the thread came to, and what happened there."""

    def __init__(self, location: SourceLocation, text: str, *, is_continued: bool = False) -> None:
        self.location = location
        self.text = text
        self.is_continued = is_continued
        self.notes: list[str] = []
        self.round = 0  # of the loop that begins here

    def covers(self, location: SourceLocation) -> bool:
        """Whether something happened in this statement, in the same call."""
        own = self.location
        is_near = own.file == location.file and own.line <= location.line <= own.end_line
        return is_near and _calls(own) == _calls(location)

    def is_at(self, location: SourceLocation) -> bool:
        return self.location.line == location.line and self.covers(location)

    @property
    def shown(self) -> tuple[str, str]:
        indent = _STEP * _depth(self.location)
        notes = ", ".join(self.notes)
        if self.round:
            notes = f"round {self.round}" + (f": {notes}" if notes else "")
        return f"{self.location.line:>5}  {indent}{self.text}", notes


class _Loop:
    """A loop that the thread went through; each iteration begins with the line of its head."""

    def __init__(self, location: SourceLocation) -> None:
        self.location = location
        self.rounds: list[list[_Row | _Loop]] = []


class _Tree:
    """Events as rows, in loops."""

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self.items: list[_Row | _Loop] = []
        self._open: list[_Loop] = []
        for event in events:
            getattr(self, f"_{event.kind}", self._note)(event)

    @property
    def _here(self) -> list[_Row | _Loop]:
        return self._open[-1].rounds[-1] if self._open else self.items

    def _line(self, event: TraceEvent) -> None:
        last = self._here[-1] if self._here else None
        if isinstance(last, _Row) and last.is_at(event.location):
            if last.location.column < event.location.column:
                return  # it stands on the line of another: if x > 5: break
        self._here.append(_Row(event.location, _source_text(event.location)))

    def _called(self, event: TraceEvent) -> None:
        row = _Row(event.location, f"{event.name}({event.shown})")
        row.notes.append(Path(event.location.file).name)
        self._here.append(row)

    def _round(self, event: TraceEvent) -> None:
        head = self._taken_head(event.location)
        loop = self._closed_to(event.location)
        if loop is None:
            loop = _Loop(event.location)
            self._here.append(loop)
            self._open.append(loop)
        loop.rounds.append([head])
        head.round = len(loop.rounds)

    def _end(self, event: TraceEvent) -> None:
        last = self._here[-1] if self._here else None
        if not isinstance(last, _Row) or not last.is_at(event.location):
            last = None
        elif last.is_continued:  # the condition, for the last time
            self._here.pop()
        if self._closed_to(event.location) is not None:
            self._open.pop()
            if last is not None and last.is_continued:
                last.notes.append("the loop ends")
                self._here.append(last)
        elif last is not None:
            last.notes.append("no round")

    def _taken_head(self, location: SourceLocation) -> _Row:
        """The row of a loop's first line, taken away where it stands last: its condition has just been read there."""
        here = self._here
        if here and isinstance(last := here[-1], _Row) and last.is_at(location):
            here.pop()
            return last
        return _Row(location, _source_text(location))

    def _closed_to(self, location: SourceLocation) -> _Loop | None:
        """The open loop there, without those inside it; None if there is none."""
        for number, loop in enumerate(self._open):
            if (loop.location.line, _calls(loop.location)) == (location.line, _calls(location)):
                del self._open[number + 1 :]
                return loop
        return None

    def _note(self, event: TraceEvent) -> None:
        here = self._here
        last = here[-1] if here else None
        if not isinstance(last, _Row) or not last.covers(event.location):
            last = _Row(event.location, _source_text(event.location, first=True), is_continued=True)
            here.append(last)
        last.notes.append(_note_text(event))


def _note_text(event: TraceEvent) -> str:
    if event.kind in ("read", "written", "updated", "added"):
        verb = {"read": "is", "written": "=", "updated": "was", "added": "+="}[event.kind]
        return f"{event.name}[{_index_text(event)}] {verb} {event.shown}"
    return {
        "assigned": f"{event.name} = {event.shown}",
        "returned": f"returns {event.shown}",
        "branch": event.shown.lower(),
        "barrier": "waited",
        "copy": "a copy begins",
    }[event.kind]


def _index_text(event: TraceEvent) -> str:
    if not event.indices:
        return "()"
    *outer, last = map(str, event.indices)
    if len(event.values) > 1:
        last = f"{last}:{event.indices[-1] + len(event.values)}"
    return ", ".join([*outer, last])


def _shown(items: Sequence[_Row | _Loop], rounds: int) -> Iterator[tuple[str, str]]:
    """Each line: what stands left, and the comment."""
    for item in items:
        if isinstance(item, _Row):
            yield item.shown
            continue
        count = len(item.rounds)
        for number, one in enumerate(item.rounds):
            if rounds <= number < count - 1:
                if number == rounds:
                    left = count - 1 - rounds
                    indent = " " * 7 + _STEP * _depth(item.location) + _indent(item.location)
                    yield f"{indent}... {left} more round{'s' * (left > 1)} ...", ""
                continue
            yield from _shown(one, rounds)


def _calls(location: SourceLocation) -> tuple[tuple[str, int, int], ...]:
    """The calls that led to a place."""
    found: list[tuple[str, int, int]] = []
    call = location.caller
    while call is not None:
        found.append((call.file, call.line, call.column))
        call = call.caller
    return tuple(found)


def _depth(location: SourceLocation) -> int:
    return len(_calls(location))


def _indent(location: SourceLocation) -> str:
    line = location.line_text()
    return line[: len(line) - len(line.lstrip())]


def _source_text(location: SourceLocation, *, first: bool = False) -> str:
    """A statement on one line, as far right as it stands; of one with a body, or if `first` says so, its first line."""
    line = location.line_text().rstrip()
    if first or line.endswith(":") or location.end_line == location.line:
        return line
    return _indent(location) + location.span()
