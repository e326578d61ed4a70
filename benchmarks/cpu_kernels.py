# SPDX-License-Identifier: Apache-2.0
"""Kernels on the CPU target: launches, threads that wait for each other, and the examples.

In: the examples at their full size, compiled beforehand, on one thread and on two. Out: milliseconds
per call beside NumPy, numba's `@njit` and torch, and of the busier of two threads beside one alone;
nanoseconds per launch; nanoseconds per thread of a reduction, beside numba's CUDA simulator.
"""

from __future__ import annotations

import statistics
import sys
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.harness import (
    PEERS_PYTHON,
    Figure,
    Missing,
    Worker,
    interleave,
    medians,
    parse_arguments,
    report,
)
from examples.catalog import EXAMPLES
from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.common import Example

GOALS = {"add_one": 1.0, "saxpy": 0.6}  # of NumPy's time
THREADS = (1, 2)
PEERS: dict[str, tuple[str, Path | str]] = {
    "numba njit": ("benchmarks.peers.numba_cpu", PEERS_PYTHON),
    "torch": ("benchmarks.peers.torch_cpu", sys.executable),
}
# The examples that the peers have too.
COMPARED = (
    "add_one", "saxpy", "matmul", "histogram", "block_reduction", "warp_reduction", "softmax",
    "transpose", "tiled_matmul", "convolution", "shared_histogram", "inclusive_scan", "bitonic_sort",
)  # fmt: skip
SIMULATOR = "benchmarks.peers.numba_simulator"
SIMULATED_THREADS = 512
LAUNCHES = 20_000
BLOCK = 256
REDUCED = 1 << 20
BUSY_BLOCKS = 64
Vector = weft.Tensor[weft.f32, ("n",)]
Sums = weft.Tensor[weft.f32, ("blocks",)]


@weft.kernel
def empty_kernel():
    """Nothing."""


@weft.jit
def launch_empty(blocks: weft.i32):
    """Launch blocks that do nothing."""
    empty_kernel().launch(grid=blocks, block=1)


@weft.kernel
def busy_kernel(never: weft.Tensor):
    """One thread: divisions, each of which waits for the one before; memory would be moved about."""
    value = weft.f32(weft.block_idx.x)
    for _ in range(100):
        value = 1.0 / (value + 1.0)
    if value < 0.0:
        never[0] = value


@weft.jit
def launch_busy(blocks: weft.i32, never: Vector):
    """Blocks of one thread that compute for a while."""
    busy_kernel(never).launch(grid=blocks, block=1)


@weft.kernel
def block_reduction_kernel(a: weft.Tensor, sums: weft.Tensor):
    """One block: the sum of 256 elements, by a tree in shared memory; ten waits per thread."""
    partial = weft.shared(BLOCK, weft.f32)
    thread = weft.thread_idx.x
    partial[thread] = a[weft.block_idx.x * BLOCK + thread]
    weft.sync_threads()
    active = BLOCK // 2
    while active > 0:
        if thread < active:
            partial[thread] += partial[thread + active]
        weft.sync_threads()
        active //= 2
    if thread == 0:
        sums[weft.block_idx.x] = partial[0]


@weft.kernel
def warp_reduction_kernel(a: weft.Tensor, sums: weft.Tensor):
    """One block: the same by shuffles; five per thread, a barrier, and five in one of eight warps."""
    of_warps = weft.shared(BLOCK // 32, weft.f32)
    value = a[weft.block_idx.x * BLOCK + weft.thread_idx.x]
    for step in weft.static_range(5):
        value += weft.shfl_down(value, 16 >> step)
    if weft.lane_id() == 0:
        of_warps[weft.warp_id()] = value
    weft.sync_threads()
    if weft.warp_id() == 0:
        value = of_warps[weft.lane_id() % 8]
        for step in weft.static_range(3):
            value += weft.shfl_down(value, 4 >> step)
        if weft.thread_idx.x == 0:
            sums[weft.block_idx.x] = value


@weft.jit
def block_reduction(a: Vector, sums: Sums):
    """Sums of 256 elements each."""
    block_reduction_kernel(a, sums).launch(grid=sums.shape[0], block=BLOCK)


@weft.jit
def warp_reduction(a: Vector, sums: Sums):
    """Sums of 256 elements each."""
    warp_reduction_kernel(a, sums).launch(grid=sums.shape[0], block=BLOCK)


def milliseconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of one call."""
    start = clock()
    call()
    return (clock() - start) * 1e3


def nanoseconds(call: str, names: dict[str, Any]) -> float:
    """Time of one evaluation of `call`, in a loop of its own; the loop counts in, about 4 ns."""
    return timeit.Timer(call, globals=names).timeit(LAUNCHES) / LAUNCHES * 1e9


def with_threads(count: int, call: Callable[[], Any]) -> Callable[[], None]:
    """The call with so many threads sharing its grids."""

    def run() -> None:
        _native.set_cpu_threads(count)
        call()
        _native.set_cpu_threads(0)

    return run


def launches(repeats: int) -> Iterator[Figure]:
    """Overhead of a launch; empty kernels are never worth sharing."""
    compiled = weft.compile(launch_empty, 1)
    names = {"f": compiled}

    def on_two() -> float:
        _native.set_cpu_threads(2)
        compiled(1_000_000)
        value = nanoseconds("f(64)", names)
        _native.set_cpu_threads(0)
        return value

    cases = {
        "inline": (lambda: nanoseconds("f(1)", names), "goal 200 ns"),
        "64 blocks, two threads": (on_two, "goal 500 ns"),
    }
    samples = interleave({name: measure for name, (measure, _) in cases.items()}, repeats)
    for name, value in medians(samples).items():
        yield Figure(f"cpu_kernels/launch/{name}", value, "ns", note=cases[name][1])
    yield hot_launch(repeats)


def hot_launch(repeats: int) -> Figure:
    """How much longer than half of its work a grid takes that two threads share, workers spinning."""
    never = np.ones(1, np.float32)
    compiled = weft.compile(launch_busy, BUSY_BLOCKS, never)
    names = {"f": compiled, "blocks": BUSY_BLOCKS, "never": never}

    def measure(threads: int) -> float:
        _native.set_cpu_threads(threads)
        timer = timeit.Timer("f(blocks, never)", globals=names)
        return min(timer.repeat(number=1, repeat=LAUNCHES)) * 1e9

    found = medians(interleave({str(n): (lambda n=n: measure(n)) for n in THREADS}, repeats))
    _native.set_cpu_threads(0)
    over = found["2"] - found["1"] / 2
    note = f"beyond half of {found['1'] / 1e3:.1f} us, best of {LAUNCHES}"
    return Figure("cpu_kernels/launch/shared by two, hot", over, "ns", note=note)


def cooperation(repeats: int) -> Iterator[Figure]:
    """Nanoseconds per thread of kernels whose threads wait for each other.

    It is the time that the one thread was on the CPU, so that other programs change it little.
    """
    a = np.random.default_rng(0).random(REDUCED, np.float32)
    sums = np.empty(REDUCED // BLOCK, np.float32)
    expected = a.reshape(-1, BLOCK).sum(axis=1)
    for function in (block_reduction, warp_reduction):
        compiled = weft.compile(function, a, sums)
        compiled(a, sums)
        np.testing.assert_allclose(sums, expected, rtol=1e-5)
        call = with_threads(1, lambda compiled=compiled: compiled(a, sums))
        times = [milliseconds(call, time.thread_time) for _ in range(repeats)]
        per_thread = statistics.median(times) * 1e6 / REDUCED
        name = f"cpu_kernels/{function.__name__}/per thread"
        if function is block_reduction:
            value, note = simulated()
            note = f"goal 30 ns; {note}"
            yield Figure(name, per_thread, "ns", "numba simulator", value, note)
        else:
            yield Figure(name, per_thread, "ns", note="goal 30 ns")


def simulated() -> tuple[float | None, str]:
    """Nanoseconds per thread of the block reduction in numba's simulator, and its version."""
    try:
        worker = Worker(SIMULATOR, f"block_reduction/{SIMULATED_THREADS}", PEERS_PYTHON)
        worker.measure()
        value = worker.measure() * 1e6 / SIMULATED_THREADS
    except Missing as reason:
        return None, str(reason)
    worker.close()
    return value, worker.version


def numpy_in_place(name: str, given: dict[str, Any]) -> Callable[[], Any] | None:
    """NumPy without allocating its result, where that is how one would write it; else None."""
    if name == "add_one":
        return lambda: np.add(given["a"], np.float32(1), out=given["b"])
    if name == "saxpy":
        product = np.empty_like(given["x"])

        def saxpy() -> None:
            np.multiply(given["x"], np.float32(given["a"]), out=product)
            np.add(product, given["y"], out=given["y"])

        return saxpy
    return None


def start_peers(example: Example, threads: int, missing: dict[str, str]) -> dict[str, Worker]:
    """A process for each peer that has this example; `missing` gets the reasons of those without one."""
    workers: dict[str, Worker] = {}
    for peer, (module, python) in PEERS.items():
        if peer in missing or example.name not in COMPARED:
            continue
        try:
            worker = Worker(module, f"{example.name}/{example.size}/{threads}", python)
            worker.measure()
            workers[peer] = worker
        except Missing as reason:
            missing[peer] = str(reason)
    return workers


def examples(repeats: int) -> Iterator[Figure]:
    """Each example beside its NumPy reference, which has one thread, and beside the peers.

    On one thread it is the time that this thread was on the CPU, so that other programs change it little.
    """
    missing: dict[str, str] = {}
    for example in EXAMPLES:
        arguments = example.make_arguments(example.size)
        compiled = weft.compile(example.function, *arguments.values())
        given = example.call_arguments(arguments)
        ours = lambda compiled=compiled, given=given: compiled(**given)  # noqa: E731
        numpy = numpy_in_place(example.name, arguments) or (
            lambda reference=example.reference, given=arguments: reference(**given)
        )
        numpy()
        for threads in THREADS:
            call = with_threads(threads, ours)
            call()  # touches the memory, wakes the threads
            workers = start_peers(example, threads, missing)
            clock = time.thread_time if threads == 1 else time.perf_counter
            candidates: dict[str, Callable[[], float]] = {
                "weft": lambda call=call, clock=clock: milliseconds(call, clock),
                "NumPy": lambda numpy=numpy, clock=clock: milliseconds(numpy, clock),
                **{peer: worker.measure for peer, worker in workers.items()},
            }
            found = medians(interleave(candidates, repeats))
            name = f"cpu_kernels/{example.name}/{threads} thread{'s' if threads > 1 else ''}"
            for peer in ("NumPy", *workers):
                note = example.describe(example.size)
                if peer == "NumPy" and example.name in GOALS:
                    note += f"; goal x{GOALS[example.name]:g}"
                yield Figure(name, found["weft"], "ms", peer, found[peer], note)
            for worker in workers.values():
                worker.close()
    for peer, reason in missing.items():
        yield Figure(f"cpu_kernels/{peer}", None, "ms", peer, None, reason)


def busiest_milliseconds(call: Callable[[], Any]) -> float:
    """How long the busiest thread of the process was on a CPU during one call; other programs change it little.

    Linux alone: the number of a thread's clock is made of the thread's, as `pthread_getcpuclockid` does it.
    """

    def times() -> dict[int, int]:
        threads = [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
        return {thread: time.clock_gettime_ns((~thread << 3) | 6) for thread in threads}

    before = times()
    call()
    return max(after - before.get(thread, 0) for thread, after in times().items()) / 1e6


def shared(repeats: int) -> Iterator[Figure]:
    """Each example on two threads, the busier one's time on a CPU, beside one thread; then which gain nothing."""
    slower: list[str] = []
    for example in EXAMPLES:
        arguments = example.make_arguments(example.size)
        compiled = weft.compile(example.function, *arguments.values())
        given = example.call_arguments(arguments)
        ours = lambda compiled=compiled, given=given: compiled(**given)  # noqa: E731
        calls = {threads: with_threads(threads, ours) for threads in THREADS}
        for call in calls.values():
            call()  # touches the memory, wakes the threads
        samples = interleave(
            {
                str(threads): lambda call=call: busiest_milliseconds(call)
                for threads, call in calls.items()
            },
            repeats,
        )
        one, two = (min(samples[str(threads)]) for threads in THREADS)
        if two >= one:
            slower.append(example.name)
        note = example.describe(example.size)
        yield Figure(f"cpu_kernels/{example.name}/two threads", two, "ms", "one thread", one, note)
    name = "cpu_kernels/examples that two threads do not make faster"
    yield Figure(name, len(slower), "", note=", ".join(slower) or "none")


PARTS: dict[str, Callable[[int], Iterator[Figure]]] = {
    "launches": launches,
    "cooperation": cooperation,
    "shared": shared,
    "examples": examples,
}


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=9, parts=tuple(PARTS))
    for name in arguments.part or PARTS:
        report(PARTS[name](arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
