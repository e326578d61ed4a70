# SPDX-License-Identifier: Apache-2.0
"""`trace_thread`: what one thread of a kernel does, statement by statement, with the values.

In: a function that launches kernels on the CPU, its arguments, a block and a thread. Out: `ThreadTrace`, which prints
as the kernel's lines with the values beside them.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast, overload

from weft import _native
from weft.config import config, override
from weft.errors import OptionError, UnavailableError, brief
from weft.testing.copies import copied, tensors_of
from weft.testing.trace_event import TracedLaunch, TraceEvent, event_of, site_of
from weft.testing.trace_text import trace_text

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_EVENTS: Final = 250_000
"""Those beyond are counted, not kept."""
_CPU: Final = 1  # kDLCPU
_AXES: Final = 3
_running = threading.local()


class ThreadTrace(Sequence[TraceEvent]):
    """Trace of a thread: the events of all launches, in order; `str` is what `trace_thread` prints.

    Attributes:
        launches: as `TracedLaunch` objects.
        block, thread: which thread it was.
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

    def text(self, rounds: int = 3) -> str:
        """The lines with their values; of a loop, the first `rounds` rounds and the last."""
        return trace_text(self.launches, (self.block, self.thread), self.dropped, rounds)


def trace_thread(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    *,
    block: int | tuple[int, ...] = 0,
    thread: int | tuple[int, ...] = 0,
    show: bool = True,
) -> ThreadTrace:
    """Calls a function, and prints what one thread of its kernels does: each line that it runs, with the values.

    Assigned variables, elements read and written, conditions, iterations of loops, inlined functions and barriers
    are printed. The function is compiled anew for that, and runs on copies of its arguments, on one thread of the
    machine. Where it fails, what has happened until then is printed before the error is raised.

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
    told: list[list[TraceEvent]] = [[] for _ in launches]
    sites = {text: site_of(text) for text in {text for _, text, _ in events}}
    for launch, text, bits in events:
        told[launch].append(event_of(sites[text], bits))
    found = [
        TracedLaunch(kernel, grid, size, _is_in(block, grid) and _is_in(thread, size), tuple(one))
        for (kernel, grid, size), one in zip(launches, told, strict=True)
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
