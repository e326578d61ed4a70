# SPDX-License-Identifier: Apache-2.0
"""weft.math: errors measured against 64-bit NumPy, special values, and exact functions of bits.

In: dense and special arguments. Out: units in the last place.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import weft
from tests.conformance.harness import (
    INTEGERS,
    NARROW_FLOATS,
    NUMPY_TYPES,
    WIDE_FLOATS,
    compute,
    compute_each,
    compute_one,
    define,
)
from tests.conformance.model import (
    assert_same,
    interesting_floats,
    interesting_integers,
    pairs,
    wrap,
)
from tests.sampling import sampled
from tools.sweep_math import promised_fast
from weft.language.functions import MATH

# Both kinds of functions: the CPU has one, a GPU two.
KINDS = pytest.mark.parametrize("decorator", [f"weft.kernel(math={kind!r})" for kind in MATH])


def rising(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 2001)


def spread(low: float, high: float) -> np.ndarray:
    """Values of every magnitude."""
    return np.geomspace(low, high, 2001)


erf = np.vectorize(math.erf, otypes=[np.float64])
# name → reference in f64, arguments, error allowed in units of the last place of the result type
FUNCTIONS = {
    "exp": (np.exp, rising(-80, 80), 2),
    "exp2": (np.exp2, rising(-120, 120), 2),
    "log": (np.log, spread(1e-30, 1e30), 2),
    "log2": (np.log2, spread(1e-30, 1e30), 2),
    "log10": (np.log10, spread(1e-30, 1e30), 2),
    "sqrt": (np.sqrt, spread(1e-30, 1e30), 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), spread(1e-30, 1e30), 2),
    "sin": (np.sin, rising(-30, 30), 2),
    "cos": (np.cos, rising(-30, 30), 2),
    "tan": (np.tan, rising(-1.5, 1.5), 2),
    "tanh": (np.tanh, rising(-10, 10), 2),
    "asin": (np.arcsin, rising(-1, 1), 2),
    "acos": (np.arccos, rising(-1, 1), 2),
    "atan": (np.arctan, rising(-50, 50), 2),
    "erf": (erf, rising(-5, 5), 2),
    "cbrt": (np.cbrt, spread(1e-30, 1e30), 1),
    "expm1": (np.expm1, np.concatenate([rising(-20, 80), spread(1e-30, 1)]), 2),
    "log1p": (np.log1p, np.concatenate([rising(-0.999, 80), spread(1e-30, 1e30)]), 2),
    "sinh": (np.sinh, np.concatenate([rising(-80, 80), spread(1e-30, 1)]), 3),
    "cosh": (np.cosh, rising(-80, 80), 2),
    "asinh": (np.arcsinh, np.concatenate([-spread(1e-30, 1e30), spread(1e-30, 1e30)]), 2),
    "acosh": (np.arccosh, 1 + spread(1e-30, 1e30), 2),
    "atanh": (np.arctanh, np.concatenate([rising(-0.999, 0.999), spread(1e-30, 0.9)]), 2),
}
EXACT = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "abs": np.abs}


def ulps(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in units of the last place of `got`'s type; `expected` is f64."""
    near = expected.astype(got.dtype)
    unit = np.maximum(np.spacing(np.abs(near)), np.finfo(got.dtype).tiny).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - expected) / unit))


def all_functions(dtype: weft.DType, decorator: str = "weft.kernel") -> dict[str, np.ndarray]:
    """Results of each function for its own arguments."""
    calls = {name: (f"weft.math.{name}(a)", a) for name, (_, a, _) in FUNCTIONS.items()}
    return compute_each(calls, dtype, decorator)


@KINDS
def test_f32_functions_are_within_their_errors(decorator):
    fast = promised_fast() if "fast" in decorator else {}
    errors, bounds = {}, {}
    for name, got in all_functions(weft.f32, decorator).items():
        reference, arguments, allowed = FUNCTIONS[name]
        errors[name] = ulps(got, reference(arguments.astype(np.float32).astype(np.float64)))
        bounds[name] = max(fast.get(name, allowed), 0.5) + 0.01
    assert {name: error for name, error in errors.items() if error > bounds[name]} == {}


def test_f64_functions_agree_with_numpy():
    for name, got in all_functions(weft.f64).items():
        reference, arguments, _ = FUNCTIONS[name]
        np.testing.assert_allclose(got, reference(arguments), 2e-15, 1e-300, err_msg=name)


@KINDS
@pytest.mark.parametrize("dtype", [weft.f16, weft.bf16], ids=str)
def test_narrow_functions_compute_in_f32_and_round_once(dtype, decorator):
    a = np.linspace(0.25, 4, 301).astype(NUMPY_TYPES[dtype])
    got = compute({name: (f"weft.math.{name}(a)", dtype) for name in FUNCTIONS}, decorator, a=a)
    for name, (reference, _, _) in FUNCTIONS.items():
        with np.errstate(invalid="ignore", divide="ignore"):  # asin above 1, acosh below
            expected = reference(a.astype(np.float64)).astype(a.dtype)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got[name]), ~numbers)
        difference = np.abs(got[name].view(np.int16).astype(int) - expected.view(np.int16))[numbers]
        # A value that falls on the edge between two results may go either way.
        assert difference.max() <= 1
        assert (difference == 0).mean() > 0.98


INFINITY, NAN = math.inf, math.nan
# Pairs and no dictionary, since 0.0 and -0.0 are one key.
SPECIAL = {
    "exp": ((INFINITY, INFINITY), (-INFINITY, 0.0), (0.0, 1.0), (1000.0, INFINITY), (-1000.0, 0.0)),
    "exp2": ((INFINITY, INFINITY), (-INFINITY, 0.0), (3.0, 8.0), (-2.0, 0.25), (2000.0, INFINITY)),
    "log": ((0.0, -INFINITY), (-0.0, -INFINITY), (1.0, 0.0), (INFINITY, INFINITY), (-1.0, NAN)),
    "log2": ((0.0, -INFINITY), (8.0, 3.0), (0.5, -1.0), (INFINITY, INFINITY), (-1.0, NAN)),
    "log10": ((0.0, -INFINITY), (1.0, 0.0), (INFINITY, INFINITY), (-2.0, NAN)),
    "sqrt": ((0.0, 0.0), (-0.0, -0.0), (4.0, 2.0), (INFINITY, INFINITY), (-1.0, NAN)),
    "rsqrt": ((0.0, INFINITY), (4.0, 0.5), (INFINITY, 0.0), (-1.0, NAN)),
    "sin": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, NAN)),
    "cos": ((0.0, 1.0), (INFINITY, NAN)),
    "tanh": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, 1.0), (-INFINITY, -1.0), (100.0, 1.0)),
    "atan": ((0.0, 0.0), (-0.0, -0.0)),
    "erf": ((0.0, 0.0), (INFINITY, 1.0), (-INFINITY, -1.0)),
    "asin": ((0.0, 0.0), (-0.0, -0.0), (2.0, NAN), (-2.0, NAN)),
    "acos": ((1.0, 0.0), (2.0, NAN), (-2.0, NAN)),
    "cbrt": ((0.0, 0.0), (-0.0, -0.0), (-8.0, -2.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY)),
    "expm1": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -1.0), (1e3, INFINITY)),
    "log1p": ((0.0, 0.0), (-0.0, -0.0), (-1.0, -INFINITY), (-2.0, NAN), (INFINITY, INFINITY)),
    "sinh": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY)),
    "cosh": ((0.0, 1.0), (INFINITY, INFINITY), (-INFINITY, INFINITY), (-1e4, INFINITY)),
    "asinh": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY)),
    "acosh": ((1.0, 0.0), (0.5, NAN), (-INFINITY, NAN), (INFINITY, INFINITY)),
    "atanh": ((0.0, 0.0), (-0.0, -0.0), (1.0, INFINITY), (-1.0, -INFINITY), (2.0, NAN)),
}


@KINDS
@pytest.mark.parametrize("dtype", sampled(WIDE_FLOATS, 2), ids=str)
def test_special_values(dtype, decorator):
    tables = {name: np.array([*rows, (NAN, NAN)]).T for name, rows in SPECIAL.items()}
    calls = {name: (f"weft.math.{name}(a)", a) for name, (a, _) in tables.items()}
    for name, got in compute_each(calls, dtype, decorator).items():
        a, expected = tables[name].astype(NUMPY_TYPES[dtype])
        assert_same(got, expected, a)


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_rounding_functions_are_exact(dtype):
    near = np.array([-2.5, -1.5, -0.5, -0.2, 0.2, 0.5, 1.5, 2.5, 8388607.5, 1e20])
    a = np.concatenate([interesting_floats(dtype), near.astype(NUMPY_TYPES[dtype])])
    got = compute({name: (f"weft.math.{name}(a)", dtype) for name in EXACT}, a=a)
    for name, reference in EXACT.items():
        assert_same(got[name], reference(a), a)


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_questions_about_floats(dtype):
    a = interesting_floats(dtype)
    names = ("isnan", "isinf", "isfinite")
    got = compute({name: (f"weft.math.{name}(a)", weft.bool_) for name in names}, a=a)
    for name in names:
        assert_same(got[name], getattr(np, name)(a), a)


@KINDS
@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_functions_of_two_floats(dtype, decorator):
    values = np.array([-3.5, -1.0, -0.25, 0.5, 1.0, 2.0, 7.0], NUMPY_TYPES[dtype])
    a, b = pairs(values, values)
    got = compute(
        {
            "atan2": ("weft.math.atan2(a, b)", dtype),
            "copysign": ("weft.math.copysign(a, b)", dtype),
            "power": ("weft.math.pow(abs(a), b)", dtype),
            "operator": ("abs(a) ** b", dtype),
            "smaller": ("weft.math.min(a, b)", dtype),
            "larger": ("weft.math.max(a, b)", dtype),
        },
        decorator,
        a=a,
        b=b,
    )
    tolerance = 8 * np.finfo(a.dtype).eps
    np.testing.assert_allclose(got["atan2"], np.arctan2(a, b), rtol=tolerance)
    np.testing.assert_allclose(got["power"], np.abs(a) ** b, rtol=tolerance)
    np.testing.assert_allclose(got["operator"], np.abs(a) ** b, rtol=tolerance)
    assert_same(got["copysign"], np.copysign(a, b), a, b)
    assert_same(got["smaller"], np.minimum(a, b), a, b)
    assert_same(got["larger"], np.maximum(a, b), a, b)


def test_fma_rounds_once():
    a = np.array([1 + 2**-12, 3.0, np.inf], np.float32)
    got = compute_one("weft.math.fma(a, a, -1.0)", weft.f32, a=a)
    exact = (a.astype(np.float64) * a.astype(np.float64) - 1).astype(np.float32)
    assert_same(got, exact, a)
    assert got[0] != a[0] * a[0] - np.float32(1)  # two roundings lose the last bit


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_fma_of_small_floats_rounds_once(dtype):
    """Random bits, and products halfway between two numbers with a term far below, which two roundings get wrong."""
    kind = NUMPY_TYPES[dtype]
    random = np.random.default_rng(7)
    a, b, c = random.integers(0, 1 << 16, (3, 4000), np.uint16).view(kind)
    near = np.array([1.0, 1.5, 2.0], kind).view(np.uint16)
    a[:2000], b[:2000] = (
        (random.choice(near, 2000) + random.integers(0, 128, 2000, np.uint16)).view(kind)
        for _ in range(2)
    )
    with np.errstate(invalid="ignore"):
        c[:2000] = c[:2000] * kind.type(2.0**-14)
    got = compute_one("weft.math.fma(a, b, c)", dtype, a=a, b=b, c=c)
    finite = np.isfinite(np.stack([x.astype(np.float32) for x in (a, b, c)])).all(axis=0)
    wrong = [
        (x, y, z, found)
        for x, y, z, found in zip(a[finite], b[finite], c[finite], got[finite], strict=True)
        if nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), kind) != found
    ]
    assert wrong == []


def nearest(exact: Fraction, kind: np.dtype) -> object:
    """The number of a 16-bit type nearest to a fraction; of two the even one."""
    infinity = int(np.array(np.inf, kind).view(np.uint16))
    size = abs(exact)
    low, high = 0, infinity
    while high - low > 1:
        middle = (low + high) // 2
        if Fraction(float(np.uint16(middle).view(kind))) <= size:
            low = middle
        else:
            high = middle
    below = Fraction(float(np.uint16(low).view(kind)))
    step = (
        below - Fraction(float(np.uint16(low - 1).view(kind)))
        if high == infinity
        else (Fraction(float(np.uint16(high).view(kind))) - below)
    )
    rest = 2 * (size - below)
    bits = low + (rest > step or (rest == step and low % 2 == 1))
    value = np.uint16(bits).view(kind)
    return -value if exact < 0 else value


@pytest.mark.parametrize("dtype", [weft.i32, weft.u32], ids=str)
def test_instructions_of_words(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    c = a[::-1].copy()
    tables = (0xF0 & 0xCC | 0xAA, 0x96, 0x1B, 0, 255)
    expressions = {f"table_{table}": f"weft.lop3(a, b, c, {table})" for table in tables}
    expressions |= {
        "permuted": "weft.prmt(a, b, c)",
        "swapped": "weft.prmt(a, 0, 0x0123)",
        "signs": "weft.prmt(a, b, 0xF0A4)",
        "dot": "weft.dp4a(a, b, c)",
    }
    got = compute({name: (text, dtype) for name, text in expressions.items()}, a=a, b=b, c=c)
    rows = [[int(x) & 0xFFFFFFFF for x in row] for row in zip(a, b, c, strict=True)]

    def logic(table: int, x: int, y: int, z: int) -> int:
        places = ((x >> n & 1) << 2 | (y >> n & 1) << 1 | z >> n & 1 for n in range(32))
        return sum((table >> place & 1) << n for n, place in enumerate(places))

    def permuted(x: int, y: int, selector: int) -> int:
        bytes_of, found = (x | y << 32).to_bytes(8, "little"), []
        for place in range(4):
            byte = bytes_of[selector >> 4 * place & 7]
            found.append((byte >> 7) * 255 if selector >> 4 * place & 8 else byte)
        return int.from_bytes(bytes(found), "little")

    def dot(x: int, y: int, z: int) -> int:
        terms = zip(x.to_bytes(4, "little"), y.to_bytes(4, "little"), strict=True)
        signs = [
            [wrap(part, weft.i8 if dtype is weft.i32 else weft.u8) for part in term]
            for term in terms
        ]
        return z + sum(p * q for p, q in signs)

    expected = {f"table_{table}": [logic(table, *row) for row in rows] for table in tables}
    expected |= {
        "permuted": [permuted(*row) for row in rows],
        "swapped": [permuted(x, 0, 0x0123) for x, _, _ in rows],
        "signs": [permuted(x, y, 0xF0A4) for x, y, _ in rows],
        "dot": [dot(*row) for row in rows],
    }
    for name, values in expected.items():
        assert_same(got[name], np.array([wrap(value, dtype) for value in values], a.dtype), a, b)


def test_numbers_of_numpy_are_words_of_their_own_sign():
    signed, unsigned = np.int32(-1), np.uint32(0xFFFFFFFF)

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
        out[0] = weft.i64(weft.dp4a(signed, b[0], 0))
        out[1] = weft.i64(weft.dp4a(unsigned, a[0], 0))
        out[2] = weft.i64(weft.dp4a(unsigned, unsigned, 0))
        out[3] = weft.i64(weft.lop3(signed, signed, signed, 0x80))
        out[4] = weft.i64(weft.prmt(signed, b[0], 0x3210))

    out = np.zeros(5, np.int64)
    kernel[1, 1](np.array([1], np.int32), np.array([1], np.uint32), out)
    assert out.tolist() == [-1, 255, 4 * 255 * 255, -1, -1]


def test_dp4a_takes_signed_beside_unsigned_bytes():
    a, b = np.array([-1], np.int32), np.array([0xFF02FF03], np.uint32)
    got = compute_one("weft.dp4a(a, b, 5)", weft.i32, a=a, b=b)
    assert got.tolist() == [5 - 255 - 2 - 255 - 3]


def test_hints_change_nothing():
    kernel = define(
        """
        import weft

        @weft.kernel
        def kernel(a, out):
            i = weft.thread_idx.x
            weft.prefetch(a, i + 1000)
            weft.nanosleep(100)
            weft.prefetch(a, i - 1000)
            out[i] = a[i]
        """
    )["kernel"]
    a, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    kernel[1, 32](a, out)
    assert out.tolist() == a.tolist()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_functions_of_bits(dtype):
    a = interesting_integers(dtype)
    bits = [int(x) & ((1 << dtype.bits) - 1) for x in a]
    names = ("popcount", "clz", "ctz", "ffs")
    arguments = {"a": a}
    got = compute(
        {name: (f"weft.i32(weft.math.{name}(a))", weft.i32) for name in names}, **arguments
    )
    assert got["popcount"].tolist() == [x.bit_count() for x in bits]
    assert got["clz"].tolist() == [dtype.bits - x.bit_length() for x in bits]
    trailing = [(x & -x).bit_length() - 1 if x else dtype.bits for x in bits]
    assert got["ctz"].tolist() == trailing
    assert got["ffs"].tolist() == [(x & -x).bit_length() for x in bits]


@pytest.mark.parametrize("dtype", [weft.i32, weft.u32, weft.i64, weft.u64], ids=str)
def test_mulhi_is_the_upper_half_of_the_product(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    expected = [wrap(int(x) * int(y) >> dtype.bits, dtype) for x, y in zip(a, b, strict=True)]
    got = compute_one("weft.math.mulhi(a, b)", dtype, a=a, b=b)
    assert_same(got, np.array(expected, a.dtype), a, b)


def test_integer_enters_a_float_function_as_f32_and_64_bits_as_f64():
    got = compute_one("weft.math.sqrt(a)", weft.f32, a=np.array([4, 9], np.int16))
    assert got.tolist() == [2.0, 3.0]
    got = compute_one("weft.math.sqrt(a)", weft.f64, a=np.array([4, 9], np.int64))
    assert got.tolist() == [2.0, 3.0]


def test_functions_of_constants_are_computed_at_compile_time():
    got = compute_one("a * weft.math.sqrt(2.0)", weft.f64, a=np.array([1.0]))
    assert got[0] == math.sqrt(2.0)


def test_select_computes_both_and_chooses():
    a = np.array([-1.5, 2.0, 0.0], np.float32)
    got = compute(
        {
            "select": ("weft.where(a > 0, a, 0)", weft.f32),
            "where": ("weft.where(a > 0, a * 2, -a)", weft.f32),
        },
        a=a,
    )
    assert got["select"].tolist() == [0.0, 2.0, 0.0]
    assert got["where"].tolist() == [1.5, 4.0, 0.0]


def test_ceil_div_rounds_up_for_every_sign():
    a, b = pairs(np.arange(-9, 10, dtype=np.int32), np.array([-4, -3, -1, 1, 2, 5], np.int32))
    expected = [-(-int(x) // int(y)) for x, y in zip(a, b, strict=True)]
    assert_same(
        compute_one("weft.ceil_div(a, b)", weft.i32, a=a, b=b), np.array(expected, np.int32), a, b
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("weft.math.exp('x')", "str"),
        ("weft.math.exp()", "exp"),
        ("weft.math.exp(a, a)", "exp"),
        ("weft.math.popcount(a)", "f32"),
        ("weft.math.expp(a)", "expp"),
    ],
)
def test_wrong_call_of_a_function_is_an_error(call, words):
    with pytest.raises(weft.WeftError, match=words):
        compute_one(call, weft.f32, a=np.ones(1, np.float32))
