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
