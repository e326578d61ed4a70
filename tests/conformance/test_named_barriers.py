# SPDX-License-Identifier: Apache-2.0
"""Named barriers: some warps of a block meet, or tell others to go on; what nothing ends is an error in words."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

I32 = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def turns_kernel(out: weft.Tensor, iterations: weft.i32):
    """Two warpgroups add a digit to a number in turns; a third has nothing to do with it."""
    number = weft.shared(1, weft.i32)
    turn = weft.named_barrier(2, threads=256)
    group = weft.warpgroup_id()
    if weft.thread_idx.x == 0:
        number[0] = 0
    weft.sync_threads()
    if group < 2:
        if group == 1:
            turn[0].arrive()
        for _ in range(iterations):
            turn[group].sync()
            if weft.elect_one(weft.warpgroup):
                number[0] = 3 * number[0] + group + 1
            turn[1 - group].arrive()
        if group == 0:
            turn[0].sync()
    weft.sync_threads()
    out[weft.thread_idx.x] = number[0]


@weft.jit
def take_turns(out: I32, iterations: weft.i32):
    turns_kernel(out, iterations).launch(grid=2, block=384)


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_two_warpgroups_take_turns(iterations):
    out = np.full(384, -1, np.int32)
    take_turns(out, iterations)
    expected = 0
    for step in range(2 * iterations):
        expected = 3 * expected + step % 2 + 1
    np.testing.assert_array_equal(out, expected)


@weft.kernel
def pairs_kernel(out: weft.Tensor):
    """Pairs of warps meet at barriers of their own, several times, at several places."""
    numbers = weft.shared(256, weft.i32)
    pair = weft.named_barrier(4, threads=64)
    thread = weft.thread_idx.x
    mine = weft.warp_id() // 2
    numbers[thread] = thread
    for _ in range(mine):
        pair[mine].sync()
        other = numbers[thread ^ 32]
        pair[mine].sync()
        numbers[thread] = other
    pair[mine].sync()
    out[thread] = numbers[thread ^ 32]


@weft.jit
def exchange(out: I32):
    pairs_kernel(out).launch(grid=1, block=256)


def test_pairs_of_warps_meet_by_themselves():
    out = np.zeros(256, np.int32)
    exchange(out)
    threads = np.arange(256)
    expected = np.where(threads // 64 % 2 == 0, threads ^ 32, threads)
    np.testing.assert_array_equal(out, expected)


STUCK = "threads wait for each other and none can continue"
# Wrong kernel → the first line of its error, and a line of threads.
WRONG = {
    "a warp too few": (
        """
        def kernel(out):
            turn = weft.named_barrier(1, threads=64)
            if weft.warp_id() == 0:
                turn[0].sync()
        """,
        STUCK,
        "  threads 0..31 at named barrier at {place}:5, where 32 of 64 threads are",
    ),
    "an arrival too many": (
        """
        def kernel(out):
            turn = weft.named_barrier(2, threads=64)
            if weft.warp_id() == 0:
                turn[1].arrive()
            turn[1].sync()
        """,
        STUCK,
        "  threads 0..31 at named barrier at {place}:6, where 32 of 64 threads are",
    ),
    "an index after the last": (
        """
        def kernel(out):
            turn = weft.named_barrier(2, threads=64)
            turn[out.shape[0]].sync()
        """,
        "there is no named barrier of this index",
        "  threads 0..63 at named barrier at {place}:4, where 0 of 64 threads are",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_barrier_that_never_opens_is_an_error_with_its_threads(name):
    text, what, threads = WRONG[name]
    module = define(
        "@weft.kernel\n"
        + textwrap.dedent(text).strip()
        + "\n\n@weft.jit\ndef host(out):\n    kernel(out).launch(grid=1, block=64)\n"
    )
    with pytest.raises(RuntimeError) as caught:
        module["host"](np.zeros(64, np.int32))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"kernel: {what}, in block (0, 0, 0):"
    assert threads.format(place=module["__name__"]) in lines


def test_a_gpu_has_barriers_of_its_own():
    function = weft.compile(take_turns, options="--gpu-arch sm_90a")
    assert "barrier.sync.aligned" in function.ptx or "bar.sync" in function.ptx
    lines = [line for line in function.sass.splitlines() if "BAR." in line]
    assert sum("BAR.ARV" in line for line in lines) >= 2
    assert sum("0x100" in line for line in lines) >= 2  # 256 threads
    assert function.remarks == ()
