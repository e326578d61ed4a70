# SPDX-License-Identifier: Apache-2.0
"""The library's functions against mpmath: error bounds, special values, and that loops over them vectorize."""

from __future__ import annotations

import functools
import math

import mpmath
import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, apply, elementwise, parse_module
from tests.codegen.special_units import RCP, fast_kernel
from tests.sampling import sampled
from tools.sweep_math import REFERENCES, promised, sweep
from weft.backends.cuda.stages import emit_ptx, print_kernels
from weft.backends.cuda.target import cuda_machine
from weft.backends.host import machine_of

TYPES = {"f32": (np.float32, 24, -149), "f64": (np.float64, 53, -1074)}
PRECISION = 200
SAMPLES = 300

# name → where to look in f32 and f64
EVERYWHERE, POSITIVE = "everywhere", "positive"
FUNCTIONS = {
    "exp": {"f32": (-104, 89), "f64": (-746, 710)},
    "exp2": {"f32": (-150, 128), "f64": (-1075, 1024)},
    "expm1": {"f32": (-20, 88), "f64": (-40, 709)},
    "log": POSITIVE,
    "log2": POSITIVE,
    "log10": POSITIVE,
    "log1p": {"f32": (-0.999, 1e6), "f64": (-0.999, 1e6)},
    "sin": EVERYWHERE,
    "cos": EVERYWHERE,
    "tan": EVERYWHERE,
    "asin": {"f32": (-1, 1), "f64": (-1, 1)},
    "acos": {"f32": (-1, 1), "f64": (-1, 1)},
    "atan": EVERYWHERE,
    "sinh": {"f32": (-89, 89), "f64": (-710, 710)},
    "cosh": {"f32": (-89, 89), "f64": (-710, 710)},
    "tanh": {"f32": (-12, 12), "f64": (-22, 22)},
    "asinh": EVERYWHERE,
    "acosh": {"f32": (1, 1e6), "f64": (1, 1e6)},
    "atanh": {"f32": (-1, 1), "f64": (-1, 1)},
    "erf": {"f32": (-5, 5), "f64": (-7, 7)},
    "cbrt": EVERYWHERE,
    "rsqrt": POSITIVE,
}
# name → operation
ROUNDINGS = {name: name for name in ("sqrt", "floor", "ceil", "trunc")}
ROUNDINGS |= {"abs": "absf", "round": "roundeven"}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
NUMPY |= {"acosh": "arccosh", "atanh": "arctanh"}
BOUNDS = promised()
CASES = [(name, kind) for name in FUNCTIONS for kind in TYPES]


def bound_of(name: str, kind: str) -> float:
    """Most units in the last place that a function may be off, as docs/mathematics.md promises."""
    return BOUNDS[name][kind]


def random_bits(kind: str, count: int, seed: int) -> np.ndarray:
    """Finite floats of every magnitude."""
    dtype, _, _ = TYPES[kind]
    bits = 32 if kind == "f32" else 64
    words = np.random.default_rng(seed).integers(0, 2**bits, count, dtype=np.uint64)
    values = words.astype(np.uint32 if kind == "f32" else np.uint64).view(dtype)
    return values[np.isfinite(values)]


def samples(where: str | dict[str, tuple[float, float]], kind: str) -> np.ndarray:
    """Arguments spread over a domain, with many near 0, near 1 and near multiples of π/2."""
    dtype, _, _ = TYPES[kind]
    random = np.random.default_rng(5)
    near_zero = (random.random(SAMPLES) - 0.5) * 2.0 ** -random.integers(-4, 30, SAMPLES)
    near_one = 1 + (random.random(SAMPLES) - 0.5) * 2.0 ** -random.integers(0, 20, SAMPLES)
    turns = np.arange(SAMPLES) * np.pi / 2
    chosen = np.concatenate([near_zero, near_one, turns]).astype(dtype)
    if isinstance(where, dict):
        low, high = where[kind]
        chosen = np.concatenate(
            [chosen, (random.random(SAMPLES) * (high - low) + low).astype(dtype)]
        )
        return chosen[(chosen >= low) & (chosen <= high)]
    chosen = np.concatenate([chosen, random_bits(kind, SAMPLES, seed=6)])
    return np.abs(chosen[chosen != 0]) if where == POSITIVE else chosen


def worst_error(kind: str, got: np.ndarray, exact: list[mpmath.mpf]) -> float:
    """The largest error in units in the last place of the exact value; infinity where it must not be."""
    dtype, digits, lowest = TYPES[kind]
    largest = mpmath.mpf(float(np.finfo(dtype).max))
    worst = 0.0
    for value, wanted in zip(got, exact, strict=True):
        if not np.isfinite(value):
            error = 0.0 if abs(wanted) >= largest * (1 - mpmath.mpf(2) ** -digits) else math.inf
        else:
            exponent = mpmath.frexp(wanted)[1] - digits if wanted != 0 else lowest
            unit = mpmath.mpf(2) ** max(lowest, exponent)
            error = float(abs(mpmath.mpf(float(value)) - wanted) / unit)
        worst = max(worst, error)
    return worst


@functools.cache
def kernel_of(name: str, kind: str) -> CpuKernel:
    return CpuKernel(elementwise(f"%r = math.{name} %v0 : {kind}", [kind], kind))


@pytest.mark.parametrize(("name", "kind"), sampled(CASES, 6, several=True))
def test_error_is_within_the_bound(name: str, kind: str):
    reference, where = REFERENCES[name].exact, FUNCTIONS[name]
    arguments = samples(where, kind)
    dtype, _, _ = TYPES[kind]
    kernel = kernel_of(name, kind)
    got = apply(kernel, dtype, arguments)
    with mpmath.workprec(PRECISION):
        exact = [reference(mpmath.mpf(float(argument))) for argument in arguments]
        assert worst_error(kind, got, exact) <= bound_of(name, kind)


def edges(where: str | dict[str, tuple[float, float]], kind: str) -> np.ndarray:
    """The smallest and largest floats, subnormal and normal, and those where reductions change their way."""
    dtype, digits, lowest = TYPES[kind]
    information = np.finfo(dtype)
    smallest, normal, largest = (
        dtype(information.smallest_subnormal),
        dtype(information.tiny),
        dtype(information.max),
    )
    chosen = [smallest, smallest * dtype(3), normal - smallest, normal, normal + smallest, largest]
    powers = (lowest // 2, -digits, -digits // 2, -12, -1, 0, 1, 15, 16, 29, 30, 31, digits, 100)
    for power in powers:
        value = dtype(2.0**power)
        chosen += [np.nextafter(value, dtype(0)), value, np.nextafter(value, dtype(np.inf))]
    both = np.array([*chosen, *(-value for value in chosen)], dtype)
    if isinstance(where, dict):
        return both[(both >= where[kind][0]) & (both <= where[kind][1])]
    return both[both > 0] if where == POSITIVE else both


@pytest.mark.parametrize(("name", "kind"), sampled(CASES, 2, several=True))
def test_error_is_within_the_bound_for_extreme_floats(name: str, kind: str):
    reference, where = REFERENCES[name].exact, FUNCTIONS[name]
    arguments = edges(where, kind)
    dtype, _, _ = TYPES[kind]
    kernel = kernel_of(name, kind)
    got = apply(kernel, dtype, arguments)
    with mpmath.workprec(1400):  # the largest f64 modulo π takes 1024 bits before the point
        exact = [reference(mpmath.mpf(float(argument))) for argument in arguments]
        assert worst_error(kind, got, exact) <= bound_of(name, kind)


@pytest.mark.joined
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_special_values_are_those_of_c(name: str, kind: str):
    dtype, _, _ = TYPES[kind]
    arguments = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0], dtype)
    kernel = kernel_of(name, kind)
    got = apply(kernel, dtype, arguments)
    with np.errstate(all="ignore"):
        if name == "rsqrt":
            expected = 1 / np.sqrt(arguments)
        elif name == "erf":
            expected = np.array([math.erf(value) for value in arguments], dtype)
        else:
            expected = getattr(np, NUMPY.get(name, name))(arguments)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    zeros = expected == 0
    assert (np.signbit(got[zeros]) == np.signbit(expected[zeros])).all()


@pytest.mark.parametrize(("name", "kind"), sampled(CASES, 3, several=True))
def test_loops_over_it_vectorize(name: str, kind: str):
    machine = machine_of("x86-64-v4", "+avx512f,+avx512dq,+avx512bw,+avx512vl,+fma,+f16c")
    kernel = CpuKernel(elementwise(f"%r = math.{name} %v0 : {kind}", [kind], kind), machine)
    assert ("x float>" if kind == "f32" else "x double>") in kernel.optimized


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["powf", "atan2"])
def test_loops_over_it_vectorize_with_two_arguments(name: str, kind: str):
    machine = machine_of("x86-64-v4", "+avx512f,+avx512dq,+avx512bw,+avx512vl,+fma,+f16c")
    text = elementwise(f"%r = math.{name} %v0, %v1 : {kind}", [kind, kind], kind)
    kernel = CpuKernel(text, machine)
    assert ("x float>" if kind == "f32" else "x double>") in kernel.optimized


def test_ptx_of_every_function_needs_no_other_library():
    operations = [f"math.{name}" for name in (*FUNCTIONS, *ROUNDINGS.values())]
    texts = [f"%r = {operation} %v0 : KIND" for operation in operations]
    pairs = ["math.powf", "math.atan2", "math.copysign", "simt.floor_div"]
    texts += [f"%r = {operation} %v0, %v1 : KIND" for operation in (*pairs, "simt.floor_mod")]
    texts += ["%r = math.fma %v0, %v1, %v2 : KIND"]
    kernels = [
        elementwise(text.replace("KIND", kind), [kind] * text.count("%v"), kind)
        for kind in TYPES
        for text in texts
    ]
    module = "".join(
        text.replace("@kernel", f"@kernel_{number}") for number, text in enumerate(kernels)
    )
    machine = cuda_machine("sm_90a")
    ptx = emit_ptx(print_kernels(parse_module(module), machine), machine, level=2)
    assert ptx.count(".entry") == len(kernels)
    assert ".extern" not in ptx
    assert "__nv_" not in ptx


@pytest.mark.parametrize("name", sampled(FUNCTIONS, 3))
def test_f32_error_is_within_the_bound_at_every_magnitude(name: str):
    worst, argument = sweep(name, stride=20_011)
    assert worst <= bound_of(name, "f32"), argument


def test_every_function_of_one_float_has_a_reference_and_a_bound():
    assert set(REFERENCES) == {*FUNCTIONS, *ROUNDINGS}
    assert {*REFERENCES, "pow", "atan2"} <= set(BOUNDS)


@pytest.mark.parametrize("kind", TYPES)
def test_atan2_is_within_the_bound(kind: str):
    dtype, _, _ = TYPES[kind]
    random = np.random.default_rng(4)
    y = np.concatenate(
        [random_bits(kind, 400, seed=2)[:300], random.normal(size=600).astype(dtype)]
    )
    x = np.concatenate(
        [random_bits(kind, 400, seed=3)[:300], random.normal(size=600).astype(dtype)]
    )
    kernel = CpuKernel(elementwise(f"%r = math.atan2 %v0, %v1 : {kind}", [kind, kind], kind))
    got = apply(kernel, dtype, y, x)
    with mpmath.workprec(PRECISION):
        exact = [mpmath.atan2(float(a), float(b)) for a, b in zip(y, x, strict=True)]
        assert worst_error(kind, got, exact) <= bound_of("atan2", kind)


@pytest.mark.parametrize("kind", TYPES)
def test_pow_is_within_the_bound(kind: str):
    dtype, _, _ = TYPES[kind]
    random = np.random.default_rng(7)
    near_one = (
        1 + (random.random(SAMPLES) - 0.5) * 2.0 ** -random.integers(0, 15, SAMPLES)
    ).astype(dtype)
    base = np.concatenate([np.abs(random_bits(kind, SAMPLES, seed=8)), near_one])
    base = base[base > 0]
    largest = 128 if kind == "f32" else 1024
    limit = np.minimum(largest / np.maximum(np.abs(np.log2(base.astype(np.float64))), 1e-300), 1e30)
    exponent = ((random.random(len(base)) * 2 - 1) * limit).astype(dtype)
    kernel = CpuKernel(elementwise(f"%r = math.powf %v0, %v1 : {kind}", [kind, kind], kind))
    got = apply(kernel, dtype, base, exponent)
    with mpmath.workprec(PRECISION):
        exact = [
            mpmath.mpf(float(b)) ** mpmath.mpf(float(e))
            for b, e in zip(base, exponent, strict=True)
        ]
        assert worst_error(kind, got, exact) <= bound_of("pow", kind)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -1.5, 1e30, -1e30]
SPECIAL += [math.inf, -math.inf, math.nan, 2.0**24 - 1]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("name", "reference"), [("powf", np.power), ("atan2", np.arctan2)])
def test_special_values_of_two_arguments_are_those_of_c(kind: str, name: str, reference):
    dtype, _, _ = TYPES[kind]
    first = np.array([a for a in SPECIAL for _ in SPECIAL], dtype)
    second = np.array([b for _ in SPECIAL for b in SPECIAL], dtype)
    kernel = CpuKernel(elementwise(f"%r = math.{name} %v0, %v1 : {kind}", [kind, kind], kind))
    got = apply(kernel, dtype, first, second)
    with np.errstate(all="ignore"):
        expected = reference(first.astype(np.float64), second.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    zeros = expected == 0
    assert (np.signbit(got[zeros]) == np.signbit(expected[zeros])).all()


def python_remainder(a: float, b: float) -> mpmath.mpf:
    """a % b, exactly."""
    return mpmath.mpf(a) - mpmath.floor(mpmath.mpf(a) / mpmath.mpf(b)) * mpmath.mpf(b)


@pytest.mark.parametrize("kind", TYPES)
def test_float_remainder_is_exact_for_any_quotient(kind: str):
    dtype, _, _ = TYPES[kind]
    random = np.random.default_rng(9)
    first = np.concatenate(
        [random_bits(kind, 400, 10)[:300], (random.random(300) * 100 - 50).astype(dtype)]
    )
    second = np.concatenate(
        [random_bits(kind, 400, 11)[:300], (random.random(300) * 10 - 5).astype(dtype)]
    )
    kernel = CpuKernel(elementwise(f"%r = simt.floor_mod %v0, %v1 : {kind}", [kind, kind], kind))
    got = apply(kernel, dtype, first, second)
    with mpmath.workprec(5000):
        exact = [python_remainder(float(a), float(b)) for a, b in zip(first, second, strict=True)]
        # A remainder of the dividend's sign is exact; moving it to the divisor's rounds once.
        assert worst_error(kind, got, exact) <= 0.5


@pytest.mark.parametrize("kind", TYPES)
def test_float_floor_division_is_pythons(kind: str):
    dtype, _, _ = TYPES[kind]
    random = np.random.default_rng(12)
    first = np.concatenate([(random.random(300) * 100 - 50), random.integers(-50, 50, 300)]).astype(
        dtype
    )
    second = np.concatenate([(random.random(300) * 10 - 5), random.integers(1, 8, 300)]).astype(
        dtype
    )
    kernel = CpuKernel(elementwise(f"%r = simt.floor_div %v0, %v1 : {kind}", [kind, kind], kind))
    got = apply(kernel, dtype, first, second)
    assert [float(v) for v in got] == [
        float(a) // float(b) for a, b in zip(first, second, strict=True)
    ]


@pytest.mark.parametrize("operation", ["floor_div", "floor_mod"])
def test_a_units_error_does_not_show_in_quotients_and_remainders(operation: str):
    random = np.random.default_rng(13)
    divisors = np.concatenate([random_bits("f32", 4000, 14), random.random(9000) + 1])
    factors = random.integers(1 << 18, 1 << 22, 9000) + random.integers(0, 2, 9000) / 2
    dividends = np.concatenate([random_bits("f32", 4000, 15), factors * divisors[-9000:]])
    a, b = dividends.astype(np.float32), divisors[-len(dividends) :].astype(np.float32)
    text = elementwise(f"%r = simt.{operation} %v0, %v1 : f32", ["f32", "f32"], "f32")
    expected = apply(CpuKernel(text), np.float32, a, b)
    for error in RCP:
        got = apply(fast_kernel(text, {"rcp": error}), np.float32, a, b)
        np.testing.assert_array_equal(got, expected)
        assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()
