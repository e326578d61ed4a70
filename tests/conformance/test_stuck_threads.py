# SPDX-License-Identifier: Apache-2.0
"""Barriers and collectives that can never complete are errors that say who waits where, and never a hang."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.sampling import sampled

I32 = weft.Tensor[weft.i32, ("n",)]


def launched(kernel):
    @weft.jit
    def host(a: I32):
        kernel(a).launch(grid=2, block=a.shape[0])

    return host


def line_of(kernel, text):
    """The line of a kernel's source that holds `text`."""
    code = kernel.function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    numbers = [n for n, line in enumerate(lines, 1) if text in line and n > code.co_firstlineno]
    return f"{code.co_filename}:{numbers[0]}"


@weft.kernel
def two_barriers(a: weft.Tensor):
    if weft.thread_idx.x < 64:
        weft.sync_threads()  # first arm
    else:
        weft.sync_threads()  # second arm
    a[weft.thread_idx.x] = 1


def test_two_different_barriers_are_divergent():
    with pytest.raises(RuntimeError) as caught:
        launched(two_barriers)(np.zeros(100, np.int32))
    assert str(caught.value) == (
        "two_barriers: threads wait at different barriers, in block (0, 0, 0):\n"
        f"  threads 0..63 at block barrier at {line_of(two_barriers, 'first arm')}\n"
        f"  threads 64..99 at block barrier at {line_of(two_barriers, 'second arm')}"
    )


@weft.kernel
def barrier_or_shuffle(a: weft.Tensor):
    t = weft.thread_idx.x
    if t % 32 < 16:
        a[t] = weft.shfl_xor(a[t], 1)  # collective
    else:
        weft.sync_threads()  # barrier


def test_a_collective_whose_lanes_wait_elsewhere_is_a_deadlock():
    with pytest.raises(RuntimeError) as caught:
        launched(barrier_or_shuffle)(np.zeros(32, np.int32))
    collective, barrier = (
        line_of(barrier_or_shuffle, "# coll"),
        line_of(barrier_or_shuffle, "# barr"),
    )
    assert str(caught.value) == (
        "barrier_or_shuffle: threads wait for each other and none can continue, in block (0, 0, 0):\n"
        f"  threads 0..15 at shfl_xor at {collective} (mask 0xffffffff)\n"
        f"  threads 16..31 at block barrier at {barrier}"
    )


@weft.kernel
def exited_lane(a: weft.Tensor):
    t = weft.thread_idx.x
    if t == 5:
        return
    a[t] = weft.shfl_down(a[t], 1)


def test_a_shuffle_that_names_an_exited_lane_is_an_error():
    with pytest.raises(RuntimeError, match="a shuffle waits for a lane that has exited") as caught:
        launched(exited_lane)(np.zeros(32, np.int32))
    assert "thread 5 exited" in str(caught.value)


@weft.kernel
def lying_mask(a: weft.Tensor):
    t = weft.thread_idx.x
    a[t] = weft.shfl_idx(a[t], 0, mask=0x0000FFFF)


def test_a_lane_outside_its_own_mask_is_an_error():
    with pytest.raises(RuntimeError, match="with a mask that it is not in"):
        launched(lying_mask)(np.zeros(32, np.int32))


@weft.kernel
def different_collectives(a: weft.Tensor):
    t = weft.thread_idx.x
    if t % 2 == 0:
        a[t] = weft.shfl_xor(a[t], 1)
    else:
        a[t] = weft.shfl_down(a[t], 1)


def test_lanes_of_one_mask_call_one_collective():
    with pytest.raises(RuntimeError, match="call different warp collectives"):
        launched(different_collectives)(np.zeros(32, np.int32))


@weft.kernel
def partial_grid(a: weft.Tensor):
    if weft.block_idx.x == 1:
        return
    weft.sync_grid()


@weft.jit
def partial_grid_host(a: I32):
    partial_grid(a).launch(grid=2, block=4, cooperative=True)


def test_a_grid_barrier_that_a_block_never_reaches_is_an_error():
    with pytest.raises(RuntimeError, match="a grid barrier waits for threads that have exited"):
        partial_grid_host(np.zeros(4, np.int32))


@weft.kernel
def failing_between_barriers(a: weft.Tensor):
    t = weft.thread_idx.x
    weft.sync_threads()
    assert t != 7, "seven"
    weft.sync_threads()


def test_an_assertion_between_barriers_names_block_and_thread():
    with pytest.raises(AssertionError, match=r"seven \(block \(0, 0, 0\), thread \(7, 0, 0\)\)"):
        launched(failing_between_barriers)(np.zeros(32, np.int32))


def test_the_next_launch_works_after_a_stuck_one():
    host = launched(two_barriers)
    with pytest.raises(RuntimeError):
        host(np.zeros(100, np.int32))
    a = np.zeros(64, np.int32)
    host(a)
    assert (a == 1).all()


PROGRAMS = {
    "a loop of arithmetic": """
        while x < 1:
            x = x * 1
    """,
    "a loop on memory": """
        while a[0] == 0:
            x += 1
    """,
    "a loop with barriers": """
        while x < 1:
            weft.sync_threads()
    """,
}


@pytest.mark.parametrize(
    ("name", "threads"), sampled(itertools.product(PROGRAMS, ["1", "2"]), 3, several=True)
)
def test_ctrl_c_stops_a_kernel_that_never_ends(name, threads, tmp_path):
    body = PROGRAMS[name]
    program = tmp_path / "endless.py"
    program.write_text(
        textwrap.dedent(
            """
            import signal

            import numpy as np, weft

            # Python hears no Ctrl-C where its parent ignores it, as a shell's background jobs do.
            signal.signal(signal.SIGINT, signal.default_int_handler)

            @weft.kernel
            def endless(a: weft.Tensor):
                x = a[0]
            {body}
                a[1] = x

            @weft.jit
            def host(a: weft.Tensor[weft.i32, ("n",)]):
                endless(a).launch(grid=4, block=2)

            a = np.zeros(4, np.int32)
            fn = weft.compile(host, a)
            print("ready", flush=True)
            try:
                fn(a)
            except KeyboardInterrupt:
                print("stopped", flush=True)
            """
        ).format(body=textwrap.indent(textwrap.dedent(body).strip(), "    "))
    )
    child = subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"WEFT_NUM_THREADS": threads},
    )
    try:
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=20)[0] == "stopped\n"
    finally:
        child.kill()


@weft.kernel
def columns_at_barriers(a: weft.Tensor, every: weft.Constexpr):
    x, y = weft.thread_idx.x, weft.thread_idx.y
    if x % every == 0:
        weft.sync_threads()  # first arm
    else:
        weft.sync_threads()  # second arm
    a[x + y] = 1


@pytest.mark.parametrize(
    ("every", "first", "second"),
    [
        (
            2,
            "threads 0, 2, 4, ... 254 (128 in all)",
            "threads 1, 3, 5, ... 255 (128 in all)",
        ),
        (
            16,
            "threads 0, 16, 32, ... 240 (16 in all)",
            "threads 1..15, 17..31, 33..47, ... 241..255 (240 in all)",
        ),
    ],
)
def test_threads_that_wait_alike_are_reported_in_one_line(every, first, second):
    @weft.jit
    def host(a: I32):
        columns_at_barriers(a, every).launch(grid=1, block=(16, 16))

    with pytest.raises(RuntimeError) as caught:
        host(np.zeros(32, np.int32))
    assert str(caught.value).splitlines()[1:] == [
        f"  {first} at block barrier at {line_of(columns_at_barriers, 'first arm')}",
        f"  {second} at block barrier at {line_of(columns_at_barriers, 'second arm')}",
    ]
