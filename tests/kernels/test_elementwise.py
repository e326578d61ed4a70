# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, copies and embeddings of `weft.kernels` against NumPy in f64: types, layouts, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.algorithms import transpose as transposes
from weft.kernels.nn import activation, dropout, embedding, rope

RANDOM = np.random.default_rng(5)


def numbers(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 3).astype(dtype)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def derivative(function, x: np.ndarray) -> np.ndarray:
    return (function(x + 1e-6) - function(x - 1e-6)) / 2e-6


@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=lambda t: t.__name__)
def test_activations_and_their_derivatives(dtype):
    x, y, gradient = numbers(3, 70, dtype=dtype), numbers(3, 70, dtype=dtype), numbers(3, 70)
    gradient = gradient.astype(dtype)
    wide = x.astype(np.float64)
    tolerance = 4e-3 if dtype is np.float16 else 1e-6
    for found, expected in (
        (kernels.gelu(x), gelu(wide)),
        (kernels.gelu(x, "tanh"), gelu_tanh(wide)),
        (kernels.gelu_backward(gradient, x), gradient * derivative(gelu, wide)),
        (kernels.gelu_backward(gradient, x, "tanh"), gradient * derivative(gelu_tanh, wide)),
        (kernels.silu_mul(x, y), silu(wide) * y),
        (kernels.silu_mul_backward(gradient, x, y)[0], gradient * derivative(silu, wide) * y),
        (kernels.silu_mul_backward(gradient, x, y)[1], gradient * silu(wide)),
    ):
        assert found.dtype == dtype and np.allclose(found, expected, tolerance, tolerance)


def test_gelu_of_16_bit_floats_is_as_exact_in_its_tail():
    x = np.linspace(-5.2, 5.2, 2081).astype(np.float16)
    wide = x.astype(np.float64)
    expected = wide * 0.5 * np.vectorize(math.erfc)(-wide / math.sqrt(2))
    found = kernels.gelu(x).astype(np.float64)
    assert (abs(found - expected) <= 2.0**-10.5 * abs(expected) + 2.0**-24).all()
    far = kernels.gelu(np.array([-np.inf, -60000, 60000, np.inf, np.nan], np.float16))
    assert np.array_equal(far, [0, 0, 60000, np.inf, np.nan], equal_nan=True)


def test_extreme_numbers_give_limits():
    x = np.array([-np.inf, -1e30, -200, 200, 1e30, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = [np.nan, 0, 0, 200, np.float32(1e30), np.inf, np.nan]
    for found in (kernels.gelu(x), kernels.gelu(x, "tanh"), kernels.silu_mul(x, np.ones_like(x))):
        assert np.array_equal(found, np.array(expected, np.float32), equal_nan=True)


def test_copies_and_transposes_of_every_layout():
    x = numbers(3, 66, 70)
    for axes in ((0, 2, 1), (2, 0, 1), (1, 0, -1)):
        found = kernels.transpose(x, axes)
        assert found.flags.c_contiguous and np.array_equal(found, np.transpose(x, axes))
    for whole, axes in (  # rows of 16 bytes, the last tiles in part
        (numbers(2, 80, 144, dtype=np.float16), (0, 2, 1)),
        (RANDOM.integers(0, 99, (144, 3, 160)).astype(np.uint8), (2, 1, 0)),
    ):
        assert np.array_equal(kernels.transpose(whole, axes), np.transpose(whole, axes))
    heads, found = numbers(2, 5, 3, 16), np.empty((2, 3, 5, 16), np.float32)
    for config in (
        transposes.row_copy_config(4, 4),
        transposes.RowCopyConfig(2, 2, 4),
    ):  # as on a GPU
        transposes._copy_rows(heads, found, (0, 2, 1, 3), (0, 1, 2, 3), config)
        assert np.array_equal(found, heads.transpose(0, 2, 1, 3))
        found.fill(0)
    view = x.transpose(2, 1, 0)[::2, ::-1]
    assert np.array_equal(kernels.copy(view), view)
    assert np.array_equal(kernels.copy(view[0, 0], out=x[0, 0, :3]), view[0, 0])
    assert kernels.transpose(x[0, :0]).shape == (70, 0)
    assert kernels.copy(np.broadcast_to(np.bool_(True), (2, 3))).all()


def test_dropped_elements_depend_on_seed_and_place_alone():
    whole = weft.full((6, 1000), 1.0, weft.f32)  # aligned
    found = np.asarray(kernels.dropout(whole, 0.3, 7))
    assert set(np.unique(found)) == {0, np.float32(1 / 0.7)}
    assert abs((found == 0).mean() - 0.3) < 0.02
    shifted = np.ones((6, 1001))[:, 1:]
    assert np.array_equal(kernels.dropout(shifted, 0.3, 7) == 0, found == 0)
    assert not np.array_equal(kernels.dropout(shifted, 0.3, 8) == 0, found == 0)
    assert not np.array_equal(kernels.dropout(shifted, 0.3, 7, offset=1) == 0, found == 0)
    assert (kernels.dropout(shifted, 1, 7) == 0).all() and (
        kernels.dropout(shifted, 0, 7) == 1
    ).all()
    # A GPU and the CPU drop the same, by 16 bits of the words of each eight elements.
    assert np.flatnonzero(found.reshape(-1)[:16] == 0).tolist() == [5, 7, 13]
    for dtype in (np.float16, np.float64):
        assert np.array_equal(kernels.dropout(np.ones((6, 1000), dtype), 0.3, 7) == 0, found == 0)


@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_pairs_turn_by_the_angle_of_their_token(style):
    check_rotated(style, numbers(2, 5, 3, 8, dtype=np.float64), 3)
    check_rotated(style, np.asarray(weft.full((5, 2, 16), 1.0, weft.f64)) * numbers(5, 2, 16), 8)


def check_rotated(style: str, x: np.ndarray, count: int) -> None:
    angles, others = numbers(5, count, dtype=np.float64), slice(count, 2 * count)
    pairs = slice(count), others
    if style == "interleaved":
        pairs = slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    rotated = (x[..., pairs[0]] + 1j * x[..., pairs[1]]) * np.exp(1j * angles)[:, None]
    expected = x.copy()
    expected[..., pairs[0]], expected[..., pairs[1]] = rotated.real, rotated.imag
    cos, sin = np.cos(angles), np.sin(angles)
    found = kernels.rope(x, cos, sin, style)
    assert np.allclose(found, expected)
    assert kernels.rope(found, cos, sin, style, inverse=True, out=found) is found
    assert np.allclose(found, x)


def test_rows_of_a_table_and_their_gradient():
    table, indices = numbers(50, 64), RANDOM.integers(0, 50, (3, 7))
    aligned = weft.copy(weft.empty(table.shape, weft.f32), table)
    out = weft.empty((3, 7, 64), weft.f32)
    assert np.array_equal(np.asarray(kernels.embedding(aligned, indices, out)), table[indices])
    assert np.array_equal(kernels.embedding(table[:, 1:9], indices[0]), table[:, 1:9][indices[0]])
    for config in (
        transposes.row_copy_config(16, 4),
        transposes.RowCopyConfig(4, 2, 4),
    ):  # as on a GPU
        found = weft.full((3, 7, 64), 0.0, weft.f32)
        embedding._embed_rows(aligned, indices, found, config)
        assert np.array_equal(np.asarray(found), table[indices])
    gradient, expected = numbers(3, 7, 5, dtype=np.float16), np.zeros((50, 5))
    np.add.at(expected, indices, gradient.astype(np.float64))
    assert np.allclose(kernels.embedding_backward(gradient, indices, 50), expected, atol=2e-2)
    with pytest.raises(AssertionError, match="an index of embedding is out of range"):
        kernels.embedding(table[:, 1:9], indices[0] + 50)


def test_elements_along_a_dimension():
    x, indices = numbers(4, 5, 6, dtype=np.float64), RANDOM.integers(0, 5, (4, 9, 6))
    assert np.array_equal(kernels.gather(x, indices, 1), np.take_along_axis(x, indices, 1))
    columns, found = RANDOM.integers(0, 6, (4, 5, 4)), np.empty((4, 5, 4))
    embedding._gather_rows(x, columns, found, 8, 2, 2)  # as on a GPU
    assert np.array_equal(found, np.take_along_axis(x, columns, 2))
    values, expected = numbers(4, 9, 6, dtype=np.float64), x.copy()
    for i, j, k in np.ndindex(4, 9, 6):
        expected[i, indices[i, j, k], k] += values[i, j, k]
    assert np.allclose(kernels.scatter_add(x, indices, values, 1), expected)
    assert kernels.scatter_add(x, indices, values, -2, out=x) is x
    assert np.allclose(x, expected)


def test_each_kernel_assembles_for_a_gpu():
    x = weft.fake_tensor(weft.bf16, ("n", "h", "m"))
    rows = weft.fake_tensor(weft.bf16, ("n", 64), alignment_bytes=16)
    indices, angles = weft.fake_tensor(weft.i64, ("n",)), weft.fake_tensor(weft.f32, ("n", 8))
    for function, *arguments in (
        (activation._map, activation.gelu_tanh, x, x),
        (transposes._transpose_tiles, x, x, (0, 2, 1), 1, 2),
        (dropout._dropout, rows, rows, 6554, 1.1, 7, 0, 8, True),
        (rope._rope, x, angles, angles, x, rope.RopeConfig(True, 1, 1, 1, 1), 1, True),
        (embedding._embed_rows, rows, indices, rows, transposes.row_copy_config(8, 8)),
        (embedding._gather_rows, rows, weft.fake_tensor(weft.i64, ("n", "k")), rows, 64, 8, 1),
    ):
        compiled = weft.compile(function, *arguments, options="--gpu-arch sm_90a")
        assert compiled.cubin
    assert "ld.global.v4" in compiled.ptx


def test_bad_input_is_refused_by_name():
    x, indices = numbers(3, 4), np.zeros((3, 4), np.int32)
    for error, text, call in (
        (TypeError, "x is None, expected an array", lambda: kernels.copy(None)),
        (TypeError, "expected 16, 32 or 64-bit floats", lambda: kernels.gelu(indices)),
        (ValueError, "approximate is 'erf', expected", lambda: kernels.gelu(x, "erf")),
        (ValueError, r"up has shape \(4,\)", lambda: kernels.silu_mul(x, x[0])),
        (
            TypeError,
            "gradient has elements of float64",
            lambda: kernels.gelu_backward(x.astype(np.float64), x),
        ),
        (ValueError, r"axes is \(0, 0\), expected", lambda: kernels.transpose(x, (0, 0))),
        (ValueError, "p is 2, expected a probability", lambda: kernels.dropout(x, 2, 0)),
        (ValueError, "seed is -1, expected", lambda: kernels.dropout(x, 0.5, -1)),
        (ValueError, "style is 'all'", lambda: kernels.rope(x[None], x, x, "all")),
        (ValueError, r"cos has shape \(3, 4\)", lambda: kernels.rope(x[None], x, x)),
        (TypeError, "expected integers", lambda: kernels.embedding(x, x)),
        (ValueError, "table has shape", lambda: kernels.embedding(x[0], indices)),
        (ValueError, r"expected \(any, 4\)", lambda: kernels.gather(x, indices[:, :2], 0)),
        (ValueError, "axis is 2, expected", lambda: kernels.gather(x, indices, 2)),
        (
            TypeError,
            "values has elements of int32",
            lambda: kernels.scatter_add(x, indices, indices),
        ),
    ):
        with pytest.raises(error, match=text):
            call()
