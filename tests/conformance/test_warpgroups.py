# SPDX-License-Identifier: Apache-2.0
"""Warpgroups: their numbers, their barrier, the thread that acts for them; what never ends is an error in words."""

from __future__ import annotations

import numpy as np
import pytest

import weft

I32 = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def reversed_kernel(out: weft.Tensor, iterations: weft.i32):
    """Each warpgroup reverses its 128 numbers, as often as its number says."""
    numbers = weft.shared(512, weft.i32)
    thread, group = weft.thread_idx.x, weft.warpgroup_id()
    numbers[thread] = thread
    for _ in range(iterations + group):
        weft.sync_warpgroup()
        other = numbers[128 * group + 127 - thread % 128]
        weft.sync_warpgroup()
        numbers[thread] = other
    out[thread] = numbers[thread]


@weft.jit
def reverse(out: I32, iterations: weft.i32):
    reversed_kernel(out, iterations).launch(grid=1, block=512)


def test_warpgroups_meet_by_themselves():
    out = np.zeros(512, np.int32)
    reverse(out, 2)
    forward, backward = np.arange(128), np.arange(127, -1, -1)
    expected = [128 * g + (forward if g % 2 == 0 else backward) for g in range(4)]
    np.testing.assert_array_equal(out, np.concatenate(expected))


@weft.kernel
def elected_kernel(out: weft.Tensor):
    thread = weft.thread_idx.y * weft.block_dim.x + weft.thread_idx.x
    leader, again = weft.elect_one(weft.warpgroup), weft.elect_one(weft.warpgroup)
    first = weft.elect_one()
    out[thread] = 1000 * weft.warpgroup_id() + 100 * weft.i32(first) + 10 * leader + again


@weft.jit
def elect(out: I32):
    elected_kernel(out).launch(grid=1, block=(64, 4))


def test_one_thread_is_elected_in_each_group_each_time_the_same():
    out = np.zeros(256, np.int32)
    elect(out)
    elected = out % 1000
    assert list(out // 1000) == [0] * 128 + [1] * 128
    assert [np.count_nonzero(part >= 100) for part in np.split(elected, 8)] == [1] * 8
    assert [sorted(set(part[part % 100 > 0])) for part in np.split(elected, 2)] == [[111]] * 2
    assert np.count_nonzero(elected == 111) == 2


@weft.kernel
def parted_kernel(out: weft.Tensor, limit: weft.i32, leaves: weft.i32):
    if weft.thread_idx.x < leaves:
        return
    if weft.thread_idx.x < limit:
        out[weft.thread_idx.x] = weft.elect_one()
    weft.sync_warp()


@weft.jit
def elect_parted(out: I32, limit: weft.i32, leaves: weft.i32, block: weft.i32):
    parted_kernel(out, limit, leaves).launch(grid=1, block=block)


def test_a_thread_is_elected_among_those_that_have_not_returned():
    for leaves, block in ((3, 32), (0, 20)):
        out = np.zeros(block, np.int32)
        elect_parted(out, block, leaves, block)
        assert np.flatnonzero(out).tolist() == [leaves]


@weft.kernel
def split_kernel(out: weft.Tensor):
    before = weft.elect_one()
    weft.sync_threads()
    out[weft.thread_idx.x] = 10 * before + weft.elect_one(weft.warpgroup)


@weft.jit
def elect_between(out: I32):
    split_kernel(out).launch(grid=1, block=out.shape[0])


def test_on_the_cpu_elections_split_loops_over_threads():
    out = np.zeros(168, np.int32)
    function = weft.compile(elect_between, out)
    assert "thread loops, split" in str(function.remarks)
    function(out)
    expected = np.zeros(168, np.int32)
    expected[::32] = 10
    expected[::128] = 11
    np.testing.assert_array_equal(out, expected)


def test_an_election_by_part_of_a_warp_is_an_error():
    line = parted_kernel.function.__code__.co_firstlineno
    with pytest.raises(RuntimeError) as caught:
        elect_parted(np.zeros(32, np.int32), 16, 0, 32)
    text = str(caught.value)
    assert f"elect_one at {__file__}:{line + 5}" in text
    assert f"{__file__}:{line + 6}" in text


@weft.kernel
def missing_kernel(out: weft.Tensor, leaves: weft.i32, limit: weft.i32):
    if weft.thread_idx.x == leaves:
        return
    if weft.thread_idx.x < limit:
        weft.sync_warpgroup()
    else:
        weft.sync_warpgroup()
    out[0] = 1


@weft.jit
def missing(out: I32, leaves: weft.i32, limit: weft.i32, block: weft.i32):
    missing_kernel(out, leaves, limit).launch(grid=1, block=block)


LINE = missing_kernel.function.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("leaves", "limit", "block", "what", "threads"),
    [
        (5, 128, 128, "a warpgroup waits for threads that have exited", "thread 5 exited"),
        (-1, 200, 200, "a warpgroup has 128 threads, but the block's last one has fewer",
         f"threads 128..199 at sync_warpgroup at {__file__}:{LINE + 5}"),
        (-1, 64, 128, "threads of a warpgroup wait at different places",
         f"threads 64..127 at sync_warpgroup at {__file__}:{LINE + 7}"),
    ],
)  # fmt: skip
def test_a_warpgroup_that_never_meets_is_an_error_with_its_threads(
    leaves, limit, block, what, threads
):
    with pytest.raises(RuntimeError) as caught:
        missing(np.zeros(1, np.int32), leaves, limit, block)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"missing_kernel: {what}, in block (0, 0, 0):"
    assert f"  {threads}" in lines


@weft.kernel
def waiting_kernel(out: weft.Tensor):
    """One warpgroup waits for what another writes, and both meet the whole block."""
    ready = weft.shared(1, weft.i32)
    if weft.thread_idx.x == 0:
        ready[0] = 0
    weft.sync_threads()
    if weft.warpgroup_id() == 0:
        while weft.volatile_load(ready, 0) == 0:
            pass
        weft.sync_warpgroup()
    else:
        weft.sync_warpgroup()
        if weft.elect_one(weft.warpgroup):
            weft.volatile_store(ready, 0, 7)
    weft.sync_threads()
    out[weft.thread_idx.x] = ready[0] + weft.shfl_xor(weft.thread_idx.x, 1)


@weft.jit
def wait(out: I32):
    waiting_kernel(out).launch(grid=2, block=256)


def test_warpgroups_meet_while_other_threads_wait_for_memory():
    out = np.zeros(256, np.int32)
    wait(out)
    np.testing.assert_array_equal(out, 7 + (np.arange(256) ^ 1))
