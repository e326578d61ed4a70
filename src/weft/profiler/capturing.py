# SPDX-License-Identifier: Apache-2.0
"""`capture`: collects what every launch inside a `with` records, without an argument of the user's.

A launch of a kernel with a `Profiler` asks the runtime for memory, and the runtime asks the active capture; each
launch has its own, also in a loop of one host function. In: launches. Out: a `Trace`. Next: trace.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from weft import _native
from weft.errors import UnavailableError
from weft.profiler.buffers import DEFAULT_WORDS, LaunchWords, check_words
from weft.profiler.lane import NOT_RUN, decode_lane
from weft.profiler.trace import Launch, Trace
from weft.types import trace_format as wire

if TYPE_CHECKING:
    from types import TracebackType

    from weft.profiler.records import Recording

_CUDA: Final = 2  # DLPack's kDLCUDA
_MOST_WAITING_WORDS: Final = 1 << 27
"""Of launches that are not read yet, per device: 1 GB. Beyond it, those that have ended are read at once."""


class _NewLaunch:
    """A launch between its call and the end of the capture."""

    __slots__ = (
        *("begin_ns", "function", "kernel", "memory", "ordinal", "recording", "stream"),
        "thread",
    )

    def __init__(
        self, function: str, kernel: str, memory: LaunchWords, ordinal: int | None, stream: int
    ) -> None:
        self.function = function
        self.kernel = kernel
        self.memory: LaunchWords | None = memory
        self.ordinal = ordinal
        self.stream = stream
        self.thread = threading.get_ident()
        self.recording: Recording | None = None
        self.begin_ns = time.monotonic_ns()

    def read(self) -> Recording:
        """What it recorded; gives the memory back. The launch must have ended."""
        if self.recording is None:
            assert self.memory is not None
            self.recording = decode_lane(self.memory.read())
            self.memory = None
            if self.recording.problems == [NOT_RUN]:
                self.recording.kernel = self.kernel
                self.recording.problems = ["it did not run: its grid has no blocks, or it failed"]
        return self.recording


class Capture:
    """What `capture` returns: a context manager whose ``as`` is the `Trace`.

    Args:
        words: of the buffer that each launch gets, 8 bytes each; None for as many as it needs.
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
        try:
            self._finish()
        except Exception:
            # What went wrong inside says more than what it left behind.
            if error is None:
                raise

    def _finish(self) -> None:
        for ordinal in {launch.ordinal for launch in self._launches if launch.ordinal is not None}:
            _native.synchronize(ordinal)
        end_ns = time.monotonic_ns()
        for launch in self._launches:
            found = Launch(launch.read(), launch.function, launch.begin_ns, end_ns)
            found.device = "cpu" if launch.ordinal is None else f"cuda:{launch.ordinal}"
            found.stream = None if launch.ordinal is None else launch.stream
            self._trace.add(found)
        self._launches.clear()

    def memory_for(
        self, function: str, kernel: str, ordinal: int | None, stream: int, needed: int = 0
    ) -> tuple[int, int]:
        """Address and words of a prepared buffer for a launch that is about to be made.

        Args:
            function: the host function's name.
            kernel: the kernel's.
            ordinal: of the CUDA device; None for the CPU.
            stream: the launch's.
            needed: words that hold all of its records; 0 where only the run can tell.
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
        self._launches.append(_NewLaunch(function, kernel, memory, ordinal, stream))
        return memory.address, memory.words

    def _words_for(self, needed: int) -> int:
        """What the user said; else what the launch needs, where that is known and no more than a gigabyte."""
        if self._words is not None:
            return self._words
        is_known = wire.PROLOGUE_WORDS <= needed <= _MOST_WAITING_WORDS
        return needed if is_known else DEFAULT_WORDS

    def _read_ended(self, ordinal: int | None) -> int:
        """Reads the launches of a device that have ended, to give their memory back; words that still wait."""
        if ordinal is not None:
            _native.synchronize(ordinal)
        waiting = 0
        for launch in self._launches:
            if launch.ordinal != ordinal or launch.memory is None:
                continue
            # On the CPU a thread's launches have ended when it makes the next one; of others, who knows.
            if ordinal is not None or launch.thread == threading.get_ident():
                launch.read()
            else:
                waiting += launch.memory.words
        return waiting


# What a `with` block means is what the code inside it sees, also when another thread has one of its own.
_active: ContextVar[Capture | None] = ContextVar("weft profiler capture", default=None)
# All that are entered, the newest last: for launches of threads that have none, as a backward pass's.
_captures: list[Capture] = []


def _memory_for_launch(
    function: str, kernel: str, device_type: int, device: int, stream: int, needed: int = 0
) -> tuple[int, int] | None:
    """What the runtime asks for at each launch of a kernel that records."""
    active = _active.get() or (_captures[-1] if _captures else None)
    if active is None:
        return None
    ordinal = device if device_type == _CUDA else None
    return active.memory_for(function, kernel, ordinal, stream, needed)


def capture(words: int | None = None) -> Capture:
    """Collects the records of every launch in a ``with`` block.

    Each launch has memory of its own on the device that it runs on; at the end of the block the devices are
    waited for and the memory is read. Launches of other threads count too, unless they have a capture of their
    own. Outside of a capture, kernels with a `Profiler` run and record nothing.

    Args:
        words: of 8 bytes in the buffer that each launch gets. What does not fit is counted and reported; a
            kernel whose loops say how many records there are records nothing where not all of them fit, and the
            report says how many words it takes. Without, a launch gets what it needs where its kernel's loops
            or ``records=`` say so and that is at most 1 GB, else 8 MB.

    Raises:
        ArgumentValueError: for fewer than 16 words, or 2³¹ and more.
        UnavailableError: from a launch while its stream is captured into a CUDA graph.

    Example:
        >>> with weft.profiler.capture() as trace:
        ...     run(a)
        >>> trace.recordings[0].kernel
        'run_kernel'
    """
    return Capture(words)
