# SPDX-License-Identifier: Apache-2.0
"""Fast functions without a GPU: errors on modelled units, special values, instructions, and what chooses it."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import weft
from tests.codegen.kernel_runner import apply, elementwise
from tests.codegen.special_units import USES, choices, fast_kernel
from tests.sampling import sampled
from tools.sweep_math import ARGUMENTS, REFERENCES, fast_table, units_off
from weft.backends.cuda.fast_math import FAST

TABLE = fast_table()
OPERATIONS = {"powf": "pow"}
ONE_ARGUMENT = [name for name in USES if name in REFERENCES]
TWO_ARGUMENTS = {"atan2": np.arctan2, "powf": np.power}
STRIDE = 20_011
# zeros, ones, infinities, NaN, the ends of subnormal and normal numbers, and of the functions' ranges
EDGES = [0.0, 1.0, 2.0, 3.0, 0.5, 0.625, 4.0, math.inf, math.nan, 2.0**-149, 3e-39, 2.0**-126]
EDGES += [2.0**-127, 2.0**-100, 2.0**24, 2.0**24 - 1, 2.0**125, 2.0**126, 2.0**127, 3.4028235e38]
EDGES += [88.72283, 88.722846, 87.336, 87.34, 103.97, 103.98, 104.1, 127.99999, 128.0, 149.0, 150.5]
EDGES += [125.0, 125.00001, 126.0, 126.00001, 126.15633, 127.5]
EDGES += [0.99999994, 1.0000001, 0.49999997, 0.50000006, 8.66, 9.02, 1e30, 1e-30]
SPECIAL = np.array([*EDGES, *(-edge for edge in EDGES)], np.float32)


def compiled(name: str, errors: dict[str, int]):
    """A kernel that applies the function on units with these errors."""
    count = 2 if name in TWO_ARGUMENTS else 1
    operands = ", ".join(f"%v{number}" for number in range(count))
    text = elementwise(f"%r = math.{name} {operands} : f32", ["f32"] * count, "f32")
    return fast_kernel(text, errors)


def allowed(name: str) -> float:
    """The error that docs/mathematics.md says the PTX ISA allows."""
    return TABLE[OPERATIONS.get(name, name)][0]


def test_every_fast_function_has_a_row_and_a_model():
    names = {name.split(".")[1] for name in FAST}
    assert names == set(TABLE) == {OPERATIONS.get(name, name) for name in USES}


@pytest.mark.parametrize("name", sampled(ONE_ARGUMENT, 2))
def test_the_error_is_as_documented_whatever_the_units_do(name: str):
    patterns = np.arange(0, ARGUMENTS, STRIDE, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([patterns.view(np.float32), SPECIAL])
    with np.errstate(all="ignore"):
        exact = REFERENCES[name].doubles(x.astype(np.float64))
        for errors in choices(name):
            error = units_off(apply(compiled(name, errors), np.float32, x), exact)
            assert error.max() <= allowed(name), (errors, x[error.argmax()])


def pairs_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns, and for pow bases and exponents that do not overflow."""
    random = np.random.default_rng(2)
    x, y = (
        random.integers(0, 2**32, (2, 40_000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    )
    if name == "atan2":
        return np.concatenate([x, random.random(40_000, np.float32)]), np.concatenate(
            [y, random.random(40_000, np.float32)]
        )
    wide = np.exp(random.uniform(-5, 5, 80_000)).astype(np.float32)
    wide[::2] = 1 + (random.random(40_000) - 0.5) * 0.01
    exponents = random.uniform(-88, 88, 80_000) / np.log(wide.astype(np.float64))
    usable = np.isfinite(exponents)
    return np.concatenate([x, wide[usable]]), np.concatenate(
        [y, exponents[usable].astype(np.float32)]
    )


def error_of_pairs(name: str, got: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The error in units in the last place; infinity for a wrong zero, infinity or NaN."""
    with np.errstate(all="ignore"):
        exact = TWO_ARGUMENTS[name](x.astype(np.longdouble), y.astype(np.longdouble))
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(nearest), np.finfo(np.float32).tiny))
        error = (np.abs(got - exact) / unit).astype(np.float64)
    alike = (got == nearest) & (np.signbit(got) == np.signbit(nearest))
    error[alike | (np.isnan(got) & np.isnan(nearest))] = 0.0
    error[np.isinf(got) & (np.abs(exact) > np.finfo(np.float32).max * (1 - 2.0**-22))] = 0.0
    return np.nan_to_num(error, nan=np.inf)


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_the_error_of_two_arguments_is_as_documented(name: str):
    x, y = pairs_of(name)
    for errors in choices(name):
        error = error_of_pairs(name, apply(compiled(name, errors), np.float32, x, y), x, y)
        assert error.max() <= allowed(name), (errors, x[error.argmax()], y[error.argmax()])


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_special_values_of_two_arguments_are_those_of_c(name: str):
    x, y = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.float32).T
    for errors in choices(name):
        error = error_of_pairs(name, apply(compiled(name, errors), np.float32, x, y), x, y)
        assert error.max() <= allowed(name), (errors, x[error.argmax()], y[error.argmax()])


@pytest.mark.parametrize("name", ["exp", "exp2", "log1p", "tanh", "asin", "acos", "atan"])
def test_special_values_are_numpys(name: str):
    numpy = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}.get(name) or getattr(np, name)
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0**-149, -(2.0**-149)])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = numpy(x.astype(np.float64)).astype(np.float32)
    got = apply(compiled(name, {}), np.float32, x)
    np.testing.assert_allclose(got, expected, rtol=3e-7)
    np.testing.assert_array_equal(
        np.signbit(got[expected == 0]), np.signbit(expected[expected == 0])
    )


# ---- what chooses it

VECTOR = weft.fake_tensor(weft.f32, (256,))


def host_of(decorator: object, function: object):
    """A host function that applies a function of `weft.math` to a vector's halves."""

    @decorator
    def kernel(a: weft.Tensor, b: weft.Tensor, function: weft.Constexpr, pair: weft.Constexpr):
        i = weft.thread_idx.x
        if pair:
            b[i] = function(a[i], a[i + 64])
        else:
            b[i] = function(a[i])

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor):
        kernel(a, b, function, function.name in PAIRED).launch(grid=1, block=64)

    return host


PAIRED = ("math.atan2", "math.pow", "math.copysign")


@pytest.mark.parametrize(
    ("decorator", "options", "fast"),
    [
        (weft.kernel, "", True),
        (weft.kernel, "--math portable", False),
        (weft.kernel, "--math fast", True),
        (weft.kernel(math="fast"), "--math portable", True),
        (weft.kernel(math="portable"), "", False),
    ],
)
def test_a_kernel_says_it_or_the_options_do(decorator: object, options: str, fast: bool):
    host = host_of(decorator, weft.math.exp)
    ptx = weft.compile(host, VECTOR, VECTOR, options=f"--gpu-arch sm_90a {options}").ptx
    assert ("ex2.approx.ftz.f32" in ptx) == fast


def test_the_default_of_a_decorator_and_f64():
    portable = weft.jit(options="--math portable")
    vector = weft.fake_tensor(weft.f64, (256,))
    host = host_of(weft.kernel, weft.math.exp)
    ptx = weft.compile[weft.GPUArch("sm_90a")](portable(host.function), VECTOR, VECTOR).ptx
    assert "ex2.approx.ftz.f32" not in ptx
    wide = weft.compile[weft.GPUArch("sm_90a")](host, vector, vector)
    assert "approx" not in wide.ptx


@pytest.mark.parametrize("name", sampled(TABLE, 3))
def test_the_cpu_keeps_its_bits(name: str):
    a = np.random.default_rng(1).normal(size=256).astype(np.float32)
    results = []
    for kind in ("portable", "fast"):
        b = np.zeros(256, np.float32)
        host_of(weft.kernel(math=kind), getattr(weft.math, name))(a, b)
        results.append(b)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("value", [True, "quick", 0.5])
def test_another_kind_is_refused(value: object):
    with pytest.raises(ValueError, match=r"math is .*, expected one of fast, portable, or None"):
        weft.kernel(math=value)
    with pytest.raises(weft.OptionError, match=r"--math takes one of fast, portable, received"):
        weft.MathFunctions(value)


def instructions_of(function: object, kind: str) -> int:
    """SASS instructions of a kernel that applies a function to one element."""
    options = f"--gpu-arch sm_90a --math {kind}"
    sass = weft.compile(host_of(weft.kernel, function), VECTOR, VECTOR, options=options).sass
    found = re.findall(r"/\*[0-9a-f]{4}\*/\s+([^;]*);", sass)
    return sum(not re.match(r"NOP|BRA|EXIT", text) for text in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_instructions_are_as_documented(name: str):
    function = getattr(weft.math, name)
    simple = weft.math.copysign if function.name in PAIRED else weft.math.abs
    try:
        before = instructions_of(simple, "portable") - 1
    except weft.ToolchainError as error:
        pytest.skip(str(error))
    *_, fast = TABLE[name]
    assert instructions_of(function, "fast") - before <= fast
