# SPDX-License-Identifier: Apache-2.0
"""`capture`: collects what every launch inside a `with` records, without an argument of the user's.

A function whose kernels have a `Profiler` takes one more parameter, which callers leave out. Its default, a
`LaunchBuffer`, is asked for memory at each call, and asks the active capture. In: launches. Out: a `Trace`.
Next: trace.
"""

from __future__ import annotations

import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.errors import UnavailableError
from weft.profiler.buffers import DEFAULT_WORDS, prepare, prologue
from weft.profiler.lane import decode_lane
from weft.profiler.trace import Launch, Trace

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

_CUDA: Final = 2
_PAGE_WORDS: Final = 512
_CPU: Final = 1  # DLPack's kDLCPU


class _NewLaunch:
    """A launch between its call and the end of the capture."""

    __slots__ = ("begin_ns", "device", "function", "memory", "stream")

    def __init__(self, function: str, memory: Any, device: str, stream: int | None) -> None:
        self.function = function
        self.memory = memory
        self.device = device
        self.stream = stream
        self.begin_ns = time.monotonic_ns()


class Capture:
    """What `capture` returns: a context manager whose ``as`` is the `Trace`.

    Args:
        words: of the buffer that each launch gets, 8 bytes each.
    """

    def __init__(self, words: int) -> None:
        self._words = words
        self._trace = Trace()
        self._launches: list[_NewLaunch] = []
        self._token: Token[Capture | None] | None = None

    def __enter__(self) -> Trace:
        if self._token is not None:
            raise UnavailableError(
                "PROFILER_CAPTURE",
                "this capture has already been entered",
                hint="call weft.profiler.capture() for each",
            )
        self._token = _active.set(self)
        return self._trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _active.reset(self._token)
        if any(launch.device != "cpu" for launch in self._launches):
            from weft.driver.device import synchronize

            synchronize()
        end_ns = time.monotonic_ns()
        for launch in self._launches:
            recording = decode_lane(launch.memory)
            found = Launch(recording, launch.function, launch.begin_ns, end_ns)
            found.device, found.stream = launch.device, launch.stream
            self._trace.add(found)
        self._launches.clear()

    def memory_for(self, function: str, device: str, stream: int | None) -> Any:
        """A prepared buffer for a launch that is about to be made."""
        on_cpu = device == "cpu"
        memory = _host_memory(self._words) if on_cpu else _device_memory(self._words)
        self._launches.append(_NewLaunch(function, memory, device, stream))
        return memory


# What a `with` block means is what the code inside it sees, also when another thread has one of its own.
_active: ContextVar[Capture | None] = ContextVar("weft profiler capture", default=None)


def capture(words: int = DEFAULT_WORDS) -> Capture:
    """Collects the records of every launch in a ``with`` block.

    Outside of a capture, kernels with a `Profiler` run and record nothing.

    Args:
        words: of 8 bytes in the buffer that each launch gets. What does not fit is counted and reported.

    Example:
        ``with weft.profiler.capture() as trace: run(x, y)`` and then ``print(trace.summary())``
    """
    return Capture(words)


class LaunchBuffer:
    """The default of the parameter that a profiled function has besides its own.

    The marshaller asks it for a tensor at each call, as it asks any DLPack producer.

    Args:
        function: the host function's name.
        device_type: DLPack's number of the device that the function runs on.
    """

    __slots__ = ("_function", "_on_cpu")

    is_launch_buffer: Final = True

    def __init__(self, function: str, device_type: int) -> None:
        self._function = function
        self._on_cpu = device_type == _CPU

    def __repr__(self) -> str:
        return "<the active capture>"

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the memory will be."""
        return (_CPU, 0) if self._on_cpu or not _has_driver() else (_CUDA, _current_device())

    def __dlpack__(self, **options: Any) -> Any:
        """Memory for one launch: of the active capture, else none."""
        active = _active.get()
        if active is not None:
            device = "cpu" if self._on_cpu else f"cuda:{_current_device()}"
            memory = active.memory_for(self._function, device, options.get("stream"))
        else:
            # Without a driver nothing can run; the wrapper says so, and better than this could.
            on_cpu = self._on_cpu or not _has_driver()
            memory = np.zeros(0, np.uint64) if on_cpu else _no_device_memory()
        return memory.__dlpack__(**options)


def _host_memory(words: int) -> Any:
    memory = np.empty(words, np.uint64)
    # The first access to a page takes long; it shall not happen inside the kernel.
    memory[::_PAGE_WORDS] = 0
    prepare(memory)
    return memory


def _device_library() -> Any:
    """The library that owns device memory: the one that the program already uses."""
    for name in ("torch", "cupy"):
        found = sys.modules.get(name)
        if found is not None:
            return found
    raise UnavailableError(
        "PROFILER_DEVICE",
        "capturing launches on a GPU takes memory from torch or CuPy, and neither is imported",
        hint='give the profiler a buffer: Profiler(buffer=records), with weft.empty(..., device="cuda")',
    )


def _has_driver() -> bool:
    from weft.driver.library import open_driver
    from weft.errors import CudaError

    try:
        open_driver()
    except CudaError:
        return False
    return True


def _no_device_memory() -> Any:
    from weft.driver.memory import empty
    from weft.types.dtype import u64

    return empty(0, u64, "cuda")


def _current_device() -> int:
    from weft.driver.device import current_device

    return current_device()


def _device_memory(words: int) -> Any:
    library = _device_library()
    start = prologue()[:words]
    if library.__name__ == "torch":
        memory = library.empty(words, dtype=library.int64, device="cuda")
        memory[: len(start)] = library.from_numpy(start.view(np.int64))
        return memory.view(library.uint64)
    memory = library.empty(words, dtype=library.uint64)
    memory[: len(start)] = library.asarray(start)
    return memory
