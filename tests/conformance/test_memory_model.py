# SPDX-License-Identifier: Apache-2.0
"""What threads may rely on when they read what others write: litmus tests of docs/memory-model.md.

Each runs thousands of iterations a launch; with WEFT_TEST_TARGET=cuda on a GPU.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.sampling import sampled

I32 = weft.Tensor[weft.i32, ("n",)]
SLOTS = weft.Tensor[weft.i32, ("iterations", 32)]
ROUNDS = 2000
LAUNCHES = 5


# ---- message passing: who sees the flag sees the data


@weft.kernel
def release_acquire_kernel(data, flags, out, scope: weft.Constexpr):
    # The first half of the blocks writes, and runs first; 32 elements are a line of their own.
    half = weft.grid_dim.x // 2
    if weft.block_idx.x < half:
        data[weft.block_idx.x, 0] = 42 + weft.block_idx.x
        weft.atomic_store(flags, (weft.block_idx.x, 0), 1, order="release", scope=scope)
    else:
        r = weft.block_idx.x - half
        while weft.atomic_load(flags, (r, 0), order="acquire", scope=scope) == 0:
            pass
        out[r] = data[r, 0]


@weft.kernel
def fences_kernel(data, flags, out, scope: weft.Constexpr):
    half = weft.grid_dim.x // 2
    fence = weft.fence_system if scope == "system" else weft.fence_device
    if weft.block_idx.x < half:
        data[weft.block_idx.x, 0] = 42 + weft.block_idx.x
        fence()
        weft.atomic_store(flags, (weft.block_idx.x, 0), 1, scope=scope)
    else:
        r = weft.block_idx.x - half
        while weft.atomic_load(flags, (r, 0), scope=scope) == 0:
            pass
        fence()
        out[r] = data[r, 0]


@weft.kernel
def plain_flag_kernel(data, flags, out, scope: weft.Constexpr):
    half = weft.grid_dim.x // 2
    fence = weft.fence_system if scope == "system" else weft.fence_device
    if weft.block_idx.x < half:
        data[weft.block_idx.x, 0] = 42 + weft.block_idx.x
        fence()
        flags[weft.block_idx.x, 0] = 1
    else:
        r = weft.block_idx.x - half
        while flags[r, 0] == 0:
            pass
        fence()
        out[r] = data[r, 0]


@weft.kernel
def read_modify_write_kernel(data, flags, out, scope: weft.Constexpr):
    half = weft.grid_dim.x // 2
    if weft.block_idx.x < half:
        data[weft.block_idx.x, 0] = 42 + weft.block_idx.x
        weft.atomic_exchange(flags, (weft.block_idx.x, 0), 1, order="release", scope=scope)
    else:
        r = weft.block_idx.x - half
        while weft.atomic_add(flags, (r, 0), 0, order="acquire", scope=scope) == 0:
            pass
        out[r] = data[r, 0]


@pytest.mark.parametrize("scope", ["device", "system"])
@pytest.mark.parametrize(
    "kernel",
    [release_acquire_kernel, fences_kernel, plain_flag_kernel, read_modify_write_kernel],
    ids=lambda kernel: kernel.__name__,
)
def test_who_sees_the_flag_sees_the_message(kernel, scope):
    @weft.jit
    def pass_messages(data: SLOTS, flags: SLOTS, out: weft.Tensor[weft.i32, ("iterations",)]):
        kernel(data, flags, out, scope).launch(grid=2 * out.shape[0], block=1)

    for _ in range(LAUNCHES):
        data, flags = np.zeros((ROUNDS, 32), np.int32), np.zeros((ROUNDS, 32), np.int32)
        out = np.zeros(ROUNDS, np.int32)
        pass_messages(data, flags, out)
        np.testing.assert_array_equal(out, 42 + np.arange(ROUNDS))


@weft.kernel
def between_warps_kernel(out):
    data, flag = weft.shared(1, weft.i32), weft.shared(1, weft.i32)
    t = weft.thread_idx.x
    if t == 0:
        flag[0] = 0
    weft.sync_threads()
    if t == 0:
        data[0] = 7 + weft.block_idx.x
        weft.atomic_store(flag, 0, 1, order="release", scope="block")
    elif t == 32:
        while weft.atomic_load(flag, 0, order="acquire", scope="block") == 0:
            pass
        out[weft.block_idx.x] = data[0]


@weft.jit
def between_warps(out: I32):
    between_warps_kernel(out).launch(grid=out.shape[0], block=64)


def test_messages_pass_through_shared_memory():
    for _ in range(LAUNCHES):
        out = np.zeros(ROUNDS, np.int32)
        between_warps(out)
        np.testing.assert_array_equal(out, 7 + np.arange(ROUNDS))


# ---- store buffering: two threads write one each and read the other's; not both read what was before


@weft.kernel
def store_buffering_kernel(x, y, seen, with_fence: weft.Constexpr):
    half = weft.grid_dim.x // 2
    is_first = weft.block_idx.x < half
    r = weft.block_idx.x if is_first else weft.block_idx.x - half
    if with_fence:
        if is_first:
            weft.atomic_store(x, (r, 0), 1)
            weft.fence_device()
            seen[0, r] = weft.atomic_load(y, (r, 0))
        else:
            weft.atomic_store(y, (r, 0), 1)
            weft.fence_device()
            seen[1, r] = weft.atomic_load(x, (r, 0))
    elif is_first:
        weft.atomic_store(x, (r, 0), 1, order="seq_cst")
        seen[0, r] = weft.atomic_load(y, (r, 0), order="seq_cst")
    else:
        weft.atomic_store(y, (r, 0), 1, order="seq_cst")
        seen[1, r] = weft.atomic_load(x, (r, 0), order="seq_cst")


@pytest.mark.parametrize("with_fence", [False, True], ids=["seq_cst", "fence"])
def test_of_two_writers_one_sees_the_other(with_fence):
    @weft.jit
    def race(x: SLOTS, y: SLOTS, seen: weft.Tensor[weft.i32, (2, "iterations")]):
        store_buffering_kernel(x, y, seen, with_fence).launch(grid=2 * x.shape[0], block=1)

    for _ in range(LAUNCHES):
        x, y = np.zeros((ROUNDS, 32), np.int32), np.zeros((ROUNDS, 32), np.int32)
        seen = np.full((2, ROUNDS), -1, np.int32)
        race(x, y, seen)
        assert (seen >= 0).all()
        assert seen.any(axis=0).all()


# ---- look-back: each block takes a ticket, waits for the sum of those before, and passes its own on


@weft.kernel
def look_back_kernel(values, sums, ready, tickets):
    ticket = weft.shared(1, weft.i32)
    if weft.thread_idx.x == 0:
        ticket[0] = weft.atomic_add(tickets, 0, 1)
    weft.sync_threads()
    if weft.thread_idx.x == 0:
        block = ticket[0]
        before = 0
        if block > 0:
            while weft.atomic_load(ready, block - 1, order="acquire") == 0:
                pass
            before = sums[block - 1]
        sums[block] = before + values[block]
        weft.atomic_store(ready, block, 1, order="release")


@weft.jit
def look_back(values: I32, sums: I32, ready: I32, tickets: weft.Tensor[weft.i32, (1,)]):
    look_back_kernel(values, sums, ready, tickets).launch(grid=values.shape[0], block=32)


@pytest.mark.slow
def test_a_chain_of_blocks_adds_up():
    values = np.random.default_rng(3).integers(-100, 100, 4096, np.int32)
    for _ in range(LAUNCHES):
        sums, ready = np.zeros_like(values), np.zeros_like(values)
        look_back(values, sums, ready, np.zeros(1, np.int32))
        np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.int32))


# ---- one access each


@pytest.mark.parametrize(
    ("dtype", "order", "space"),
    sampled(
        itertools.product(NUMPY_TYPES, ["relaxed", "acquire", "seq_cst"], ["global", "shared"]),
        10,
        several=True,
    ),
    ids=str,
)
def test_every_element_goes_in_and_out_unchanged(dtype, order, space):
    stores = "release" if order == "acquire" else order

    @weft.kernel
    def copy_kernel(a, b):
        t = weft.thread_idx.x
        if space == "shared":
            array = weft.shared(64, dtype)
            weft.atomic_store(array, t, weft.atomic_load(a, t, order=order), order=stores)
            weft.sync_threads()
            b[t] = weft.atomic_load(array, t, order=order, scope="block")
        else:
            weft.atomic_store(b, t, weft.atomic_load(a, t, order=order), order=stores)

    @weft.jit
    def copy(a, b):
        copy_kernel(a, b).launch(grid=1, block=64)

    a, b = bytes_of(dtype), np.zeros(64, NUMPY_TYPES[dtype])
    copy(a, b)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_volatile_accesses_read_and_write_every_type(dtype):
    @weft.kernel
    def copy_kernel(a, b):
        own = weft.local(1, dtype)
        t = weft.thread_idx.x
        weft.volatile_store(own, 0, weft.volatile_load(a, t))
        weft.volatile_store(b, t, weft.volatile_load(own, 0))

    @weft.jit
    def copy(a, b):
        copy_kernel(a, b).launch(grid=1, block=64)

    a, b = bytes_of(dtype), np.zeros(64, NUMPY_TYPES[dtype])
    copy(a, b)
    assert a.tobytes() == b.tobytes()


def bytes_of(dtype) -> np.ndarray:
    """64 elements of any bits; bools are 0 and 1."""
    bits = np.random.default_rng(5).integers(0, 256, 64 * dtype.itemsize, np.uint8)
    return (bits & 1 if dtype.is_bool else bits).view(NUMPY_TYPES[dtype])


@weft.kernel
def bounded_wait_kernel(flag, out):
    iterations = 0
    while weft.volatile_load(flag, 0) == 0 and iterations < 1000:
        iterations += 1
    out[0] = iterations


@weft.jit
def bounded_wait(flag: I32, out: I32):
    bounded_wait_kernel(flag, out).launch(grid=1, block=1)


def test_a_wait_may_have_a_bound():
    out = np.zeros(1, np.int32)
    bounded_wait(np.zeros(1, np.int32), out)
    assert out[0] == 1000


def spinning(way, cooperative):
    """Each block waits for the next one; the last one begins the chain."""

    @weft.kernel
    def chain_kernel(flags: weft.Tensor, out: weft.Tensor):
        block, last = weft.block_idx.x, weft.grid_dim.x - 1
        if weft.thread_idx.x == 0:
            if block < last:
                while weft.atomic_load(flags, block + 1, order="acquire") == 0:
                    pass
                out[block] = out[block + 1] + 1
            else:
                out[block] = 1
            weft.atomic_store(flags, block, 1, order="release")

    @weft.kernel
    def plain_kernel(flags: weft.Tensor, out: weft.Tensor):
        block, last = weft.block_idx.x, weft.grid_dim.x - 1
        weft.sync_threads()
        if weft.thread_idx.x == 0:
            if block < last:
                while flags[block + 1] == 0:
                    pass
                weft.fence_device()
                out[block] = out[block + 1] + 1
            else:
                out[block] = 1
            weft.fence_device()
            flags[block] = 1

    kernel = {"atomic": chain_kernel, "plain": plain_kernel}[way]

    @weft.jit
    def host(flags: weft.Tensor[weft.i32, ("n",)], out: weft.Tensor[weft.i32, ("n",)]):
        kernel(flags, out).launch(grid=out.shape[0], block=32, cooperative=cooperative)

    return host


@pytest.mark.parametrize("way", ["atomic", "plain"])
@pytest.mark.parametrize("blocks", [2, 7, 64])
def test_blocks_of_a_cooperative_launch_wait_for_later_ones(way, blocks):
    flags, out = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    spinning(way, True)(flags, out)
    assert out.tolist() == list(range(blocks, 0, -1))


@pytest.mark.parametrize("way", ["atomic", "plain"])
@pytest.mark.parametrize("checks", ["all", "races", "barriers", "uninit"])
def test_a_launch_that_is_checked_lets_blocks_wait_for_later_ones(way, checks):
    flags, out = np.zeros(7, np.int32), np.zeros(7, np.int32)
    with weft.sanitize(checks):
        spinning(way, False)(flags, out)
    assert out.tolist() == list(range(7, 0, -1))


def test_orders_of_blocks_that_wait_for_later_ones_are_compared():
    arrays = np.zeros(7, np.int32), np.zeros(7, np.int32)
    weft.testing.check_orders(spinning("atomic", True), *arrays)
