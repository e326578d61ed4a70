# SPDX-License-Identifier: Apache-2.0
"""A product that is written as an operand of a sum is rounded with it, to the bit, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.sampling import sampled
from tools.fuzz.values import TYPES, multiply_add
from weft.backends.cpu.stages import print_kernels
from weft.backends.host import machine_of
from weft.codegen.llvm.optimize import emit_object, parse
from weft.compiler import pipeline

random = np.random.default_rng(0)
COUNT = 200
TYPED = {"f32": np.float32, "f64": np.float64, "f16": np.float16}

# What is written → left factor, right factor and addend of what is rounded once, or None: each operation is rounded.
FORMS = {
    "a * b + c": lambda a, b, c, d: (a, b, c),
    "c + a * b": lambda a, b, c, d: (a, b, c),
    "a * b - c": lambda a, b, c, d: (a, b, -c),
    "c - a * b": lambda a, b, c, d: (-a, b, c),
    "a * b + c * d": lambda a, b, c, d: (a, b, c * d),
    "a * b - c * d": lambda a, b, c, d: (a, b, -(c * d)),
    "c + (a * b)": lambda a, b, c, d: (a, b, c),
    "a * b * c + d": lambda a, b, c, d: (a * b, c, d),
    "2 * a + c": lambda a, b, c, d: (2 * a, 1, c),
    "-(a * b) + c": lambda a, b, c, d: None,
    "+(a * b) + c": lambda a, b, c, d: None,
    "abs(a * b) + c": lambda a, b, c, d: None,
    "(p := a * b) + c": lambda a, b, c, d: None,
    "p * 1.0 + c": lambda a, b, c, d: None,
    "p + c": lambda a, b, c, d: None,
    "sum((a * b, c))": lambda a, b, c, d: None,
}


def computed(form: str, dtype: str, decorator: str = "", options: str = "") -> list[np.ndarray]:
    """Four inputs and what a kernel made of them."""
    host = define(
        f"""
        @weft.kernel{decorator}
        def kernel(arrays: weft.Tensor, out: weft.Tensor):
            i = weft.thread_idx.x
            a, b, c, d = arrays[0, i], arrays[1, i], arrays[2, i], arrays[3, i]
            p = a * b
            out[i] = {form}

        @weft.jit
        def host(arrays: weft.Tensor, out: weft.Tensor):
            kernel(arrays, out).launch(grid=1, block={COUNT})
        """
    )["host"]
    inputs = random.standard_normal((4, COUNT)).astype(TYPED[dtype])
    inputs[2, ::2] = -inputs[0, ::2] * inputs[1, ::2]  # where only the rounding is left
    inputs[:, :4] = [[0, -0.0, np.inf, 1], [1, 1, 0, np.nan], [0, -0.0, 1, 1], [1, 0, 0, 0]]
    out = np.zeros(COUNT, TYPED[dtype])
    weft.compile(host, inputs, out, options=options)(inputs, out)
    return [*inputs, out]


def separately(form: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return eval(form, {"a": a, "b": b, "c": c, "d": d, "p": a * b})


def together(form: str, dtype: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray):
    with np.errstate(all="ignore"):
        terms = FORMS[form](a, b, c, d)
    rows = zip(*(np.broadcast_to(term, a.shape) for term in terms), strict=True)
    return np.array([multiply_add(TYPES[dtype], *map(float, row)).number for row in rows], a.dtype)


@pytest.mark.parametrize("dtype", sampled(["f32", "f64"], 2))
@pytest.mark.parametrize("form", FORMS)
def test_a_product_in_a_sum_is_rounded_with_it(form: str, dtype: str):
    *inputs, out = computed(form, dtype)
    with np.errstate(all="ignore"):
        once = FORMS[form](*inputs) is not None
    expected = together(form, dtype, *inputs) if once else separately(form, *inputs)
    np.testing.assert_array_equal(out, expected)
    assert (np.signbit(out) == np.signbit(expected))[~np.isnan(out)].all()
    if once and form != "2 * a + c":
        assert (out != separately(form, *inputs)).any()


@pytest.mark.parametrize("form", FORMS)
def test_narrow_floats_round_each_operation(form: str):
    *inputs, out = computed(form, "f16")
    np.testing.assert_array_equal(out, separately(form, *inputs))


@pytest.mark.parametrize(
    ("decorator", "options", "fused"),
    [
        ("", "--fp-contract off", False),
        ("", "--fp-contract on", True),
        ("(fp_contract=False)", "", False),
        ("(fp_contract=True)", "--fp-contract off", True),
    ],
)
def test_a_kernel_says_it_or_the_options_do(decorator: str, options: str, fused: bool):
    *inputs, out = computed("a * b + c", "f32", decorator, options)
    plain = separately("a * b + c", *inputs)
    np.testing.assert_array_equal(out, together("a * b + c", "f32", *inputs) if fused else plain)


def test_what_changes_a_variable_or_an_element_is_a_sum_too():
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, out: weft.Tensor):
            i = weft.thread_idx.x
            total = out[i]
            total += a[i] * a[i]
            total -= a[i] * 3.0
            out[i] = total
            out[i] += a[i] * total

        @weft.jit
        def host(a: weft.Tensor, out: weft.Tensor):
            kernel(a, out).launch(grid=1, block=64)
        """
    )["host"]
    a, out = (random.standard_normal(64, dtype=np.float32) for _ in range(2))
    f32 = TYPES["f32"]
    expected = []
    for x, total in zip(map(float, a), map(float, out), strict=True):
        total = multiply_add(f32, x, x, total).number
        total = multiply_add(f32, -x, 3.0, total).number
        expected.append(multiply_add(f32, x, total, total).number)
    host(a, out)
    assert out.tolist() == expected


def test_types_that_differ_are_converted_and_so_rounded_before():
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, wide: weft.Tensor, out: weft.Tensor):
            i = weft.thread_idx.x
            out[i] = a[i] * a[i] + wide[i]
            out[i + 64] = a[i] * a[i] + wide[i] * wide[i]

        @weft.jit
        def host(a: weft.Tensor, wide: weft.Tensor, out: weft.Tensor):
            kernel(a, wide, out).launch(grid=1, block=64)
        """
    )["host"]
    a, wide, out = random.standard_normal(64, np.float32), random.standard_normal(64), np.zeros(128)
    host(a, wide, out)
    squares = (a * a).astype(np.float64)
    np.testing.assert_array_equal(out[:64], squares + wide)
    f64 = TYPES["f64"]
    right = [multiply_add(f64, w, w, s).number for w, s in zip(wide.tolist(), squares, strict=True)]
    np.testing.assert_array_equal(out[64:], right)


def test_a_host_function_computes_likewise():
    host = define(
        """
        @weft.jit
        def host(x: weft.f32, y: weft.f32) -> weft.f32:
            return x * x - y * y
        """
    )["host"]
    x = np.float32(1.1)
    assert host(x, x) == multiply_add(TYPES["f32"], float(x), float(x), -float(x * x)).number != 0


def test_a_cpu_without_the_instruction_calls_libm(monkeypatch):
    modules = []
    lower = pipeline.lower

    def watched(*arguments):
        traced = lower(*arguments)
        modules.append(traced.module)
        return traced

    monkeypatch.setattr(pipeline, "lower", watched)
    computed("a * b + c", "f32")
    old, new = (machine_of("x86-64", ""), machine_of("x86-64-v3", "+fma"))
    objects = [
        emit_object(parse(print_kernels(modules[-1], machine), "kernels"), machine.machine)
        for machine in (old, new)
    ]
    assert [b"fmaf" in found for found in objects] == [True, False]


@pytest.mark.parametrize("value", [1, "maybe", 0.5])
def test_an_invalid_fp_contract_is_refused(value: object):
    with pytest.raises(TypeError, match=r"fp_contract is .*, expected True, False or None"):
        weft.kernel(fp_contract=value)
    with pytest.raises(weft.OptionError, match=r"--fp-contract takes one of on, off"):
        weft.FPContract(value)
