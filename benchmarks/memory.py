# SPDX-License-Identifier: Apache-2.0
"""Memory that stays after compiling and after calling, per compilation and per call.

Resident memory is read from the kernel of the operating system after many repetitions, once those of
the first repeats have filled every pool; `tracemalloc` says how much of it Python itself holds.
"""

from __future__ import annotations

import gc
import resource
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import weft
from benchmarks.harness import Figure, parse_arguments, report
from examples.add_one import add_one, fake_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WARM_UP = 30
LAUNCHES = 1_000_000


@weft.kernel
def rotate_kernel(a: weft.Tensor):
    """Threads that wait for each other."""
    thread = weft.thread_idx.x
    value = a[(thread + 1) % a.shape[0]]
    weft.sync_threads()
    a[thread] = value


@weft.jit
def rotate(a: weft.Tensor[weft.f32, ("n",)]):
    """Move each element one place down."""
    rotate_kernel(a).launch(grid=1, block=a.shape[0])


def resident_kb() -> float:
    """Resident memory of this process, in kB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e3


def growth_kb(action: Callable[[], object], times: int) -> float:
    """Resident memory that one `action()` leaves behind, in kB, averaged over `times` of them."""
    gc.collect()
    before = resident_kb()
    for _ in range(times):
        action()
    gc.collect()
    return (resident_kb() - before) / times


def python_kb(action: Callable[[], object], times: int) -> float:
    """Memory that Python's allocator holds after one `action()`, in kB, averaged over `times`."""
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(times):
        action()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 1e3 / times


def figures(times: int) -> Iterator[Figure]:
    """Memory per kept compilation, per dropped one, and per call."""
    arguments = fake_arguments()
    kept: list[object] = []
    for target, options in (("cpu", "--target cpu"), ("cubin", "--gpu-arch sm_90a")):

        def compiled(options: str = options) -> object:
            return weft.compile(add_one, *arguments, options=options)

        for _ in range(WARM_UP):
            compiled()
        name = f"memory/compile/{target}"
        dropped = growth_kb(compiled, times)
        yield Figure(f"{name}/dropped", dropped, "kB", note="the function is garbage at once")
        held = growth_kb(lambda compiled=compiled: kept.append(compiled()), times)
        yield Figure(f"{name}/kept", held, "kB", note="goal 20 kB besides the JIT's own")
        mine = python_kb(lambda compiled=compiled: kept.append(compiled()), times)
        yield Figure(f"{name}/kept/python", mine, "kB", note="of which Python objects")
    function = weft.compile(add_one, *arguments, options="--target cpu")
    a = np.zeros(16, np.float32)
    b = np.zeros(16, np.float32)
    for _ in range(1000):
        function(a, b)
    per_call = growth_kb(lambda: function(a, b), LAUNCHES) * 1e3
    yield Figure("memory/call", per_call, "B", note=f"over {LAUNCHES:,} launches; goal 0")
    waiting = weft.compile(rotate, a, options="--target cpu")
    waiting(a)
    per_call = growth_kb(lambda: waiting(a), LAUNCHES) * 1e3
    yield Figure(
        "memory/call/coroutines", per_call, "B", note=f"over {LAUNCHES:,} launches; goal 0"
    )


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=100)
    report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
