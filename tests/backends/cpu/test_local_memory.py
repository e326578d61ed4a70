# SPDX-License-Identifier: Apache-2.0
"""A thread's own arrays, however many there are, overflow no stack: not a small thread's, nor a worker's."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.backends.cpu.lowering.memory import STACK_BYTES

# Three arrays of 64 KiB are more than the stack of a thread with 128 KiB.
PROGRAM = """
import sys
import threading

import numpy as np

import weft

COUNT = int(sys.argv[2])
SIZE = 64 * 1024 // 4


# The step is a run-time value, and all is written before anything is read: no array is left out.
def fill(i, step):
    arrays = [weft.local(SIZE, weft.i32) for _ in range(COUNT)]
    for k in weft.static_range(COUNT):
        for j in range(0, SIZE, step):
            arrays[k][j] = i * k + j
    return arrays


def total(arrays, step):
    sum = 0
    for k in weft.static_range(COUNT):
        for j in range(SIZE - step, -1, -step):
            sum += arrays[k][j]
    return sum


@weft.kernel
def loop_kernel(a: weft.Tensor, n):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < n:
        step = a[i]
        a[i] = total(fill(i, step), step)


@weft.kernel
def waiting_kernel(a: weft.Tensor, n):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    shared = weft.shared(8, weft.i32)
    shared[weft.thread_idx.x] = 1024
    weft.sync_threads()
    step = shared[0]
    # The first are not needed across a barrier: they would be on the stack of the thread that resumes.
    before = total(fill(i, step), step)
    arrays = fill(i, step)
    weft.sync_threads()
    if i < n:
        a[i] = total(arrays, step) + before - before


@weft.jit
def loop(a: weft.Tensor[weft.i32, ("n",)]):
    loop_kernel(a, a.shape[0]).launch(grid=weft.ceil_div(a.shape[0], 8), block=8)


@weft.jit
def waits(a: weft.Tensor[weft.i32, ("n",)]):
    waiting_kernel(a, a.shape[0]).launch(grid=weft.ceil_div(a.shape[0], 8), block=8)


def check(host, n):
    a = np.full(n, 1024, np.int32)
    host(a)
    k, j = np.arange(COUNT), np.arange(0, SIZE, 1024)
    expected = [int((i * k[:, None] + j).sum()) for i in range(n)]
    assert a.tolist() == expected, host
    print("right")


host = {"loop": loop, "waits": waits}[sys.argv[1]]
check(host, 5)  # compiled, and run by the main thread
threading.stack_size(128 * 1024)
for n in (5, 1000):  # by a thread with a small stack, alone and with workers
    thread = threading.Thread(target=check, args=(host, n))
    thread.start()
    thread.join()
"""


def run(path, *arguments):
    path.write_text(PROGRAM)
    command = [sys.executable, str(path), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "count"), sampled(itertools.product(["loop", "waits"], [3, 12]), 3, several=True)
)
def test_arrays_overflow_no_stack(tmp_path, engine, count):
    done = run(tmp_path / "program.py", engine, count)
    assert (done.returncode, done.stdout.split()) == (0, ["right"] * 3), done.stderr[-2000:]


def allocated(host, *arguments):
    """Bytes of all arrays of i32 on the stack, as the LLVM text says before optimization."""
    text = weft.compile(host, *arguments, options="--opt-level 0").llvm_ir
    sizes = [line.partition("alloca [")[2] for line in text.splitlines() if "alloca [" in line]
    return sum(4 * int(size.partition(" x i32]")[0]) for size in sizes if " x i32]" in size)


def host_of(*sizes):
    @weft.kernel
    def kernel(a: weft.Tensor, n):
        i = weft.thread_idx.x
        if i < n:
            sum = 0
            for size in sizes:
                array = weft.local(size, weft.i32)
                array[i % size] = i
                sum += array[i % size]
            a[i] = sum

    @weft.jit
    def host(a: weft.Tensor[weft.i32, ("n",)]):
        kernel(a, a.shape[0]).launch(grid=1, block=64)

    return host


@pytest.mark.parametrize(
    "sizes", [(16,), (1024, 1024), (16384,), (4000, 90, 16384, 90), (64,) * 200]
)
def test_what_stays_on_the_stack_is_bounded(sizes):
    host = host_of(*sizes)
    a = np.zeros(50, np.int32)
    host(a)
    assert a.tolist() == [i * len(sizes) for i in range(50)]
    on_stack = allocated(host, a)
    assert on_stack <= STACK_BYTES
    assert on_stack >= min(STACK_BYTES, 4 * sum(sizes)) - 4 * max(sizes)


def test_arrays_beyond_all_memory_are_a_compile_error(monkeypatch):
    monkeypatch.setattr("weft.backends.cpu.lowering.memory._MOST_BYTES", 100_000)
    with pytest.raises(weft.CompileError, match="take 131072 bytes per thread; at most 100000"):
        host_of(16384, 16384)(np.zeros(50, np.int32))


def test_shared_and_local_arrays_lie_apart():
    @weft.kernel
    def kernel(a: weft.Tensor):
        i = weft.thread_idx.x
        shared = weft.shared(13, weft.i32)
        dynamic = weft.dynamic_shared(5, weft.i32)
        local = weft.local(8192, weft.i32)
        shared[i % 13] = 1
        dynamic[i % 5] = 2
        for j in range(8192):
            local[j] = 7
        a[i] = shared[i % 13] + dynamic[i % 5] + local[i]

    @weft.jit
    def host(a: weft.Tensor[weft.i32, ("n",)]):
        kernel(a).launch(grid=3, block=a.shape[0], shared_memory_bytes=20)

    a = np.zeros(64, np.int32)
    host(a)
    assert a.tolist() == [10] * 64


def test_a_signals_handler_that_launches_has_memory_of_its_own():
    import signal

    host, a = host_of(16384, 16384), np.zeros(50, np.int32)
    host(a)
    seen = []

    def handle(*_):
        b = np.zeros(50, np.int32)
        host(b)
        seen.append(b.tolist() == [2 * i for i in range(50)])

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while len(seen) < 5:
            host(a)
            assert a.tolist() == [2 * i for i in range(50)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(seen)
