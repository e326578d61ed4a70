# SPDX-License-Identifier: Apache-2.0
"""A Python float beside f64 is f64 on every path; names of dtypes from other libraries; integers stored to floats."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.harness import INTEGERS, NARROW_FLOATS, NUMPY_TYPES, WIDE_FLOATS
from tests.sampling import sampled

FLOATS = WIDE_FLOATS + NARROW_FLOATS
TENTH = 0.1


class Pair(NamedTuple):
    first: int
    second: Any


@dataclass(frozen=True)
class Settings:
    scale: float
    tile: weft.Constexpr = 0.1


def same(x):
    return x


def annotated(x: float, y=0.1):
    return x, y


@weft.kernel
def paths_kernel(
    out: weft.Tensor, given, pair, named, settings: Settings, n, default=0.1, *, only=0.1
):
    i = weft.thread_idx.x
    closed = TENTH
    out[0] = 0.1
    out[1] = closed
    out[2] = given
    out[3] = pair[1]
    out[4] = named.second
    out[5] = settings.scale
    out[6] = settings.tile
    out[7] = default
    out[8] = only
    out[9] = same(0.1)
    out[10], out[11] = annotated(0.1)
    carried = 0.2
    for _ in range(n):
        carried = carried * 0.5
    out[12] = carried
    out[13] = 0.1 if i < n else 0.3
    branch = 0.3
    if i < n:
        branch = 0.1
    out[14] = branch
    out[15] = weft.where(i < n, 0.1, 0.3)
    out[16] = (i + 1) * 0.1
    out[17] = (i + 1) / 10
    out[18] = float(i + 1) / 10
    chosen = same
    out[19] = chosen(0.1)
    values = [0.3, 0.1]
    out[20] = values[1]
    out[21] = max(i, 0.1)
    out[22] = weft.math.min(0.1, n)
    local = weft.local(2, float)
    local[1] = 0.1
    out[23] = local[1]
    out[24] = weft.math.log(weft.math.exp(0.1))
    table = {"a": 0.1}
    out[25] = table["a"]
    out[26] = sum([0.1 * (i + 1)])


COUNT = 27


def expected(dtype: weft.DType) -> np.ndarray:
    return np.full(COUNT, 0.1).astype(NUMPY_TYPES[dtype])


@weft.jit
def launched(out: weft.Tensor, given, pair, named, settings: Settings, n):
    paths_kernel(out, given, pair, named, settings, n, only=0.1).launch(grid=1, block=1)


@weft.jit
def literal(out: weft.Tensor, n):
    paths_kernel(out, 0.1, (1, 0.1), Pair(1, 0.1), Settings(0.1), n).launch(grid=1, block=1)


ARGUMENTS = (0.1, (1, 0.1), Pair(1, 0.1), Settings(0.1), 1)


@pytest.mark.parametrize("dtype", (weft.f32, weft.f64), ids=str)
@pytest.mark.parametrize("how", ("kernel", "host", "compiled", "literal"))
def test_every_path_of_a_float_keeps_all_bits_of_the_arrays_type(dtype, how):
    out = np.zeros(COUNT, NUMPY_TYPES[dtype])
    if how == "kernel":
        paths_kernel[1, 1](out, *ARGUMENTS)
    elif how == "host":
        launched(out, *ARGUMENTS)
    elif how == "compiled":
        weft.compile(launched, out, *ARGUMENTS)(out, *ARGUMENTS)
    else:
        literal(out, 1)
    tolerance = 0 if dtype is weft.f64 else 1
    ulps = np.abs(out.view(f"i{out.itemsize}") - expected(dtype).view(f"i{out.itemsize}"))
    ulps[24] = ulps[24] > 16  # a logarithm of an exponential
    assert ulps.max() <= tolerance, (out, ulps)


@pytest.mark.parametrize("beside", (np.float64, np.float32, np.int32))
def test_what_a_number_is_depends_on_what_stands_beside_it(beside):
    @weft.jit
    def returned(a: weft.Tensor, x):
        return x

    x = returned(np.zeros(1, beside), 0.1)
    assert x == (0.1 if beside is np.float64 else float(np.float32(0.1)))


def test_a_numpy_f64_scalar_counts_as_f64():
    @weft.jit
    def returned(a, x):
        return x

    assert returned(np.float64(1), 0.1) == 0.1
    assert returned(np.float32(1), 0.1) == float(np.float32(0.1))


def test_a_constant_that_a_host_function_returns_has_all_its_bits():
    @weft.jit
    def returned():
        return 0.1, 1e-50

    assert returned() == (0.1, 1e-50)


@weft.kernel
def ptx_kernel(a: weft.Tensor, scale):
    i = weft.thread_idx.x
    a[i] = a[i] * 0.1 + i * scale


@pytest.mark.parametrize("dtype", (weft.f32, weft.f64), ids=str)
def test_ptx_computes_in_the_arrays_type(dtype):
    @weft.jit
    def host(a: weft.Tensor, scale):
        ptx_kernel(a, scale).launch(grid=1, block=32)

    options = "--target cuda --gpu-arch sm_80"
    ptx = weft.compile(host, weft.fake_tensor(dtype, ("n",)), 0.1, options=options).ptx
    other = "f64" if dtype is weft.f32 else "f32"
    assert f"fma.rn.{dtype}" in ptx and f".{other}" not in ptx


# ---- numbers that would be 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_vanishing_constant_is_an_error_unless_converted(dtype):
    tiny = 1e-50

    @weft.kernel
    def implicit(a: weft.Tensor):
        a[0] = a[1] + tiny

    @weft.kernel
    def stored(a: weft.Tensor):
        a[0] = tiny

    @weft.kernel
    def explicit(a: weft.Tensor):
        a[0] = KIND(tiny)

    globals()["KIND"] = dtype
    array = np.ones(2, NUMPY_TYPES[dtype])
    if dtype is weft.f64:
        stored[1, 1](array)
        assert array[0] == tiny
        return
    for kernel in (implicit, stored):
        with pytest.raises(weft.CompileError, match="would be 0 in "):
            kernel[1, 1](array)
    explicit[1, 1](array)
    assert array[0] == 0


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d is not weft.f64], ids=str)
def test_an_argument_that_would_be_zero_is_an_error(dtype):
    function = weft.compile(RETURNS[dtype])
    smallest = float(ml_dtypes.finfo(NUMPY_TYPES[dtype]).smallest_subnormal)
    for value in (smallest / 4, -smallest / 4):
        with pytest.raises(ValueError, match=f"which would be 0 in {dtype}"):
            function(value)
    assert function(smallest) == smallest
    assert function(0.0) == 0 and np.signbit(function(-0.0))


def _returning(dtype: weft.DType):
    @weft.jit
    def returned(x: dtype):  # type: ignore[valid-type]
        return x

    return returned


RETURNS = {dtype: _returning(dtype) for dtype in FLOATS}


# ---- integers that are stored to floats


@weft.kernel
def store_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    out[i] = a[i]


@pytest.mark.parametrize("source", (weft.bool_, *INTEGERS), ids=str)
def test_an_integer_is_stored_to_a_float_as_numpy_does(source):
    kind = np.dtype(NUMPY_TYPES[source])
    numbers = [0, 1, 3, 100]
    if source is not weft.bool_:
        numbers += [np.iinfo(kind).max, np.iinfo(kind).min, np.iinfo(kind).max // 3]
    a = np.array(numbers, kind)
    for dtype in WIDE_FLOATS:
        out = np.zeros(len(a), NUMPY_TYPES[dtype])
        store_kernel[1, len(a)](a, out)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(out, a.astype(out.dtype))


@pytest.mark.parametrize(
    ("source", "target"),
    list(itertools.product((weft.f32, weft.f64), (weft.i32, weft.i64))),
    ids=str,
)
def test_a_float_is_not_stored_to_an_integer(source, target):
    with pytest.raises(weft.CompileError, match="TYPE_NARROWING"):
        store_kernel[1, 1](np.ones(1, NUMPY_TYPES[source]), np.ones(1, NUMPY_TYPES[target]))


# ---- other libraries' dtypes


@pytest.mark.parametrize("dtype", sampled([d for d in weft.types.dtype.DTYPES], 3), ids=str)
def test_a_dtype_of_numpy_or_torch_is_accepted(dtype):
    name = dtype.info.numpy
    scalar = getattr(np, name, None) or getattr(ml_dtypes, name)
    names = [scalar, np.dtype(scalar), weft.zeros(1, dtype).dtype]
    for one in names:
        array = weft.zeros(2, one)
        assert str(array.dtype) == name
        assert str(weft.Tensor[one, ("n",)]) == str(weft.Tensor[dtype, ("n",)])
        assert str(weft.Pointer[one]) == str(weft.Pointer[dtype])
        globals()["NAMED"] = one

        @weft.kernel
        def kernel(a: weft.Tensor[one, ("n",)], x: one):  # type: ignore[valid-type]
            shared = weft.shared(2, NAMED)
            local = weft.local(2, NAMED)
            y: NAMED = x  # type: ignore[valid-type]
            shared[0] = y
            local[1] = shared[0]
            a[0] = local[1]

        filled = np.zeros(1, scalar)
        kernel[1, 1](filled, 1)
        assert filled[0] == 1


def test_a_tensors_dtype_that_no_kernel_knows_names_none():
    with pytest.raises(TypeError, match=r"dtype is DataType\('int128'\), expected an element type"):
        weft.empty(2, weft.ffi.DataType("int128"))


def test_torchs_dtypes_are_accepted():
    torch = pytest.importorskip("torch", reason="needs another package: torch")
    for dtype in weft.types.dtype.DTYPES:
        if dtype.info.torch and hasattr(torch, dtype.info.torch):
            assert str(weft.Tensor[getattr(torch, dtype.info.torch)]) == str(weft.Tensor[dtype])


def test_a_numpy_type_converts_a_value():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        out[0] = np.float64(a[0]) / np.int64(a[1])

    out = np.zeros(1)
    kernel[1, 1](np.array([1, 3], np.int32), out)
    assert out[0] == 1 / 3


@weft.kernel
def coordinates_kernel(out: weft.Tensor):
    x, y = weft.thread_idx.xy
    i, j, k = weft.block_idx.xyz
    w, h = weft.block_dim.xy
    n, m, _ = weft.grid_dim.xyz
    at = (((k * m + j) * n + i) * h + y) * w + x
    out[at] = x + 10 * y + 100 * i + 1000 * j + 10000 * k


def test_coordinates_of_several_dimensions():
    out = np.zeros((2, 2, 3, 2, 4), np.int64)
    coordinates_kernel[(3, 2, 2), (4, 2)](out.reshape(-1))
    k, j, i, y, x = np.indices(out.shape)
    assert (out == x + 10 * y + 100 * i + 1000 * j + 10000 * k).all()
