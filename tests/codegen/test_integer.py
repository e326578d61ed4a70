# SPDX-License-Identifier: Apache-2.0
"""Integer operations are defined for every input, division by zero and wide shifts included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, apply, elementwise
from tests.sampling import sampled

BITS = (8, 16, 32, 64)


def awkward(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values that are easy to get wrong."""
    top = 1 << (bits - 1)
    numbers = sorted(
        {0, 1, -1, 2, -2, 3, -3, 7, -7, 10, -10, top - 1, -top, -top + 1, bits, bits - 1, bits + 1}
    )
    pairs = list(itertools.product(numbers, numbers))
    dtype = np.dtype(f"i{bits // 8}")
    return np.array([a for a, _ in pairs], dtype), np.array([b for _, b in pairs], dtype)


def wrapped(value: int, bits: int) -> int:
    """An integer as a signed one of that width."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def floored(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder as Python has them; RISC-V's for zero."""
    return (-1, a) if b == 0 else (a // b, a % b)


def unsigned(a: int, bits: int) -> int:
    return a & ((1 << bits) - 1)


MODELS = {
    "arith.divui": lambda a, b, n: floored(unsigned(a, n), unsigned(b, n))[0],
    "arith.remui": lambda a, b, n: floored(unsigned(a, n), unsigned(b, n))[1],
    "simt.floor_div": lambda a, b, n: floored(a, b)[0],
    "simt.floor_mod": lambda a, b, n: floored(a, b)[1],
    "arith.shli": lambda a, b, n: a << unsigned(b, n) if unsigned(b, n) < n else 0,
    "arith.shrui": lambda a, b, n: unsigned(a, n) >> unsigned(b, n) if unsigned(b, n) < n else 0,
    "arith.shrsi": lambda a, b, n: a >> min(unsigned(b, n), n - 1),
    "arith.muli": lambda a, b, n: a * b,
    "arith.maxui": lambda a, b, n: max(unsigned(a, n), unsigned(b, n)),
    "arith.minsi": lambda a, b, n: min(a, b),
}


@pytest.mark.parametrize("bits", sampled(BITS, 2))
@pytest.mark.parametrize("operation", MODELS)
def test_every_pair_of_operands_has_the_defined_result(operation: str, bits: int):
    kind = f"i{bits}"
    a, b = awkward(bits)
    kernel = CpuKernel(
        elementwise(f"%r = {operation} %v0, %v1 : {kind}", [kind, kind], kind), level=1
    )
    model = MODELS[operation]
    expected = [wrapped(model(int(x), int(y), bits), bits) for x, y in zip(a, b, strict=True)]
    assert apply(kernel, a.dtype, a, b).tolist() == expected


@pytest.mark.parametrize(
    "operation", ["arith.divui", "arith.remui", "simt.floor_div", "simt.floor_mod"]
)
@pytest.mark.parametrize("divisor", sampled([1, 2, 3, 8, 10, -1, -2, -7, 0], 3))
def test_constant_divisors_give_the_same_results(operation: str, divisor: int):
    a, _ = awkward(32)
    text = f"%k = arith.constant {divisor} : i32\n%r = {operation} %v0, %k : i32"
    model = MODELS[operation]
    expected = [wrapped(model(int(x), divisor, 32), 32) for x in a]
    assert (
        apply(CpuKernel(elementwise(text, ["i32"], "i32"), level=1), np.int32, a).tolist()
        == expected
    )


@pytest.mark.parametrize("operation", ["arith.divui", "simt.floor_div"])
def test_a_nonzero_constant_divisor_needs_no_guard(operation: str):
    text = f"%k = arith.constant 10 : i32\n%r = {operation} %v0, %k : i32"
    assert "icmp eq i32 10" not in CpuKernel(elementwise(text, ["i32"], "i32")).llvm


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, -1])
@pytest.mark.parametrize("operation", ["arith.shli", "arith.shrui", "arith.shrsi"])
def test_constant_shift_counts_give_the_same_results(operation: str, count: int):
    a, _ = awkward(32)
    text = f"%k = arith.constant {count} : i32\n%r = {operation} %v0, %k : i32"
    model = MODELS[operation]
    expected = [wrapped(model(int(x), count, 32), 32) for x in a]
    assert (
        apply(CpuKernel(elementwise(text, ["i32"], "i32"), level=1), np.int32, a).tolist()
        == expected
    )


@pytest.mark.parametrize(("operation", "kind", "low", "high"), [
    ("arith.fptosi", "i8", -128, 127),
    ("arith.fptosi", "i32", -(2**31), 2**31 - 1),
    ("arith.fptosi", "i64", -(2**63), 2**63 - 1),
    ("arith.fptoui", "i32", 0, 2**32 - 1),
])  # fmt: skip
def test_floats_convert_to_integers_with_saturation(operation: str, kind: str, low: int, high: int):
    values = np.array([0.0, -0.5, 1.9, -1.9, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    bits = int(kind[1:])
    kernel = CpuKernel(elementwise(f"%r = {operation} %v0 : f32 to {kind}", ["f32"], kind), level=1)
    expected = [
        0 if v != v else int(max(low, min(high, v if abs(v) == np.inf else int(v)))) for v in values
    ]
    expected = [high if v == high else e for e, v in zip(expected, values, strict=True)]
    assert apply(kernel, np.dtype(f"i{bits // 8}"), values).tolist() == [
        wrapped(e, bits) for e in expected
    ]
