# SPDX-License-Identifier: Apache-2.0
"""`weft.testing`: orders of threads and blocks are kept, replay exactly, and show what depends on them; two targets."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conftest import WITH_TORCH
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft.testing import (
    ORDERS,
    Order,
    OrderError,
    TargetError,
    check_orders,
    check_targets,
    in_order,
    trace_thread,
)


@weft.kernel
def order_kernel(turn: weft.Tensor, out: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    out[i] = weft.atomic_add(turn, 0, 1)


def turns(threads, blocks, block=40, kernel=order_kernel):
    out = np.zeros(3 * block, np.int32)
    with in_order(threads, blocks):
        kernel[3, block](np.zeros(1, np.int32), out)
    return out


def test_threads_and_blocks_run_in_the_order_that_is_asked_for():
    forward = np.arange(120).reshape(3, 40)
    assert (turns("forward", "forward").reshape(3, 40) == forward).all()
    assert (turns("backward", "backward").reshape(3, 40) == forward[::-1, ::-1]).all()
    assert (turns("forward", "backward").reshape(3, 40) == forward[::-1]).all()
    mixed = turns("random(7)", "random(7)")
    assert sorted(mixed) == list(range(120)) and (mixed != np.arange(120)).any()
    assert (mixed == turns("random(7)", "random(7)")).all()
    assert (mixed != turns("random(8)", "random(8)")).any()


@weft.kernel
def waiting_kernel(turn: weft.Tensor, out: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    weft.sync_threads()
    first = weft.warp.sum(1)
    out[i] = weft.atomic_add(turn, 0, 1) + 0 * first


def test_threads_that_wait_go_on_in_the_same_order():
    forward = np.arange(192).reshape(3, 2, 32)
    found = turns("backward", "forward", 64, waiting_kernel).reshape(3, 2, 32)
    # Lanes of a warp go on together, after their sum.
    assert (found == forward[:, ::-1, ::-1]).all()


@weft.kernel
def missing_barrier_kernel(a: weft.Tensor, out: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    i = weft.thread_idx.x
    tile[i] = a[i]
    out[i] = tile[i // 2]


def test_a_missing_barrier_shows_element_and_writer():
    a, out = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.float32)
    with pytest.raises(OrderError) as found:
        check_orders(missing_barrier_kernel[1, 32], a, out)
    error = found.value
    assert (error.argument, error.order.threads) == (1, "backward")
    assert error.writer.thread == (error.index[0], 0, 0)
    assert "out[i] = tile[i // 2]\n    ^^^^^^\n" in error.writer.location.excerpt() + "\n"
    assert [report.kind for report in error.reports] == ["race"]
    assert (out == 0).all()
    again = np.zeros(32, np.float32)
    with in_order(*error.order):
        missing_barrier_kernel[1, 32](a, again)
    # Memory that nothing has written holds NaN.
    assert np.isnan(again[error.index]) and np.isnan(error.values[1]) and error.values[0] == 1


def test_a_correct_function_is_the_same_in_every_order():
    @weft.kernel
    def right_kernel(a: weft.Tensor, out: weft.Tensor, count: weft.Tensor):
        tile = weft.shared(64, weft.i32)
        i = weft.thread_idx.x
        tile[63 - i] = a[i]
        weft.sync_threads()
        out[weft.block_idx.x, i] = tile[i] + weft.warp.sum(a[i])
        weft.atomic_add(count, 0, 1)

    a, out, count = (np.zeros(shape, np.int32) for shape in (64, (3, 64), 1))
    a[:] = np.arange(64)
    check_orders(right_kernel[3, 64], a, out, count)
    assert count[0] == 0


@weft.kernel
def move_kernel(a: weft.Tensor, b: weft.Tensor):
    b[weft.thread_idx.x] = a[weft.thread_idx.x]


@pytest.mark.parametrize("step", [1, -1])
def test_arguments_that_share_memory_still_share_it(step):
    a = np.arange(66, dtype=np.float32)[::2][::step]
    with pytest.raises(OrderError):
        check_orders(move_kernel[1, 32], a[:-1], a[1:])
    trace = trace_thread(move_kernel[1, 32], (a[:-1], a[1:]), thread=5, show=False)
    assert [event.values[0] for event in trace if event.kind == "written"] == [a[0]]
    assert a.tolist() == list(range(0, 66, 2))[::step]


def test_a_block_that_waits_for_an_earlier_one_does_not_hang():
    @weft.kernel
    def chain_kernel(flags: weft.Tensor):
        block = weft.block_idx.x
        if block > 0:
            while weft.atomic_load(flags, block - 1, order="acquire") == 0:
                pass
        weft.atomic_store(flags, block, 1, order="release")

    check_orders(chain_kernel[4, 1], np.zeros(4, np.int32))


@pytest.mark.parametrize("wrong", ["reverse", "random", "random(-1)", 3, None])
def test_other_orders_are_refused(wrong):
    with pytest.raises(weft.OptionError, match="forward, backward or random"):
        with in_order(wrong):
            pass
    with pytest.raises(weft.OptionError):
        check_orders(lambda: None, orders=[Order(blocks=wrong)])


def test_an_error_inside_leaves_the_order_forward():
    with pytest.raises(ZeroDivisionError), in_order("backward"):
        raise ZeroDivisionError
    assert (turns("forward", "forward") == np.arange(120)).all()
    assert len(ORDERS) == len(set(ORDERS))


@weft.jit
def halve(a: weft.Tensor[weft.f32, ("n",)], n: weft.i32):
    halve_kernel(a, n).launch(grid=1, block=8)


@weft.kernel
def halve_kernel(a: weft.Tensor, n: weft.i32):
    if weft.thread_idx.x < n:
        a[weft.thread_idx.x] *= 0.5


@on_fake()
def test_targets_are_compared_element_by_element(_fake: FakeCuda):
    # The fake runs no kernels, so that every element stays as it was.
    a = np.arange(8, dtype=np.float32)
    check_targets(halve, a, 0)
    check_targets(halve, a, 1)  # half of nothing
    with pytest.raises(TargetError) as found:
        check_targets(halve, a, 3)
    assert (found.value.argument, found.value.index, found.value.count) == (0, (1,), 2)
    assert found.value.values == (0.5, 1.0) and a[1] == 1
    check_targets(halve, a, 3, rtol=1.0)


@on_fake(devices=0)
def test_without_a_gpu_that_is_said(_fake: FakeCuda):
    with pytest.raises(weft.UnavailableError, match="there is none"):
        check_targets(halve, np.arange(8, dtype=np.float32), 3)


@pytest.mark.skipif(not WITH_TORCH, reason="WEFT_TEST_TORCH is not set")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool"])
def test_orders_of_tensors_of_types_that_numpy_lacks_are_compared(name):
    import torch

    @weft.kernel
    def last_kernel(a: weft.Tensor, numbers: weft.Tensor):
        a[0] = numbers[weft.thread_idx.x]

    numbers = torch.arange(32).to(torch.float32).to(getattr(torch, name))
    with pytest.raises(OrderError) as caught:
        check_orders(last_kernel[1, 32], torch.zeros(1, dtype=numbers.dtype), numbers)
    forward, other = caught.value.values
    assert forward == float(numbers[31]) and other == float(numbers[0])
    check_orders(last_kernel[1, 1], torch.zeros(1, dtype=numbers.dtype), numbers)
