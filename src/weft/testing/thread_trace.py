# SPDX-License-Identifier: Apache-2.0
"""`trace_thread`: traces one thread of a kernel, statement by statement, with the values.

In: a function that launches kernels on the CPU, its arguments, a block and a thread. Out: `ThreadTrace`, which prints
as the kernel's lines, in order, with the values beside them as comments, and has its events, as `simt.event` tells
them, as `TraceEvent`. Functions that were inlined stand further right, below the line that calls them; of a loop, the
first iterations and the last are shown.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

from weft import _native
from weft.codegen.check_texts import array_text
from weft.config import config, override
from weft.errors import OptionError, UnavailableError, brief
from weft.sanitizer.report import location_of
from weft.testing.orders import copied, tensors_of
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.location import SourceLocation


class TraceEvent(NamedTuple):
    """Something that the thread did.

    Attributes:
        kind: ``"line"``: a statement begins; ``"assigned"``: a variable; ``"called"``: a function that is inlined;
            ``"returned"``; ``"branch"``: the condition of an ``if``; ``"iteration"`` and ``"end"`` of a loop;
            ``"read"``, ``"written"``, ``"updated"`` (an atomic operation, with the value before it), ``"added"``:
            elements of an array; ``"barrier"``: the thread has waited; ``"copy"``: one begins beside the threads.
        location: where, with the calls that led there; a `weft.SourceLocation`.
        name: of the variable, the function or the array.
        indices: of the element, or of the first of several consecutive ones; empty for other kinds.
        values: the numbers: bools, ints and floats, in order.
        shown: the value as text, ``"(3, 4.5)"`` say, numbers known at compile time included.
    """

    kind: str
    location: SourceLocation
    name: str
    indices: tuple[int, ...]
    values: tuple[Any, ...]
    shown: str


class TracedLaunch(NamedTuple):
    """One launch of a kernel.

    Attributes:
        kernel: its name.
        grid, block: how many blocks it had, and threads each.
        has_thread: whether the thread that was asked for is one of them.
        events: of the thread.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    has_thread: bool
    events: tuple[TraceEvent, ...]


class Site(NamedTuple):
    """The static part of an event, the same each time that a thread comes there."""

    kind: str
    location: SourceLocation
    name: str
    shown: str
    types: tuple[str, ...]
    rank: int


def site_of(text: str) -> Site:
    """The static part of an event in the machine code."""
    kind, name, shown, words, places = text.split("\n", 4)
    location, types = location_of(places), tuple(words.split())
    rank = sum(word.startswith("index") for word in types)
    if kind in ("read", "written", "updated", "added"):
        name = _array_name(location, name)
    return Site(kind, location, name, shown, types, rank)


def event_of(site: Site, bits: Sequence[int]) -> TraceEvent:
    """An event, from its site and the bits of its values."""
    numbers = [_number(word, number) for word, number in zip(site.types, bits, strict=True)]
    values, types = tuple(numbers[site.rank :]), site.types[site.rank :]
    texts = [number_text(number, word) for number, word in zip(values, types, strict=True)]
    if site.kind in ("read", "written", "updated", "added"):
        shown = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    else:
        shown = site.shown.format(*texts)
    indices = tuple(cast("list[int]", numbers[: site.rank]))  # integers, as all indices
    return TraceEvent(site.kind, site.location, site.name, indices, values, shown)


def _array_name(location: SourceLocation, name: str) -> str:
    """The array as the source has it, unless a call of a function stands there."""
    span = location.span()
    try:
        is_call = isinstance(ast.parse(span, mode="eval").body, ast.Call)
    except (SyntaxError, ValueError):
        is_call = False  # an assignment
    return name if is_call else array_text(span) or name


def _number(kind: str, bits: int) -> bool | int | float | complex:
    """The number that bits in 64 stand for, by the name of its type."""
    if kind == "bool_":
        return bool(bits & 1)
    width = int(_WIDTH.findall(kind)[0])
    bits &= (1 << width) - 1
    if kind.startswith(("i", "u")):
        is_negative = kind[0] == "i" and bits >> (width - 1)
        return bits - (1 << width) if is_negative else bits
    if kind == "c128":
        return INFO["f64"].format.value_of(bits)  # pyright: ignore[reportOptionalMemberAccess]
    if kind == "c64":
        parts = struct.unpack("<2f", struct.pack("<Q", bits))
        return complex(*parts)
    kind_format = INFO[kind].format
    assert kind_format is not None
    return kind_format.value_of(bits)


_WIDTH: Final = re.compile(r"\d+")
_SHORTEST: Final = ("f16", "bf16", "f32")  # written with the fewest digits; others in full


def number_text(number: object, kind: str) -> str:
    """A number as a person writes it: the shortest digits that mean this number in its type.

    Example:
        >>> number_text(0.10000000149011612, "f32"), number_text(True, "bool_")
        ('0.1', 'true')
    """
    if isinstance(number, bool):
        return "true" if number else "false"
    if kind == "c128":
        return f"{number!r} (its real part)"
    if not isinstance(number, float) or kind not in _SHORTEST or not math.isfinite(number):
        return repr(number)
    if number.is_integer() and abs(number) < 1e7:
        return repr(number)
    kind_format = INFO[kind].format
    assert kind_format is not None
    fraction, least = kind_format.mantissa_bits, 1 - kind_format.bias
    distance = 2.0 ** (max(math.frexp(number)[1] - 1, least) - fraction)  # to the next number
    texts = (f"{number:.{digits}g}" for digits in range(1, 17))
    return next(repr(float(text)) for text in texts if abs(float(text) - number) < distance / 2)


if TYPE_CHECKING:
    Triple = tuple[int, int, int]

_WIDEST: Final = 68
"""Characters before the comments, unless a line is longer."""
_STEP: Final = "    "


def trace_text(
    launches: Sequence[TracedLaunch], places: tuple[Triple, Triple], dropped: int, iterations: int
) -> str:
    """The text of all launches.

    Args:
        launches: of the function, in order.
        places: the block and the thread.
        dropped: events that are missing at the end.
        iterations: how many of a loop are shown before the last one; at least 1.
    """
    parts = [_launch_text(launch, places, max(iterations, 1)) for launch in launches]
    if dropped:
        parts.append(f"and {dropped} more events, which were not kept")
    return "\n\n".join(parts)


def _launch_text(launch: TracedLaunch, places: tuple[Triple, Triple], iterations: int) -> str:
    block, thread = places
    title = f"{launch.kernel}: block {block} of {launch.grid}, thread {thread} of {launch.block}"
    if not launch.has_thread:
        return f"{title}: there is no such thread"
    lines = list(_shown(_Tree(launch.events).items, iterations))
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
        self.iteration = 0  # of the loop that begins here

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
        if self.iteration:
            notes = f"iteration {self.iteration}" + (f": {notes}" if notes else "")
        return f"{self.location.line:>5}  {indent}{self.text}", notes


class _Loop:
    """A loop that the thread went through; each iteration begins with the line of its head."""

    def __init__(self, location: SourceLocation) -> None:
        self.location = location
        self.iterations: list[list[_Row | _Loop]] = []


class _Tree:
    """Events as rows, in loops."""

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self.items: list[_Row | _Loop] = []
        self._open: list[_Loop] = []
        for event in events:
            getattr(self, f"_{event.kind}", self._note)(event)

    @property
    def _here(self) -> list[_Row | _Loop]:
        return self._open[-1].iterations[-1] if self._open else self.items

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

    def _iteration(self, event: TraceEvent) -> None:
        head = self._taken_head(event.location)
        loop = self._closed_to(event.location)
        if loop is None:
            loop = _Loop(event.location)
            self._here.append(loop)
            self._open.append(loop)
        loop.iterations.append([head])
        head.iteration = len(loop.iterations)

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
            last.notes.append("no iteration")

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


def _shown(items: Sequence[_Row | _Loop], iterations: int) -> Iterator[tuple[str, str]]:
    """Each line: what stands left, and the comment."""
    for item in items:
        if isinstance(item, _Row):
            yield item.shown
            continue
        count = len(item.iterations)
        for number, one in enumerate(item.iterations):
            if iterations <= number < count - 1:
                if number == iterations:
                    left = count - 1 - iterations
                    indent = " " * 7 + _STEP * _depth(item.location) + _indent(item.location)
                    yield f"{indent}... {left} more iteration{'s' * (left > 1)} ...", ""
                continue
            yield from _shown(one, iterations)


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


MOST_EVENTS: Final = 250_000
"""Those beyond are counted, not kept."""

_CPU: Final = 1  # kDLCPU

_AXES: Final = 3

_running = threading.local()


class ThreadTrace(Sequence[TraceEvent]):
    """Trace of a thread: the events of all launches, in order; `str` is what `trace_thread` prints.

    Attributes:
        launches: as `TracedLaunch` objects.
        block, thread: its indices.
        dropped: events beyond the first 250,000, which are not kept.
    """

    def __init__(
        self,
        launches: Sequence[TracedLaunch],
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
        dropped: int = 0,
    ) -> None:
        self.launches, self.block, self.thread = tuple(launches), block, thread
        self.dropped = dropped
        self._events = tuple(event for launch in launches for event in launch.events)

    @overload
    def __getitem__(self, index: int) -> TraceEvent: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TraceEvent, ...]: ...
    def __getitem__(self, index: int | slice) -> TraceEvent | tuple[TraceEvent, ...]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"<weft trace of block {self.block}, thread {self.thread}: {len(self)} events>"

    def __str__(self) -> str:
        return self.text()

    def text(self, iterations: int = 3) -> str:
        """The lines with their values; of a loop, the first `iterations` iterations and the last."""
        return trace_text(self.launches, (self.block, self.thread), self.dropped, iterations)


def trace_thread(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    *,
    block: int | tuple[int, ...] = 0,
    thread: int | tuple[int, ...] = 0,
    show: bool = True,
) -> ThreadTrace:
    """Calls a function, and prints a trace of one thread of its kernels: each executed line, with the values.

    Assigned variables, elements read and written, conditions, iterations of loops, inlined functions and barriers
    are printed. The function is compiled anew for that, and runs on copies of its arguments, on one thread of the
    machine. If it fails, the trace up to there is printed before the error is raised.

    Args:
        fn: launches kernels on the CPU: a `weft.jit` function, ``kernel[grid, block]``, or any Python function that
            calls some. What was compiled earlier by `weft.compile` tells nothing.
        args: its arguments.
        block, thread: x, or x, y and z.
        show: whether to print; the result prints the same.

    Raises:
        OptionError: for a block or thread that no launch has, or a function that launches nothing.
        UnavailableError: for arrays on a GPU.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def scale_kernel(a: weft.Tensor, factor: weft.f32):
        ...     i = weft.thread_idx.x
        ...     if i < a.shape[0]:
        ...         a[i] *= factor
        >>> a = numpy.arange(4, dtype=numpy.float32)
        >>> trace = weft.testing.trace_thread(scale_kernel[1, 32], (a, 0.5), thread=3, show=False)
        >>> [(event.name, event.values) for event in trace if event.kind in ("assigned", "read", "written")]
        [('i', (3,)), ('a', (3.0,)), ('a', (1.5,))]
    """
    places = _triple("block", block), _triple("thread", thread)
    if getattr(_running, "is_tracing", False):
        raise OptionError("TESTING_LAUNCHES", "trace_thread: called by the function that it traces")
    args = tuple(args)
    _refuse_gpu_arrays(args)
    given = copied(args)
    _native.trace_thread(*places, MOST_EVENTS)
    _running.is_tracing = True
    trace = None
    try:
        with override(sanitize=",".join(filter(None, [config.sanitize, "trace"]))):
            fn(*given)
    finally:
        _running.is_tracing = False
        trace = _collected(*places)
        if show and trace:
            print(trace)
    _check_threads(trace)
    return trace


def _triple(name: str, place: object) -> tuple[int, int, int]:
    parts = cast("tuple[Any, ...]", place if isinstance(place, tuple) else (place,))
    numbers = [
        operator.index(part)
        for part in parts
        if hasattr(part, "__index__") and not isinstance(part, bool)
    ]
    is_right = 0 < len(numbers) == len(parts) <= _AXES and min(numbers) >= 0
    if not is_right or max(numbers) >= 1 << 31:
        raise OptionError(
            "TESTING_THREAD",
            f"trace_thread: {name} is x, or a tuple of x, y and z, from 0 up; received {brief(cast('object', place))}",
        )
    x, y, z = [*numbers, 0, 0][:_AXES]
    return x, y, z


def _refuse_gpu_arrays(args: Sequence[Any]) -> None:
    for array in tensors_of(args):
        if array.__dlpack_device__()[0] != _CPU:
            raise UnavailableError(
                "TESTING_DEVICE",
                f"trace_thread runs kernels on the CPU, received the {type(array).__name__} in a GPU's memory",
                hint="pass a copy in the CPU's memory, such as x.cpu() of torch",
            )


def _collected(block: tuple[int, int, int], thread: tuple[int, int, int]) -> ThreadTrace:
    launches, events, dropped = _native.traced_thread()
    traced: list[list[TraceEvent]] = [[] for _ in launches]
    sites = {text: site_of(text) for text in {text for _, text, _ in events}}
    for launch, text, bits in events:
        traced[launch].append(event_of(sites[text], bits))
    found = [
        TracedLaunch(kernel, grid, size, _is_in(block, grid) and _is_in(thread, size), tuple(one))
        for (kernel, grid, size), one in zip(launches, traced, strict=True)
    ]
    return ThreadTrace(found, block, thread, dropped)


def _is_in(place: Sequence[int], sizes: Sequence[int]) -> bool:
    return all(number < size for number, size in zip(place, sizes, strict=True))


def _check_threads(trace: ThreadTrace) -> None:
    if not trace.launches:
        raise OptionError(
            "TESTING_LAUNCHES",
            "trace_thread: the function launched no kernel on the CPU that tells what its threads do",
            hint="call a weft.jit function or kernel[grid, block] in this thread; weft.compile made its result before",
        )
    if not any(launch.has_thread for launch in trace.launches):
        launches = ", ".join(
            dict.fromkeys(
                f"{launch.kernel} has {launch.grid} blocks of {launch.block} threads"
                for launch in trace.launches
            )
        )
        raise OptionError(
            "TESTING_THREAD",
            f"trace_thread: no launch has block {trace.block} with thread {trace.thread}: {launches}",
        )
