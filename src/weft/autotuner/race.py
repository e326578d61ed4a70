# SPDX-License-Identifier: Apache-2.0
"""Measures configurations beside each other, and stops those that cannot win; shows the progress.

In: what to call for each, and sets of arguments that take turns. Out: the time of each call. One call of each entrant
follows the other, so that a change of the clock rate or of other load meets all of them alike. Progress is one line on
standard error, written over, and nothing unless that is a terminal, or it is asked for.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft import _native
from weft.autotuner.copies import cache_bytes
from weft.blame import is_of_a_handler
from weft.driver.device import synchronize
from weft.driver.memory import empty
from weft.errors import CudaError
from weft.types.device import CUDA
from weft.types.dtype import u8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


WARM_UP_CALLS: Final = 2
LEAST_SAMPLES: Final = 5
"""Before these nothing is stopped, unless it is slow and `HOPELESS`."""
ALONE_SAMPLES: Final = 10
"""The last one left is measured so often."""
HOPELESS: Final = 4.0
"""Times the best median: stopped at once, if even its fastest call is that slow."""
SLOW_SECONDS: Final = 0.1
"""Time of an entrant's calls together; a few short ones say little on a machine with other work."""


class SetOfArguments(Protocol):
    """Arguments of one call, which it may write to."""

    @property
    def values(self) -> Sequence[Any]:
        """One for each parameter."""
        ...

    def restore(self) -> None:
        """Restores them."""
        ...


class Clock(Protocol):
    """Timing of calls on one device."""

    def seconds(self, call: Callable[[], object]) -> float:
        """The time of one call, to the end of its last kernel."""
        ...


class WallClock:
    """For the CPU, where a call returns after its kernels."""

    def seconds(self, call: Callable[[], object]) -> float:
        """Wall-clock time."""
        began = time.perf_counter()
        call()
        return time.perf_counter() - began


class EventClock:
    """For CUDA: the time between two events around a call.

    Before each, a buffer as large as the L2 cache is filled: the arguments come from memory, and the host has queued
    the call before the device has got there, so the time is the device's own.

    Args:
        device: its ordinal.
        stream: where calls run.
    """

    def __init__(self, device: int, stream: int) -> None:
        self._device, self._stream = device, stream
        self._flushed = empty(max(cache_bytes((CUDA, device)), 1), u8, device)

    def seconds(self, call: Callable[[], object]) -> float:
        """Device time."""
        synchronize(self._device)  # arguments may have been copied on another stream
        _native.fill_tensor(self._flushed, 0, self._stream)
        before = _native.record_event(self._stream)
        call()
        after = _native.record_event(self._stream)
        synchronize(self._device)
        return before.nanoseconds_until(after) / 1e9


class Entrant:
    """One configuration in the race.

    Attributes:
        samples: seconds of each call so far.
        error: of a call, or None.
        is_stopped: whether it was left behind.
    """

    def __init__(self, call: Callable[[Sequence[Any]], object]) -> None:
        self._call = call
        self.samples: list[float] = []
        self.error: Exception | None = None
        self.is_stopped = False

    @property
    def median(self) -> float:
        """Median of the samples; infinite without any."""
        return statistics.median(self.samples) if self.samples else float("inf")

    def run(self, clock: Clock, arguments: SetOfArguments) -> float | None:
        """One call; None if it raised."""
        try:
            took = clock.seconds(lambda: self._call(arguments.values))
            arguments.restore()
        except Exception as error:
            if is_of_a_handler(error) or is_fatal(error):
                raise
            self.error = error
            arguments.restore()
            return None
        return took


# A context in which one of these happened runs nothing any more.
_FATAL: Final = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719, 999))


def is_fatal(error: BaseException) -> bool:
    """Whether a device can run nothing after an error."""
    return isinstance(error, CudaError) and error.code in _FATAL


class Race:
    """The measurement of several configurations.

    Args:
        sets: the arguments, which take turns.
        clock: of the device.
        samples: calls of each configuration, at most.
        seconds: after these a configuration is measured no more, if it has `LEAST_SAMPLES`.
        report: called after each repetition with the number of samples and of entrants that are left.
    """

    def __init__(
        self,
        sets: Sequence[SetOfArguments],
        clock: Clock,
        samples: int,
        seconds: float,
        report: Callable[[int, int], object] = lambda samples, left: None,
    ) -> None:
        self._sets = sets
        self._clock = clock
        self._samples, self._seconds = samples, seconds
        self._report = report
        self._turn = 0

    def run(self, entrants: Sequence[Entrant]) -> None:
        """Fills the entrants' samples; one whose call raises has an error instead."""
        for entrant in entrants:
            for _ in range(WARM_UP_CALLS):
                if entrant.error is None:
                    entrant.run(self._clock, self._next_set())
        left = [entrant for entrant in entrants if entrant.error is None]
        samples = 0
        while left and samples < self._samples:
            for entrant in left:
                took = entrant.run(self._clock, self._next_set())
                if took is not None:
                    entrant.samples.append(took)
            samples += 1
            left = self._still_racing(left)
            self._report(samples, len(left))
            if self._is_enough(left, samples):
                break

    def _is_enough(self, left: Sequence[Entrant], samples: int) -> bool:
        if samples < LEAST_SAMPLES:
            return False
        if len(left) == 1 and samples >= ALONE_SAMPLES:
            return True
        return max((sum(entrant.samples) for entrant in left), default=0.0) > self._seconds

    def _next_set(self) -> SetOfArguments:
        self._turn += 1
        return self._sets[self._turn % len(self._sets)]

    def _still_racing(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Those that may still be the best: whose fastest call is not slower than the best one's median."""
        alive = [entrant for entrant in entrants if entrant.error is None]
        best = min((entrant.median for entrant in alive), default=0.0)
        for entrant in alive:
            fastest = min(entrant.samples)
            is_known = len(entrant.samples) >= LEAST_SAMPLES
            is_slow = sum(entrant.samples) > SLOW_SECONDS
            entrant.is_stopped = (is_known and fastest > best) or (
                is_slow and fastest > HOPELESS * best
            )
        return [entrant for entrant in alive if not entrant.is_stopped]


class Progress:
    """The line of one tuning.

    Args:
        name: of the function.
        is_wanted: None: if standard error is a terminal.
    """

    def __init__(self, name: str, is_wanted: bool | None) -> None:
        self._name = name
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_wanted = self._is_terminal if is_wanted is None else is_wanted

    def now(self, text: str) -> None:
        """Show the current step; on a terminal only, since each replaces the one before."""
        if self._is_wanted and self._is_terminal:
            print(f"\r\x1b[Kweft: tuning {self._name}: {text}", end="", file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """The last line, which stays."""
        if self._is_wanted:
            start = "\r\x1b[K" if self._is_terminal else ""
            print(f"{start}weft: tuned {self._name}: {text}", file=sys.stderr, flush=True)

    def gone(self) -> None:
        """Removes the line, for an error's message."""
        if self._is_wanted and self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
