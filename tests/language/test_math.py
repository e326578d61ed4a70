# SPDX-License-Identifier: Apache-2.0
"""``weft.math``: which IR each function emits, for which types, and what it does with constants."""

from __future__ import annotations

import math

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.values import Scalar
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

FLOATS = [types.f16, types.bf16, types.f32, types.f64]
INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
ONE_OPERATION = {
    "exp": "math.exp",
    "exp2": "math.exp2",
    "log": "math.log",
    "log2": "math.log2",
    "log10": "math.log10",
    "sin": "math.sin",
    "cos": "math.cos",
    "tan": "math.tan",
    "tanh": "math.tanh",
    "asin": "math.asin",
    "acos": "math.acos",
    "acosh": "math.acosh",
    "asinh": "math.asinh",
    "atanh": "math.atanh",
    "cbrt": "math.cbrt",
    "cosh": "math.cosh",
    "expm1": "math.expm1",
    "log1p": "math.log1p",
    "sinh": "math.sinh",
    "atan": "math.atan",
    "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt",
    "erf": "math.erf",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "trunc": "math.trunc",
    "round": "math.roundeven",
    "abs": "math.absf",
}
TWO_OPERANDS = {
    "atan2": "math.atan2",
    "pow": "math.powf",
    "copysign": "math.copysign",
    "min": "arith.minnumf",
    "max": "arith.maxnumf",
}
ROUNDING = ("floor", "ceil", "trunc", "round", "abs")
BIT_FUNCTIONS = ("popcount", "clz", "ctz", "ffs", "mulhi")
OTHERS = ("angle", "divide", "fma", "isnan", "isinf", "isfinite")


def function(name):
    return resolve(f"math.{name}")


def test_every_function_is_tested_here():
    tested = {*ONE_OPERATION, *TWO_OPERANDS, *BIT_FUNCTIONS, *OTHERS}
    assert tested == {name.removeprefix("math.") for name in LANGUAGE if name.startswith("math.")}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ONE_OPERATION)
def test_a_function_of_one_float_is_one_operation_of_its_type(name, dtype):
    trace = Trace()
    assert function(name).emit(trace.builder, trace.scalar(dtype)).dtype is dtype
    assert trace.names == [ONE_OPERATION[name]]
    trace.verify()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", TWO_OPERANDS)
def test_a_function_of_two_floats_is_one_operation_of_their_type(name, dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    assert function(name).emit(trace.builder, x, x).dtype is dtype
    assert function(name).emit(trace.builder, x, 2).dtype is dtype
    assert trace.names == [TWO_OPERANDS[name]] * 2
    trace.verify()


@pytest.mark.parametrize("name", [name for name in ONE_OPERATION if name not in ROUNDING])
def test_an_integer_enters_as_f32_or_f64(name):
    trace = Trace()
    assert function(name).emit(trace.builder, trace.scalar(types.i32)).dtype is types.f32
    assert function(name).emit(trace.builder, trace.scalar(types.u64)).dtype is types.f64
    assert function(name).emit(trace.builder, trace.scalar(types.bool_)).dtype is types.f32
    assert function(name).emit(trace.builder, trace.scalar(types.f8e4m3)).dtype is types.f32
    trace.verify()


@pytest.mark.parametrize("name", ROUNDING[:-1])
def test_rounding_an_integer_emits_nothing(name):
    trace = Trace()
    x = trace.scalar(types.i64)
    assert function(name).emit(trace.builder, x) is x
    assert function(name).emit(trace.builder, 3) == 3
    assert trace.names == []


def test_operands_of_a_function_meet_in_their_common_float_type():
    trace = Trace()
    half, single, whole = (trace.scalar(t) for t in (types.f16, types.f32, types.i64))
    assert function("atan2").emit(trace.builder, half, single).dtype is types.f32
    assert function("pow").emit(trace.builder, half, whole).dtype is types.f16
    assert function("pow").emit(trace.builder, whole, 0.5).dtype is types.f32
    assert function("fma").emit(trace.builder, single, 2, half).dtype is types.f32
    assert trace.names[-1] == "math.fma"
    trace.verify()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("exp", (1.0,), math.e),
        ("log2", (8,), 3.0),
        ("rsqrt", (4,), 0.5),
        ("atan2", (1, -1), 3 * math.pi / 4),
        ("pow", (2, 0.5), math.sqrt(2)),
        ("fma", (2, 3, 4), 10.0),
        ("asin", (1,), math.pi / 2),
        ("acos", (1.0,), 0.0),
        ("cbrt", (0.3,), math.cbrt(0.3)),
        ("expm1", (1e-20,), 1e-20),
        ("log1p", (1e-20,), 1e-20),
        ("sinh", (0,), 0.0),
        ("cosh", (0.0,), 1.0),
        ("asinh", (0.0,), 0.0),
        ("acosh", (1,), 0.0),
        ("atanh", (0.5,), math.atanh(0.5)),
        ("round", (2.5,), 2.0),
        ("floor", (-0.5,), -1.0),
        ("copysign", (3, -0.0), -3.0),
        ("abs", (-3,), 3),
        ("min", (3, 2.5), 2.5),
        ("isnan", (math.nan,), True),
        ("isinf", (3,), False),
        ("isfinite", (3,), True),
    ],
)
def test_constants_alone_are_computed_at_once(name, arguments, expected):
    trace = Trace()
    found = function(name).emit(trace.builder, *arguments)
    assert found == expected
    assert type(found) is type(expected)
    assert trace.names == []


def test_a_constant_zero_keeps_its_sign_when_rounded():
    trace = Trace()
    assert math.copysign(1, function("trunc").emit(trace.builder, -0.5)) == -1.0
    assert function("floor").emit(trace.builder, math.inf) == math.inf


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("log", 0.0),
        ("sqrt", -1.0),
        ("exp", 1e4),
        ("rsqrt", 0),
        ("asin", 2),
        ("acosh", 0.5),
        ("atanh", 1),
        ("log1p", -1.0),
        ("sinh", 1e4),
    ],
)
def test_a_constant_outside_the_domain_is_an_error(name, argument):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        function(name).emit(trace.builder, argument)
    assert caught.value.code == "MATH_DOMAIN"
    assert f"math.{name}({argument!r})" in caught.value.message


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_extremes_of_integers_see_the_sign(dtype):
    trace = Trace()
    x, y = trace.scalar(dtype), trace.scalar(dtype)
    low, high = function("min").emit(trace.builder, x, y), function("max").emit(trace.builder, x, y)
    for pair in ((dtype.minimum, dtype.maximum), (1, 0), (5, 5)):
        assert trace.evaluate(low, *pair) == min(pair)
        assert trace.evaluate(high, *pair) == max(pair)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_absolute_value_of_an_integer_wraps(dtype):
    trace = Trace()
    found = function("abs").emit(trace.builder, trace.scalar(dtype))
    assert trace.evaluate(found, 5) == 5
    assert trace.evaluate(found, dtype.maximum) == dtype.maximum
    if dtype.is_signed:
        assert trace.evaluate(found, -5) == 5
        assert trace.evaluate(found, dtype.minimum) == dtype.minimum


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float], ids=str)
@pytest.mark.parametrize(
    ("name", "comparison"),
    [("isnan", "uno"), ("isinf", "oeq"), ("isfinite", "olt")],
)
def test_a_float_is_classified_by_one_comparison(name, comparison, dtype):
    trace = Trace()
    assert function(name).emit(trace.builder, trace.scalar(dtype)).dtype is types.bool_
    assert f"arith.cmpf {comparison}, " in trace.verify()


def test_an_integer_is_always_finite():
    trace = Trace()
    x = trace.scalar(types.i32)
    classes = ("isnan", "isinf", "isfinite")
    assert [function(name).emit(trace.builder, x) for name in classes] == [False, False, True]
    assert trace.names == []


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_are_counted_in_the_operands_width(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    found = {name: function(name).emit(trace.builder, x) for name in BIT_FUNCTIONS[:4]}
    assert {count.dtype for count in found.values()} == {types.i32}
    for value in (0, 1, 2, 6, 12, dtype.maximum, dtype.minimum, -1 if dtype.is_signed else 96):
        bits = value & ((1 << dtype.bits) - 1)
        lowest = (bits & -bits).bit_length()
        assert trace.evaluate(found["popcount"], value) == bits.bit_count()
        assert trace.evaluate(found["clz"], value) == dtype.bits - bits.bit_length()
        assert trace.evaluate(found["ctz"], value) == (lowest - 1 if bits else dtype.bits)
        assert trace.evaluate(found["ffs"], value) == lowest
    trace.verify()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_mulhi_is_the_upper_half_of_the_product(dtype):
    trace = Trace()
    high = function("mulhi").emit(trace.builder, trace.scalar(dtype), trace.scalar(dtype))
    assert high.dtype is dtype
    for left in (3, dtype.maximum, dtype.minimum):
        for right in (7, dtype.maximum, dtype.minimum):
            assert trace.evaluate(high, left, right) == (left * right) >> dtype.bits
    trace.verify()


def test_a_constant_alone_is_counted_as_i32():
    trace = Trace()
    found = function("clz").emit(trace.builder, 1)
    assert isinstance(found, Scalar)
    assert trace.evaluate(found) == 31


@pytest.mark.parametrize("name", BIT_FUNCTIONS)
def test_floats_have_no_bits_to_count(name):
    trace = Trace()
    arguments = [trace.scalar(types.f32)] * (2 if name == "mulhi" else 1)
    with pytest.raises(TypeMismatchError, match=f"math.{name} takes integers, received an f32"):
        function(name).emit(trace.builder, *arguments)


@pytest.mark.parametrize("name", [*ONE_OPERATION, *BIT_FUNCTIONS[:4], "angle", *OTHERS[3:]])
def test_a_non_number_is_refused_by_name(name):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        function(name).emit(trace.builder, trace.tensor(types.f32))
    assert f"math.{name}: an argument must be a number, received Tensor[f32, (?,)]" in str(
        caught.value
    )


def test_a_wrong_number_of_arguments_shows_the_call():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        function("atan2").emit(trace.builder, trace.scalar(types.f32))
    assert caught.value.code == "CALL_ARGUMENTS"
    assert caught.value.hint == "call math.atan2(y, x)"


@pytest.mark.parametrize("name", [name for name in LANGUAGE if name.startswith("math.")])
def test_a_host_function_may_compute(name):
    assert resolve(name).on_host


APPROXIMATE = {"exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt"}


@pytest.mark.parametrize("name", [*sorted(APPROXIMATE), "divide"])
@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype.bits < 64], ids=str)
def test_an_approximate_function_is_marked(name, dtype):
    trace = Trace()
    operands = [trace.scalar(dtype)] * (2 if name == "divide" else 1)
    for approx in (False, True):
        result = function(name).emit(trace.builder, *operands, approx=approx)
        assert result.dtype is dtype
        assert ("afn" in str(result.ssa.owner)) == approx
    trace.verify()


def test_an_approximate_function_of_constants_is_computed_at_once():
    trace = Trace()
    assert function("divide").emit(trace.builder, 1, 4, approx=True) == 0.25
    assert function("exp").emit(trace.builder, 1.0, approx=True) == math.e
    assert trace.names == []


@pytest.mark.parametrize("name", [*sorted(APPROXIMATE), "divide"])
@pytest.mark.parametrize("dtype", [types.f64, *INTEGERS], ids=str)
def test_an_approximate_function_of_another_type_is_refused(name, dtype):
    trace = Trace()
    operands = [trace.scalar(dtype)] + [1.0] * (name == "divide")
    with pytest.raises(TypeMismatchError, match=f"{name}: approx=True is for floats of at most 32"):
        function(name).emit(trace.builder, *operands, approx=True)


@pytest.mark.parametrize("approx", [1, None, "yes"])
def test_approx_is_a_bool_known_at_compile_time(approx):
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="approx must be True or False, known at compile"):
        function("exp").emit(trace.builder, trace.scalar(types.f32), approx=approx)
    with pytest.raises(TypeMismatchError, match="received bool"):
        function("exp").emit(trace.builder, 1.0, approx=trace.scalar(types.bool_))


def test_only_functions_with_an_instruction_have_approx():
    found = {
        name.removeprefix("math.")
        for name in LANGUAGE
        if name.startswith("math.") and "approx" in resolve(name).__signature__.parameters
    }
    assert found == {*APPROXIMATE, "divide"}


def test_an_angle_is_the_arc_tangent_of_the_parts():
    trace = Trace()
    assert function("angle").emit(trace.builder, trace.scalar(types.c64)).dtype is types.f32
    assert trace.names[-1] == "math.atan2"
    assert function("angle").emit(trace.builder, -2.0) == math.pi
    trace.verify()
