# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.scaled_gemm` against NumPy in f64 of the scaled factors: each kernel, on the CPU; stacks; bad input."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.linalg import gemm_config_sm90 as hopper_plans
from weft.kernels.linalg import gemm_simt as tiled_products
from weft.kernels.linalg import gemm_sm90 as hopper_products
from weft.kernels.linalg.epilogue import Ending
from weft.kernels.linalg.scales import Scales

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


@pytest.mark.parametrize("dtype", [E4M3, ml_dtypes.float8_e5m2])
def test_each_block_has_its_scale(dtype):
    m, n, k = 5, 140, 300
    a, weight = numbers(m, k, dtype=dtype), numbers(n, k)
    of_a, of_weight = scales_of(m, blocks(k)), scales_of(blocks(n), blocks(k))
    bias, residual = numbers(n, dtype=np.float64), numbers(m, n, dtype=np.float64)
    sums = scaled(a, of_a, 1, 128) @ scaled(weight, of_weight, 128, 128).T + bias
    call = a, weight.T, of_a, of_weight.T
    found = kernels.scaled_gemm(*call, bias, "relu", residual, "float32")
    assert found.dtype == np.float32
    assert np.allclose(found, np.maximum(sums, 0) + residual, 1e-5, 1e-4)
    assert kernels.scaled_gemm(*call).dtype == ml_dtypes.bfloat16


def test_stacks_and_single_matrices():
    a, b = numbers(2, 3, 150), numbers(150, 4)
    of_a, of_b = scales_of(2, 3, 2), scales_of(2, 1)
    expected = scaled(a, of_a, 1, 128) @ scaled(b, of_b, 128, 128)
    assert np.allclose(kernels.scaled_gemm(a, b, of_a, of_b, dtype="float32"), expected, atol=1e-4)


@pytest.mark.parametrize("parts", [None, 3])
def test_kernels_of_gpus(parts):
    m, n, k = 150, 136, 400
    a, weight = numbers(2, m, k), numbers(n, k)
    of_a, of_weight = scales_of(2, m, blocks(k)), scales_of(blocks(n), blocks(k))
    expected = scaled(a, of_a, 1, 128) @ scaled(weight, of_weight, 128, 128).T
    scales, out = Scales(of_a, of_weight.T), np.zeros((2, m, n), np.float32)
    plan = hopper_plans.Plan(stacks=(True, False), by_copies=False, columns=128, is_scaled=True)
    if parts is None:
        plan = plan._replace(rows=64, parts=2)  # of a cluster
    given = aligned(a), aligned(weight), out, Ending(), plan, parts, None, scales
    hopper_products.gemm(*given)
    assert np.allclose(out, expected, 1e-5, 1e-3)
    out[:] = 0
    options = tiled_products.OF_FEW_ROWS, (True, True), parts, None, scales
    tiled_products.gemm(a, weight.T, out, Ending(), *options)
    assert np.allclose(out, expected, 1e-5, 1e-3)


def test_the_loop_of_tensor_cores_spills_nothing():
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
    plan = hopper_plans.Plan(columns=128, is_scaled=True)
    arguments = a, b, c, Ending(), plan, None, None, scales
    found = weft.compile(hopper_products.gemm, *arguments, options="--gpu-arch sm_90a")
    assert (found.remarks, found.kernels["gemm_kernel"].spill_load_bytes) == ((), 0)


def test_empty_arrays():
    empty, scales = np.ones((0, 128), E4M3), np.ones((0, 1), np.float32)
    one, of_one = np.ones((128, 3), E4M3), np.ones((1, 1), np.float32)
    assert kernels.scaled_gemm(empty, one, scales, of_one).shape == (0, 3)
    found = kernels.scaled_gemm(empty.T, empty[:, :3], scales.T.repeat(128, 0), scales)
    assert found.shape == (128, 3) and (found == 0).all()


def test_bad_input_is_refused_by_name():
    a, b = np.ones((4, 200), E4M3), np.ones((200, 5), E4M3)
    of_a, of_b = np.ones((4, 2), np.float32), np.ones((2, 1), np.float32)

    def call(
        a: Any = a, b: Any = b, a_scales: Any = of_a, b_scales: Any = of_b, **others: Any
    ) -> Any:
        return lambda: kernels.scaled_gemm(a, b, a_scales, b_scales, **others)

    for error, text, refused in (
        (TypeError, "a has elements of float32, expected 8-bit", call(a=a.astype("f"))),
        (TypeError, "b has elements of float64, expected 8-bit", call(b=b.astype("d"))),
        (ValueError, r"a_scales has shape \(4, 1\), expected \(4, 2\)", call(a_scales=of_a[:, :1])),
        (ValueError, r"b_scales has shape \(1, 2\), expected \(2, 1\)", call(b_scales=of_b.T)),
        (TypeError, "b_scales has elements of float64, expected", call(b_scales=of_b.astype("d"))),
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
    of_a, of_b = torch.rand(4, 2), torch.rand(1, 2)

    def program(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        return kernels.scaled_gemm(a, b.mT, of_a, of_b.mT, activation="relu", dtype=torch.float32)

    found = program(a, b, of_a, of_b)
    wide = a.double() * of_a.repeat_interleave(128, 1), b.double() * of_b.repeat_interleave(128, 1)
    assert torch.allclose(found.double(), torch.relu(wide[0] @ wide[1].T), 1e-5, 1e-4)
    compiled = torch.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(a, b, of_a, of_b), found)
