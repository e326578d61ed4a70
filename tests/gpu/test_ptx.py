# SPDX-License-Identifier: Apache-2.0
"""Where no assembler knows the architecture, the function holds PTX, and the driver assembles it.

In: functions compiled for GPUs that CUDA 13 has no assembler for. Out: the same results, on a newer GPU.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray
from tests.gpu.test_calls import add_one, assert_added, vectors

pytestmark = pytest.mark.gpu


@weft.kernel
def reverse_kernel(a: weft.Tensor, b: weft.Tensor):
    tile = weft.shared(128, weft.f32)
    i = weft.thread_idx.x
    tile[i] = a[i]
    weft.sync_threads()
    b[i] = tile[127 - i]


@weft.jit
def reverse(a: weft.Tensor[weft.f32, (128,)], b: weft.Tensor[weft.f32, (128,)]):
    reverse_kernel(a, b).launch(grid=1, block=128)


@pytest.mark.parametrize("executor", ["library", "context", "tvm-ffi"])
def test_ptx_of_an_older_architecture_runs(executor: str):
    fn = weft.compile(add_one, *vectors(), options=f"--gpu-arch sm_70 --executor {executor}")
    with pytest.raises(weft.ToolchainError, match="makes no code for sm_70"):
        _ = fn.cubin
    a, b = vectors()
    fn(a, b)
    weft.synchronize()
    assert_added(b)


def test_ptx_with_shared_memory_runs():
    a = DeviceArray(np.arange(128, dtype=np.float32))
    b = DeviceArray(np.zeros(128, np.float32))
    fn = weft.compile(reverse, a, b, options="--gpu-arch sm_70")
    fn(a, b)
    weft.synchronize()
    assert (b.fetch() == np.arange(128)[::-1]).all()


def test_every_kernel_is_found_when_it_is_preloaded():
    fn = weft.compile(reverse, options="--gpu-arch sm_70 --target cuda")
    assert fn.preload(0)["reverse_kernel"]
