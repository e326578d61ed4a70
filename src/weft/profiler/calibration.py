# SPDX-License-Identifier: Apache-2.0
# Kernel parameters are annotated with weft's types, which type checkers do not accept as types.
# pyright: reportInvalidTypeForm=false, reportUnknownParameterType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""The cost of measuring: the clock's step, the cost of a record, and a program's slowdown by markers.

In: a device, or two functions. Out: nanoseconds, for `Trace.cost_ns` and for judging results.
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
    """The measured costs.

    Attributes:
        step_ns: the smallest difference between two different times.
        cost_ns: the median time between adjacent records.

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
    """Measures the clock's step and the cost of a record.

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
    marked: Callable[[], object], unmarked: Callable[[], object], samples: int = 21
) -> float:
    """A program's slowdown by markers that record: 1.05 is 5 % more time.

    Both are called alternately, and medians compared; each call must wait for its launches to end. They run in a
    `capture` of this function, so their launches appear in no other trace: a first call counts the
    records, and the measured launches get memory for as many. Preparing it is part of the time;
    reading it is not. Above 1.05 the times of short regions say more about the markers than about the program.

    Args:
        marked: the program; its own captures stay in use.
        unmarked: the same with ``enabled=False``.
        samples: calls of each, 1 or more.

    Raises:
        ArgumentValueError: for fewer.
        TypeError: if one cannot be called.

    Example:
        >>> weft.profiler.inflation(lambda: run(a, True), lambda: run(a, False), samples=3) > 0
        True
    """
    if samples < 1:
        raise ArgumentValueError("PROFILER_RANGE", f"samples is {samples}; expected 1 or more")
    times: tuple[list[float], list[float]] = ([], [])
    for call in (marked, unmarked):
        if not callable(call):
            raise TypeError(
                f"inflation takes two functions without arguments, received {brief(call)}"
            )
    with capture() as counted:
        for call in (marked, unmarked):
            call()  # compilation is not measured
    with capture(words=counted.words_needed or None):
        for _ in range(samples):
            for call, found in zip((marked, unmarked), times, strict=True):
                begin = time.perf_counter()
                call()
                found.append(time.perf_counter() - begin)
    return statistics.median(times[0]) / statistics.median(times[1])
