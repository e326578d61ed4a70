# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.gemm` against NumPy in f64: each kernel, on the CPU, in each layout; endings; bad input."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.host import devices
from weft.kernels.host.arrays import given
from weft.kernels.linalg import dispatch
from weft.kernels.linalg import gemm_config_sm90 as hopper_plans
from weft.kernels.linalg import gemm_simt as tiled_products
from weft.kernels.linalg import gemm_simt_f32 as thread_products
from weft.kernels.linalg import gemm_sm80 as warp_products
from weft.kernels.linalg import gemm_sm90 as hopper_products
from weft.kernels.linalg.epilogue import Ending
from weft.kernels.linalg.operands import stored
from weft.kernels.linalg.split_k import parts_for
from weft.kernels.nn.activation import relu

RANDOM = np.random.default_rng(8)


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
def test_a_product_ends_with_bias_activation_and_residual():
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


NARROW = {"rows": 64, "columns": 16, "parts": 4, "pending": 1, "by_copies": False}
IN_PARTS = {"rows": 64, "columns": 64, "parts": 4, "pending": 1, "by_copies": False}


@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (True, True, {}),
        (False, True, NARROW),
        (True, False, IN_PARTS),
        (False, False, {"columns": 64, "neighbors": 2}),
    ],
)
def test_kernels_of_tensor_cores_take_factors_in_either_order(rows, columns, tile):
    a, b = numbers(2, 72, 72, dtype=np.float16), numbers(72, 136, dtype=np.float16)
    bias, residual = numbers(136), numbers(2, 72, 136)
    expected = 0.5 * (a.astype(np.float64) @ b) + bias + 2 * residual
    ending = Ending(0.5, bias, None, 2.0, residual)
    left, right = aligned(a if rows else a.swapaxes(1, 2)), aligned(b.T if columns else b)
    c = aligned(np.zeros((2, 72, 136), np.float16))
    plan = hopper_plans.Plan(rows, columns, (True, False))._replace(**tile)
    hopper_products.gemm(left, right, c, ending, plan)
    assert np.allclose(np.asarray(c), expected, atol=2e-2)
    warp_products.gemm_of_chunks(left, right, c, ending, rows, columns)
    assert np.allclose(np.asarray(c), expected, atol=2e-2)


@pytest.mark.parametrize(
    ("rows", "columns", "parts"), [(True, True, None), (False, False, 2), (True, False, 3)]
)
def test_products_of_f32_by_copies_of_threads(rows, columns, parts):
    own, sizes = thread_products, tiled_products.Sizes(64, 64, 16, 4, 4, 4)
    a, b = numbers(2, 72, 100, dtype=np.float32), numbers(100, 68, dtype=np.float32)
    bias, residual = numbers(68), numbers(2, 72, 68)
    left, right = (
        weft.copy(weft.empty(one.shape, weft.f32), np.ascontiguousarray(one))
        for one in (a if rows else a.swapaxes(1, 2), b.T if columns else b)
    )
    call = own.gemm if rows and columns else own.gemm_of_chunks
    ending = Ending(0.5, bias, relu, 2.0, residual)
    call(left, right, c := np.zeros((2, 72, 68)), ending, sizes, rows, columns, parts)
    sums = 0.5 * (a.astype(np.float64) @ b) + bias
    assert np.allclose(c, np.maximum(sums, 0) + 2 * residual, atol=1e-4)


def test_parts_of_long_sums_are_added_in_their_order():
    bias, residual = numbers(24), numbers(2, 9, 24)
    ending = Ending(0.5, bias, relu, 2.0, residual)
    plan = hopper_plans.Plan(True, False, (True, False), False, 64)
    for k, parts in ((200, 3), (520, 7)):
        a, b = numbers(2, 9, k, dtype=np.float16), numbers(k, 24, dtype=np.float16)
        left, right = aligned(a), aligned(b)
        c = [np.zeros((2, 9, 24)) for _ in range(3)]
        hopper_products.gemm(left, right, c[0], ending, plan, parts)
        warp_products.gemm_of_chunks(left, right, c[1], ending, True, False, parts)
        tiled_products.gemm(a, b, c[2], ending, tiled_products.OF_CPU, (True, False), parts)
        sums = 0.5 * (a.astype(np.float64) @ b) + bias
        assert np.allclose(c, np.maximum(sums, 0) + 2 * residual, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 200), (200, 3), (130, 129)])
def test_each_size_of_tile_is_right(shape):
    m, n = shape
    a, b = numbers(m, 40, dtype=np.float32), numbers(40, n, dtype=np.float32)
    sizes = tiled_products.sizes_for(False, shape, False)
    c = np.zeros(shape, np.float32)
    tiled_products.gemm(a, b, c, Ending(), sizes, (True, False), None)
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-4)


def test_how_sums_are_cut():
    assert parts_for(32, 8192, 132, 512, 64) == 4
    assert parts_for(1, 4096, 132, 512, 64) == 8
    assert parts_for(32, 4096, 132, 512, 3) == 3
    assert parts_for(67, 8192, 132, 512, 64) is None  # half of the blocks work
    assert parts_for(1, 1023, 132, 512, 64) is None
    assert parts_for(32, 1024, 132, 512, 1) is None
    assert parts_for(0, 8192, 0, 512, 0) is None


def test_how_a_hopper_gpu_cuts_products():
    widths = hopper_plans.widths_of
    for shape, k in (((4096, 4096), 4096), ((8, 1024, 1024), 1024), ((8192, 8192), 1024)):
        found = hopper_plans.choose(shape, k, 2, 132, widths(shape[-1], True, False))
        assert found == hopper_plans.Choice()
    for m, n, k in itertools.product((1, 16, 100, 1024), (8, 16, 100, 8192), (8, 1000, 100_000)):
        for of_n in (widths(n, True, False), widths(n, False, False), widths(n, True, True)):
            found = hopper_plans.choose((m, n), k, 2, 132, of_n)
            rows, columns, parts, neighbors, cut = found
            plan = hopper_plans.Plan(rows=rows, columns=columns, parts=parts)
            assert columns in of_n and columns % (8 * plan.owners) == 0 and plan.stages(2) > 2
            assert parts <= max(k // 64, 1) and (rows == 64 or m > 64)
            assert (parts, neighbors) == (1, 1) if cut else 1 in (parts, neighbors)
    assert hopper_plans.choose((1024, 16), 8192, 2, 132, (16,)).parts > 1
    wide = widths(8192, True, False)
    assert hopper_plans.choose((128, 8192), 8192, 2, 132, wide).neighbors == 2
    assert hopper_plans.choose((128, 128), 100_000, 2, 132, widths(128, True, False)).cut


@pytest.mark.parametrize("shape", [(5, 200, 1000), (2, 3, 72, 128), (33, 72, 72), (72, 24, 600)])
def test_products_of_few_rows_and_columns_by_the_kernels_of_a_hopper_gpu(shape, monkeypatch):
    monkeypatch.setattr(dispatch, "capability", lambda _: (9, 0))
    monkeypatch.setattr(dispatch, "multiprocessors_of", lambda _: 132)
    *stack, m, n, k = shape
    a, b = numbers(*stack, m, k, dtype=np.float16), numbers(n, k, dtype=np.float16)
    bias, residual = numbers(n), numbers(*stack, m, n, dtype=np.float16)
    expected = np.maximum(0.5 * (a.astype(np.float64) @ b.T.astype(np.float64)) + bias, 0)
    found = kernels.gemm(
        np.asarray(aligned(a)), np.asarray(aligned(b)).T, bias, "relu", residual, 0.5
    )
    assert np.allclose(found, expected + residual, 2e-3, 2e-2)


PLANS = [
    hopper_plans.Plan(rows=rows, columns=columns, parts=parts, pending=int(rows == 64))
    for rows, columns, parts in itertools.product((64, 128), (16, 32, 64, 128, 256), (1, 2, 4, 8))
    if columns % (8 * parts) == 0
]


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_tile_assembles_for_a_hopper_gpu(plan):
    if plan.stages(2) < 3:
        return
    m, n, k = (weft.sym(name, divisibility=8) for name in "mnk")
    a, b, c = (
        weft.fake_tensor(weft.bf16, shape, alignment_bytes=16) for shape in ((m, k), (n, k), (m, n))
    )
    plan = plan._replace(by_copies=plan.parts == 1 and plan.columns % 64 == 0)
    found = weft.compile(hopper_products.gemm, a, b, c, Ending(), plan, options="--gpu-arch sm_90a")
    assert (found.remarks, found.kernels["gemm_kernel"].spill_load_bytes) == ((), 0)


def test_matrices_without_chunks_pass_registers():
    a, b = numbers(3, 9, dtype=np.float16), numbers(9, 5, dtype=np.float16)
    warp_products.gemm(a, b.T, c := np.zeros((3, 5), np.float32), Ending(), True, True)
    assert np.allclose(c, a.astype(np.float64) @ b, atol=2e-2)


def test_how_a_factor_lies():
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
        assert stored(given(view, "a"), views := [])[1:] == expected
        assert len(views) == expected[0]


def test_a_gpu_is_asked_for_its_capability(monkeypatch):
    asked: list[int] = []

    class Found:
        compute_capability = (9, 0)

    monkeypatch.setattr(
        devices, "device_properties", lambda ordinal: asked.append(ordinal) or Found
    )
    assert devices.capability.__wrapped__(weft.ffi.Device("cuda:1")) == (9, 0) and asked == [1]
    assert devices.capability(weft.ffi.Device("cpu")) == (0, 0)
    assert devices.multiprocessors_of(weft.ffi.Device("cpu")) == 0


def test_narrow_floats_are_summed_in_f32():
    a, b = numbers(5, 300).astype(ml_dtypes.float8_e4m3fn), numbers(300, 6)
    b = b.astype(ml_dtypes.float8_e5m2)
    found = kernels.matmul(a, b)
    assert found.dtype == ml_dtypes.bfloat16
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(found.astype(np.float64), expected, 2**-8, 1e-2)


@pytest.mark.slow
def test_kernels_assemble_for_gpus():
    half, whole = (weft.fake_tensor(t, (None, None)) for t in (weft.bf16, weft.f32))
    of_columns = tiled_products.OF_F32, (True, False)
    tiled = weft.compile(
        *(tiled_products.gemm, whole, whole, whole, Ending(), *of_columns),
        options="--gpu-arch sm_90a",
    )
    assert tiled.kernels["gemm_kernel"].spill_load_bytes == 0
    wide = weft.fake_tensor(weft.f64, (None, None))
    in_parts = weft.compile(
        *(tiled_products.gemm, wide, wide, wide, Ending(), tiled_products.OF_F64, (True, False), 3),
        options="--gpu-arch sm_90a",
    )
    assert "LDG.E.128" in in_parts.sass
    by_threads = weft.compile(
        *(thread_products.gemm, whole, whole, whole, Ending(), thread_products.SQUARE, True, True),
        options="--gpu-arch sm_90a",
    )
    assert by_threads.kernels["gemm_kernel"].registers <= 128
    arguments = half, half, half, Ending(), True, False
    by_warps = weft.compile(warp_products.gemm, *arguments, options="--gpu-arch sm_80")
    assert "mma.sync" in by_warps.ptx


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
