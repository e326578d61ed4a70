# SPDX-License-Identifier: Apache-2.0
"""Dependent launches and registers: the same results, and errors where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import UnavailableError, ValueRangeError


@weft.kernel
def square_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    b[i] = a[i] * a[i]
    weft.grid_dependency_launch()


@weft.kernel
def sum_kernel(b: weft.Tensor, total: weft.Tensor):
    weft.grid_dependency_wait()
    sums = 0.0
    for i in range(weft.thread_idx.x, b.shape[0], 32):
        sums += b[i]
    sums = weft.warp.sum(sums)
    if weft.thread_idx.x == 0:
        total[0] = sums


@weft.jit
def sum_of_squares(
    a: weft.Tensor[weft.f32, ("n",)],
    b: weft.Tensor[weft.f32, ("n",)],
    total: weft.Tensor[weft.f32, (1,)],
):
    square_kernel(a, b).launch(grid=a.shape[0] // 32, block=32)
    sum_kernel(b, total).launch(grid=1, block=32, programmatic=True)


def test_the_second_kernel_sees_what_the_first_wrote():
    a = np.arange(96, dtype=np.float32)
    sum_of_squares(a, np.zeros_like(a), total := np.zeros(1, np.float32))
    assert total[0] == np.sum(a * a)


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor, early: weft.Constexpr, late: weft.Constexpr):
    """`b` becomes `a + 1`; the wait comes early, late or never."""
    staged = weft.shared(64, weft.f32)
    i = weft.thread_idx.x
    place = weft.block_idx.x * 64 + i
    if early:
        weft.grid_dependency_wait()
    staged[i] = a[place]
    weft.sync_threads()
    if late:
        weft.grid_dependency_wait()
    b[place] = staged[63 - i] + 1
    weft.grid_dependency_launch()


@weft.jit
def three_times(
    a: weft.Tensor[weft.f32, ("n",)],
    b: weft.Tensor[weft.f32, ("n",)],
    c: weft.Tensor[weft.f32, ("n",)],
    d: weft.Tensor[weft.f32, ("n",)],
    early: weft.Constexpr,
    late: weft.Constexpr,
):
    grid = a.shape[0] // 64
    add_kernel(a, b, True, False).launch(grid=grid, block=64)
    add_kernel(b, c, early, late).launch(grid=grid, block=64, programmatic=True)
    add_kernel(c, d, early, late).launch(grid=grid, block=64, programmatic=True)


def chain(blocks: int, early: bool, late: bool) -> list[np.ndarray]:
    arrays = [np.zeros(64 * blocks, np.float32) for _ in range(4)]
    arrays[0][:] = np.random.default_rng(blocks).integers(1, 100, 64 * blocks)
    three_times(*arrays, early, late)
    return arrays


def added(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, 64)[:, ::-1].reshape(-1) + 1


@pytest.mark.parametrize("blocks", [1, 3, 40, 1024, 1025])
def test_a_chain_of_dependent_launches_is_that_of_whole_ones(blocks):
    a, b, c, d = chain(blocks, True, False)
    assert (b == added(a)).all()
    assert (c == added(b)).all()
    assert (d == added(c)).all()


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_cpu_reads_before_the_wait_precede_the_earlier_launch(blocks):
    a, b, c, d = chain(blocks, False, True)
    assert (b == added(a)).all()
    assert (c == 1).all()  # of zeros
    assert (d == 1).all()


def test_on_the_cpu_a_launch_without_a_wait_runs_first():
    a, b, c, d = chain(3, False, False)
    assert (b == added(a)).all()
    assert (c == 1).all()
    assert (d == 1).all()


@weft.jit
def in_a_loop(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)], times: weft.i32):
    grid = a.shape[0] // 64
    for _ in range(times):
        add_kernel(a, b, True, False).launch(grid=grid, block=64, programmatic=True)
        add_kernel(b, a, True, False).launch(grid=grid, block=64, programmatic=True)


def test_dependent_launches_in_a_loop():
    a = np.arange(128, dtype=np.float32)
    in_a_loop(a, np.zeros_like(a), 5)
    assert (a == np.arange(128) + 10).all()


@weft.kernel
def exchange_kernel(a: weft.Tensor, b: weft.Tensor, early: weft.Constexpr):
    """Blocks of a cluster exchange their rows."""
    row = weft.shared(32, weft.f32)
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    if early:
        weft.grid_dependency_wait()
    row[weft.thread_idx.x] = a[i]
    weft.sync_cluster()
    other = weft.map_shared(row, 1 - weft.cluster_rank())
    if not early:
        weft.grid_dependency_wait()
    b[i] = other[weft.thread_idx.x] + 1
    weft.sync_cluster()


@weft.kernel
def together_kernel(a: weft.Tensor, b: weft.Tensor, early: weft.Constexpr):
    """All blocks meet."""
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    if early:
        weft.grid_dependency_wait()
    x = a[i]
    weft.sync_grid()
    if not early:
        weft.grid_dependency_wait()
    b[i] = x + 1


@weft.jit
def waiting_blocks(
    a: weft.Tensor[weft.f32, ("n",)],
    b: weft.Tensor[weft.f32, ("n",)],
    c: weft.Tensor[weft.f32, ("n",)],
    d: weft.Tensor[weft.f32, ("n",)],
    early: weft.Constexpr,
):
    grid = a.shape[0] // 32
    exchange_kernel(a, b, early).launch(grid=grid, block=32, cluster=2)
    exchange_kernel(b, c, early).launch(grid=grid, block=32, cluster=2, programmatic=True)
    together_kernel(c, d, early).launch(grid=grid, block=32, cooperative=True, programmatic=True)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("blocks", [2, 64])
def test_on_the_cpu_blocks_that_wait_for_each_other_overlap_too(blocks, early):
    arrays = [np.zeros(32 * blocks, np.float32) for _ in range(4)]
    arrays[0][:] = np.random.default_rng(blocks).integers(1, 100, 32 * blocks)
    waiting_blocks(*arrays, early)
    a, b, c, d = (array.reshape(-1, 2, 32) for array in arrays)
    assert (b == a[:, ::-1] + 1).all()
    assert (c == (b[:, ::-1] + 1 if early else 1)).all()
    assert (d == (c + 1 if early else 1)).all()


@weft.kernel
def count_kernel(a: weft.Tensor, b: weft.Tensor, least: weft.f32):
    weft.grid_dependency_wait()
    assert a[weft.thread_idx.x] >= least
    b[weft.thread_idx.x] = a[weft.thread_idx.x]


@weft.jit
def checked(a: weft.Tensor[weft.f32, (64,)], b: weft.Tensor[weft.f32, (64,)], least: weft.f32):
    add_kernel(a, b, True, False).launch(grid=1, block=64)
    count_kernel(b, a, least).launch(grid=1, block=64, programmatic=True)


def test_an_error_in_either_launch_ends_the_call_only():
    for least in (1.0, 100.0, 1.0):
        a = np.arange(64, dtype=np.float32)
        expected = added(a)
        b = np.zeros_like(a)
        if least == 100:
            with pytest.raises(AssertionError, match="count_kernel"):
                checked(a, b, least)
        else:
            checked(a, b, least)
            assert (a == expected).all()
        assert (b == expected).all()


@weft.kernel
def early_kernel(a: weft.Tensor, b: weft.Tensor, least: weft.f32, waits: weft.Constexpr):
    """Fails before its wait, or without one."""
    assert least < 1
    if waits:
        weft.grid_dependency_wait()
    b[weft.thread_idx.x] = a[weft.thread_idx.x]


@weft.jit
def failing(
    a: weft.Tensor[weft.f32, (64,)],
    b: weft.Tensor[weft.f32, (64,)],
    least: weft.f32,
    waits: weft.Constexpr,
    held: weft.Constexpr,
):
    add_kernel(a, b, True, False).launch(grid=1, block=64)
    early_kernel(b, a, least, waits).launch(grid=1, block=64, programmatic=True)
    if held:
        add_kernel(b, a, True, False).launch(grid=1, block=64, programmatic=True)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("held", [True, False])
def test_on_the_cpu_the_launch_before_one_that_fails_early_has_run(waits, held):
    a = np.arange(64, dtype=np.float32)
    expected = added(a)
    with pytest.raises(AssertionError, match="early_kernel"):
        failing(a, b := np.zeros_like(a), 2.0, waits, held)
    assert (b == expected).all()


@weft.jit
def refused(a: weft.Tensor[weft.f32, (64,)], b: weft.Tensor[weft.f32, (64,)], block: weft.i32):
    add_kernel(a, b, True, False).launch(grid=1, block=64)
    add_kernel(b, a, True, False).launch(grid=1, block=block, programmatic=True)


def test_a_refused_second_launch_leaves_nothing_to_the_next_call():
    a = np.arange(64, dtype=np.float32)
    with pytest.raises(ValueError, match="block"):
        refused(a, b := np.zeros_like(a), 4096)
    assert (b == added(a)).all()  # the first launch is none of the error's
    del a
    other = np.arange(64, dtype=np.float32)
    refused(other, b := np.zeros_like(other), 64)
    assert (b == added(np.arange(64, dtype=np.float32))).all()
    assert (other == added(b)).all()


def with_registers(first: int, second: int, threads: int | None):
    @weft.kernel(max_threads=threads)
    def kernel(a: weft.Tensor):
        if weft.thread_idx.x < 128:
            weft.setmaxnreg(first)
        else:
            weft.setmaxnreg(second)
        a[weft.thread_idx.x] = 1

    @weft.jit
    def host(a: weft.Tensor[weft.i32, ("n",)]):
        kernel(a).launch(grid=1, block=a.shape[0])

    return host


FAKE = weft.fake_tensor(weft.i32, (weft.sym("n"),))


def test_registers_change_nothing_on_the_cpu():
    with_registers(40, 232, 384)(a := np.zeros(384, np.int32))
    assert a.all()


def test_registers_go_down_and_up_from_the_share_of_the_block():
    found = weft.compile(with_registers(160, 176, 384), FAKE, options="--gpu-arch sm_90a")
    assert found.kernels["kernel"].registers == 168
    assert "setmaxnreg.dec.sync.aligned.u32 \t160;" in found.ptx
    assert "setmaxnreg.inc.sync.aligned.u32 \t176;" in found.ptx


def test_a_kernel_that_only_raises_is_refused():
    with pytest.raises(ValueRangeError, match="so that it would wait forever") as caught:
        weft.compile(with_registers(176, 232, 384), FAKE, options="--gpu-arch sm_90a")
    assert caught.value.code == "REGISTER_SHARE"


def test_registers_of_blocks_of_unknown_size_are_refused():
    with pytest.raises(UnavailableError, match="are known only at the launch") as caught:
        weft.compile(with_registers(40, 232, None), FAKE, options="--gpu-arch sm_90a")
    assert caught.value.code == "REGISTER_SHARE"


@pytest.mark.parametrize(
    ("architecture", "operation"), [("sm_90", "setmaxnreg"), ("sm_80", "wait_for")]
)
def test_an_architecture_without_them_is_named(architecture, operation):
    fake = weft.fake_tensor(weft.f32, (weft.sym("n"),))
    total = weft.fake_tensor(weft.f32, (1,))
    with pytest.raises(UnavailableError, match=f"this is compiled for {architecture}"):
        if operation == "setmaxnreg":
            weft.compile(with_registers(40, 232, 384), FAKE, options=f"--gpu-arch {architecture}")
        else:
            weft.compile(sum_of_squares, fake, fake, total, options=f"--gpu-arch {architecture}")
