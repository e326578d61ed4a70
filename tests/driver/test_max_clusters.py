# SPDX-License-Identifier: Apache-2.0
"""``kernel.max_clusters(blocks)`` of a compiled function on the fake driver: the driver's answer, asked for once."""

from __future__ import annotations

import functools

import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver.memory import empty
from weft.errors import CudaError

NAME = "cuOccupancyMaxActiveClusters"


@weft.kernel(cluster=2)
def nothing_kernel(a: weft.Tensor):
    pass


@weft.jit
def count(a: weft.Tensor[weft.f32, ("n",)]):
    clusters = nothing_kernel.max_clusters(2)
    nothing_kernel(a).launch(grid=2 * clusters, block=256)
    return clusters


@functools.cache
def compiled(executor: str) -> Compiled:
    return Compiled(count, weft.fake_tensor(weft.f32, ("n",)), options=f"--executor {executor}")


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    for executor in ("context", "library"):
        compiled(executor)


@pytest.mark.parametrize("executor", ["context", "library"])
@on_fake()
def test_the_grid_is_made_of_the_clusters_that_fit(fake: FakeCuda, executor: str):
    function = compiled(executor).register(fake)
    a = empty((8,), weft.f32, 0)
    clusters = function(a)
    assert clusters > 1
    assert f" grid={2 * clusters},1,1 " in fake.calls("cuLaunchKernelEx")[0]
    assert function(a) == clusters
    assert len(fake.calls(NAME)) == 1


@on_fake()
def test_a_driver_that_does_not_say_is_an_error(fake: FakeCuda):
    function = compiled("context").register(fake)
    fake.fail(NAME, 1)
    with pytest.raises(CudaError, match="how many clusters of 2 blocks of nothing_kernel fit"):
        function(empty((8,), weft.f32, 0))
    assert fake.calls("cuLaunchKernelEx") == []
