# SPDX-License-Identifier: Apache-2.0
"""Kernels whose threads wait, at the edges: odd blocks, no blocks, millions of blocks, too much memory, odd masks.

In: launches that a GPU would run, refuse or leave undefined. Out: the right result, or an error in words.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

I32 = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def neighbor_kernel(out: weft.Tensor):
    """Each thread writes its number plus its right neighbor's, through every kind of wait."""
    numbers = weft.shared(1024, weft.i32)
    x, y, z = weft.thread_idx.x, weft.thread_idx.y, weft.thread_idx.z
    thread = (z * weft.block_dim.y + y) * weft.block_dim.x + x
    threads = weft.block_dim.x * weft.block_dim.y * weft.block_dim.z
    numbers[thread] = thread
    weft.sync_threads()
    value = numbers[(thread + 1) % threads]
    warp_size = weft.math.popcount(weft.ballot(True))
    lowest = weft.shfl_idx(thread, 0)
    weft.sync_warp()
    largest = weft.warp.max(thread)
    if largest - lowest == warp_size - 1 and weft.sync_threads_count(value == 0) == 1:
        out[thread] = thread + value


@weft.jit
def adjacent(out: I32, x: weft.i32, y: weft.i32, z: weft.i32):
    neighbor_kernel(out).launch(grid=3, block=(x, y, z))


@pytest.mark.parametrize(
    "block",
    [(1, 1, 1), (31, 1, 1), (33, 1, 1), (7, 5, 3), (3, 11, 1), (1, 1, 64), (65, 3, 5), (1, 1000, 1),
     (1023, 1, 1), (1024, 1, 1), (32, 32, 1), (2, 8, 64)],
)  # fmt: skip
def test_blocks_of_any_size_and_shape_cooperate(block):
    threads = block[0] * block[1] * block[2]
    out = np.full(threads, -1, np.int32)
    adjacent(out, *block)
    numbers = np.arange(threads)
    np.testing.assert_array_equal(out, numbers + np.roll(numbers, -1))


@weft.kernel
def counting_kernel(count: weft.Tensor):
    weft.sync_threads()
    if weft.thread_idx.x == 0:
        weft.atomic_add(count, 0, 1)


@weft.jit
def count_blocks(count: I32, x: weft.i64, y: weft.i64, z: weft.i64):
    counting_kernel(count).launch(grid=(x, y, z), block=2)


@pytest.mark.parametrize(
    ("grid", "blocks"),
    [((0, 1, 1), 0), ((5, 0, 7), 0), ((2_000_003, 1, 1), 2_000_003), ((3, 65535, 5), 983_025)],
)
def test_a_grid_may_have_no_block_or_millions(grid, blocks):
    count = np.zeros(1, np.int32)
    count_blocks(count, *grid)
    assert count[0] == blocks


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((1, 65536, 1), "grid.y is 65536, expected 0 to 65535"),
        ((2**31, 1, 1), "grid.x is 2147483648, expected 0 to 2147483647"),
        ((1, 1, -1), "grid.z is -1, expected 0 to 65535"),
    ],
)
def test_a_grid_beyond_the_limits_is_refused_with_both_numbers(grid, words):
    with pytest.raises(ValueError, match=words):
        count_blocks(np.zeros(1, np.int32), *grid)


@weft.jit
def count_together(count: I32, x: weft.i32, y: weft.i32):
    rendezvous_kernel(count).launch(grid=(x, y), block=2, cooperative=True)


@weft.kernel
def rendezvous_kernel(count: weft.Tensor):
    weft.atomic_add(count, 0, 1)
    weft.sync_grid()
    if weft.thread_idx.x == 0 and count[0] == 2 * weft.grid_dim.x:
        weft.atomic_add(count, 1, 1)


@pytest.mark.parametrize("grid", [0, 1, 30_000])
def test_a_cooperative_grid_may_have_no_block_or_many(grid):
    count = np.zeros(2, np.int32)
    count_together(count, grid, 1)
    assert count.tolist() == [2 * grid, grid]


def test_a_cooperative_grid_that_memory_cannot_hold_is_an_error():
    with pytest.raises(MemoryError, match="no memory for a launch"):
        count_together(np.zeros(2, np.int32), 2**31 - 1, 65535)


@weft.kernel
def large_kernel(out: weft.Tensor):
    own = weft.shared(50_000, weft.f32)
    asked = weft.dynamic_shared(4, weft.i32)
    t = weft.thread_idx.x
    own[t] = 1.0
    asked[t] = t
    weft.sync_threads()
    out[t] = asked[3 - t]


@weft.jit
def large(out: I32, asked: weft.i64):
    large_kernel(out).launch(grid=1, block=4, shared_memory_bytes=asked)


def test_shared_memory_up_to_the_limit_is_there():
    out = np.zeros(4, np.int32)
    large(out, 227 * 1024 - 200_000)
    assert out.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("asked", "total"), [(227 * 1024 - 200_000 + 1, 227 * 1024 + 1), (-1, -1), (2**62, 2**62 + 200_000)]
)  # fmt: skip
def test_shared_memory_beyond_the_limit_is_refused_with_the_sum(asked, total):
    with pytest.raises(ValueError, match=f"shared_memory_bytes is {total}, expected 0 to 232448"):
        large(np.zeros(4, np.int32), asked)


@weft.kernel
def dynamic_kernel(out: weft.Tensor, rows: weft.i32, columns: weft.i32, offset: weft.i64):
    own = weft.shared(5, weft.f32)
    tile = weft.dynamic_shared((rows, columns), weft.f32, offset)
    own[0] = 1.0
    tile[rows - 1, columns - 1] = 2.0
    weft.sync_threads()
    out[weft.thread_idx.x] = own[0] + tile[rows - 1, columns - 1]


@weft.jit
def dynamic(out: weft.Tensor, rows: weft.i32, columns: weft.i32, offset: weft.i64, asked: weft.i32):
    dynamic_kernel(out, rows, columns, offset).launch(
        grid=1, block=out.shape[0], shared_memory_bytes=asked
    )


@pytest.mark.parametrize("asked", [(8, 4, 0, 128), (8, 4, 64, 192), (1, 1, 0, 4)])
def test_dynamic_shared_memory_up_to_what_was_asked_for_is_there(asked):
    out = np.zeros(3, np.float32)
    dynamic(out, *asked)
    assert (out == 3).all()


@pytest.mark.parametrize(
    "asked",
    [(8, 4, 0, 124), (8, 4, 64, 188), (1, 1, 0, 0), (-1, 4, 0, 128), (1, 1, -8, 128),
     ((1 << 31) - 1, (1 << 31) - 1, 0, 128), (65536, 65536, 0, 128), (1, 1, 1 << 62, 128)],
)  # fmt: skip
def test_dynamic_shared_memory_beyond_the_launch_is_an_error(asked):
    with pytest.raises(AssertionError, match="dynamic_shared array fits into") as caught:
        dynamic(np.zeros(3, np.float32), *asked)
    assert "in dynamic_kernel" in str(caught.value)
    assert "(block (0, 0, 0), thread (0, 0, 0))" in str(caught.value)


def masked(mask: str, lanes: int = 20) -> np.ndarray:
    """Sums under a mask for each lane of a partial warp, which is an expression in `t`."""
    host = define(
        f"""
        @weft.kernel
        def kernel(out: weft.Tensor):
            t = weft.thread_idx.x
            out[t] = weft.warp.sum(1 << t, mask={mask})

        @weft.jit
        def host(out: weft.Tensor[weft.i32, ("n",)]):
            kernel(out).launch(grid=1, block=out.shape[0])
        """
    )["host"]
    out = np.zeros(lanes, np.int32)
    host(out)
    return out


def test_lanes_of_a_mask_missing_from_the_block_are_ignored():
    assert (masked("0xFFFFFFFF") == 2**20 - 1).all()
    assert (masked("weft.u32(0xFFFFFFFF)") == 2**20 - 1).all()


def test_a_run_time_mask_may_differ_between_lane_groups():
    out = masked("weft.u32(0xF) if t < 4 else weft.u32(0xFFFFFFF0)")
    assert (out[:4] == 15).all()
    assert (out[4:] == 2**20 - 16).all()


@pytest.mark.parametrize("mask", ["weft.u32(t - t)", "weft.u32(1 << 31)", "weft.u32(2) << t"])
def test_a_mask_without_the_own_lane_is_an_error(mask):
    with pytest.raises(
        RuntimeError, match="a lane calls a warp collective with a mask that it is not in"
    ):
        masked(mask)


def test_masks_that_overlap_and_differ_are_an_error():
    with pytest.raises(RuntimeError, match="with different masks") as caught:
        masked("weft.u32(0xFFFFF) if t < 4 else weft.u32(0xFFFF1)")
    first, second = str(caught.value).splitlines()[1:]
    assert first.startswith("  threads 0..3 at warp.sum at ")
    assert first.endswith("(mask 0x000fffff)")
    assert second.endswith("(mask 0x000ffff1)")


NAMES = {
    "shfl_up": "weft.shfl_up(t, 1)",
    "shfl_idx": "weft.shfl_idx(t, 0)",
    "ballot": "weft.ballot(t > 0)",
    "warp.any": "weft.warp.any(t > 0)",
    "match": "weft.match(t)",
    "match_all": "weft.match_all(t)",
    "warp.sum": "weft.warp.sum(t)",
    "warp.min": "weft.warp.min(weft.u32(t))",
    "warp.bitwise_xor": "weft.warp.bitwise_xor(t)",
    "warp barrier": "weft.sync_warp()",
}


@pytest.mark.parametrize("name", NAMES)
def test_an_error_names_the_operation_as_the_program_does(name):
    host = define(
        f"""
        @weft.kernel
        def kernel():
            t = weft.thread_idx.x
            if t > 0:
                {NAMES[name]}
            else:
                weft.sync_threads()

        @weft.jit
        def host():
            kernel().launch(grid=1, block=32)
        """
    )["host"]
    with pytest.raises(
        RuntimeError, match=rf"\n  threads 1\.\.31 at {name} at <conformance \d+>:6 "
    ):
        host()


@weft.kernel
def divergent_loop_kernel(a: weft.Tensor):
    for _ in range(weft.thread_idx.x + 1):
        weft.sync_threads()
    a[weft.thread_idx.x] = 1


@weft.jit
def divergent_loop(a: I32):
    divergent_loop_kernel(a).launch(grid=1, block=a.shape[0])


def test_threads_that_left_a_loop_are_not_awaited():
    a = np.zeros(40, np.int32)
    divergent_loop(a)
    assert (a == 1).all()


@weft.kernel
def uneven_iterations_kernel(a: weft.Tensor):
    for _ in range(weft.thread_idx.x % 2 + 1):
        weft.sync_threads()
    weft.sync_threads()
    a[weft.thread_idx.x] = 1


@weft.jit
def uneven_iterations(a: I32):
    uneven_iterations_kernel(a).launch(grid=1, block=a.shape[0])


def test_threads_at_different_barriers_are_an_error():
    with pytest.raises(RuntimeError, match="threads wait at different barriers") as caught:
        uneven_iterations(np.zeros(4, np.int32))
    line = uneven_iterations_kernel.function.__code__.co_firstlineno + 3
    assert f"threads 1, 3 at block barrier at {__file__}:{line}" in str(caught.value)
