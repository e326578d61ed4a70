# SPDX-License-Identifier: Apache-2.0
"""`capture`: collects every launch inside a `with`, without an extra argument.

A launch of a kernel with a `Profiler` requests memory from the runtime, which requests it from the active capture; each
launch has its own, also in a loop of one host function. Every launch, with or without markers, is reported to the
capture just before and after it. In: launches. Out: a `Trace`.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import numpy as np

from weft import _native
from weft.errors import UnavailableError
from weft.profiler.buffers import DEFAULT_WORDS, LaunchWords, check_words
from weft.profiler.records import RECORD, TRACK, Launch, Recording
from weft.profiler.trace import Trace
from weft.profiler.track import NOT_RUN, decode_track
from weft.types import record_format as wire

if TYPE_CHECKING:
    from types import TracebackType

_CUDA: Final = 2  # DLPack's kDLCUDA
_MOST_WAITING_WORDS: Final = 1 << 27
"""Most memory of launches not read yet, per device: 1 GB. Beyond it, finished launches are read at once."""

_MOST_WAITING_EVENTS: Final = 1 << 14


class _NewLaunch:
    """A launch between its call and the end of the capture.

    `memory` is for a kernel with a `Profiler`. `events` are around a GPU launch on its stream.
    """

    __slots__ = (
        *("begin_ns", "block", "device_ns", "events", "function", "given_ns", "grid"),
        *("has_succeeded", "host_ns", "is_over", "kernel", "memory", "ordinal", "recording"),
        *("stream", "thread"),
    )

    def __init__(
        self,
        function: str,
        kernel: str,
        memory: LaunchWords | None,
        ordinal: int | None,
        stream: int,
    ) -> None:
        self.function = function
        self.kernel = kernel
        self.memory = memory
        self.ordinal = ordinal
        self.stream = stream
        self.thread = threading.get_ident()
        self.recording: Recording | None = None
        self.events: list[_native.Event] = []
        self.grid: tuple[int, int, int] | None = None
        self.block: tuple[int, int, int] | None = None
        self.given_ns = 0
        self.host_ns: int | None = None
        self.device_ns: float | None = None
        self.is_over = self.has_succeeded = False
        self.begin_ns = time.monotonic_ns()

    def begin(self, metadata: _native.LaunchMetadata) -> None:
        """Called just before the launch."""
        self.grid, self.block = metadata.grid, metadata.block
        self._record_event()
        if self.memory is None:
            self.begin_ns = time.monotonic_ns()
        self.given_ns = time.monotonic_ns()

    def end(self, has_succeeded: bool) -> None:
        """Called just after the launch."""
        self.host_ns = time.monotonic_ns() - self.given_ns
        self.is_over, self.has_succeeded = True, has_succeeded
        if has_succeeded:
            self._record_event()
        else:
            self.events.clear()

    def _record_event(self) -> None:
        # An event that a graph captures has no time of its own.
        if self.ordinal is not None and not _native.is_stream_capturing(self.stream):
            self.events.append(_native.record_event(self.stream))

    def read_time(self) -> None:
        """The time between its events, which are released. The launch must have ended."""
        if len(self.events) == 2:
            self.device_ns = self.events[0].nanoseconds_until(self.events[1])
        self.events.clear()

    def read(self) -> Recording:
        """Its records; releases the memory and the events. The launch must have ended."""
        self.read_time()
        if self.recording is None:
            self.recording = self._recording()
            self.recording.kernel = self.recording.kernel or self.kernel
            self.recording.grid = self.recording.grid or self.grid
            self.recording.block = self.recording.block or self.block
            self.memory = None
        return self.recording

    def _recording(self) -> Recording:
        if self.memory is None:
            problems = () if self.has_succeeded else ("it failed",)
            return Recording(np.zeros(0, RECORD), np.zeros(0, TRACK), problems=problems)
        found = decode_track(self.memory.read())
        if found.problems == [NOT_RUN]:
            found.problems = ["it did not run: its grid has no blocks, or it failed"]
        return found


class Capture:
    """The result of `capture`: a context manager whose ``as`` is the `Trace`.

    Args:
        words: of each launch's buffer, 8 bytes each; None for as many as it needs.
    """

    def __init__(self, words: int | None) -> None:
        if words is not None:
            check_words(words)
        self._words = words
        self._trace = Trace()
        self._launches: list[_NewLaunch] = []
        self._waiting: dict[
            int | None, int
        ] = {}  # ordinal, None for the CPU → words that are not read yet
        self._asked: dict[int, _NewLaunch] = {}  # by thread: has memory, and is about to be made
        self._events = 0  # launches whose events are not read yet
        self._before: Capture | None = None
        self._is_entered = False

    def __enter__(self) -> Trace:
        if self._is_entered:
            raise UnavailableError(
                "PROFILER_CAPTURE",
                "this capture has already been entered",
                hint="call weft.profiler.capture() for each",
            )
        self._is_entered = True
        self._before = _active.get()
        _active.set(self)
        _captures.append(self)
        _native.set_launch_memory(_memory_for_launch)
        _native.set_launch_observer(_begin_launch, _end_launch)
        return self._trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active.set(self._before)
        _captures.remove(self)
        if not _captures:
            _native.set_launch_memory(None)
            _native.set_launch_observer(None, None)
        try:
            self._finish()
        except Exception:
            # An exception inside says more than its consequences.
            if error is None:
                raise

    def _finish(self) -> None:
        for ordinal in {launch.ordinal for launch in self._launches if launch.ordinal is not None}:
            _native.synchronize(ordinal)
        end_ns = time.monotonic_ns()
        for launch in self._launches:
            is_marked = launch.memory is not None or launch.recording is not None
            found = Launch(launch.read(), launch.function, launch.begin_ns, end_ns)
            found.is_marked = is_marked
            found.device = "cpu" if launch.ordinal is None else f"cuda:{launch.ordinal}"
            found.stream = None if launch.ordinal is None else launch.stream
            found.host_ns, found.device_ns = launch.host_ns, launch.device_ns
            self._trace.add(found)
        self._launches.clear()

    def memory_for(
        self, function: str, kernel: str, ordinal: int | None, stream: int, needed: int = 0
    ) -> tuple[int, int]:
        """Address and words of a prepared buffer for an imminent launch.

        Args:
            function: the host function's name.
            kernel: the kernel's.
            ordinal: of the CUDA device; None for the CPU.
            stream: the launch's.
            needed: words for all its records; 0 if known only at run time.
        """
        if ordinal is not None and _native.is_stream_capturing(stream):
            raise UnavailableError(
                "PROFILER_GRAPH",
                f"'{kernel}' is launched inside weft.profiler.capture() while its stream is captured into a CUDA "
                "graph, which could run again when the capture's memory is gone",
                hint="give the profiler memory that lives as long as the graph: Profiler(buffer=records), with "
                'records = weft.profiler.buffer(words, device="cuda")',
            )
        waiting = self._waiting.get(ordinal, 0)
        if waiting > _MOST_WAITING_WORDS:
            waiting = self._read_ended(ordinal)
        memory = LaunchWords(self._words_for(needed), ordinal, stream)
        self._waiting[ordinal] = waiting + memory.words
        launch = _NewLaunch(function, kernel, memory, ordinal, stream)
        self._launches.append(launch)
        self._asked[launch.thread] = launch
        return memory.address, memory.words

    def begin(self, metadata: _native.LaunchMetadata) -> _NewLaunch:
        """An imminent launch: one that has requested memory, or a new one."""
        thread = threading.get_ident()
        launch = self._asked.get(thread)
        if launch is not None and launch.kernel == metadata.kernel:
            del self._asked[thread]
        else:  # also one that a hook or an allocator makes in between
            device = metadata.device
            ordinal = None if device == "cpu" else int(device.removeprefix("cuda:"))
            launch = _NewLaunch("", metadata.kernel, None, ordinal, metadata.stream)
            self._launches.append(launch)
        if self._events >= _MOST_WAITING_EVENTS:
            self._read_events()
        launch.begin(metadata)
        self._events += len(launch.events)
        return launch

    def _read_events(self) -> None:
        """Reads the times of finished launches, to release their events."""
        waiting = [launch for launch in self._launches if launch.is_over and launch.events]
        for ordinal in {launch.ordinal for launch in waiting if launch.ordinal is not None}:
            _native.synchronize(ordinal)
        for launch in waiting:
            launch.read_time()
        self._events = 0

    def _words_for(self, needed: int) -> int:
        """The user's number; else the launch's need, if known and at most a gigabyte."""
        if self._words is not None:
            return self._words
        is_known = wire.PROLOGUE_WORDS <= needed <= _MOST_WAITING_WORDS
        return needed if is_known else DEFAULT_WORDS

    def _read_ended(self, ordinal: int | None) -> int:
        """Reads a device's finished launches, to release their memory; returns the words not read yet."""
        if ordinal is not None:
            _native.synchronize(ordinal)
        waiting = 0
        for launch in self._launches:
            if launch.ordinal != ordinal or launch.memory is None:
                continue
            # On the CPU a thread's launches have ended when it makes the next one; those of others may not have.
            if ordinal is not None or launch.thread == threading.get_ident():
                launch.read()
            else:
                waiting += launch.memory.words
        return waiting


# The capture of the current context: code inside a `with` sees it even if another thread has its own.
_active: ContextVar[Capture | None] = ContextVar("weft profiler capture", default=None)
# All entered captures, the newest last: for launches of threads without one, such as a backward pass's.
_captures: list[Capture] = []


def _current() -> Capture | None:
    return _active.get() or (_captures[-1] if _captures else None)


def _begin_launch(metadata: _native.LaunchMetadata) -> _NewLaunch | None:
    """Called by the runtime before each launch."""
    active = _current()
    return None if active is None else active.begin(metadata)


def _end_launch(launch: _NewLaunch | None, has_succeeded: bool) -> None:
    """Called by the runtime after each launch."""
    if launch is not None:
        launch.end(has_succeeded)


def _memory_for_launch(
    function: str, kernel: str, device_type: int, device: int, stream: int, needed: int = 0
) -> tuple[int, int] | None:
    """Called by the runtime at each launch of a kernel that records."""
    active = _current()
    if active is None:
        return None
    ordinal = device if device_type == _CUDA else None
    return active.memory_for(function, kernel, ordinal, stream, needed)


def capture(words: int | None = None) -> Capture:
    """Collects every launch in a ``with`` block: its times, and what its kernel's markers record.

    A launch's time on the host is that of the launching call, on the CPU that of the run; its time on a GPU
    is that between two events around it. A kernel with a `Profiler` has its own memory on the device that it
    runs on; the end of the block waits for the devices and reads the memory. Launches of other threads
    count too, unless they have their own capture. Outside a capture, kernels with a `Profiler` run and
    record nothing.

    Args:
        words: of 8 bytes in each launch's buffer. Records that do not fit are counted and reported; a
            kernel whose loops determine the number of records records nothing if not all of them fit, and the
            report says how many words it needs. By default a launch gets the needed size if its kernel's loops
            or ``records=`` determine it and it is at most 1 GB, else 8 MB.

    Raises:
        ArgumentValueError: for fewer than 16 words, or 2³¹ or more.
        UnavailableError: from a launch while its stream is captured into a CUDA graph.

    Example:
        >>> with weft.profiler.capture() as trace:
        ...     run(a)
        >>> trace.recordings[0].kernel
        'run_kernel'
    """
    return Capture(words)
