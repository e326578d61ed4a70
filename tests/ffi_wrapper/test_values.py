# SPDX-License-Identifier: Apache-2.0
"""Values that a wrapper decodes and returns: every scalar type, dims, strides, None, tuples, arguments."""

from __future__ import annotations

import ctypes
import math
import struct

import numpy
import pytest

from tests.ffi_wrapper.wrapped import (
    Memory,
    Parameter,
    Wrapped,
    boolean,
    integer,
    none,
    real,
    signature_of,
    value_of,
)
from weft.arguments.base import MISSING
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.cli.functions import numpy_type
from weft.dialects.ffi.function import argument_result, none_result, scalar_result, tuple_result
from weft.types import dtype as types
from weft.types.dims import sym

F32 = types.f32


def echo(dtype) -> Wrapped:
    """A function that returns its one number."""
    signature = signature_of("echo", Parameter("value", dtype))
    return Wrapped(signature, ["value"], scalar_result(0, dtype))


@pytest.mark.parametrize("dtype", [d for d in types.DTYPES if d.is_integer], ids=str)
def test_the_ends_of_each_integer_type(dtype):
    call = echo(dtype).function()
    for value in (dtype.minimum, dtype.maximum, 0, 1):
        assert call(value) == value


def test_u64_from_2_to_the_63_arrives_as_a_big_int():
    call = echo(types.u64).function()
    assert [call(value) for value in (1 << 63, (1 << 64) - 1)] == [1 << 63, (1 << 64) - 1]
    for value in (1 << 64, -(1 << 63) - 1, 10**40):
        with pytest.raises(
            ValueError, match=rf"value is {value}, expected 0 to 18446744073709551615"
        ):
            call(value)


@pytest.mark.parametrize("dtype", [types.i8, types.i64, types.u32, types.bool_], ids=str)
def test_an_int_beyond_64_bits_is_out_of_range(dtype):
    call = echo(dtype).function()
    for value in (1 << 63, 1 << 70, -(1 << 63) - 1):
        with pytest.raises(ValueError, match=f"value is {value}, expected"):
            call(value)


def test_a_bool_is_taken_for_an_int_and_0_and_1_for_a_bool():
    assert value_of(echo(types.i8)(boolean(True))) == 1
    results = [value_of(echo(types.bool_)(value)) for value in (boolean(True), integer(0))]
    assert results == [True, False]
    assert all(isinstance(result, bool) for result in results)


def test_an_int_is_taken_for_a_float():
    for dtype in types.DTYPES:
        if dtype.is_float:
            assert value_of(echo(dtype)(integer(3))) == 3.0
            assert value_of(echo(dtype)(boolean(True))) == 1.0


SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, 0.1, 1 / 3]
NUMPY = {d.name: numpy_type(d).type for d in types.DTYPES if d.is_float}


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@pytest.mark.parametrize("name", NUMPY)
def test_floats_round_to_nearest_even(name):
    call = echo(types.dtype_named(name))
    numbers = numpy.random.default_rng(1)
    draws = numbers.normal(size=200) * 2.0 ** numbers.integers(-20, 8, size=200)
    for value in [*SPECIAL, *draws]:
        if math.isinf(value) and not types.INFO[name].format.has_infinity:
            continue  # it has none: refused, see test_messages
        expected = float(NUMPY[name](value))
        too_large = math.isinf(expected) and math.isfinite(value)
        if too_large or (expected == 0 and value != 0):
            assert "ValueError" in call.fails(real(value)), value
            continue
        assert bits(value_of(call(real(value)))) == bits(expected), value


@pytest.mark.parametrize("name", NUMPY)
def test_nan_stays_nan(name):
    assert math.isnan(value_of(echo(types.dtype_named(name))(real(math.nan))))


@pytest.mark.parametrize("name", [name for name in NUMPY if name not in ("f32", "f64")])
def test_every_value_of_a_small_float_comes_back(name):
    dtype = types.dtype_named(name)
    call = echo(dtype)
    step = 1 if dtype.bits == 8 else 251
    raw = numpy.arange(0, 1 << dtype.bits, step, dtype=numpy.uint32)
    values = raw.astype(f"uint{dtype.bits}").view(NUMPY[name]).astype(numpy.float64)
    for value in values[numpy.isfinite(values)]:
        assert bits(value_of(call(real(float(value))))) == bits(float(value))


def test_the_largest_float_and_just_beyond():
    call = echo(F32)
    largest = 3.4028234663852886e38
    assert value_of(call(real(largest))) == largest
    assert value_of(call(real(3.4028235e38))) == largest  # rounds down
    assert call(real(3.4028236e38)) is None


def test_none_has_a_place_but_no_value():
    parameters = Parameter("a", MISSING), Parameter("b", types.i32)
    signature = signature_of("f", *parameters, args=(None, 1))
    f = Wrapped(signature, ["b"], scalar_result(0, types.i32))
    assert value_of(f(none(), integer(7))) == 7


def test_nothing_is_returned_as_none():
    f = Wrapped(signature_of("f", Parameter("a", types.i32)), ["a"])
    result = f(integer(7))
    assert (result.type_index, result.int64) == (0, 0)


# ---- tensors


STRIDED = Tensor[F32, ("n", "m"), "strided"]
CASES = {
    "null strides": (Tensor[F32, ("n", "m")], Memory((3, 4)), (4, 1)),
    "given strides": (Tensor[F32, ("n", "m")], Memory((3, 4), (4, 1)), (4, 1)),
    "a size of 1 has any stride": (Tensor[F32, ("n", "m")], Memory((1, 4), (77, 1)), (4, 1)),
    "no elements": (Tensor[F32, ("n", "m")], Memory((0, 4), (5, 5), data=None), (4, 1)),
    "inner, null strides": (Tensor[F32, ("n", "m"), "inner"], Memory((3, 4)), (4, 1)),
    "inner": (Tensor[F32, ("n", "m"), "inner"], Memory((3, 4), (9, 1)), (9, 1)),
    "inner of size 1": (Tensor[F32, ("n", "m"), "inner"], Memory((3, 1), (9, 5)), (9, 5)),
    "strided, null strides": (STRIDED, Memory((3, 4)), (4, 1)),
    "negative": (STRIDED, Memory((3, 4), (-4, -1)), (-4, -1)),
    "zero": (STRIDED, Memory((3, 4), (0, 0)), (0, 0)),
    "constant strides": (fake_tensor(F32, (3, 4), strides=(8, 2)), Memory((3, 4), (8, 2)), (8, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_strides(case):
    spec, memory, expected = CASES[case]
    returns = [("dim", "a", 0), ("dim", "a", 1), ("stride", "a", 0), ("stride", "a", 1)]
    signature = signature_of("f", Parameter("a", spec))
    found = [
        value_of(Wrapped(signature, [part], scalar_result(0, dtype))(memory.argument))
        for part, dtype in zip(returns, [types.i32] * 2 + [types.i64] * 2, strict=True)
    ]
    assert tuple(found[:2]) == tuple(memory.tensor.shape[:2])
    assert tuple(found[2:]) == expected


def test_a_named_stride_is_bound_by_the_first_that_counts():
    specs = [Parameter(name, fake_tensor(F32, (None, None), strides=("s", 1))) for name in "abc"]
    f = Wrapped(signature_of("f", *specs))
    single, ten, twelve = (Memory((rows, 4), (s, 1)) for rows, s in ((1, 77), (2, 10), (2, 12)))
    assert f(single.argument, ten.argument, ten.argument) is not None
    assert "strides[0] is 12, expected 10" in f.fails(
        single.argument, ten.argument, twelve.argument
    )
    assert "strides[0] is 12, expected 10" in f.fails(
        ten.argument, single.argument, twelve.argument
    )


def test_a_stride_may_be_named_like_a_size():
    f = Wrapped(signature_of("f", Parameter("a", fake_tensor(F32, ("n", "m"), strides=("m", 1)))))
    assert f(Memory((3, 4), (4, 1)).argument) is not None
    assert "strides[0] is 5, expected 4 to match a.shape[1]" in f.fails(
        Memory((3, 4), (5, 1)).argument
    )


def test_rank_0_and_rank_8():
    empty = Wrapped(signature_of("f", Parameter("a", Tensor[F32, ()])))
    assert empty(Memory(()).argument) is not None
    names = tuple(f"n{index}" for index in range(8))
    f = Wrapped(
        signature_of("f", Parameter("a", Tensor[F32, names])),
        [("dim", "a", 7)],
        scalar_result(0, types.i32),
    )
    assert value_of(f(Memory((1, 2, 1, 2, 1, 2, 1, 9)).argument)) == 9


def test_wide_dims_arrive_whole():
    spec = Tensor[F32, (sym("n", width=64), None)]
    signature = signature_of("f", Parameter("a", spec))
    f = Wrapped(signature, [("dim", "a", 0)], scalar_result(0, types.i64))
    assert value_of(f(Memory((1 << 40, 1)).argument)) == 1 << 40


def test_a_tensor_object_is_taken_like_a_view():
    spec = Tensor[F32, ("n",)]
    f = Wrapped(
        signature_of("f", Parameter("a", spec)), [("dim", "a", 0)], scalar_result(0, types.i32)
    )
    memory = Memory((9,))
    assert value_of(f(memory.as_object())) == 9
    assert memory.references() == 1


# ---- results that are objects


def test_tuples_come_back_nested():
    signature = signature_of("f", Parameter("a", types.i32), Parameter("b", types.u64))
    a, b = scalar_result(0, types.i32), scalar_result(1, types.u64)
    tree = tuple_result([a, tuple_result([b, none_result()]), tuple_result([]), b])
    call = Wrapped(signature, ["a", "b"], tree).function()
    result = call(-1, (1 << 64) - 1)
    assert result[0] == -1
    assert tuple(result[1]) == ((1 << 64) - 1, None)
    assert len(result[2]) == 0
    assert result[3] == (1 << 64) - 1


def test_a_returned_tensor_gains_a_reference():
    f = Wrapped(signature_of("f", Parameter("a", Tensor[F32, ("n",)])), (), argument_result("a"))
    memory = Memory()
    value = memory.as_object()
    result = f(value)
    assert (result.type_index, result.int64, memory.references()) == (70, value.int64, 2)


def test_a_returned_tensor_must_be_an_object():
    f = Wrapped(signature_of("f", Parameter("a", Tensor[F32, ("n",)])), (), argument_result("a"))
    assert f.fails(Memory().argument) == (
        "ValueError: argument #0 'a': it is returned, so it must be passed as a tensor object; "
        "received a DLTensor*"
    )


def test_a_failing_result_drops_what_was_made():
    spec = Tensor[F32, ("n",)]
    signature = signature_of("f", Parameter("a", spec), Parameter("b", spec))
    a, b = argument_result("a"), argument_result("b")
    f = Wrapped(signature, (), tuple_result([a, tuple_result([a, b])]))
    memory = Memory()
    assert "it is returned" in f.fails(memory.as_object(), Memory().argument)
    assert memory.references() == 1


def test_returned_numpy_arrays_are_the_same_objects():
    signature = signature_of("f", Parameter("a", Tensor[F32, ("n",)]))
    f = Wrapped(signature, (), argument_result("a")).function(owned=True)
    array = numpy.arange(4, dtype=numpy.float32)
    returned = f(array)
    assert numpy.shares_memory(numpy.asarray(returned), array)


# ---- the first element


def test_byte_offset_is_added_to_data():
    """The kernel reads where data + byte_offset points."""
    import weft
    from tests.ffi_wrapper.kernels import add_one

    source = numpy.arange(8, dtype=numpy.float32)
    target = numpy.zeros(5, dtype=numpy.float32)
    fn = weft.compile(add_one, target, target)
    view = Memory((5,), data=source.ctypes.data, byte_offset=12)
    output = Memory((5,), data=target.ctypes.data)
    entry = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
    )(fn.engine.lookup("__tvm_ffi_add_one"))
    values = (type(view.argument) * 2)(view.argument, output.argument)
    result = none()
    assert entry(None, values, 2, ctypes.byref(result)) == 0
    assert target.tolist() == [4, 5, 6, 7, 8]
