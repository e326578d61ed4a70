# SPDX-License-Identifier: Apache-2.0
"""f16, bf16 and the 8-bit floats, to the bit, against exact arithmetic that is rounded once.

In: every 8-bit pair, every 16-bit value, random 16-bit pairs. Out: what the CPU computes; for GPUs the instructions.
The model knows a format as the sorted list of its finite values, and looks for the nearest.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.conformance.harness import EIGHT_BIT_FLOATS, INTEGERS, NUMPY_TYPES, compute, define
from tests.sampling import sampled
from weft.types.dtype import DTYPES

SMALL = tuple(dtype for dtype in DTYPES if dtype.is_float and dtype.bits <= 16)
EIGHT_BITS = EIGHT_BIT_FLOATS
SIXTEEN_BITS = (weft.f16, weft.bf16)
OPERATORS = ("+", "-", "*", "/")


def every_value(dtype: weft.DType) -> np.ndarray:
    word = np.uint8 if dtype.bits == 8 else np.uint16
    return np.arange(1 << dtype.bits, dtype=np.uint32).astype(word).view(NUMPY_TYPES[dtype])


def wide(values: np.ndarray) -> np.ndarray:
    """The same values as doubles, which hold them all exactly."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def bits(values: np.ndarray) -> np.ndarray:
    """The bits, with one pattern for all NaN."""
    word = values.view(f"u{values.itemsize}").astype(np.uint64)
    return np.where(np.isnan(wide(values)), np.uint64(1) << np.uint64(40), word)


def nearest(exact: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """Doubles rounded once to a small format: to the nearest value, of two the one with an even last bit.

    Half a step beyond the largest value begins infinity; formats that saturate have the largest value instead.
    """
    values = every_value(dtype)
    with np.errstate(invalid="ignore"):
        positive = values[np.isfinite(wide(values)) & ~np.signbit(wide(values))]
    positive = np.sort(positive.view(f"u{values.itemsize}")).view(values.dtype)
    grid = wide(positive)
    size = np.abs(exact)
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    below = above - 1
    with np.errstate(invalid="ignore"):
        to_below, to_above = size - grid[below], grid[above] - size
    even_below = below % 2 == 0  # the patterns count up from zero
    chosen = np.where((to_below < to_above) | ((to_below == to_above) & even_below), below, above)
    chosen = np.where(size > grid[-1], len(grid) - 1, chosen)
    result = positive[chosen].copy()
    if not dtype.info.format.saturates:
        limit = grid[-1] + (grid[-1] - grid[-2]) / 2
        result = np.where(size >= limit, np.array(np.inf).astype(values.dtype), result)
    result = np.where(np.isnan(exact), np.array(np.nan).astype(values.dtype), result)
    sign = np.signbit(exact).astype(np.uint32) << (dtype.bits - 1)
    word = result.astype(values.dtype).view(f"u{values.itemsize}")
    return (word | sign.astype(word.dtype)).view(values.dtype)


def rounded_fraction(exact: Fraction, dtype: weft.DType) -> Fraction:
    """A rational number rounded once to f16 or bf16, by integer arithmetic; beyond the range, as it is."""
    digits, lowest = (11, -24) if dtype is weft.f16 else (8, -133)
    if exact == 0:
        return exact
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += 1 if size >= Fraction(2) ** (exponent + 1) else 0
    exponent -= 1 if size < Fraction(2) ** exponent else 0
    step = Fraction(2) ** max(exponent - digits + 1, lowest)
    return round(exact / step) * step  # to even where it is a tie


def exactly(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def expressions(dtype: weft.DType) -> dict[str, tuple[str, weft.DType]]:
    names = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
    return {name: (f"weft.{dtype}(a {sign} b)", dtype) for sign, name in names.items()}


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_arithmetic_of_every_pair_of_8_bit_values(dtype):
    """In f32, as the language says, and rounded to 8 bits where that is written."""
    values = every_value(dtype)
    a, b = np.repeat(values, 256), np.tile(values, 256)
    in_f32 = {
        "sum32": ("a + b", weft.f32),
        "product32": ("a * b", weft.f32),
        "quotient32": ("a / b", weft.f32),
    }
    got = compute(expressions(dtype) | in_f32, a=a, b=b)
    with np.errstate(all="ignore"):
        wanted = {
            "plus": wide(a) + wide(b),
            "minus": wide(a) - wide(b),
            "times": wide(a) * wide(b),
            "over": wide(a) / wide(b),
        }
        # Products and sums are exact in doubles, and a quotient of 4 by 4 digits never lies beside a tie.
        single = {name: value.astype(np.float32) for name, value in wanted.items()}
    for name, value in single.items():
        np.testing.assert_array_equal(
            bits(got[name]), bits(nearest(wide(value), dtype)), err_msg=name
        )
    for name, of in (("sum32", "plus"), ("product32", "times"), ("quotient32", "over")):
        np.testing.assert_array_equal(bits(got[name]), bits(single[of]), err_msg=name)


@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_random_pairs_of_16_bit_values_are_rounded_once(dtype):
    random = np.random.default_rng(dtype.bits)
    near = random.integers(0, 1 << 16, 3000).astype(np.uint16)
    other = np.where(
        random.random(3000) < 0.6,
        near ^ random.integers(0, 1 << 11, 3000).astype(np.uint16),  # sums and quotients near a tie
        random.integers(0, 1 << 16, 3000).astype(np.uint16),
    )
    a, b = (array.astype(np.uint16).view(NUMPY_TYPES[dtype]) for array in (near, other))
    finite = np.isfinite(wide(a)) & np.isfinite(wide(b)) & (wide(b) != 0)
    a, b = a[finite], b[finite]
    got = compute(expressions(dtype), a=a, b=b)
    for sign, (name, _) in zip(OPERATORS, expressions(dtype).items(), strict=True):
        check_pairs(sign, a, b, got[name], dtype)


def check_pairs(
    sign: str, a: np.ndarray, b: np.ndarray, got: np.ndarray, dtype: weft.DType
) -> None:
    largest = Fraction(dtype.info.format.largest)
    for left, right, result in zip(wide(a), wide(b), wide(got), strict=True):
        rounded = rounded_fraction(exactly(sign, Fraction(left), Fraction(right)), dtype)
        if abs(rounded) > largest:
            assert np.isinf(result) and (result > 0) == (rounded > 0), (left, sign, right, result)
        else:
            assert Fraction(result) == rounded, (left, sign, right, result, float(rounded))


@pytest.mark.parametrize("dtype", SMALL)
def test_every_value_converts_to_every_float(dtype):
    values = every_value(dtype)
    targets = {str(target): target for target in SMALL if target is not dtype}
    wider = {"f32": weft.f32, "f64": weft.f64, "truth": weft.bool_}
    asked = {name: (f"weft.{target}(a)", target) for name, target in (targets | wider).items()}
    got = compute(asked, a=values)
    for name, target in targets.items():
        np.testing.assert_array_equal(
            bits(got[name]), bits(nearest(wide(values), target)), err_msg=name
        )
    np.testing.assert_array_equal(bits(got["f64"]), bits(wide(values)))
    with np.errstate(invalid="ignore"):
        single = wide(values).astype(np.float32)
    np.testing.assert_array_equal(bits(got["f32"]), bits(single))
    np.testing.assert_array_equal(got["truth"], wide(values) != 0)


@pytest.mark.parametrize("dtype", sampled(SMALL, 2))
def test_every_value_converts_to_every_integer(dtype):
    values = every_value(dtype)
    got = compute({str(target): (f"weft.{target}(a)", target) for target in INTEGERS}, a=values)
    for target in INTEGERS:
        with np.errstate(invalid="ignore"):
            cut = np.nan_to_num(np.trunc(wide(values)), posinf=1e300, neginf=-1e300)
        expected = [min(max(int(value), target.minimum), target.maximum) for value in cut]
        assert got[str(target)].tolist() == expected
    numbers = np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
    back = compute({"it": (f"weft.{dtype}(n)", dtype)}, n=numbers)["it"]
    np.testing.assert_array_equal(bits(back), bits(nearest(numbers.astype(np.float64), dtype)))


_half = define("""
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    for k in range(a.shape[1]):
        x = a[i, k]
        out[i, k] = weft.f16(weft.bf16(x)) * weft.f16(x) - weft.f16(weft.f8e4m3(x))

@weft.jit
def host(a: weft.Tensor[weft.f32, ("n", "m")], out: weft.Tensor[weft.f16, ("n", "m")]):
    kernel(a, out).launch(grid=1, block=a.shape[0])
""")["host"]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_chains_of_formats_round_at_each_step(numbers):
    a = np.array([numbers], np.float32)
    out = np.zeros(a.shape, np.float16)
    _half(a, out)

    def f16(values: np.ndarray) -> np.ndarray:
        return wide(nearest(values, weft.f16))

    with np.errstate(all="ignore"):
        product = f16(f16(wide(nearest(wide(a), weft.bf16))) * f16(wide(a)))
        expected = nearest(product - f16(wide(nearest(wide(a), weft.f8e4m3))), weft.f16)
    np.testing.assert_array_equal(bits(out), bits(expected))


ARITHMETIC = """
@weft.kernel
def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    out[i] = weft.{dtype}(a[i] * b[i] + c[i] - a[i] / b[i])

@weft.jit
def host(
    a: weft.Tensor[weft.{dtype}, ("n",)], b: weft.Tensor[weft.{dtype}, ("n",)],
    c: weft.Tensor[weft.{dtype}, ("n",)], out: weft.Tensor[weft.{dtype}, ("n",)],
):
    kernel(a, b, c, out).launch(grid=1, block=4)
"""
CONTRACTED = re.compile(r"(?:fma|mad)\.\S*\s+(.*);")
FLOAT_OPERATION = re.compile(r"^\s+((?:add|sub|mul|div)\.\S*(?:f16|bf16|f32|f64)\S*)", re.MULTILINE)


@pytest.mark.parametrize("architecture", sampled(["sm_75", "sm_80", "sm_90a", "sm_100a"], 2))
@pytest.mark.parametrize("dtype", [*SMALL, weft.f32, weft.f64])
def test_operations_are_not_fused_where_that_is_asked(dtype, architecture):
    """Every instruction says `.rn`, which also forbids the assembler to fuse it with its neighbor.

    The first GPUs with bf16 only multiply and add at once; there one operand is 1, -1 or -0, which is exact.
    """
    host = define(ARITHMETIC.format(dtype=dtype))["host"]
    ptx = weft.compile(host, options=f"--gpu-arch {architecture} --fp-contract off").ptx
    constants = set(
        re.findall(r"mov\.b16 \t?(%\w+), (?:0x8000|0x3F80|0xBF80|-32768|16256|-16512);", ptx)
    )
    for operands in CONTRACTED.findall(ptx):
        if "%rs" in operands or "%h" in operands:
            assert constants & set(operands.split(", ")), (operands, constants)
    operations = FLOAT_OPERATION.findall(ptx)
    assert operations
    assert all(".rn" in operation for operation in operations), operations
    assert "fma.rn.f32" not in ptx and "fma.rn.f64" not in ptx and "fma.rn.f16" not in ptx
    assert ".ftz" not in ptx and ".approx" not in ptx
