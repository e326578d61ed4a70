# SPDX-License-Identifier: Apache-2.0
# The annotations of a kernel's parameters are weft's types, which a type checker does not take for types.
# pyright: reportInvalidTypeForm=false, reportUnknownParameterType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""What measuring costs: the clock's step, the price of a record, and how much slower markers make a program.

In: a device, or two functions. Out: numbers in nanoseconds, for `Trace.cost_ns` and for doubting results.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import weft
from weft.errors import ArgumentValueError, brief
from weft.language import LanguageName
from weft.profiler.capturing import capture

if TYPE_CHECKING:
    from collections.abc import Callable

Profiler: Final = LanguageName("profiler.Profiler")
_PAIRS: Final = 256


class Calibration(NamedTuple):
    """What was measured.

    Attributes:
        step_ns: the smallest difference between two times that are not the same.
        cost_ns: between neighboring records with nothing between them: the median.

    Example:
        >>> step_ns, cost_ns = weft.profiler.calibrate()
    """

    step_ns: float
    cost_ns: float


@weft.kernel
def _empty_regions(count: weft.i32) -> None:
    p = Profiler(events=("region",))
    p.init(0)
    for _ in range(count):
        p.start("region")
        p.end("region")


@weft.jit
def _measure(count: weft.i32) -> None:
    _empty_regions(count).launch(grid=1, block=1)


def calibrate(options: str = "") -> Calibration:
    """Measures the clock's step and what one record costs.

    Args:
        options: compile options: ``--target cuda`` measures the GPU.

    Example:
        >>> trace.cost_ns = weft.profiler.calibrate().cost_ns
    """
    run = weft.compile(_measure, 1, options=options)
    with capture(words=1 << 12) as trace:
        for _ in range(5):
            run(_PAIRS)
    steps: list[Any] = [np.diff(found.records["time"]) for found in trace.recordings[1:]]
    every = np.concatenate(steps)
    moved = every[every > 0]
    if not len(moved):
        return Calibration(0.0, 0.0)
    return Calibration(float(moved.min()), float(np.median(every)))


def inflation(
    marked: Callable[[], object], unmarked: Callable[[], object], rounds: int = 21
) -> float:
    """How many times as long a program takes with markers that record: 1.05 is 5 % more.

    Both are called in turn, and medians compared; each call must wait for its launches to end. They run in a
    `capture` of this function, so that no launch of theirs is in another trace: a first call counts the
    records, and the launches that are measured get memory for as many. Making that ready is part of the time;
    reading it is not. Past 1.05 the times of short regions say more about the markers than about the program.

    Args:
        marked: the program; what it captures itself, it measures with that capture.
        unmarked: the same with ``enabled=False``.
        rounds: calls of each, 1 or more.

    Raises:
        ArgumentValueError: for fewer.
        TypeError: for what cannot be called.

    Example:
        >>> weft.profiler.inflation(lambda: run(a, True), lambda: run(a, False), rounds=3) > 0
        True
    """
    if rounds < 1:
        raise ArgumentValueError("PROFILER_RANGE", f"rounds is {rounds}; expected 1 or more")
    times: tuple[list[float], list[float]] = ([], [])
    for call in (marked, unmarked):
        if not callable(call):
            raise TypeError(
                f"inflation takes two functions without arguments, received {brief(call)}"
            )
    with capture() as counted:
        for call in (marked, unmarked):
            call()  # compiling is not what is measured
    with capture(words=counted.words_needed or None):
        for _ in range(rounds):
            for call, found in zip((marked, unmarked), times, strict=True):
                begin = time.perf_counter()
                call()
                found.append(time.perf_counter() - begin)
    return statistics.median(times[0]) / statistics.median(times[1])
