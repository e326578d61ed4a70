# SPDX-License-Identifier: Apache-2.0
"""Copies of single threads into shared memory: every size and type, groups, conditions, and waits that are missing."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.sampling import sampled

DTYPES = {"u8": np.uint8, "f16": np.float16, "i32": np.int32, "f64": np.float64}
THREADS = 32


def reversing(dtype, count, swizzle):
    """A host function whose threads copy `count` elements each, and store them in the reverse order of threads."""
    columns = 128 // np.dtype(DTYPES[dtype]).itemsize
    kind = getattr(weft, dtype)
    chunks = columns // count

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor):
        tile = weft.shared((8, columns), kind, swizzle=swizzle)
        for i in range(weft.thread_idx.x, 8 * chunks, THREADS):
            place = i // chunks, i % chunks * count
            weft.cp_async.copy(tile, place, a, place, count)
        weft.cp_async.commit()
        weft.cp_async.wait()
        weft.sync_threads()
        for i in range(weft.thread_idx.x, 8 * columns, THREADS):
            b[7 - i // columns, i % columns] = tile[i // columns, i % columns]

    matrix = weft.fake_tensor(kind, (8, columns), alignment_bytes=16)

    @weft.jit
    def host(a, b):
        kernel(a, b).launch(grid=1, block=THREADS)

    return weft.compile(host, matrix, matrix, options="--target cpu"), (8, columns)


SIZES = [
    (name, nbytes // np.dtype(dtype).itemsize)
    for name, dtype in DTYPES.items()
    for nbytes in (4, 8, 16)
    if nbytes >= np.dtype(dtype).itemsize
]


@pytest.mark.parametrize("swizzle", [None, 64, 128])
@pytest.mark.parametrize(("dtype", "count"), sampled(SIZES, 3, several=True))
def test_elements_of_every_size_arrive(dtype, count, swizzle):
    host, shape = reversing(dtype, count, swizzle)
    numbers = np.arange(np.prod(shape)).reshape(shape) % 251
    a = aligned(numbers.astype(DTYPES[dtype]))
    b = aligned(np.zeros_like(a))
    host(a, b)
    np.testing.assert_array_equal(b, a[::-1])


def aligned(array):
    raw = np.zeros(array.nbytes + 16, np.uint8)
    start = -raw.ctypes.data % 16
    found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


@weft.kernel
def pipeline_kernel(a: weft.Tensor, out: weft.Tensor, pending: weft.Constexpr[int]):
    """Sums of blocks of 64, which are copied two ahead; what lies after the end counts as 0."""
    ring = weft.shared((3, 64), weft.f32)
    steps = weft.ceil_div(a.shape[0], 64)
    place = 4 * weft.thread_idx.x
    for step in weft.static_range(2):
        at = 64 * step + place
        weft.cp_async.copy(ring[step], place, a, at, 4, pred=at < a.shape[0])
        weft.cp_async.commit()
    total = weft.f32(0)
    for step in range(steps):
        weft.cp_async.wait(pending=pending)
        for i in weft.static_range(4):
            total += ring[step % 3, place + i]
        at = 64 * (step + 2) + place
        weft.cp_async.copy(ring[(step + 2) % 3], place, a, at, 4, pred=at < a.shape[0])
        weft.cp_async.commit()
    out[weft.thread_idx.x] = total


ALIGNED = weft.fake_tensor(weft.f32, (weft.sym("n", divisibility=4),), alignment_bytes=16)


@weft.jit
def pipeline(a: ALIGNED, out: weft.Tensor[weft.f32, (16,)], pending: weft.Constexpr[int]):
    pipeline_kernel(a, out, pending).launch(grid=1, block=16)


def sums(n, pending):
    a = aligned(np.arange(pending, n + pending, dtype=np.float32))
    pipeline(a, out := np.zeros(16, np.float32), pending)
    padded = np.pad(a, (0, -n % 64)).reshape(-1, 16, 4)
    return out, padded.sum((0, 2))


@pytest.mark.parametrize("n", [4, 64, 100, 640])
def test_groups_complete_in_order_and_false_conditions_write_zeros(n):
    out, expected = sums(n, 1)
    np.testing.assert_array_equal(out, expected)


def test_a_wait_for_too_little_is_a_wrong_result():
    out, expected = sums(640, 2)
    assert not np.array_equal(out, expected)


def test_a_gpu_copies_past_the_registers():
    arguments = ALIGNED, weft.fake_tensor(weft.f32, (16,)), 1
    for architecture in ("sm_80", "sm_90a", "sm_120a"):
        function = weft.compile(pipeline, *arguments, options=f"--gpu-arch {architecture}")
        assert len(re.findall(r"cp\.async\.cg\.shared\.global", function.ptx)) == 3
        assert re.search(r"cp\.async\.wait_group\s+1;", function.ptx)
        assert "LDGSTS.E.BYPASS" in function.sass and "LDGDEPBAR" in function.sass
        assert "LDG.E" not in function.sass.replace("LDGSTS", "")
    with pytest.raises(weft.UnavailableError, match=r"weft\.cp_async\.copy needs sm_80 or later"):
        weft.compile(pipeline, *arguments, options="--gpu-arch sm_75")
