# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.scaled_gemm` against NumPy in f64 with scaled operands: each kernel, on the CPU; stacks; bad input."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.kernels.counting import like_ampere, like_hopper
from tests.sampling import sampled
from weft import kernels
from weft.kernels.linalg import gemm_simt, gemm_sm90
from weft.kernels.linalg.epilogue import IDENTITY
from weft.kernels.linalg.gemm_config_sm90 import GemmConfig
from weft.kernels.linalg.operands import Scales

RANDOM = np.random.default_rng(10)
E4M3 = ml_dtypes.float8_e4m3fn


def numbers(*shape: int, dtype: object = E4M3) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def scales_of(*shape: int) -> np.ndarray:
    return np.exp(RANDOM.standard_normal(shape)).astype(np.float32)


def blocks(length: int) -> int:
    return -(-length // 128)


def scaled(a: np.ndarray, scales: np.ndarray, *sides: int) -> np.ndarray:
    """The elements times their scales, in f64."""
    for axis, side in zip((-2, -1), sides, strict=True):
        scales = scales.repeat(side, axis)
    return a.astype(np.float64) * scales[..., : a.shape[-2], : a.shape[-1]]


def aligned(a: np.ndarray) -> weft.ffi.Tensor:
    return weft.copy(weft.empty(a.shape, weft.f8e4m3), np.ascontiguousarray(a))


@pytest.mark.parametrize("dtype", sampled([E4M3, ml_dtypes.float8_e5m2], 2))
def test_each_block_has_its_scale(dtype):
    m, n, k = 5, 140, 300
    a, weight = numbers(m, k, dtype=dtype), numbers(n, k)
    scale_a, scale_weight = scales_of(m, blocks(k)), scales_of(blocks(n), blocks(k))
    bias, residual = numbers(n, dtype=np.float64), numbers(m, n, dtype=np.float64)
    sums = scaled(a, scale_a, 1, 128) @ scaled(weight, scale_weight, 128, 128).T + bias
    call = a, weight.T, scale_a, scale_weight.T
    found = kernels.scaled_gemm(*call, bias, "relu", residual, "float32")
    assert found.dtype == np.float32
    assert np.allclose(found, np.maximum(sums, 0) + residual, 1e-5, 1e-4)
    assert kernels.scaled_gemm(*call).dtype == ml_dtypes.bfloat16


def test_stacks_and_single_matrices():
    a, b = numbers(2, 3, 150), numbers(150, 4)
    scale_a, scale_b = scales_of(2, 3, 2), scales_of(2, 1)
    expected = scaled(a, scale_a, 1, 128) @ scaled(b, scale_b, 128, 128)
    assert np.allclose(
        kernels.scaled_gemm(a, b, scale_a, scale_b, dtype="float32"), expected, atol=1e-4
    )


@pytest.mark.parametrize("like", [like_ampere, like_hopper], ids=["sm80", "sm90"])
def test_kernels_that_a_gpu_runs(like, monkeypatch):
    m, n, k = 70, 136, 400
    a, weight = numbers(2, m, k), numbers(n, k)
    scale_a, scale_weight = scales_of(2, m, blocks(k)), scales_of(blocks(n), blocks(k))
    expected = scaled(a, scale_a, 1, 128) @ scaled(weight, scale_weight, 128, 128).T
    like(monkeypatch)
    left, right = np.asarray(aligned(a)), np.asarray(aligned(weight)).T
    found = kernels.scaled_gemm(left, right, scale_a, scale_weight.T, dtype="float32")
    assert np.allclose(found, expected, 1e-5, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("num_splits", sampled([None, 3], 2))
def test_gpu_kernels_with_split_k(num_splits):
    m, n, k = 150, 136, 400
    a, weight = numbers(2, m, k), numbers(n, k)
    scale_a, scale_weight = scales_of(2, m, blocks(k)), scales_of(blocks(n), blocks(k))
    expected = scaled(a, scale_a, 1, 128) @ scaled(weight, scale_weight, 128, 128).T
    scales, out = Scales(scale_a, scale_weight.T), np.zeros((2, m, n), np.float32)
    config = GemmConfig(batched=(True, False), tma_store=False, bn=128, scaled=True)
    if num_splits is None:
        config = config._replace(bm=64, cluster_k=2)
    options = config, num_splits, None, scales
    gemm_sm90.gemm(aligned(a), aligned(weight), out, IDENTITY, *options)
    assert np.allclose(out, expected, 1e-5, 1e-3)
    out[:] = 0
    options = gemm_simt.FEW_ROWS, (True, True), num_splits, None, scales
    gemm_simt.gemm(a, weight.T, out, IDENTITY, *options)
    assert np.allclose(out, expected, 1e-5, 1e-3)


def test_scaled_mainloop_does_not_spill():
    rows = [weft.sym(name, divisibility=16) for name in "mnk"]
    a, b, c = (
        weft.fake_tensor(kind, shape, alignment_bytes=16)
        for kind, shape in (
            (weft.f8e4m3, (rows[0], rows[2])),
            (weft.f8e4m3, (rows[1], rows[2])),
            (weft.bf16, rows[:2]),
        )
    )
    scales = Scales(*(weft.fake_tensor(weft.f32, (None, None)) for _ in "ab"))
    arguments = a, b, c, IDENTITY, GemmConfig(bn=128, scaled=True), None, None, scales
    found = weft.compile(gemm_sm90.gemm, *arguments, options="--gpu-arch sm_90a")
    assert (found.remarks, found.kernels["gemm_kernel"].spill_load_bytes) == ((), 0)


def test_empty_arrays():
    empty, scales = np.ones((0, 128), E4M3), np.ones((0, 1), np.float32)
    one, scale_one = np.ones((128, 3), E4M3), np.ones((1, 1), np.float32)
    assert kernels.scaled_gemm(empty, one, scales, scale_one).shape == (0, 3)
    found = kernels.scaled_gemm(empty.T, empty[:, :3], scales.T.repeat(128, 0), scales)
    assert found.shape == (128, 3) and (found == 0).all()


def test_bad_input_is_refused_by_name():
    a, b = np.ones((4, 200), E4M3), np.ones((200, 5), E4M3)
    scale_a, scale_b = np.ones((4, 2), np.float32), np.ones((2, 1), np.float32)

    def call(
        a: Any = a, b: Any = b, scale_a: Any = scale_a, scale_b: Any = scale_b, **others: Any
    ) -> Any:
        return lambda: kernels.scaled_gemm(a, b, scale_a, scale_b, **others)

    for error, text, refused in (
        (TypeError, "a has elements of float32, expected 8-bit", call(a=a.astype("f"))),
        (TypeError, "b has elements of float64, expected 8-bit", call(b=b.astype("d"))),
        (
            ValueError,
            r"scale_a has shape \(4, 1\), expected \(4, 2\)",
            call(scale_a=scale_a[:, :1]),
        ),
        (ValueError, r"scale_b has shape \(1, 2\), expected \(2, 1\)", call(scale_b=scale_b.T)),
        (TypeError, "scale_b has elements of float64, expected", call(scale_b=scale_b.astype("d"))),
        (ValueError, "bias has shape", call(bias=np.ones(4))),
        (ValueError, "residual has shape", call(residual=np.ones((4, 4)))),
        (TypeError, "dtype is 'int8'", call(dtype="int8")),
    ):
        with pytest.raises(error, match=text):
            refused()


@pytest.mark.slow
@pytest.mark.torch
def test_tensors_of_torch_and_its_compiler():
    import torch

    a, b = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((4, 256), (8, 256)))
    scale_a, scale_b = torch.rand(4, 2), torch.rand(1, 2)

    def program(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        return kernels.scaled_gemm(
            a, b.mT, scale_a, scale_b.mT, activation="relu", dtype=torch.float32
        )

    found = program(a, b, scale_a, scale_b)
    wide = (
        a.double() * scale_a.repeat_interleave(128, 1),
        b.double() * scale_b.repeat_interleave(128, 1),
    )
    assert torch.allclose(found.double(), torch.relu(wide[0] @ wide[1].T), 1e-5, 1e-4)
    compiled = torch.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(a, b, scale_a, scale_b), found)
