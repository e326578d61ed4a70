# SPDX-License-Identifier: Apache-2.0
"""Conversions of f16, bf16 and the 8-bit floats against ml_dtypes, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, apply, elementwise
from weft.backends.host import HostMachine, host_machine, machine_of

FORMATS = {
    "f16": (np.float16, np.uint16),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, np.uint8),
    "f8E5M2": (ml_dtypes.float8_e5m2, np.uint8),
}
MACHINES = ("this CPU", "baseline")


def machine_named(name: str) -> HostMachine:
    """This CPU, or one without instructions for f16."""
    return host_machine() if name == "this CPU" else machine_of("x86-64", "")


def every_value(kind: str) -> np.ndarray:
    """All values of a format."""
    dtype, word = FORMATS[kind]
    return np.arange(np.iinfo(word).max + 1, dtype=word).view(dtype)


def awkward_doubles(kind: str) -> np.ndarray:
    """Every value of a format, the midpoints between adjacent values, and what lies just beside those."""
    with np.errstate(invalid="ignore"):
        finite = every_value(kind).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    middles = (finite[1:] + finite[:-1]) / 2
    beside = [np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)]
    far = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 464.0, 465.0, 61440.0, 0.0, -0.0])
    return np.concatenate([finite, middles, *beside, far])


def expected_bits(kind: str, values: np.ndarray) -> np.ndarray:
    """What ml_dtypes makes of doubles; 8-bit formats saturate here and not there."""
    dtype, word = FORMATS[kind]
    if kind.startswith("f8"):
        largest = float(ml_dtypes.finfo(dtype).max)
        values = np.clip(values, -largest, largest)
    with np.errstate(all="ignore"):
        # ml_dtypes rounds doubles to float first; round to odd, so that the second rounding is right.
        single = values.astype(np.float32)
        inexact = single.astype(np.float64) != values
        even = (single.view(np.uint32) & 1) == 0
        grew = np.abs(single.astype(np.float64)) > np.abs(values)
        other = np.where(grew, single.view(np.uint32) - 1, single.view(np.uint32) + 1)
        odd = np.where(inexact & even & np.isfinite(values), other, single.view(np.uint32))
        return odd.astype(np.uint32).view(np.float32).astype(dtype).view(word)


def same(kind: str, got: np.ndarray, expected: np.ndarray) -> bool:
    """Equal bits, or both NaN."""
    dtype, _ = FORMATS[kind]
    both_nan = np.isnan(got.view(dtype).astype(np.float32)) & np.isnan(
        expected.view(dtype).astype(np.float32)
    )
    return bool(((got == expected) | both_nan).all())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_every_value_widens_exactly(kind: str, wide: str, machine: str):
    result = np.float32 if wide == "f32" else np.float64
    operation = f"%r = arith.extf %v0 : {kind} to {wide}"
    kernel = CpuKernel(elementwise(operation, [kind], wide), machine_named(machine))
    got = apply(kernel, result, every_value(kind))
    with np.errstate(invalid="ignore"):
        expected = every_value(kind).astype(np.float32).astype(result)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FORMATS)
def test_doubles_round_once_to_nearest_even(kind: str, machine: str):
    _, word = FORMATS[kind]
    operation = f"%r = arith.truncf %v0 : f64 to {kind}"
    kernel = CpuKernel(elementwise(operation, ["f64"], kind), machine_named(machine))
    values = awkward_doubles(kind)
    assert same(kind, apply(kernel, word, values), expected_bits(kind, values))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FORMATS)
def test_floats_round_to_nearest_even(kind: str, machine: str):
    _, word = FORMATS[kind]
    operation = f"%r = arith.truncf %v0 : f32 to {kind}"
    kernel = CpuKernel(elementwise(operation, ["f32"], kind), machine_named(machine))
    values = awkward_doubles(kind).astype(np.float32)
    expected = expected_bits(kind, values.astype(np.float64))
    assert same(kind, apply(kernel, word, values), expected)


@pytest.mark.parametrize("kind", FORMATS)
def test_64_bit_integers_round_once(kind: str):
    dtype, word = FORMATS[kind]
    kernel = CpuKernel(elementwise(f"%r = arith.sitofp %v0 : i64 to {kind}", ["i64"], kind))
    base = np.array([1 << k for k in range(62)], np.int64)
    values = np.concatenate([base, base + 1, base * 3 // 2 + 1, -base - 1, base + (base >> 8) + 1])
    got = apply(kernel, word, values).view(dtype)
    exact = [nearest(int(value), dtype) for value in values]
    np.testing.assert_array_equal(got.astype(np.float64), np.array(exact, np.float64))


def nearest(value: int, dtype: type) -> float:
    """An integer in a small format: its leading digits, rounded to even; 8-bit formats saturate."""
    information = ml_dtypes.finfo(dtype)
    magnitude, digits = abs(value), information.nmant + 1
    shift = max(magnitude.bit_length() - digits, 0)
    whole, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = 1 << (shift - 1) if shift else 1
    whole += rest > half or (rest == half and whole & 1)
    result, largest = float(whole << shift), float(information.max)
    if result > largest:
        result = largest if np.dtype(dtype).itemsize == 1 else np.inf
    return -result if value < 0 else result


@pytest.mark.parametrize("kind", FORMATS)
def test_arithmetic_rounds_after_each_operation(kind: str):
    dtype, word = FORMATS[kind]
    kernel = CpuKernel(elementwise(f"%r = arith.addf %v0, %v1 : {kind}", [kind, kind], kind))
    random = np.random.default_rng(3)
    a = (random.random(4000) * 8 - 4).astype(dtype)
    b = (random.random(4000) * 8 - 4).astype(dtype)
    exact = (a.astype(np.float64) + b.astype(np.float64)).astype(np.float64)
    assert same(kind, apply(kernel, word, a, b), expected_bits(kind, exact))


@pytest.mark.parametrize("kind", FORMATS)
def test_no_library_function_is_needed_on_a_baseline_cpu(kind: str):
    operation = f"""%x = arith.extf %v0 : {kind} to f64
    %y = arith.truncf %x : f64 to {kind}
    %r = arith.addf %y, %v0 : {kind}"""
    kernel = CpuKernel(elementwise(operation, [kind], kind), machine_of("x86-64", ""))
    for name in (b"__truncsfbf2", b"__truncdfhf2", b"__extendhfsf2", b"__truncsfhf2"):
        assert name not in kernel.object
