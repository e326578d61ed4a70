# SPDX-License-Identifier: Apache-2.0
"""Clusters: ranks, shapes, barriers, and the shared memory of the other blocks."""

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.conformance.test_stuck_threads import line_of

F32 = weft.Tensor[weft.f32, ("n",)]
I32 = weft.Tensor[weft.i32, ("n",)]
SHAPES = [
    (1, 1, 1),
    (2, 1, 1),
    (3, 1, 1),
    (16, 1, 1),
    (1, 2, 1),
    (1, 1, 4),
    (2, 2, 1),
    (4, 1, 2),
    (2, 3, 2),
]


@weft.kernel
def rank_kernel(out: weft.Tensor):
    block = weft.block_idx.x + weft.grid_dim.x * (
        weft.block_idx.y + weft.grid_dim.y * weft.block_idx.z
    )
    x, y, z = weft.cluster_shape()
    out[block] = weft.cluster_rank() + 100 * x + 1000 * y + 10000 * z


def expected_ranks(grid, shape):
    z, y, x = np.indices(grid[::-1])
    rank = x % shape[0] + shape[0] * (y % shape[1] + shape[1] * (z % shape[2]))
    return (rank + np.dot(shape, (100, 1000, 10000))).ravel()


@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_count_x_first(shape):
    grid = tuple(2 * size for size in shape)

    @weft.jit
    def host(out: I32):
        rank_kernel(out).launch(grid=grid, block=1, cluster=shape)

    out = np.zeros(np.prod(grid), np.int32)
    host(out)
    np.testing.assert_array_equal(out, expected_ranks(grid, shape))


def test_without_clusters_a_block_is_its_own():
    @weft.jit
    def host(out: I32):
        rank_kernel(out).launch(grid=4, block=1)

    out = np.zeros(4, np.int32)
    host(out)
    np.testing.assert_array_equal(out, [11100] * 4)


@weft.kernel
def sum_kernel(a: weft.Tensor, out: weft.Tensor):
    part = weft.shared(8, weft.f32)
    t = weft.thread_idx.x
    block = weft.block_idx.x + weft.grid_dim.x * (
        weft.block_idx.y + weft.grid_dim.y * weft.block_idx.z
    )
    part[t] = a[8 * block + t]
    weft.sync_cluster()
    x, y, z = weft.cluster_shape()
    total = 0.0
    for rank in range(x * y * z):
        total += weft.map_shared(part, rank)[7 - t]
    weft.sync_cluster()
    out[8 * block + t] = total


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_read_each_others_memory(shape):
    grid = tuple(size * times for size, times in zip(shape, (5, 3, 2), strict=True))

    @weft.jit
    def host(a: F32, out: F32):
        sum_kernel(a, out).launch(grid=grid, block=8, cluster=shape)

    # Many clusters, so that several threads of the machine share them.
    a = np.arange(8 * np.prod(grid), dtype=np.float32)
    out = np.zeros_like(a)
    host(a, out)
    blocks = a.reshape(*grid[::-1], 8)
    counts = [n for size, times in zip(shape[::-1], (2, 3, 5), strict=True) for n in (times, size)]
    sums = blocks.reshape(*counts, 8).sum((1, 3, 5), keepdims=True)[..., ::-1]
    np.testing.assert_array_equal(out, np.broadcast_to(sums, (*counts, 8)).ravel())


@weft.kernel(cluster=4)
def sums_kernel(a: weft.Tensor, out: weft.Tensor, iterations: weft.i32):
    buffer = weft.shared(4, weft.f32)
    rank = weft.cluster_rank()
    value = a[weft.block_idx.x]
    weft.sync_cluster()
    for _ in range(iterations):
        if weft.thread_idx.x < 4:
            weft.map_shared(buffer, weft.thread_idx.x)[rank] = value
        weft.sync_cluster()
        value = buffer[0] + buffer[1] + buffer[2] + buffer[3]
        weft.sync_cluster()
    if weft.thread_idx.x == 0:
        out[weft.block_idx.x] = value


@weft.jit
def sums(a: F32, out: F32, iterations: weft.i32):
    sums_kernel(a, out, iterations).launch(grid=a.shape[0], block=33)


@pytest.mark.parametrize("clusters", [1, 2, 300])
def test_writes_into_other_blocks_meet_at_barriers_in_loops(clusters):
    a = np.random.default_rng(0).integers(0, 100, 4 * clusters).astype(np.float32)
    out = np.zeros_like(a)
    sums(a, out, 3)
    np.testing.assert_array_equal(out, np.repeat(a.reshape(-1, 4).sum(1) * 16, 4))


@weft.kernel(cluster=2)
def atomics_kernel(out: weft.Tensor):
    counts = weft.shared(3, out.dtype)
    if weft.thread_idx.x < 3:
        counts[weft.thread_idx.x] = 0
    weft.sync_cluster()
    other = weft.map_shared(counts, 1 - weft.cluster_rank())
    weft.atomic_add(other, 0, 1)
    weft.atomic_max(other, 1, other.dtype(weft.thread_idx.x))
    weft.atomic_exchange(other[2:], 0, 5)
    weft.sync_cluster()
    for i in range(3):
        out[3 * weft.block_idx.x + i] = counts[i]


def atomics_of(kind):
    @weft.jit
    def host(out: weft.Tensor[kind, ("n",)]):
        atomics_kernel(out).launch(grid=2, block=40)

    return host


@pytest.mark.parametrize("kind", [weft.i32, weft.u32, weft.f32, weft.i16, weft.f16], ids=str)
def test_atomics_on_another_blocks_memory(kind):
    out = np.zeros(6, NUMPY_TYPES[kind])
    atomics_of(kind)(out)
    np.testing.assert_array_equal(out, [40, 39, 5] * 2)


@pytest.mark.parametrize("kind", [weft.i64, weft.u64, weft.f64], ids=str)
def test_64_bit_atomics_on_another_block_are_refused(kind):
    with pytest.raises(weft.TypeMismatchError, match="counts is another block's memory and holds"):
        atomics_of(kind)(np.zeros(6, NUMPY_TYPES[kind]))


def total_of(view):
    """A helper that takes a view of any memory."""
    total = 0.0
    for i in range(view.shape[0]):
        total += view[i]
    return total


@weft.kernel(cluster=2)
def views_kernel(out: weft.Tensor):
    tile = weft.shared((16, 64), weft.f16, swizzle=128)
    plain = weft.shared((4, 64), weft.f32)
    t = weft.thread_idx.x
    for row in range(16):
        tile[row, t] = weft.f16(64 * row + t + 1024 * weft.cluster_rank())
        plain[row % 4, t] = row + weft.f32(t)
    weft.sync_cluster()
    other = weft.map_shared(tile, 1 - weft.cluster_rank())
    a, b = weft.load_vector(other, (3, 2 * (t // 2)), 2)
    chosen = other if t % 2 == 0 else weft.map_shared(tile, weft.cluster_rank())
    out[weft.block_idx.x, 0, t] = total_of(weft.map_shared(plain[1:], 0)[1])
    out[weft.block_idx.x, 1, t] = weft.f32(a) + weft.f32(b)
    out[weft.block_idx.x, 2, t] = chosen[15, 63]
    weft.sync_cluster()


def test_another_blocks_array_has_every_access():
    @weft.jit
    def host(out: weft.Tensor[weft.f32, (2, 3, 64)]):
        views_kernel(out).launch(grid=2, block=64)

    out = np.zeros((2, 3, 64), np.float32)
    host(out)
    values = np.arange(2048, dtype=np.float32).reshape(2, 16, 64)
    for block in range(2):
        np.testing.assert_array_equal(out[block, 0], (14.0 + np.arange(64)).sum())
        pairs = values[1 - block, 3].reshape(32, 2).sum(1)
        np.testing.assert_array_equal(out[block, 1], np.repeat(pairs, 2))
        np.testing.assert_array_equal(
            out[block, 2], np.tile([values[1 - block, 15, 63], values[block, 15, 63]], 32)
        )


@weft.kernel(cluster=2)
def early_kernel(a: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    weft.map_shared(tile, 1)[weft.thread_idx.x] = 1.0
    weft.sync_cluster()
    a[0] = tile[0]


@weft.kernel(cluster=2)
def late_kernel(a: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    weft.sync_cluster()
    if weft.cluster_rank() == 0:
        return
    weft.map_shared(tile, 0)[weft.thread_idx.x] = 1.0
    a[0] = tile[0]


@weft.kernel(cluster=2)
def beyond_kernel(a: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    weft.sync_cluster()
    a[0] = weft.map_shared(tile, a.shape[0])[0]


@weft.kernel(cluster=2)
def two_barriers_kernel(a: weft.Tensor):
    if weft.cluster_rank() == 0:
        weft.sync_cluster()  # of the first
    else:
        weft.sync_cluster()  # of the second
    a[0] = 1.0


@weft.kernel(cluster=2)
def mixed_kernel(a: weft.Tensor):
    if weft.thread_idx.x < 8:
        weft.sync_cluster()  # the cluster's
    else:
        weft.sync_threads()  # the block's
    a[0] = 1.0


def failure(kernel):
    @weft.jit
    def host(a: F32):
        kernel(a).launch(grid=4, block=32)

    with pytest.raises((RuntimeError, AssertionError)) as caught:
        host(np.zeros(2, np.float32))
    return str(caught.value)


def test_a_write_before_the_other_block_has_begun_is_reported():
    assert failure(early_kernel) == (
        "early_kernel: shared memory of block (1, 0, 0) was written before that block had begun; "
        "call weft.sync_cluster() before the first access"
    )


def test_a_write_after_the_other_block_has_returned_is_reported():
    assert failure(late_kernel) == (
        "late_kernel: block (1, 0, 0) wrote shared memory of block (0, 0, 0), which had returned; "
        "call weft.sync_cluster() after the last access"
    )


def test_a_rank_that_no_block_has_is_reported():
    assert "assertion failed: the rank of a block is one of 0 to 1" in failure(beyond_kernel)


def test_blocks_at_different_cluster_barriers_are_reported():
    assert failure(two_barriers_kernel) == (
        "two_barriers_kernel: threads of a cluster wait at different barriers, in block (0, 0, 0):\n"
        f"  threads 0..31 at cluster barrier at {line_of(two_barriers_kernel, 'of the first')}\n"
        "in block (1, 0, 0):\n"
        f"  threads 0..31 at cluster barrier at {line_of(two_barriers_kernel, 'of the second')}"
    )


def test_threads_at_two_kinds_of_barriers_are_reported():
    assert failure(mixed_kernel) == (
        "mixed_kernel: threads wait for each other and none can continue, in block (0, 0, 0):\n"
        f"  threads 0..7 at cluster barrier at {line_of(mixed_kernel, 'the cluster')}\n"
        f"  threads 8..31 at block barrier at {line_of(mixed_kernel, 'the block')}"
    )


@weft.kernel(cluster=2)
def returning_kernel(a: weft.Tensor):
    if weft.thread_idx.x >= 16 or (weft.cluster_rank() == 1 and a.shape[0] == 2):
        return
    weft.sync_cluster()
    weft.atomic_add(a, 0, 1.0)


def test_threads_that_have_returned_are_not_waited_for():
    @weft.jit
    def host(a: F32):
        returning_kernel(a).launch(grid=4, block=32)

    a = np.zeros(2, np.float32)
    host(a)
    assert a[0] == 32


@weft.kernel
def cooperative_kernel(a: weft.Tensor, totals: weft.Tensor):
    part = weft.shared(1, weft.f32)
    part[0] = a[weft.block_idx.x]
    weft.sync_cluster()
    totals[weft.block_idx.x] = weft.map_shared(part, 0)[0] + weft.map_shared(part, 1)[0]
    weft.sync_grid()
    a[weft.block_idx.x] = totals[(weft.block_idx.x + 2) % a.shape[0]]


def test_clusters_in_a_grid_whose_blocks_all_meet():
    @weft.jit
    def host(a: F32, totals: F32):
        cooperative_kernel(a, totals).launch(grid=a.shape[0], block=1, cluster=2, cooperative=True)

    a = np.arange(8, dtype=np.float32)
    host(a, np.zeros_like(a))
    np.testing.assert_array_equal(a, [5, 5, 9, 9, 13, 13, 1, 1])


def test_a_kernel_is_compiled_for_each_size_of_clusters():
    @weft.jit
    def host(one: I32, two: I32):
        rank_kernel(one).launch(grid=2, block=1)
        rank_kernel(two).launch(grid=2, block=1, cluster=2)
        rank_kernel(two).launch(grid=2, block=1, cluster=(2, 1))

    one, two = np.zeros(2, np.int32), np.zeros(2, np.int32)
    host(one, two)
    assert (one.tolist(), two.tolist()) == ([11100, 11100], [11200, 11201])
    assert list(weft.compile(host, one, two).kernels) == ["rank_kernel", "rank_kernel_1"]


STAGES = 3


@weft.kernel(cluster=2)
def ring_kernel(a: weft.Tensor, out: weft.Tensor):
    """Both blocks read what the first one's warp 0 writes into the rings of both."""
    ring = weft.shared((STAGES, 32), weft.f32)
    full, empty = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=2)
    lane, rank, steps = weft.lane_id(), weft.cluster_rank(), a.shape[0] // 32
    if weft.warp_id() == 0:
        if rank == 0:
            state = weft.PipelineState(STAGES, producer=True)
            for step in range(steps):
                empty[state].wait()
                for block in weft.static_range(2):
                    weft.map_shared(ring, block)[state, lane] = a[32 * step + lane]
                full[state].release(ranks=(0, 1))
                state = state.next()
    else:
        total, state = weft.f32(0), weft.PipelineState(STAGES)
        for _ in range(steps):
            full[state].wait()
            total += ring[state, lane]
            empty[state].release(ranks=0)
            state = state.next()
        out[32 * rank + lane] = total
    weft.sync_cluster()


def test_barriers_are_released_in_other_blocks():
    @weft.jit
    def host(a: F32, out: weft.Tensor[weft.f32, (64,)]):
        ring_kernel(a, out).launch(grid=2, block=64)

    a, out = np.arange(640, dtype=np.float32), np.zeros(64, np.float32)
    host(a, out)
    np.testing.assert_array_equal(out, np.tile(a.reshape(-1, 32).sum(0), 2))


@weft.kernel(cluster=2)
def no_release_kernel(a: weft.Tensor):
    full = weft.mbarrier(1, arrivals=2)
    if weft.cluster_rank() == 0:
        full[0].wait(0)  # first
    full[0].release(ranks=1)
    weft.sync_cluster()  # second
    a[0] = 1.0


def test_an_incomplete_cluster_barrier_is_reported():
    assert failure(no_release_kernel) == (
        "no_release_kernel: threads wait for each other and none can continue, in block (0, 0, 0):\n"
        "  threads 0..31 at full[0].wait for the phase of parity 0, where 2 of 2 arrivals are missing, "
        f"at {line_of(no_release_kernel, 'first')}\n"
        "in block (1, 0, 0):\n"
        f"  threads 0..31 at cluster barrier at {line_of(no_release_kernel, 'second')}"
    )
