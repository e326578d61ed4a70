# SPDX-License-Identifier: Apache-2.0
"""Programs without a defect are silent under all checks: examples of every way to wait and copy, and `weft.kernels`.

`WEFT_SANITIZE=all pytest tests/examples tests/kernels tests/conformance` checks the rest: only tests fail there whose
kernels are wrong on purpose.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES
from examples.common import largest_error
from tests.sampling import sampled

SIZES = {
    "block_reduction": 3000,
    "warp_reduction": 3000,
    "inclusive_scan": 3000,
    "breadth_first_search": 300,
    "floyd_warshall": 40,
    "tma_transpose": 100,
    "bulk_reduction": 3000,
    "cluster_softmax": 3,
}
BY_NAME = {example.name: example for example in (*EXAMPLES, *HOPPER_EXAMPLES)}


@pytest.mark.parametrize("name", sampled(SIZES, 3))
def test_an_example_without_a_defect_is_silent(name):
    example = BY_NAME[name]
    arguments = example.make_arguments(SIZES[name])
    expected = example.reference(**arguments)
    with weft.sanitize("all"):
        example.function(**example.call_arguments(arguments))
    for argument, array in expected.items():
        assert largest_error(arguments[argument], array) <= example.tolerance


def test_functions_of_arrays_are_silent():
    x = np.random.default_rng(1).standard_normal((3, 300)).astype(np.float32)
    with weft.sanitize("all"):
        total, shares = weft.kernels.sum(x), weft.kernels.softmax(x)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5)
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0, rtol=1e-5)


@weft.kernel
def tile_reuse_kernel(a, b, c, waits: weft.Constexpr[bool]):
    left = weft.shared((64, 64), weft.f16, swizzle=128)
    right = weft.shared((64, 64), weft.f16, swizzle=128)
    t = weft.thread_idx.x
    for i in range(t, 64 * 64, 128):
        left[i // 64, i % 64] = a[i // 64, i % 64]
        right[i // 64, i % 64] = b[i // 64, i % 64]
    weft.fence_proxy()
    weft.sync_threads()
    acc = weft.wgmma.mma(left, right.T)
    if waits:
        acc = weft.wgmma.wait(acc)
    if t == 0:
        right[0, 0] = 0
    acc.store(c, (0, 0)) if waits else weft.wgmma.wait(acc).store(c, (0, 0))


@weft.jit
def tile_reuse(a, b, c, waits: weft.Constexpr[bool]):
    tile_reuse_kernel(a, b, c, waits).launch(grid=1, block=128)


def test_a_wait_covers_the_reads_of_its_warpgroup_alone_and_whole():
    ones, out = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    with weft.sanitize("all"):
        tile_reuse(ones, ones, out, True)
        assert (out == 64).all()
        with pytest.raises(weft.SanitizerError, match="ASYNCHRONY"):
            tile_reuse(ones, ones, out, False)
