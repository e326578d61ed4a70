# SPDX-License-Identifier: Apache-2.0
"""Zeros of both signs, types that kernels only move, narrow sums, outputs that overlap themselves, messages."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.kernels.calls import CALLS
from tests.sampling import sampled
from weft.kernels.host.arrays import _may_overlap_itself

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def rows_of_zeros(dtype, columns):
    random = np.random.default_rng(columns)
    return random.choice(np.array([0.0, -0.0, 1, -1], np.float32), (2, columns)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [5, 300, 5000])
@pytest.mark.parametrize("dtype", FLOATS)
def test_signed_zeros_sort_as_equal_and_stay_in_order(dtype, columns):
    x = rows_of_zeros(dtype, columns)
    wide = x.astype(np.float64)
    for descending in (False, True):
        order = np.argsort(-wide if descending else wide, kind="stable", axis=-1)
        assert (weft.kernels.argsort(x, descending) == order).all()
        expected = np.take_along_axis(wide, order, -1)
        found = weft.kernels.sort(x, descending=descending).astype(np.float64)
        assert (np.signbit(found) == np.signbit(expected)).all() and (found == expected).all()
        for k in (1, min(columns, 40)):
            values, indices = weft.kernels.top_k(x, k, largest=descending)
            assert (indices == order[:, :k]).all()
            assert (np.signbit(values.astype(np.float64)) == np.signbit(expected[:, :k])).all()


OTHERS = [
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
]
OTHERS += ["float8_e4m3b11fnuz", "float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "bool"]


def bytes_of(shape, dtype):
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    data = np.random.default_rng(size).integers(0, 2 if dtype == np.bool_ else 255, size, np.uint8)
    return data.view(dtype).reshape(shape)


@pytest.mark.parametrize("name", sampled(OTHERS, 6))
def test_elements_of_every_type_are_copied_and_transposed(name):
    dtype = np.dtype(
        getattr(np, name)
        if name in ("complex64", "complex128")
        else name
        if name == "bool"
        else getattr(ml_dtypes, name)
    )
    for shape in ((3, 5), (2, 3, 40), (7,), (0, 4)):
        x = bytes_of(shape, dtype)
        found = weft.kernels.copy(x)
        assert found.dtype == dtype and found.tobytes() == x.tobytes()
        if len(shape) > 1:
            for one in (x, x[::-1], x[..., ::2]):
                found = weft.kernels.transpose(one)
                expected = np.swapaxes(one, -1, -2)
                assert found.dtype == dtype and found.shape == expected.shape
                assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
        out = np.empty(shape, dtype)
        assert weft.kernels.copy(x, out) is out and out.tobytes() == x.tobytes()
        with pytest.raises(TypeError, match="out has elements of"):
            weft.kernels.copy(x, np.empty(shape, np.int16))
        with pytest.raises(ValueError, match="out has shape"):
            weft.kernels.copy(x, np.empty((*shape, 1), dtype))


@pytest.mark.parametrize(
    "dtype", [np.complex64, np.complex128, ml_dtypes.float8_e5m2fnuz, np.float32]
)
def test_only_a_copy_may_be_written_to_its_own_array(dtype):
    x = bytes_of((3, 3), np.dtype(dtype))
    kept = x.tobytes()
    assert weft.kernels.copy(x, out=x) is x
    with pytest.raises(ValueError, match="out overlaps with x, expected memory of its own"):
        weft.kernels.transpose(x, out=x)
    assert x.tobytes() == kept


@pytest.mark.torch
def test_tensors_of_every_type_are_copied_and_transposed():
    import torch

    for name in (*OTHERS, "complex32"):
        if (dtype := getattr(torch, name, None)) is not None:
            size = torch.empty((), dtype=dtype).element_size()
            data = torch.arange(15 * size, dtype=torch.uint8) % (2 if name == "bool" else 251)
            x = data.view(dtype).reshape(3, 5)
            copied, transposed = weft.kernels.copy(x), weft.kernels.transpose(x)
            assert copied.dtype == transposed.dtype == dtype
            assert copied.view(torch.uint8).equal(x.view(torch.uint8))
            as_words = x.view(torch.uint8).reshape(3, 5, size).swapaxes(0, 1).reshape(5, 3 * size)
            assert transposed.view(torch.uint8).equal(as_words)
    pairs = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError, match="expected single ones of 8 to 128 bits"):
        weft.kernels.copy(pairs)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_narrow_floats_are_added_in_f32(dtype):
    x, ones = np.zeros(2, dtype), np.ones(448, dtype)
    found = weft.kernels.scatter_add(x, np.zeros(448, np.int32), ones)
    assert found.astype(np.float32).tolist() == [448.0, 0.0]
    same = np.full(3, 2, dtype)
    assert weft.kernels.scatter_add(same, np.array([1]), np.ones(1, dtype), out=same) is same
    assert same.astype(np.float32).tolist() == [2.0, 3.0, 2.0]


def test_indices_have_the_rank_of_the_array():
    x = np.zeros((2, 3), np.float32)
    for axis in (0, 1, -1):
        for shape in ((2,), (3,), (2, 3, 1), (1, 2, 3)):
            indices = np.zeros(shape, np.int64)
            with pytest.raises(ValueError, match="indices has shape"):
                weft.kernels.gather(x, indices, axis)
            with pytest.raises(ValueError, match="indices has shape"):
                weft.kernels.scatter_add(x, indices, np.zeros(shape, np.float32), axis)


def test_bools_are_not_added():
    with pytest.raises(
        TypeError, match="x has elements of bool, expected numbers that can be added"
    ):
        weft.kernels.scatter_add(np.zeros(3, bool), np.array([0]), np.array([True]))


@pytest.mark.parametrize("dtype", sampled([np.float16, np.float32, np.float64], 3))
@pytest.mark.parametrize("shape", [(2, 3, 4), (70, 64, 64), (3, 4096, 5)])
def test_a_residual_is_not_read_where_beta_is_zero(dtype, shape):
    m, k, n = shape
    a, b = np.ones((m, k), dtype), np.full((k, n), 1 / k, dtype)
    for bad in (np.nan, np.inf):
        residual = np.full((m, n), bad, dtype)
        for beta in (1.0, 0.0, 2.0, -0.0):  # in this order, so that a known call is used again
            found = weft.kernels.gemm(a, b, beta=beta, residual=residual)
            assert np.isfinite(found).all() == (beta == 0)
    assert np.allclose(weft.kernels.gemm(a, b, beta=0, residual=residual), 1, atol=1e-2)


def strides_with_a_shared_element(shape):
    """Arrays of a shape of which several elements share memory."""
    memory = np.zeros(4096, np.float32)
    for axis, length in enumerate(shape):
        if length > 1:
            strides = [4 * int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
            strides[axis] = 0
            yield np.lib.stride_tricks.as_strided(memory, shape, strides)
    if len(shape) > 1 and shape[0] > 1 and shape[1] > 1:
        yield np.lib.stride_tricks.as_strided(memory, shape, [4] * len(shape))  # a window


def with_out():
    return [
        name
        for name in weft.kernels.__all__
        if "out" in inspect.signature(getattr(weft.kernels, name)).parameters
    ]


@pytest.mark.parametrize("name", sampled(with_out(), 6))
def test_an_output_whose_elements_share_memory_is_refused(name):
    function, call = getattr(weft.kernels, name), CALLS[name]
    result = function(*call.arguments)
    result = np.asarray(result[0] if isinstance(result, tuple) else result)
    tried = 0
    for axis, length in enumerate(result.shape):
        if length > 1:
            strides = list(np.empty_like(result, order="C").strides)
            strides[axis] = 0
            out = np.lib.stride_tricks.as_strided(
                np.empty(result.size, result.dtype), result.shape, strides
            )
            with pytest.raises(ValueError, match="share memory"):
                function(*call.arguments, out=out)
            tried += 1
    assert tried or result.size <= 1


def test_strides_tell_whether_elements_share_memory():
    random = np.random.default_rng(7)
    for _ in range(3000):
        rank = random.integers(1, 4)
        shape, strides = random.integers(0, 4, rank), random.integers(-9, 10, rank)
        places = [
            sum(int(i * s) for i, s in zip(index, strides, strict=True))
            for index in np.ndindex(*shape)
        ]
        if len(set(places)) < len(places):
            assert _may_overlap_itself(shape, strides), (shape, strides)
    for array in (
        np.zeros((3, 4))[::-1],
        np.zeros((4, 6))[::2, ::-3],
        np.zeros((2, 1, 3)).T,
        np.zeros((0, 3)),
    ):
        assert not _may_overlap_itself(array.shape, [stride // 8 for stride in array.strides])


UNREADABLE = [
    (np.array(["text"]), TypeError, "a NumPy array of dtype <U4"),
    (np.array([1, 2], ">f4"), ValueError, "byte order"),
    ([1.0, 2.0], TypeError, r"is \[1.0, 2.0\], expected an array"),
    (np.zeros((1,) * 9 + (2,), np.float32), ValueError, "has 10 dimensions, expected 1 to 8"),
]


@pytest.mark.joined
@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize(
    ("value", "error", "text"), UNREADABLE, ids=["text", "bytes", "list", "rank"]
)
def test_messages_name_the_argument_and_what_it_is(name, value, error, text):
    function, call = getattr(weft.kernels, name), CALLS[name]
    place = 1 if name in ("compress", "partition") else 0  # the first is a mask or a function
    first = list(inspect.signature(function).parameters)[place]
    arguments = [*call.arguments[:place], value, *call.arguments[place + 1 :]]
    with pytest.raises(error, match=text) as found:
        function(*arguments)
    assert str(found.value).startswith((first, f"{first}:")), str(found.value)


@pytest.mark.jax
def test_integers_that_jax_would_change_are_refused():
    import jax
    import jax.numpy as jnp

    assert not jax.config.jax_enable_x64
    assert weft.kernels.sum(jnp.full(4, 3, jnp.int32)).item() == 12
    assert weft.kernels.argsort(jnp.array([3.0, 1.0, 2.0])).tolist() == [1, 2, 0]
    for function in (weft.kernels.sum, weft.kernels.cumsum):
        with pytest.raises(OverflowError, match="jax_enable_x64"):
            function(jnp.full(4, 2**30, jnp.int32))
