# SPDX-License-Identifier: Apache-2.0
"""Kernels that take long stop when a signal's handler raises, whatever they do; other Python threads run meanwhile.

In: kernels that would run for hours. Out: the handler's exception, soon.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.sampling import sampled
from weft import _native


class Stopped(Exception):
    """The exception of the handler."""


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    """Threads of the machine that share a grid."""
    before = _native.cpu_threads()
    _native.set_cpu_threads(request.param)
    yield request.param
    _native.set_cpu_threads(before)


class Alarm:
    """Another Python thread that sends a signal soon after it is asked to: it can only where it gets the GIL."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        self._told.wait()
        time.sleep(0.05)
        signal.raise_signal(signal.SIGUSR1)

    def ring_soon(self) -> None:
        self._told.set()

    def join(self) -> None:
        self._told.set()
        self._thread.join()


@pytest.fixture
def alarm():
    """An alarm, and a handler that raises."""

    def stop(_number, _frame):
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    made = Alarm()
    yield made
    made.join()
    signal.signal(signal.SIGUSR1, before)


# How long they would run: n is 2³¹ − 1, and 2³⁰ blocks are launched where it says so.
LONG = {
    "one loop": ("for i in range(n):\n    x = x * 0.5 + weft.f32(i)", 1, 1),
    "a loop in steps": ("for i in range(0, n, 2):\n    x = x * 0.5 + weft.f32(i)", 1, 32),
    "a loop of 64 bits": ("for i in range(weft.i64(n) * n):\n    x = x * 0.5 + 1.0", 1, 1),
    "a loop down": ("for i in range(n, 0, -1):\n    x = x * 0.5 + 1.0", 1, 1),
    "a loop of known length": ("for i in range(2000000000):\n    x = x * 0.5 + weft.f32(i)", 1, 1),
    "a loop that calls mathematics": ("for i in range(n):\n    x = weft.math.sin(x + 1.0)", 1, 1),
    "loops in a loop": (
        "for i in range(n):\n    for j in range(i % 3):\n        x = x * 0.5 + weft.f32(j)", 1, 1,
    ),
    "short loops in loops": (
        "for i in range(n):\n    for j in range(4):\n        x = x * 0.5 + 1.0\n    for k in range(i % 2):\n"
        "        x = x + 1.0",
        1, 1,
    ),
    "a loop in a while": (
        "while x >= 0.0:\n    for j in range(3):\n        x = x * 0.5 + weft.f32(j)", 1, 1,
    ),
    "a loop with barriers": ("for i in range(n):\n    weft.sync_threads()\n    x = x * 0.5", 1, 64),
    "a loop beside barriers": (
        "weft.sync_threads()\nfor i in range(n):\n    x = x * 0.5 + weft.f32(i)", 1, 2,
    ),
    "a loop with shuffles": ("for i in range(n):\n    x = weft.shfl_xor(x, 1) * 0.5", 1, 32),
    "millions of small blocks": ("x = x * 0.5", 1 << 30, 32),
    "millions of blocks that wait": ("weft.sync_threads()\nx = x * 0.5", 1 << 30, 32),
    "blocks that take longer and longer": (
        "for i in range(weft.block_idx.x * 1000):\n    x = x * 0.5 + weft.f32(i)", 1 << 30, 1,
    ),
}  # fmt: skip


def host_of(body: str, blocks: int, block: int, **launch: bool):
    """A host function that launches a kernel of these statements."""
    text = f"""
@weft.kernel
def long_kernel(a: weft.Tensor, n: weft.i32):
    x = a[0]
{"".join(f"    {line}{chr(10)}" for line in body.splitlines())}
    if x == 1.0:
        a[1] = x

@weft.jit
def host(a: weft.Tensor, n: weft.i32):
    long_kernel(a, n).launch(grid={blocks}, block={block}{"".join(f", {k}={v}" for k, v in launch.items())})
"""
    return define(text)["host"]


def assert_stops(call, alarm: Alarm) -> None:
    start = time.monotonic()
    with pytest.raises(Stopped):
        alarm.ring_soon()
        call()
    assert time.monotonic() - start < 10, "it is heard every 50 ms, on a machine that is not busy"


@pytest.mark.parametrize("name", sampled(LONG, 6))
def test_a_signal_of_another_python_thread_stops_a_kernel(name, threads, alarm):
    a = np.zeros(2, np.float32)
    compiled = weft.compile(host_of(*LONG[name]), a, 1)
    assert_stops(lambda: compiled(a, (1 << 31) - 1), alarm)


def test_a_signal_stops_blocks_that_meet_at_grid_barriers(alarm):
    a = np.zeros(2, np.float32)
    body = "for i in range(n):\n    weft.sync_grid()\n    x = x * 0.5"
    compiled = weft.compile(host_of(body, 50, 32, cooperative=True), a, 1)
    assert_stops(lambda: compiled(a, (1 << 31) - 1), alarm)


def test_a_signal_stops_a_loop_of_launches(threads, alarm):
    names = define(
        """
        @weft.kernel
        def small_kernel(a: weft.Tensor):
            a[0] += 1.0

        @weft.jit
        def host(a: weft.Tensor, n: weft.i64):
            for _ in range(n):
                small_kernel(a).launch(grid=1, block=1)
        """
    )
    a = np.zeros(2, np.float32)
    compiled = weft.compile(names["host"], a, 1)
    assert_stops(lambda: compiled(a, 1 << 40), alarm)


def test_after_a_signal_the_next_launch_runs_whole(threads, alarm):
    body = "for i in range(n):\n    x += 1.0\nweft.atomic_add(a, 1, x)"
    a = np.zeros(2, np.float32)
    compiled = weft.compile(host_of(body, 100, 64), a, 1)
    assert_stops(lambda: compiled(a, (1 << 31) - 1), alarm)
    a[:] = 0
    compiled(a, 3)
    assert a[1] == 3 * 6400


def test_a_handler_may_launch_kernels_itself(threads):
    a = np.zeros(2, np.float32)
    compiled = weft.compile(host_of(LONG["one loop"][0], 1, 1), a, 1)
    inner = weft.compile(host_of("x += 1.0", 4, 8), a, 1)
    seen = []

    def handle(_number, _frame):
        other = np.zeros(2, np.float32)
        inner(other, 0)
        seen.append(other[1])
        raise Stopped

    before = signal.signal(signal.SIGUSR1, handle)
    sender = Alarm()
    try:
        assert_stops(lambda: compiled(a, (1 << 31) - 1), sender)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert seen == [1.0]


def test_other_python_threads_run_while_a_kernel_waits_for_them():
    """The kernel runs in the calling thread, and ends when another Python thread has written."""
    names = define(
        """
        @weft.kernel
        def waiting_kernel(a: weft.Tensor):
            while a[0] == 0:
                a[1] += 1

        @weft.jit
        def host(a: weft.Tensor):
            waiting_kernel(a).launch(grid=1, block=1)
        """
    )
    a = np.zeros(2, np.int64)
    compiled = weft.compile(names["host"], a)
    steps = []

    def write() -> None:
        for step in range(20):  # each of them needs the GIL anew
            time.sleep(0.001)
            steps.append(step)
        a[0] = 1

    writer = threading.Thread(target=write)
    writer.start()
    compiled(a)
    writer.join()
    assert len(steps) == 20
    assert a[1] > 0


def test_a_caller_without_the_gil_is_stopped_as_well(alarm):
    """tvm_ffi calls functions without the GIL, and weft's marshaller has no part in it."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    a = np.zeros(2, np.float32)
    compiled = weft.compile(host_of(LONG["one loop"][0], 1, 1), a, 1)
    function = compiled.as_tvm_ffi()
    assert_stops(lambda: function(tvm_ffi.from_dlpack(a), (1 << 31) - 1), alarm)


@weft.kernel
def slow_reverse_kernel(a: weft.Tensor, turns: weft.Tensor, n: weft.i32):
    tile = weft.shared(256, weft.i32)
    t = weft.thread_idx.x
    tile[t] = 3 * t
    weft.sync_threads()
    while weft.atomic_add(turns, t, 1) < n:
        pass
    weft.sync_threads()
    a[t] = tile[255 - t]


@weft.jit
def slow_reverse(a: weft.Tensor, turns: weft.Tensor, n: weft.i32):
    slow_reverse_kernel(a, turns, n).launch(grid=1, block=256)


@weft.kernel
def large_kernel(a: weft.Tensor):
    tile = weft.shared(16384, weft.i32)
    t = weft.thread_idx.x
    for j in range(16):
        tile[t + 1024 * j] = -7
    weft.sync_threads()
    a[t] = tile[1023 - t]


def test_a_launching_handler_leaves_other_memory_alone():
    inner = np.zeros(1024, np.int32)
    launch = large_kernel[1, 1024]
    launch(inner)
    a, turns = np.zeros(256, np.int32), np.zeros(256, np.int32)
    compiled = weft.compile(slow_reverse, a, turns, 1)
    handled = []

    def handle(_number, _frame):
        launch(inner)
        handled.append(inner[0])
        turns[:] = 1 << 30  # the interrupted kernel ends

    before = signal.signal(signal.SIGUSR1, handle)
    alarm = Alarm()
    alarm.ring_soon()
    try:
        compiled(a, turns, 1 << 30)
    finally:
        alarm.join()
        signal.signal(signal.SIGUSR1, before)
    assert handled == [-7]
    np.testing.assert_array_equal(a, 3 * (255 - np.arange(256)))


AT_EXIT = """
import threading, time
import numpy as np, weft

@weft.kernel
def busy_kernel(a: weft.Tensor, n: weft.i32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    x = a[i]
    for _ in range(n):
        x = x * 0.5 + 1.0
    a[i] = x

def launch_for_ever():
    a = np.zeros(25600, np.float32)
    launch = busy_kernel[100, 256]
    while True:
        launch(a, 300)
        begun.set()

begun = threading.Event()
threading.Thread(target=launch_for_ever, daemon=True).start()
begun.wait()
time.sleep(0.15)
"""


@pytest.mark.slow
def test_a_process_ends_while_a_daemon_thread_is_in_a_launch():
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
