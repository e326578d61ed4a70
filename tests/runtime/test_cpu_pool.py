# SPDX-License-Identifier: Apache-2.0
"""Grids shared between threads: the same results, one error, no thread left behind."""

import itertools
import os
import resource
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft import _native


@weft.kernel
def work_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        s = a[i]
        for _ in range(200):
            s = s * 0.5 + 1.0
        b[i] = s


@weft.jit
def work(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    work_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 64), block=64)


@weft.kernel
def failing_kernel(a: weft.Tensor, first: weft.i32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        s = a[i]
        for _ in range(200):
            s = s * 0.5 + 1.0
        assert i < first, "too far"
        a[i] = s


@weft.jit
def failing(a: weft.Tensor[weft.f32, ("n",)], first: weft.i32):
    failing_kernel(a, first).launch(grid=weft.ceil_div(a.shape[0], 64), block=64)


@pytest.fixture
def threads():
    """Sets how many threads share a grid, for one test."""
    before = _native.cpu_threads()
    yield _native.set_cpu_threads
    _native.set_cpu_threads(before)


def expected(a):
    s = a.copy()
    for _ in range(200):
        s = s * np.float32(0.5) + np.float32(1.0)
    return s


@pytest.fixture(scope="module")
def compiled():
    a = np.zeros(8, np.float32)
    return weft.compile(work, a, a)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_number_of_threads_does_not_change_results(compiled, threads, count):
    threads(count)
    a = np.random.default_rng(0).random(300_001, np.float32)
    b = np.zeros_like(a)
    for _ in range(3):
        compiled(a, b)
    np.testing.assert_array_equal(b, expected(a))


def test_a_large_grid_is_shared_and_a_small_one_is_not(compiled, threads):
    threads(2)
    large, small = np.ones(1_000_000, np.float32), np.ones(64, np.float32)
    inline, shared, _ = _native.pool_counts()
    compiled(small, small.copy())
    assert _native.pool_counts()[:2] == (inline + 1, shared)
    compiled(large, large.copy())
    assert _native.pool_counts()[1] == shared + 1
    assert _native.pool_counts()[2] >= 1


def test_one_thread_shares_nothing(compiled, threads):
    threads(1)
    shared = _native.pool_counts()[1]
    compiled(np.ones(1_000_000, np.float32), np.ones(1_000_000, np.float32))
    assert _native.pool_counts()[1] == shared


def test_the_lowest_failed_block_is_reported(threads):
    threads(3)
    a = np.ones(2_000_000, np.float32)
    with pytest.raises(AssertionError, match=r"too far \(block \(\d+, 0, 0\)"):
        failing(a, 700_000)
    untouched = np.flatnonzero(a == 1.0)
    assert len(untouched) > 500_000, "blocks after the failed one went on"


def test_a_launch_after_a_failed_one_works(compiled, threads):
    threads(2)
    a = np.ones(1_000_000, np.float32)
    with pytest.raises(AssertionError):
        failing(a.copy(), 5)
    b = np.zeros_like(a)
    compiled(a, b)
    np.testing.assert_array_equal(b, expected(a))


def test_many_python_threads_launch_at_once(compiled, threads):
    threads(4)
    wrong = []

    def launch(seed):
        a = np.random.default_rng(seed).random(100_000, np.float32)
        want, b = expected(a), np.zeros_like(a)
        for _ in range(5):
            b[:] = 0
            compiled(a, b)
            if not np.array_equal(b, want):
                wrong.append(seed)

    callers = [threading.Thread(target=launch, args=(seed,)) for seed in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def in_child(function):
    """Runs `function` in a forked child; returns whether it ended well."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            function()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_a_forked_child_has_a_pool_of_its_own(compiled, threads):
    threads(3)
    a = np.ones(1_000_000, np.float32)
    b = np.zeros_like(a)
    compiled(a, b)

    def check():
        b[:] = 0
        compiled(a, b)
        assert np.array_equal(b, expected(a))
        assert _native.pool_counts()[2] == 2

    assert in_child(check)
    compiled(a, b)


@pytest.mark.slow
def test_fork_while_another_thread_is_launching(compiled, threads):
    threads(2)
    stop = threading.Event()
    a = np.ones(1_000_000, np.float32)

    def keep_launching():
        b = np.zeros_like(a)
        while not stop.is_set():
            compiled(a, b)

    other = threading.Thread(target=keep_launching)
    other.start()
    try:
        small = np.ones(1_000_000, np.float32)
        results = [in_child(lambda: compiled(small, small.copy())) for _ in range(5)]
    finally:
        stop.set()
        other.join()
    assert results == [True] * 5


@pytest.mark.slow
def test_launches_leave_nothing_behind(compiled):
    a, b = np.ones(64, np.float32), np.zeros(64, np.float32)
    for _ in range(1000):
        compiled(a, b)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200_000):
        compiled(a, b)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000  # kB


LAUNCH = """
import os
import numpy as np, weft
from weft import _native
from tests.runtime.test_cpu_pool import expected, work
"""


def run_python(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", LAUNCH + program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("value", "printed"),
    sampled([("3", "3"), ("1", "1"), ("0", None), ("", None)], 4, several=True),
)
def test_the_environment_chooses_the_number_of_threads(value, printed):
    program = "a = np.ones(8, np.float32); work(a, a); print(_native.cpu_threads())"
    ran = run_python(program, WEFT_NUM_THREADS=value)
    assert ran.stdout.strip() == (printed or str(len(os.sched_getaffinity(0)))), ran.stderr


@pytest.mark.parametrize("value", sampled(["many", "-1", "1025", "1.5", "0x2"], 3))
def test_a_wrong_thread_count_names_the_variable(value):
    ran = run_python("a = np.ones(8, np.float32); work(a, a)", WEFT_NUM_THREADS=value)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert last == (
        "weft.config.EnvironmentVariableError: "
        f"WEFT_NUM_THREADS is '{value}', expected an integer from 0 to 1024"
    )


def test_a_process_on_one_cpu_shares_nothing():
    program = (
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "a = np.ones(1_000_000, np.float32); b = np.zeros_like(a); work(a, b)\n"
        "assert (b == expected(a)).all()\n"
        "print(_native.cpu_threads(), _native.pool_counts()[1:])"
    )
    ran = run_python(program, WEFT_NUM_THREADS="0")
    assert ran.stdout.strip() == "1 (0, 0)", ran.stderr


@pytest.mark.slow
def test_fork_before_the_first_launch():
    program = (
        "a = np.ones(1_000_000, np.float32); b = np.zeros_like(a)\n"
        "child = os.fork()\n"
        "work(a, b)\n"
        "assert (b == expected(a)).all()\n"
        "assert _native.pool_counts()[2] == 1\n"
        "if child: assert os.waitpid(child, 0)[1] == 0"
    )
    ran = run_python(program, WEFT_NUM_THREADS="2")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("count", [-1, 1025])
def test_a_count_out_of_range_is_refused(count):
    with pytest.raises(ValueError, match=f"is {count}, expected 0 to 1024"):
        _native.set_cpu_threads(count)


def test_fewer_threads_than_before_work_alone(compiled, threads):
    threads(4)
    a = np.ones(1_000_000, np.float32)
    b = np.zeros_like(a)
    compiled(a, b)
    assert _native.pool_counts()[2] >= 3
    for count in (2, 3, 1, 4):
        threads(count)
        b[:] = 0
        compiled(a, b)
        np.testing.assert_array_equal(b, expected(a))


@weft.kernel
def uneven_kernel(out: weft.Tensor, n: weft.i32):
    """Block b does b iterations, so that the thread with the first blocks is done long before the others."""
    x = 0
    for i in range(weft.block_idx.x * n):
        x = x * 3 + i
    weft.atomic_add(out, weft.block_idx.x, x | 1)


@weft.jit
def uneven(out: weft.Tensor[weft.i32, ("n",)], n: weft.i32):
    uneven_kernel(out, n).launch(grid=out.shape[0], block=1)


@pytest.mark.parametrize(
    ("count", "blocks"),
    sampled(itertools.product([2, 3, 8], [2, 3, 65, 1000, 70_001]), 4, several=True),
)
def test_every_block_runs_once_however_long_the_others_take(threads, count, blocks):
    iterations = 2_000_000 // blocks**2 + 1
    one, many = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    fn = weft.compile(uneven, one, 1)
    threads(1)
    fn(one, iterations)
    threads(count)
    fn(np.zeros_like(many), iterations)
    fn(many, iterations)
    np.testing.assert_array_equal(many, one)
    assert (many & 1).all()


@weft.kernel
def chained_kernel(a: weft.Tensor, sums: weft.Tensor, ready: weft.Tensor):
    """Each block waits for the one before, as a scan in one pass does."""
    block = weft.block_idx.x
    if block > 0:
        while weft.atomic_add(ready, block - 1, 0, order="acquire") == 0:
            pass
        sums[block] = sums[block - 1] + a[block]
    else:
        sums[block] = a[block]
    weft.atomic_exchange(ready, block, 1, order="release")


@weft.jit
def chained(a: weft.Tensor, sums: weft.Tensor, ready: weft.Tensor):
    chained_kernel(a, sums, ready).launch(grid=a.shape[0], block=1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_block_may_wait_for_the_one_before(threads, count):
    threads(count)
    a = np.arange(5000, dtype=np.int64)
    fn = weft.compile(chained, a, a, np.zeros(5000, np.int32))
    for _ in range(5):
        sums = np.zeros_like(a)
        fn(a, sums, np.zeros(5000, np.int32))
        np.testing.assert_array_equal(sums, a.cumsum())


@weft.kernel
def rendezvous_kernel(a: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    t = weft.thread_idx.x
    tile[t] = a[t]
    weft.sync_threads()
    a[t] = weft.shfl_xor(tile[31 - t], 1)


def test_launches_of_threads_that_wait_leave_nothing_behind():
    launch = rendezvous_kernel[2, 32]
    a = np.ones(32, np.float32)
    for _ in range(1000):
        launch(a)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(30_000):
        launch(a)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000  # kB
