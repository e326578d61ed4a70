# SPDX-License-Identifier: Apache-2.0
"""An independent model of the language: the type rules and operators in NumPy.

In: types and arrays. Out: arrays. It shares nothing with weft but the names of the types.
"""

from __future__ import annotations

import math

import numpy as np

import weft
from tests.conformance.harness import NUMPY_TYPES

SIGNED_OF_BITS = {8: weft.i8, 16: weft.i16, 32: weft.i32, 64: weft.i64}


def arithmetic_type(dtype: weft.DType) -> weft.DType:
    """The type in which a value takes part in arithmetic: bools as i32, 8-bit floats as f32."""
    if dtype.is_bool:
        return weft.i32
    return weft.f32 if dtype.is_float8 else dtype


def common_type(left: weft.DType, right: weft.DType) -> weft.DType | None:
    """The type in which two typed operands meet, or None where there is none."""
    left, right = (arithmetic_type(dtype) for dtype in (left, right))
    if left is right:
        return left
    if left.is_float and right.is_float:
        if left.bits == right.bits:  # f16 with bf16
            return weft.f32
        return left if left.bits > right.bits else right
    if left.is_float or right.is_float:
        return left if left.is_float else right
    if left.kind == right.kind:
        return left if left.bits > right.bits else right
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return SIGNED_OF_BITS.get(unsigned.bits * 2)


def division_type(left: weft.DType, right: weft.DType) -> weft.DType | None:
    """The type of `left / right`: integers divide as f32, or as f64 if either has 64 bits."""
    common = common_type(left, right)
    if common is None or common.is_float:
        return common
    return weft.f64 if 64 in (left.bits, right.bits) else weft.f32


def wrap(value: int, dtype: weft.DType) -> int:
    """An integer of any size as `dtype` holds it, modulo 2**bits."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.maximum else value


def integer_operator(operator: str, left: int, right: int, dtype: weft.DType) -> int:
    """One integer operation in Python's own unbounded integers, then wrapped.

    Division by zero has all bits set as quotient, and the dividend as remainder.
    """
    if operator in ("//", "%") and right == 0:
        return wrap(-1, dtype) if operator == "//" else left
    exact = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "//": lambda: left // right,
        "%": lambda: left % right,
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
        "<<": lambda: left << right,
        ">>": lambda: left >> right,
    }[operator]()
    return wrap(exact, dtype)


def integers(operator: str, left: np.ndarray, right: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """`integer_operator` for each pair, as an array of `dtype`."""
    results = [
        integer_operator(operator, int(a), int(b), dtype) for a, b in zip(left, right, strict=True)
    ]
    return np.array(results, NUMPY_TYPES[dtype])


def floats(operator: str, left: np.ndarray, right: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """One float operation in `dtype`; 16-bit types compute in f32 and round once."""
    numpy_type = NUMPY_TYPES[dtype]
    working = numpy_type if dtype.bits >= 32 else np.dtype(np.float32)
    a, b = left.astype(numpy_type).astype(working), right.astype(numpy_type).astype(working)
    with np.errstate(all="ignore"):
        result = {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.divide,
            "//": np.floor_divide,
            "%": np.remainder,
        }[operator](a, b)
        return result.astype(numpy_type)


def rounded_once(values: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """Floats in another float type, to nearest even in one step.

    ml_dtypes goes from f64 through f32 and rounds twice; an f32 whose last bit says that something was
    cut off (rounding to odd) makes its second step right.
    """
    if values.dtype != np.float64 or dtype.bits >= 32 or dtype is weft.f16:
        return values.astype(NUMPY_TYPES[dtype])
    single = values.astype(np.float32)
    toward_zero = np.where(
        np.abs(single.astype(np.float64)) > np.abs(values),
        np.nextafter(single, np.float32(0)),
        single,
    )
    bits = toward_zero.view(np.uint32) | (toward_zero != values)
    odd = np.where(np.isfinite(values), bits.astype(np.uint32).view(np.float32), single)
    return odd.astype(NUMPY_TYPES[dtype])


def to_integer(values: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """Float to integer: toward zero, the nearest bound when out of range, 0 for NaN."""
    results = []
    for value in values.astype(np.float64).tolist():
        if math.isnan(value):
            results.append(0)
        elif math.isinf(value):
            results.append(dtype.maximum if value > 0 else dtype.minimum)
        else:
            results.append(min(max(int(value), dtype.minimum), dtype.maximum))
    return np.array(results, NUMPY_TYPES[dtype])


def interesting_integers(dtype: weft.DType) -> np.ndarray:
    """The edges of the type, small numbers of both signs, and some in between."""
    low, high = dtype.minimum, dtype.maximum
    wanted = [0, 1, 2, 3, 5, 7, 63, 100, high, high - 1, high // 2, high // 2 + 1, high // 3]
    wanted += [-1, -2, -3, -7, -100, low, low + 1, low // 2]
    return np.array(sorted({value for value in wanted if low <= value <= high}), NUMPY_TYPES[dtype])


def interesting_floats(dtype: weft.DType) -> np.ndarray:
    """Zeros, ones, halves, infinities, NaN, the largest and the smallest numbers."""
    numpy_type = NUMPY_TYPES[dtype]
    wanted = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 7.25, 100.0, -100.0]
    wanted += [np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        values = np.array(wanted, np.float64).astype(numpy_type)
        edges = {
            weft.f16: (65504.0, 6.1e-5, 6e-8),
            weft.bf16: (3.3895e38, 1.18e-38, 9.2e-41),
            weft.f32: (3.4028234663852886e38, 1.18e-38, 1e-45),
            weft.f64: (1.7976931348623157e308, 2.3e-308, 5e-324),
        }.get(dtype, ())
        return np.concatenate([values, np.array(edges, np.float64).astype(numpy_type)])


def pairs(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every element of one with every element of the other, as two arrays of one length."""
    a, b = np.meshgrid(left, right, indexing="ij")
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def assert_same(got: np.ndarray, expected: np.ndarray, *inputs: np.ndarray) -> None:
    """Equal to the bit, NaN equal to any NaN; a failure shows the first wrong element's inputs."""
    assert got.dtype == expected.dtype
    with np.errstate(all="ignore"):
        wrong = differs(got, expected)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        given = ", ".join(repr(array[first]) for array in inputs)
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} wrong; first for ({given}): "
            f"got {got[first]!r}, expected {expected[first]!r}"
        )


def differs(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays of one type are not the same to the bit, NaN being equal to any NaN."""
    if np.issubdtype(got.dtype, np.integer) or got.dtype == np.bool_:
        return got != expected
    a, b = got.astype(np.float64), expected.astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    return ~(both_nan | ((a == b) & (np.signbit(a) == np.signbit(b))))
