# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.gemm` against NumPy in f64: each kernel, on the CPU, in each layout; epilogues; bad input."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.kernels.counting import like_ampere, like_hopper
from tests.sampling import sampled
from weft import kernels
from weft.kernels.host import devices
from weft.kernels.host.arrays import describe
from weft.kernels.linalg import gemm_config_sm90 as sm90_config
from weft.kernels.linalg import gemm_simt, gemm_sm80, gemm_sm90
from weft.kernels.linalg.epilogue import ACTIVATIONS, IDENTITY, epilogue_of
from weft.kernels.linalg.gemm_config_sm90 import GemmConfig
from weft.kernels.linalg.operands import layout_of
from weft.kernels.linalg.split_k import num_splits_for

RANDOM = np.random.default_rng(8)


@pytest.fixture
def sm90(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls on the CPU run the kernels that an H200 would."""
    like_hopper(monkeypatch)


def numbers(*shape: int, dtype: object = np.float64) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def aligned(a: np.ndarray) -> weft.ffi.Tensor:
    return weft.copy(weft.empty(a.shape, weft.f16), np.ascontiguousarray(a))


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 20, 50), (0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_every_shape_is_right(shape):
    m, n, k = shape
    a, weight = numbers(m, k), numbers(n, k)
    assert np.allclose(kernels.matmul(a, weight.T), a @ weight.T)


def test_stacks_and_single_matrices():
    a, b = numbers(2, 3, 5, 7), numbers(2, 3, 7, 4)
    for left, right in ((a, b), (a, b[0, 0]), (a[0, 0], b), (a[::-1, :, ::2, ::-1], b)):
        found = kernels.matmul(left, right)
        assert np.allclose(found, left @ right)


@pytest.mark.slow
def test_epilogue_of_bias_activation_and_residual():
    a, b, bias, residual = numbers(9, 7), numbers(7, 10), numbers(10), numbers(9, 10)
    sums = 0.5 * a @ b + bias
    silu = sums / (1 + np.exp(-sums))
    options = {"alpha": 0.5, "beta": 2.0, "residual": residual}
    found = kernels.gemm(a, b, bias, "silu", **options)
    assert np.allclose(found, silu + 2 * residual)
    found = kernels.gemm(a, b, bias, lambda x: x * x, **options, dtype="float32")
    assert found.dtype == np.float32 and np.allclose(found, sums**2 + 2 * residual, 1e-5)
    expected, memory = a @ b + 2 * residual, np.zeros((9, 20))
    assert kernels.gemm(a, b, residual=residual, beta=2.0, out=residual) is residual
    assert np.allclose(residual, expected)
    memory[:, :7] = a
    kernels.gemm(memory[:, :7], b, out=memory[:, 10:])
    assert np.allclose(memory[:, 10:], a @ b)


def with_numbers(name: str) -> Any:
    """An activation with parameters, if it has some."""
    numbers = (-0.5, 0.75, 2.0)[: len(ACTIVATIONS[name].parameters)]
    return (name, *numbers) if numbers else name


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients_are_those_of_torch(name):
    import torch

    torch.manual_seed(3)
    a, b, bias = (torch.randn(s, dtype=torch.float64) for s in ((5, 4), (4, 3), 3))
    inputs = [one.requires_grad_() for one in (a, b, bias)]
    activation = with_numbers(name)
    numbers = activation[1:] if name != activation else ()
    found = kernels.gemm(a, b, bias, activation, alpha=0.5)
    expected = ACTIVATIONS[name].by_torch(torch.nn.functional, 0.5 * a @ b + bias, *numbers)
    assert torch.allclose(found, expected)
    gradient = torch.randn(5, 3, dtype=torch.float64)
    pairs = [torch.autograd.grad(one, inputs, gradient) for one in (found, expected)]
    assert all(torch.allclose(*pair) for pair in zip(*pairs, strict=True))
    compiled = torch.compile(kernels.gemm, backend="eager", fullgraph=True)
    assert torch.equal(compiled(a, b, bias, activation, alpha=0.5), found)


NARROW = {"bm": 64, "bn": 16, "cluster_k": 4, "pending": 1, "tma_store": False}
SPLIT = {"bm": 64, "bn": 64, "cluster_k": 4, "pending": 1, "tma_store": False}


@pytest.mark.parametrize(
    ("a_k_major", "b_k_major", "tile"),
    sampled(
        [
            (True, True, {}),
            (False, True, NARROW),
            (True, False, SPLIT),
            (False, False, {"bn": 64, "cluster_m": 2}),
        ],
        3,
        several=True,
    ),
)
def test_tensor_core_kernels_take_either_layout(a_k_major, b_k_major, tile, monkeypatch):
    a, b = numbers(2, 72, 72, dtype=np.float16), numbers(72, 136, dtype=np.float16)
    bias, residual = numbers(136), numbers(2, 72, 136)
    expected = 0.5 * (a.astype(np.float64) @ b) + bias + 2 * residual
    epilogue = epilogue_of(bias, None, residual, 0.5, 2.0)
    left = aligned(a if a_k_major else a.swapaxes(1, 2))
    right = aligned(b.T if b_k_major else b)
    c = aligned(np.zeros((2, 72, 136), np.float16))
    config = GemmConfig(a_k_major, b_k_major, (True, False))._replace(**tile)
    gemm_sm90.gemm(left, right, c, epilogue, config)
    assert np.allclose(np.asarray(c), expected, atol=2e-2)
    like_ampere(monkeypatch)
    left = np.asarray(left) if a_k_major else np.asarray(left).swapaxes(1, 2)
    right = np.asarray(right).T if b_k_major else np.asarray(right)
    found = kernels.gemm(left, right, bias, None, residual, 0.5, 2.0)
    assert found.dtype == np.float16 and np.allclose(found, expected, atol=2e-2)


@pytest.mark.parametrize(
    ("a_k_major", "b_k_major", "num_splits"),
    sampled([(True, True, None), (False, False, 2), (True, False, 3)], 2, several=True),
)
def test_f32_by_asynchronous_copies(a_k_major, b_k_major, num_splits):
    own, config = gemm_simt, gemm_simt.SimtConfig(64, 64, 16, 4, 4, 4)
    a, b = numbers(2, 72, 100, dtype=np.float32), numbers(100, 68, dtype=np.float32)
    bias, residual = numbers(68), numbers(2, 72, 68)
    left, right = (
        weft.copy(weft.empty(one.shape, weft.f32), np.ascontiguousarray(one))
        for one in (a if a_k_major else a.swapaxes(1, 2), b.T if b_k_major else b)
    )
    vector = 1 if a_k_major and b_k_major else 4
    options = (
        epilogue_of(bias, "relu", residual, 0.5, 2.0),
        config,
        a_k_major,
        b_k_major,
        vector,
        num_splits,
    )
    own.gemm_f32(left, right, c := np.zeros((2, 72, 68)), *options)
    sums = 0.5 * (a.astype(np.float64) @ b) + bias
    assert np.allclose(c, np.maximum(sums, 0) + 2 * residual, atol=1e-4)


def test_split_k_with_an_epilogue():
    bias, residual = numbers(24), numbers(2, 9, 24)
    epilogue = epilogue_of(bias, "relu", residual, 0.5, 2.0)
    config = GemmConfig(True, False, (True, False), False, 64)
    for k, num_splits in ((200, 3), (520, 7)):
        a, b = numbers(2, 9, k, dtype=np.float16), numbers(k, 24, dtype=np.float16)
        left, right = aligned(a), aligned(b)
        c = [np.zeros((2, 9, 24)) for _ in range(3)]
        gemm_sm90.gemm(left, right, c[0], epilogue, config, num_splits)
        gemm_sm80.gemm(left, right, c[1], epilogue, True, False, True, num_splits)
        gemm_simt.gemm(a, b, c[2], epilogue, gemm_simt.CPU, (True, False), num_splits)
        sums = 0.5 * (a.astype(np.float64) @ b) + bias
        assert np.allclose(c, np.maximum(sums, 0) + 2 * residual, atol=1e-4)


@pytest.mark.parametrize("shape", sampled([(3, 200), (200, 3), (130, 129)], 3))
def test_each_simt_tile(shape):
    m, n = shape
    a, b = numbers(m, 40, dtype=np.float32), numbers(40, n, dtype=np.float32)
    config = gemm_simt.simt_config(False, shape, False)
    c = np.zeros(shape, np.float32)
    gemm_simt.gemm(a, b, c, IDENTITY, config, (True, False), None)
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-4)


def test_number_of_splits():
    assert num_splits_for(32, 8192, 132, 512, 64) == 4
    assert num_splits_for(1, 4096, 132, 512, 64) == 8
    assert num_splits_for(32, 4096, 132, 512, 3) == 3
    assert num_splits_for(67, 8192, 132, 512, 64) is None  # half of the blocks work
    assert num_splits_for(1, 1023, 132, 512, 64) is None
    assert num_splits_for(32, 1024, 132, 512, 1) is None
    assert num_splits_for(0, 8192, 0, 512, 0) is None


def test_tilings_for_sm90():
    choices = sm90_config.bn_choices
    for shape, k in (((4096, 4096), 4096), ((8, 1024, 1024), 1024), ((8192, 8192), 1024)):
        found = sm90_config.choose_tiling(shape, k, 2, 132, choices(shape[-1], True, False))
        assert found == sm90_config.Tiling()
    for m, n, k in itertools.product((1, 16, 100, 1024), (8, 16, 100, 8192), (8, 1000, 100_000)):
        for bns in (choices(n, True, False), choices(n, False, False), choices(n, True, True)):
            found = sm90_config.choose_tiling((m, n), k, 2, 132, bns)
            bm, bn, cluster_k, cluster_m, num_splits = found
            config = GemmConfig(bm=bm, bn=bn, cluster_k=cluster_k)
            assert bn in bns and bn % (8 * config.reducers) == 0 and config.stages(2) > 2
            assert cluster_k <= max(k // 64, 1) and (bm == 64 or m > 64)
            clusters = cluster_k, cluster_m
            assert clusters == (1, 1) if num_splits else 1 in clusters
    choose = sm90_config.choose_tiling
    assert choose((1024, 16), 8192, 2, 132, (16,)).cluster_k > 1
    assert choose((128, 8192), 8192, 2, 132, choices(8192, True, False)).cluster_m == 2
    assert choose((128, 128), 100_000, 2, 132, choices(128, True, False)).num_splits


@pytest.mark.parametrize(
    "shape", sampled([(5, 200, 1000), (2, 3, 72, 128), (33, 72, 72), (72, 24, 600)], 2)
)
def test_small_m_or_n_on_sm90(shape, sm90):
    *stack, m, n, k = shape
    a, b = numbers(*stack, m, k, dtype=np.float16), numbers(n, k, dtype=np.float16)
    bias, residual = numbers(n), numbers(*stack, m, n, dtype=np.float16)
    expected = np.maximum(0.5 * (a.astype(np.float64) @ b.T.astype(np.float64)) + bias, 0)
    found = kernels.gemm(
        np.asarray(aligned(a)), np.asarray(aligned(b)).T, bias, "relu", residual, 0.5
    )
    assert np.allclose(found, expected + residual, 2e-3, 2e-2)


@pytest.mark.slow
def test_swapped_operands_with_split_k_keep_the_bias(sm90):
    m, n, k = 16, 128, 40_000
    assert sm90_config.choose_tiling((n, m), k, 2, 132, (16,)).num_splits
    a, b = (numbers(rows, k, dtype=np.float16) / np.float16(16) for rows in (m, n))
    bias, residual = numbers(n), numbers(m, n)
    left, right = np.asarray(aligned(a)), np.asarray(aligned(b)).T
    found = kernels.gemm(left, right, bias, None, residual, dtype="float32")
    expected = a.astype(np.float64) @ b.T.astype(np.float64) + bias + residual
    assert np.allclose(found, expected, atol=1e-3)


CONFIGS = [
    GemmConfig(bm=bm, bn=bn, cluster_k=cluster_k, pending=int(bm == 64))
    for bm, bn, cluster_k in itertools.product((64, 128), (16, 32, 64, 128, 256), (1, 2, 4, 8))
    if bn % (8 * cluster_k) == 0
]


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_tile_assembles_for_sm90(config):
    if config.stages(2) < 3:
        return
    m, n, k = (weft.sym(name, divisibility=8) for name in "mnk")
    a, b, c = (
        weft.fake_tensor(weft.bf16, shape, alignment_bytes=16) for shape in ((m, k), (n, k), (m, n))
    )
    config = config._replace(tma_store=config.cluster_k == 1 and config.bn % 64 == 0)
    arguments = a, b, c, IDENTITY, config
    found = weft.compile(gemm_sm90.gemm, *arguments, options="--gpu-arch sm_90a")
    assert (found.remarks, found.kernels["gemm_kernel"].spill_load_bytes) == ((), 0)


def test_unaligned_operands_pass_through_registers(monkeypatch):
    a, b = numbers(3, 9, dtype=np.float16), numbers(9, 5, dtype=np.float16)
    like_ampere(monkeypatch)
    found = kernels.gemm(a, np.ascontiguousarray(b.T).T, dtype="float32")
    assert np.allclose(found, a.astype(np.float64) @ b, atol=2e-2)


def test_layouts_of_operands():
    table = weft.empty((4, 16, 24), weft.f16)
    whole = np.asarray(table)
    for view, expected in (
        (whole, (False, True, True, True)),
        (whole.swapaxes(1, 2), (True, True, True, True)),
        (whole[..., :20], (False, True, True, False)),
        (whole[..., 1:17], (False, True, False, False)),
        (whole[..., ::2], (False, False, False, False)),
        (np.broadcast_to(whole[:1], (4, 16, 24)), (False, True, False, False)),
    ):
        assert layout_of(describe(view, "a"), views := [])[1:] == expected
        assert len(views) == expected[0]


def test_a_gpu_is_asked_for_its_facts(monkeypatch):
    asked: list[int] = []

    class Found:
        compute_capability, multiprocessor_count = (9, 0), 132
        max_shared_memory_per_block_bytes = 227 << 10

    monkeypatch.setattr(
        devices, "device_properties", lambda ordinal: asked.append(ordinal) or Found
    )
    found = devices._known.__wrapped__(weft.ffi.Device("cuda:1"))
    assert found == ((9, 0), 132, 227 << 10) and asked == [1]
    assert devices.capabilities(weft.ffi.Device("cpu")).number == 0
    assert devices.multiprocessors_of(weft.ffi.Device("cpu")) == 0


def test_8_bit_floats_are_summed_in_f32():
    a, b = numbers(5, 300).astype(ml_dtypes.float8_e4m3fn), numbers(300, 6)
    b = b.astype(ml_dtypes.float8_e5m2)
    found = kernels.matmul(a, b)
    assert found.dtype == ml_dtypes.bfloat16
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(found.astype(np.float64), expected, 2**-8, 1e-2)


@pytest.mark.slow
def test_kernels_assemble_for_gpus():
    half, whole = (weft.fake_tensor(t, (None, None)) for t in (weft.bf16, weft.f32))
    simt = weft.compile(
        *(gemm_simt.gemm, whole, whole, whole, IDENTITY, gemm_simt.F32, (True, False)),
        options="--gpu-arch sm_90a",
    )
    assert simt.kernels["gemm_kernel"].spill_load_bytes == 0
    wide = weft.fake_tensor(weft.f64, (None, None))
    split = weft.compile(
        *(gemm_simt.gemm, wide, wide, wide, IDENTITY, gemm_simt.F64, (True, False), 3),
        options="--gpu-arch sm_90a",
    )
    assert "LDG.E.128" in split.sass
    for k_major, vector in ((True, 1), (False, 4)):
        asynchronous = weft.compile(
            *(gemm_simt.gemm_f32, whole, whole, whole, IDENTITY, gemm_simt.SQUARE),
            *(k_major, True, vector),
            options="--gpu-arch sm_90a",
        )
        assert asynchronous.kernels["gemm_f32_kernel"].registers <= 128
    for copies in (False, True):
        arguments = half, half, half, IDENTITY, True, False, copies
        sm80 = weft.compile(gemm_sm80.gemm, *arguments, options="--gpu-arch sm_80")
        assert "mma.sync" in sm80.ptx and ("cp.async.cg" in sm80.ptx) == copies


def test_bad_input_is_refused_by_name():
    a, b, x, y = numbers(3, 4), numbers(4, 5), numbers(4, 4), numbers(4, 4)
    fixed = numbers(4, 4)
    fixed.flags.writeable = False
    for error, text, call in (
        (
            TypeError,
            "a has elements of int64, expected floats",
            lambda: kernels.matmul(np.ones((3, 4), np.int64), b),
        ),
        (
            TypeError,
            "b has elements of float32, expected float64",
            lambda: kernels.matmul(a, b.astype("f")),
        ),
        (ValueError, "b has shape .*, expected 3 rows", lambda: kernels.matmul(b.T[:, :3], b)),
        (ValueError, "a has shape .*, expected a matrix", lambda: kernels.matmul(a[0], b)),
        (ValueError, "b is a stack", lambda: kernels.matmul(a[None], np.stack([b, b]))),
        (ValueError, r"bias has shape \(4,\), expected \(5,\)", lambda: kernels.gemm(a, b, a[0])),
        (ValueError, "activation is 'tan'", lambda: kernels.gemm(a, b, activation="tan")),
        (
            ValueError,
            r"activation is \('relu', 1\), expected 'relu'",
            lambda: kernels.gemm(a, b, activation=("relu", 1)),
        ),
        (
            ValueError,
            r"expected \('leaky_relu', 'negative_slope'\)",
            lambda: kernels.gemm(a, b, activation="leaky_relu"),
        ),
        (
            TypeError,
            "negative_slope of leaky_relu is 'x', expected a number",
            lambda: kernels.gemm(a, b, activation=("leaky_relu", "x")),
        ),
        (TypeError, "activation is 3, expected", lambda: kernels.gemm(a, b, activation=3)),
        (TypeError, "alpha is 'a', expected a number", lambda: kernels.gemm(a, b, alpha="a")),
        (TypeError, r"beta is \[1\], expected a number", lambda: kernels.gemm(a, b, beta=[1])),
        (ValueError, "residual has shape", lambda: kernels.gemm(a, b, residual=a)),
        (
            ValueError,
            "out overlaps with a, expected memory of its own",
            lambda: kernels.gemm(x, y, out=x),
        ),
        (ValueError, "out overlaps with b, expected memory", lambda: kernels.matmul(y, x, out=x)),
        (ValueError, "out overlaps with bias,", lambda: kernels.gemm(y, y, x[2], out=x)),
        (
            ValueError,
            "out overlaps with residual, expected residual itself or memory of its own",
            lambda: kernels.gemm(y, y, residual=x.T, out=x),
        ),
        (
            ValueError,
            "^out is read-only, expected writable",
            lambda: kernels.matmul(x, x, out=fixed),
        ),
        (TypeError, "dtype is 'int32', expected", lambda: kernels.gemm(a, b, dtype="int32")),
        (TypeError, "dtype is 'f33', expected", lambda: kernels.gemm(a, b, dtype="f33")),
    ):
        with pytest.raises(error, match=text):
            call()
