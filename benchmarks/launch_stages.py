# SPDX-License-Identifier: Apache-2.0
"""Where the host time of a launch on a GPU goes: Python's call, conversion, validation, the driver, a device switch.

Each part is the difference of two calls that were measured in turn: of a native function that does nothing, of a
host function that checks its arguments and launches nothing, of one that launches, of that one called where no
context is current. The driver's part is a bare C loop. Then the same calls with clocks inside: a library between weft
and the driver reads them around each call of the driver. In: a GPU. Out: nanoseconds for 0, 1, 3 and 8 tensors.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import tempfile
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import weft
from benchmarks.callees import address
from benchmarks.gpu_launch import (
    COUNTS,
    HOSTS,
    LAUNCHES,
    Vector,
    bare_caller,
    build_bare_loop,
    build_library,
    caller,
    choose_array,
    gpu_missing,
    time_calls,
)
from benchmarks.harness import Figure, interleave, medians, parse_arguments, report
from weft import _native
from weft.driver.library import prepare_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@weft.jit
def check_none():
    """Take nothing, launch nothing."""


@weft.jit
def check_one(a: Vector):
    """Check one vector."""


@weft.jit
def check_three(a: Vector, b: Vector, c: Vector):
    """Check three vectors."""


@weft.jit
def check_eight(
    a: Vector, b: Vector, c: Vector, d: Vector, e: Vector, f: Vector, g: Vector, h: Vector
):
    """Check eight vectors."""


CHECKS = {0: check_none, 1: check_one, 3: check_three, 8: check_eight}


def doing_nothing(count: int) -> _native.Function:
    """A native function that takes any values and returns at once, called as compiled functions are."""
    names = [f"a{index}" for index in range(count)]
    plan = _native.CallPlan("nothing", f"nothing({', '.join(names)})", names)
    return _native.Function.from_address(address("nothing"), None, None, plan)


def without_context(
    library: Any, function: Any, arrays: Sequence[Any], launches: int
) -> Callable[[], float]:
    """A measurement of calls that switch to the device and back, since no context is current before them."""
    names = {f"a{index}": array for index, array in enumerate(arrays)}
    call = f"f({', '.join(names)})"

    def measure() -> float:
        current = ctypes.c_void_p()
        library.cuCtxGetCurrent(ctypes.byref(current))
        _native.synchronize(0)
        library.cuCtxSetCurrent(None)
        try:
            return time_calls(call, {"f": function, **names}, launches, wait=False)
        finally:
            library.cuCtxSetCurrent(current)

    return measure


def clocked(
    clocks: Any, function: Any, arrays: Sequence[Any], launches: int
) -> dict[str, tuple[float, str]]:
    """The median of each part of a call, from clocks around what it asks of the driver.

    Args:
        clocks: `timed_driver`, through which weft calls the driver.
        function: launches once.
        arrays: its arguments.
        launches: how many are timed.
    """
    records = (ctypes.c_int64 * (4 * launches))()
    clocks.start_records(records, launches)
    caller(function, arrays, launches)()
    count = clocks.stop_records()
    if count != launches:
        raise RuntimeError(f"{count} of {launches} launches came through the timed driver")
    # The call that `caller` makes first is a record too, so that the last one of the loop is not.
    times = [records[4 * k : 4 * k + 4] for k in range(launches)]
    middle = statistics.median
    return {
        "cuCtxGetCurrent": (middle(b - a for a, b, _, _ in times), "with a pair of clocks"),
        "guard and parameters": (
            middle(c - b for _, b, c, _ in times),
            "from the context to the launch, with a pair of clocks",
        ),
        "cuLaunchKernelEx": (middle(d - c for *_, c, d in times), "with a pair of clocks"),
        "between launches": (
            middle(after[0] - before[3] for before, after in pairwise(times)),
            "conversion, checks and Python, with a pair of clocks",
        ),
    }


def figures(
    make_array: Callable[[], tuple[Any, int]],
    repeats: int,
    *,
    driver: str = "libcuda.so.1",
    options: str = "",
    launches: int = LAUNCHES,
    clocks: Any = None,
) -> Iterator[Figure]:
    """Nanoseconds of each part of a launch, for each number of tensors.

    Args:
        make_array: makes a vector of f32 on device 0; gives it and its address.
        repeats: measurements of each kind.
        driver: the driver's library.
        options: more options of `weft.compile`.
        launches: how many one measurement takes.
        clocks: `timed_driver`, where weft calls the driver through it.
    """
    _native.set_current_device(0)
    library = ctypes.CDLL(driver)
    with tempfile.TemporaryDirectory() as folder:
        loop = build_bare_loop(folder)
        for count in COUNTS:
            made = [make_array() for _ in range(count)]
            arrays = [array for array, _ in made]
            target = f"--target cuda {options}"
            launching = weft.compile(HOSTS[count], *arrays, options=target)
            checking = weft.compile(CHECKS[count], *arrays, options=target)
            for_bare = weft.compile(HOSTS[count], *arrays, options=f"{target} --executor context")
            found = medians(
                interleave(
                    {
                        "call": caller(doing_nothing(0), (), launches),
                        "converted": caller(doing_nothing(count), arrays, launches),
                        "checked": caller(checking, arrays, launches),
                        "launched": caller(launching, arrays, launches),
                        "switched": without_context(library, launching, arrays, launches),
                        "bare": bare_caller(
                            loop, driver, for_bare, [at for _, at in made], launches
                        ),
                    },
                    repeats,
                )
            )
            yield from parts(count, found)
            if clocks is not None:
                for part, (value, note) in clocked(clocks, launching, arrays, launches).items():
                    name = f"launch_stages/{count} tensors, inside calls/{part}"
                    yield Figure(name, value, "ns", note=note)


def use_timed_driver(folder: str, driver: str) -> Any:
    """Let weft, which has opened no driver yet, call this one with clocks around."""
    clocks = build_library("timed_driver", folder)
    if clocks.use_driver(driver.encode()) != 0:
        raise RuntimeError(f"cannot open {driver}")
    os.environ["WEFT_LIBCUDA"] = f"{folder}/timed_driver.so"
    prepare_driver()
    return clocks


def parts(count: int, found: dict[str, float]) -> Iterator[Figure]:
    """The differences, as figures. They add up to the whole call, but for the switch, which most calls lack."""
    values = {
        "Python's call": (found["call"], "a native function without arguments that does nothing"),
        "conversion": (found["converted"] - found["call"], "arguments to the ABI's values"),
        "validation": (found["checked"] - found["converted"], "decoding and every check"),
        "the rest": (
            found["launched"] - found["checked"] - found["bare"],
            "guard and parameters; and the parts above are slower between launches than in their loops",
        ),
        "driver": (found["bare"], "cuLaunchKernelEx in a C loop"),
        "whole call": (found["launched"], "the sum of these"),
        "device switch": (
            found["switched"] - found["launched"],
            "more where no context is current: set, and restored",
        ),
    }
    for part, (value, note) in values.items():
        yield Figure(f"launch_stages/{count} tensors, {part}", value, "ns", note=note)


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", repeats=15)
    if reason := gpu_missing():
        found = [Figure("launch_stages", None, "ns", note=f"needs an NVIDIA GPU: {reason}")]
        report(found, arguments.json)
        return
    with tempfile.TemporaryDirectory() as folder:
        clocks = use_timed_driver(folder, "libcuda.so.1")
        report(figures(choose_array(), arguments.repeats, clocks=clocks), arguments.json)


if __name__ == "__main__":
    main()
