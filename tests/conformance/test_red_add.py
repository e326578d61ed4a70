# SPDX-License-Identifier: Apache-2.0
"""Sums of elements into memory: each type against NumPy, many threads at the same elements; and what a GPU does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.conformance.test_cache_hints import aligned
from tests.sampling import sampled
from weft.language.memory.atomics import RED_DTYPES

CASES = [
    (dtype, count) for dtype in RED_DTYPES for count in (2, 4, 8) if dtype.itemsize * count <= 16
]
PACKED = {weft.f32: "v4.f32", weft.f16: "noftz.v4.f16x2", weft.bf16: "noftz.v4.bf16x2"}


def adder(count, place="global"):
    """Each iteration adds its row to one of 3 rows of `out`, by a vector and, of the first column, by itself."""

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        for i in weft.each(a.shape[0]):
            values = weft.load_vector(a, (i, 0), count)
            weft.red_add(out, (i % 3, 0), values)
            weft.red_add(out, (i % 3, 0), values[0])

    @weft.kernel
    def shared_kernel(a: weft.Tensor, out: weft.Tensor):
        sums = weft.shared((8, count), a.dtype)
        if weft.thread_idx.x < 3:
            for k in range(count):
                sums[weft.thread_idx.x, k] = out[weft.thread_idx.x, k]
        weft.sync_threads()
        for i in range(weft.thread_idx.x, a.shape[0], weft.block_dim.x):
            values = weft.load_vector(a, (i, 0), count)
            weft.red_add(sums, (i % 3, 0), values)
            weft.red_add(sums, (i % 3, 0), values[0])
        weft.sync_threads()
        if weft.thread_idx.x < 3:
            weft.store_vector(
                out,
                (weft.thread_idx.x, 0),
                weft.load_vector(sums, (weft.thread_idx.x, 0), count),
            )

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        if place == "global":
            kernel(a, out).launch(grid=4, block=64)
        else:
            shared_kernel(a, out).launch(grid=1, block=64)

    return host


def parts(dtype, count, device=None):
    return [
        weft.fake_tensor(dtype, (name, count), alignment_bytes=16, device=device) for name in "mn"
    ]


@pytest.mark.parametrize(
    ("dtype", "count", "place"),
    sampled([(*case, place) for case in CASES for place in ("global", "shared")], 3, several=True),
    ids=str,
)
def test_every_element_gets_every_sum(dtype, count, place):
    kind = NUMPY_TYPES[dtype]
    numbers = np.random.default_rng(5).integers(0, 3, (61, count))  # all sums are exact
    a = aligned(numbers.astype(kind).ravel()).reshape(61, count)
    out = aligned(np.full(3 * count, 7, kind)).reshape(3, count)
    weft.compile(adder(count, place), *parts(dtype, count))(a, out)
    expected = np.array([7 + numbers[row::3].sum(axis=0) for row in range(3)])
    expected[:, 0] += [numbers[row::3, 0].sum() for row in range(3)]
    np.testing.assert_array_equal(out.astype(np.int64), expected)


@pytest.mark.parametrize("dtype", RED_DTYPES, ids=str)
def test_a_gpu_adds_16_bytes_at_a_time_where_it_can(dtype):
    count = min(16 // dtype.itemsize, 8)
    host, examples = adder(count), parts(dtype, count, "cuda")
    new = weft.compile(host, *examples, options="--gpu-arch sm_90")
    found = re.findall(r"red\.relaxed\.gpu\.global\.add\.(\S+)", new.ptx)
    assert set(found) == ({PACKED[dtype]} if dtype in PACKED else set())
    old = weft.compile(host, *examples, options="--gpu-arch sm_80")
    assert ("red.relaxed.gpu.global.add.noftz.f16x2" in old.ptx) == (dtype is weft.f16)
    assert len(new.cubin) > 0
    assert len(old.cubin) > 0


@pytest.mark.parametrize("dtype", PACKED, ids=str)
@pytest.mark.parametrize("columns", [32, "n"])
def test_a_fragment_is_added_16_bytes_at_a_time(dtype, columns):
    @weft.kernel
    def kernel(out: weft.Tensor):
        ones = weft.mma.zeros((16, 32), weft.f32).map(lambda x: x + 1)
        ones.red_add(out, (16 * weft.block_idx.x, 0))

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=2, block=32)

    example = weft.fake_tensor(dtype, ("m", columns), alignment_bytes=16, device="cuda")
    fn = weft.compile(host, example, options="--gpu-arch sm_90")
    found = re.findall(r"red\.relaxed\.gpu\.global\.add\.(\S+)", fn.ptx)
    assert found.count(PACKED[dtype]) == 64 * dtype.itemsize * 16 // (16 * 32 * 2)
    others = [form for form in found if form != PACKED[dtype]]
    assert bool(others) == (columns == "n")  # unless the rows are known to be aligned
    assert set(others) <= {"f32", "noftz.f16", "noftz.bf16"}
    assert len(fn.cubin) > 0
