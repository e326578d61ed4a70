# SPDX-License-Identifier: Apache-2.0
"""Conversions from and to 8-bit floats, by pairs on a GPU: every value, and what lies between two."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, run_threads
from tests.conformance.test_small_floats import EIGHT_BITS, bits, every_value, nearest, wide
from tests.sampling import sampled

OTHERS = (weft.f32, weft.f16, weft.bf16, weft.f64)
TOGETHER = """
x, y, z = a[3 * i], a[3 * i + 1], a[3 * i + 2]
u, v, w = weft.{to}(x), weft.{to}(y), weft.{to}(z)
out[3 * i] = u
out[3 * i + 1] = v
out[3 * i + 2] = w
"""


def converted(values: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """Three in each thread: a pair, and one by itself."""
    a = np.resize(values, -(-len(values) // 3) * 3)
    out = np.zeros(len(a), NUMPY_TYPES[dtype])
    run_threads(TOGETHER.format(to=dtype), len(a) // 3, {"a": a, "out": out})
    return out[: len(values)]


@pytest.mark.parametrize("dtype", sampled(OTHERS, 2), ids=str)
@pytest.mark.parametrize("source", EIGHT_BITS, ids=str)
def test_every_8_bit_float_is_widened_exactly(source, dtype):
    values = every_value(source)
    got = converted(values, dtype)
    with np.errstate(invalid="ignore"):
        assert (bits(got) == bits(values.astype(np.float32).astype(NUMPY_TYPES[dtype]))).all()


@pytest.mark.parametrize("source", sampled(OTHERS, 2), ids=str)
@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
def test_values_and_what_lies_between_are_rounded_to_the_nearest(dtype, source):
    numpy_type = NUMPY_TYPES[source]
    grid = np.unique(wide(every_value(dtype)))
    grid = grid[np.isfinite(grid)]
    middles = ((grid[1:] + grid[:-1]) / 2).astype(numpy_type)
    beside = [np.nextafter(middles, middles.dtype.type(x)) for x in (-np.inf, np.inf)]
    far = np.array([np.inf, -np.inf, np.nan, -0.0, 460.0, 470.0, 60000.0, 1e-30], numpy_type)
    values = np.concatenate([grid.astype(numpy_type), middles, *beside, far])
    got = converted(values, dtype)
    assert (bits(got) == bits(nearest(wide(values), dtype))).all()


def copier(count):
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        i = count * weft.thread_idx.x
        weft.store_vector(out, i, tuple(out.dtype(x) for x in weft.load_vector(a, i, count)))

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=32)

    return host


def code(source, dtype, count, architecture):
    examples = [
        weft.fake_tensor(one, (name,), alignment_bytes=16, device="cuda")
        for one, name in ((source, "m"), (dtype, "n"))
    ]
    return weft.compile(copier(count), *examples, options=f"--gpu-arch {architecture}")


@pytest.mark.parametrize(
    ("byte", "other", "count"),
    sampled(
        [
            (byte, *other)
            for byte in EIGHT_BITS
            if byte.info.ptx_pair
            for other in ((weft.f32, 4), (weft.f16, 8), (weft.bf16, 8))
        ],
        3,
        several=True,
    ),
    ids=str,
)
def test_a_gpu_converts_two_at_a_time(byte, other, count):
    name = byte.info.ptx_pair
    widened = code(byte, other, count, "sm_89")
    assert len(re.findall(rf"cvt\.rn\.f16x2\.{name}\b", widened.ptx)) == count // 2
    narrowed = code(other, byte, count, "sm_90a")
    assert len(re.findall(rf"cvt\.rn\.satfinite\.{name}\.f32", narrowed.ptx)) == count // 2
    assert len(re.findall(r"F2FP\.SATFINITE", narrowed.sass)) == count // 2
    assert name not in code(byte, other, count, "sm_80").ptx
