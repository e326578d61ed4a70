# SPDX-License-Identifier: Apache-2.0
"""Python's builtins on staged values, and on constants as Python computes them."""

from __future__ import annotations

import builtins
import math

import numpy as np
import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError
from weft.language import resolve
from weft.language.builtins import BUILTINS
from weft.language.numbers.convert import constant
from weft.language.values import Scalar
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined


def call(trace, function, *arguments):
    return BUILTINS[function].emit(trace.builder, *arguments)


def test_each_operation_has_its_builtins_name():
    assert {operation.name: key for key, operation in BUILTINS.items()} == {
        name: getattr(builtins, name)
        for name in "abs min max divmod pow round len range int float bool complex print".split()
    }


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (abs, (-3,)),
        (min, (3, 2, 1)),
        (max, ((3, 2, 1),)),
        (divmod, (-7, 2)),
        (pow, (2, 10)),
        (pow, (2, 10, 7)),
        (round, (2.5,)),
        (round, (2.567, 2)),
        (len, ((1, 2, 3),)),
        (len, ("four",)),
        (int, (3.9,)),
        (int, ("12",)),
        (float, (3,)),
        (bool, ([],)),
    ],
)
def test_constants_are_computed_by_python(function, arguments):
    trace = Trace()
    found = call(trace, function, *arguments)
    assert found == function(*arguments)
    assert type(found) is type(function(*arguments))
    assert trace.names == []


def test_extremes_take_any_number_of_values():
    trace = Trace()
    x = trace.scalar(types.i32)
    low, high = call(trace, min, 5, x, 3), call(trace, max, [x, 7])
    for value in (-4, 4, 40):
        assert trace.evaluate(low, value) == min(5, value, 3)
        assert trace.evaluate(high, value) == max(value, 7)


def test_an_extreme_of_floats_ignores_nan():
    trace = Trace()
    x = trace.scalar(types.f32)
    assert call(trace, min, x, 0).dtype is types.f32
    call(trace, max, x, x)
    assert trace.names == ["arith.minnumf", "arith.maxnumf"]


NAN = float("nan")


@pytest.mark.parametrize("function", [min, max])
@pytest.mark.parametrize(
    "values", [(NAN, 1.0), (1.0, NAN), (NAN, 2, NAN, 1), (np.float32("nan"), 1)]
)
def test_a_number_wins_against_nan_among_constants_too(function, values):
    trace = Trace()
    expected = function(value for value in values if value == value)
    extreme = resolve(f"math.{function.__name__}")
    for found in (call(trace, function, *values), call(trace, function, list(values))):
        assert found == expected
    if len(values) == 2:
        found = extreme.emit(trace.builder, *values)
        assert (found.constant if isinstance(found, Scalar) else found) in (expected, None)


def test_the_extreme_of_nan_alone_is_nan():
    trace = Trace()
    assert math.isnan(call(trace, min, NAN, NAN))
    assert math.isnan(call(trace, max, (NAN,)))


@pytest.mark.parametrize("function", [min, max])
def test_an_extreme_takes_no_tensor(function):
    trace = Trace()
    tensor = trace.tensor(types.f32)
    for arguments in ((tensor,), ([tensor],), (tensor, 1), (1, tensor)):
        with pytest.raises(TypeMismatchError, match=r"Tensor\[f32, \(\?,\)\]"):
            call(trace, function, *arguments)


def test_divmod_floors_both():
    trace = Trace()
    quotient, remainder = call(trace, divmod, trace.scalar(types.i32), trace.scalar(types.i32))
    for pair in ((7, 2), (-7, 2), (7, -2), (-7, -2)):
        found = (trace.evaluate(quotient, *pair), trace.evaluate(remainder, *pair))
        assert found == divmod(*pair)


def test_pow_is_the_operator():
    trace = Trace()
    cube = call(trace, pow, trace.scalar(types.i32), 3)
    assert trace.evaluate(cube, 5) == 125
    with pytest.raises(TypeMismatchError, match="modulus"):
        call(trace, pow, trace.scalar(types.i32), 3, 7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_int_is_i32_where_that_holds_the_integer(dtype):
    trace = Trace()
    found = call(trace, int, trace.scalar(dtype))
    wide = {types.u32: types.i64, types.i64: types.i64, types.f64: types.i64, types.u64: types.u64}
    assert found.dtype is wide.get(dtype, types.i32)
    trace.verify()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_integer], ids=str)
def test_int_keeps_the_value_of_every_integer(dtype):
    trace = Trace()
    found = call(trace, int, trace.scalar(dtype))
    for value in (dtype.minimum, 0, 1, dtype.maximum):
        assert trace.evaluate(found, value) == value


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_float_is_f32_or_f64_or_the_float_itself(dtype):
    trace = Trace()
    found = call(trace, float, trace.scalar(dtype))
    expected = types.f64 if dtype.bits == 64 else types.f32
    assert found.dtype is (dtype if dtype.is_float else expected)
    trace.verify()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bool_asks_for_zero(dtype):
    trace = Trace()
    assert call(trace, bool, trace.scalar(dtype)).dtype is types.bool_
    trace.verify()


def test_round_gives_an_integer_with_halves_to_even():
    trace = Trace()
    assert call(trace, round, trace.scalar(types.f32)).dtype is types.i32
    assert trace.names == ["math.roundeven", "arith.fptosi"]
    assert call(trace, round, trace.scalar(types.f64)).dtype is types.i64
    integer = trace.scalar(types.u8)
    assert call(trace, round, integer).ssa is integer.ssa
    with pytest.raises(TypeMismatchError, match="number of digits"):
        call(trace, round, trace.scalar(types.f32), 2)
    trace.verify()


def test_abs_of_each_kind():
    trace = Trace()
    assert call(trace, abs, trace.scalar(types.f16)).dtype is types.f16
    assert call(trace, abs, trace.scalar(types.bool_)).dtype is types.i32
    unsigned = trace.scalar(types.u32)
    assert call(trace, abs, unsigned).ssa is unsigned.ssa
    assert constant(trace.builder, 3, types.i32).constant == 3
    trace.verify()


def test_len_of_a_tensor_is_its_first_dimension():
    trace = Trace()
    assert call(trace, len, trace.tensor(types.f32, (4, -1))) == 4
    assert call(trace, len, trace.tensor(types.f32, (-1, 4))).dtype is types.i32
    with pytest.raises(TypeMismatchError, match=r"Tensor\[f32, \(\)\] has no length"):
        call(trace, len, trace.tensor(types.f32, ()))
    with pytest.raises(TypeMismatchError, match="i32 has no length"):
        call(trace, len, trace.scalar(types.i32))


@pytest.mark.parametrize("function", [abs, int, float, bool, round])
def test_a_tensor_is_not_a_number(function):
    trace = Trace()
    with pytest.raises(TypeMismatchError, match=r"received Tensor\[f32, \(\?,\)\]"):
        call(trace, function, trace.tensor(types.f32))
