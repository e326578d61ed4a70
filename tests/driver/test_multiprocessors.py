# SPDX-License-Identifier: Apache-2.0
"""``weft.multiprocessors()`` of a compiled function on the fake driver: what its device has."""

from __future__ import annotations

import functools

import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver.memory import empty


@weft.kernel
def nothing_kernel(a: weft.Tensor):
    pass


@weft.jit
def count(a: weft.Tensor[weft.f32, ("n",)]):
    nothing_kernel(a).launch(grid=2 * weft.multiprocessors(), block=32)
    return weft.multiprocessors()


@functools.cache
def compiled() -> Compiled:
    return Compiled(count, weft.fake_tensor(weft.f32, ("n",)))


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    compiled()


@on_fake()
def test_the_grid_is_made_of_the_devices_multiprocessors(fake: FakeCuda):
    function = compiled().register(fake)
    assert function(empty((8,), weft.f32, 0)) == 4
    (launch,) = fake.calls("cuLaunchKernelEx")
    assert " grid=8,1,1 " in launch
