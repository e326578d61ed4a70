# SPDX-License-Identifier: Apache-2.0
"""Lanes of one warp that part and meet again: each group has its own mask, and then all have one.

In: kernels with collectives in branches and after them. Out: what NumPy makes of the groups.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft

WARP = 32


@weft.kernel
def group_then_all_kernel(a: weft.Tensor, sums: weft.Tensor, largest: weft.Tensor):
    i = weft.thread_idx.x
    positive = weft.ballot(a[i] > 0)
    mine = 0
    if a[i] > 0:
        mine = weft.warp.sum(a[i], positive)
    sums[i] = mine
    largest[i] = weft.warp.max(mine + i)


@pytest.mark.parametrize("n", [8, 32, 45, 96])
@pytest.mark.parametrize("seed", range(4))
def test_a_group_sums_in_its_branch_and_then_all_go_on(n, seed):
    a = np.random.default_rng(seed).integers(-9, 10, n).astype(np.int32)
    sums, largest = np.zeros(n, np.int32), np.zeros(n, np.int32)
    group_then_all_kernel[1, n](a, sums, largest)
    for first in range(0, n, WARP):
        part = a[first : first + WARP]
        total = part[part > 0].sum()
        expected = np.where(part > 0, total, 0)
        here = slice(first, first + WARP)
        np.testing.assert_array_equal(sums[here], expected)
        assert (largest[here] == (expected + np.arange(first, first + len(part))).max()).all()


@weft.kernel
def alone_then_all_kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    if i == 0:
        weft.sync_warp(1)
        weft.sync_warp(1)
    weft.sync_warp()
    if i < 3:
        weft.sync_warp(7)
    out[i] = weft.shfl_idx(i, 31) + weft.warp.sum(1)


def test_one_lane_waits_for_itself_and_then_for_all():
    out = np.zeros(WARP, np.int32)
    alone_then_all_kernel[1, WARP](out)
    assert (out == 31 + WARP).all()


@weft.kernel
def groups_of_iterations_kernel(iterations: weft.Tensor, out: weft.Tensor):
    """Each group of eight lanes has iterations of its own; the warp meets at the end."""
    i = weft.thread_idx.x
    group = weft.u32(255) << (i // 8 * 8)
    value = i
    for _ in range(iterations[i // 8]):
        value += weft.shfl_xor(value, 1, mask=group)
    out[i] = weft.warp.sum(value)


def test_groups_iterate_different_numbers_of_times_and_meet():
    iterations = np.array([3, 0, 7, 1], np.int32)
    out = np.zeros(WARP, np.int32)
    groups_of_iterations_kernel[1, WARP](iterations, out)
    value = np.arange(WARP)
    for group, count in enumerate(iterations):
        for _ in range(count):
            part = value[8 * group : 8 * group + 8]
            value[8 * group : 8 * group + 8] = part + part[np.arange(8) ^ 1]
    assert (out == value.sum()).all()


@weft.kernel
def never_together_kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    if i < 16:
        out[i] = weft.warp.sum(i)
    else:
        weft.sync_warp()


def test_groups_that_never_meet_are_an_error_that_names_both():
    with pytest.raises(RuntimeError) as caught:
        never_together_kernel[1, WARP](np.zeros(WARP, np.int32))
    lines = str(caught.value).splitlines()
    assert "lanes of one mask call different warp collectives" in lines[0]
    assert lines[1].startswith("  threads 0..15 at warp.sum")
    assert lines[2].startswith("  threads 16..31 at warp barrier at ")


@weft.kernel
def after_returns_kernel(a: weft.Tensor, votes: weft.Tensor, sums: weft.Tensor, means: weft.Tensor):
    i = weft.thread_idx.x
    if a[i] < 0:
        return
    votes[i, 0] = weft.ballot(a[i] > 3)
    votes[i, 1] = weft.warp.any(a[i] > 6)
    votes[i, 2] = weft.warp.all(a[i] < 7)
    votes[i, 3] = weft.match(a[i])
    weft.sync_warp()
    sums[i, 0] = weft.warp.sum(a[i])
    sums[i, 1] = weft.warp.max(a[i])
    sums[i, 2] = weft.warp.bitwise_and(a[i])
    means[i] = weft.warp.sum(weft.f32(a[i]))


@weft.jit
def after_returns(a: weft.Tensor, votes: weft.Tensor, sums: weft.Tensor, means: weft.Tensor):
    after_returns_kernel(a, votes, sums, means).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize("n", [1, 31, 32, 45])
@pytest.mark.parametrize("seed", range(4))
def test_lanes_that_have_returned_are_ignored(n, seed):
    a = np.random.default_rng(seed).integers(-3, 9, n).astype(np.int32)
    votes, sums = np.zeros((n, 4), np.uint32), np.zeros((n, 3), np.int32)
    means = np.zeros(n, np.float32)
    after_returns(a, votes, sums, means)
    for i in range(n):
        first = i // WARP * WARP
        part = a[first : first + WARP]
        stayed = part[part >= 0]
        if a[i] < 0:
            assert not votes[i].any() and not sums[i].any() and means[i] == 0
            continue
        bits = [1 << lane for lane in range(len(part))]
        assert votes[i, 0] == sum(b for b, x in zip(bits, part, strict=True) if x > 3)
        assert votes[i, 1] == (stayed > 6).any()
        assert votes[i, 2] == (stayed < 7).all()
        assert votes[i, 3] == sum(b for b, x in zip(bits, part, strict=True) if x == a[i])
        assert sums[i].tolist() == [stayed.sum(), stayed.max(), np.bitwise_and.reduce(stayed)]
        assert means[i] == stayed.sum()


@weft.kernel
def returning_in_turns_kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    for k in range(weft.block_dim.x):
        out[i, k] = weft.ballot(True)
        if i == k:
            return


@weft.jit
def returning_in_turns(out: weft.Tensor):
    returning_in_turns_kernel(out).launch(grid=1, block=WARP)


def test_lanes_return_in_turns():
    out = np.zeros((WARP, WARP), np.uint32)
    returning_in_turns(out)
    for i in range(WARP):
        expected = [2**WARP - (1 << k) if k <= i else 0 for k in range(WARP)]
        assert out[i].tolist() == expected
