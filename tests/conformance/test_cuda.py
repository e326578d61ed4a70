# SPDX-License-Identifier: Apache-2.0
"""Kernels of the CPU tests compile for a GPU, to the instructions that it should.

In: the same expressions and functions, with fake tensors. Out: PTX that the assembler takes.
"""

from __future__ import annotations

import functools

import pytest

import weft
from examples.add_one import EXAMPLE as ADD_ONE
from examples.demo import compile_for_gpu
from tests.conformance.harness import (
    EIGHT_BIT_FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    NUMPY_TYPES,
    SIGNED,
    WIDE_FLOATS,
    elementwise,
    math_functions,
    threads,
)
from tests.conformance.model import common_type, division_type
from tests.conformance.test_control_flow import ONE_ARGUMENT
from tests.sampling import sampled

FLOATS = WIDE_FLOATS + NARROW_FLOATS
SYMBOLS = ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")


@functools.cache
def why_no_cuda() -> str:
    try:
        compile_for_gpu(ADD_ONE)
    except (weft.ToolchainError, weft.UnavailableError) as error:
        return f"needs the extra cuda: {error.message}"
    return ""


@pytest.fixture(autouse=True)
def assembler():
    if reason := why_no_cuda():
        pytest.skip(reason)


def compiled(body: str, dtypes: dict[str, weft.DType], options: str = "", **captured):
    """Statements over vectors of these types, compiled for sm_90a."""
    fakes = [weft.fake_tensor(dtype, (None,)) for dtype in dtypes.values()]
    host = threads(body, dtypes, **captured)
    return weft.compile(host, 1, *fakes, options=f"--gpu-arch sm_90a {options}")


def compiled_expressions(expressions: dict[str, tuple[str, weft.DType]], **inputs: weft.DType):
    dtypes = {f"{name}_values": dtype for name, dtype in inputs.items()}
    dtypes |= {f"{name}_result": dtype for name, (_, dtype) in expressions.items()}
    return compiled(elementwise(expressions, inputs), dtypes)


@pytest.mark.parametrize("dtype", sampled(INTEGERS, 3), ids=str)
def test_integer_operators_assemble(dtype):
    expressions = {f"e{n}": (f"a {sign} b", dtype) for n, sign in enumerate(SYMBOLS)}
    expressions |= {
        "quotient": ("a / b", division_type(dtype, dtype)),
        "minus": ("-a", dtype),
        "absolute": ("abs(a)", dtype),
        "least": ("min(a, b)", dtype),
        "less": ("a < b", weft.bool_),
        "power": ("a ** 5", dtype),
        "ones": ("weft.i32(weft.math.popcount(a))", weft.i32),
        "zeros": ("weft.i32(weft.math.clz(a))", weft.i32),
    }
    ptx = compiled_expressions(expressions, a=dtype, b=dtype).ptx
    assert "popc.b" in ptx and "clz.b" in ptx


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operators_assemble(dtype):
    expressions = {f"e{n}": (f"a {sign} b", dtype) for n, sign in enumerate("+-*/")}
    expressions |= {
        "floor": ("a // b", dtype),
        "modulo": ("a % b", dtype),
        "minus": ("-a", dtype),
        "absolute": ("abs(a)", dtype),
        "largest": ("max(a, b)", dtype),
        "less": ("a < b", weft.bool_),
    }
    ptx = compiled_expressions(expressions, a=dtype, b=dtype).ptx
    if dtype in WIDE_FLOATS:
        assert f"div.rn.{dtype}" in ptx
        assert f"fma.rn.{dtype}" not in ptx.split("div.rn")[0]


@pytest.mark.parametrize("source", sampled([*INTEGERS, *FLOATS, weft.bool_], 3), ids=str)
def test_every_conversion_assembles(source):
    targets = [*NUMPY_TYPES]
    expressions = {str(t): (f"weft.{t}(a)", t) for t in targets if t is not source}
    compiled_expressions(expressions, a=source)


@pytest.mark.parametrize("dtype", EIGHT_BIT_FLOATS, ids=str)
def test_eight_bit_floats_assemble(dtype):
    compiled_expressions(
        {"wide": ("weft.f32(a)", weft.f32), "again": (f"weft.{dtype}(weft.f32(a) * 2)", dtype)},
        a=dtype,
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_function_of_one_float_assembles(dtype):
    expressions = {name: (f"weft.math.{name}(a)", dtype) for name in math_functions(1)}
    kernels = compiled_expressions(expressions, a=dtype).kernels
    assert all(kernel.spill_store_bytes == 0 for kernel in kernels.values())


MIXED = [(a, b) for a in SIGNED for b in INTEGERS if common_type(a, b) is not None]


@pytest.mark.parametrize(("left", "right"), sampled(MIXED, 6, several=True), ids=str)
def test_mixed_integers_assemble(left, right):
    common = common_type(left, right)
    compiled_expressions(
        {f"e{n}": (f"a {sign} b", common) for n, sign in enumerate(SYMBOLS[:8])}, a=left, b=right
    )


@pytest.mark.parametrize("part", range(4))
def test_control_flow_assembles(part):
    functions = {f.__name__: f for f in ONE_ARGUMENT[part::4]}
    body = "\n".join(f"out[{n}] += {name}(a[i])" for n, name in enumerate(functions))
    compiled(body, {"a": weft.i32, "out": weft.i32}, **functions)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_ranges_that_are_left_early_assemble(dtype, architecture):
    high = dtype.maximum
    arguments = ["a[0], a[1], a[2]", f"a[0], {high}, 7", f"a[0], a[1], {-(high // 3)}"]
    body = "\n".join(
        f"for k in range({listed}):\n    if k == a[3]: {leave}\n    out[i] += k % 3 == 1"
        for listed in arguments
        for leave in ("break", "continue", "return")
    )
    host = threads(body, ("a", "out"))
    fakes = [weft.fake_tensor(dtype, (None,)), weft.fake_tensor(weft.i32, (None,))]
    assert weft.compile(host, 1, *fakes, options=f"--gpu-arch {architecture}").cubin


ATOMICS = {
    "add": "atom.global.add.{}",
    "sub": "atom.global.add.{}",
    "max": "atom.global.max.{}",
    "min": "atom.global.min.{}",
    "and": "atom.global.and.b{bits}",
    "or": "atom.global.or.b{bits}",
    "xor": "atom.global.xor.b{bits}",
    "exchange": "atom.global.exch.b{bits}",
}


@pytest.mark.parametrize("dtype", [weft.i32, weft.u32, weft.i64, weft.u64], ids=str)
def test_integer_atomics_are_single_instructions(dtype):
    body = [f"old[i] = weft.atomic_{name}(cells, {n}, 3)" for n, name in enumerate(ATOMICS)]
    body.append("old[i] = weft.atomic_cas(cells, 0, 1, 2)")
    ptx = compiled("\n".join(body), {"cells": dtype, "old": dtype}).ptx
    letter = "s" if dtype.is_signed else "u"
    for name, form in ATOMICS.items():
        # Addition has no sign, so unsigned forms serve both.
        kinds = (
            [f"{letter}{dtype.bits}", f"u{dtype.bits}"]
            if name in ("add", "sub")
            else [f"{letter}{dtype.bits}"]
        )
        assert any(form.format(kind, bits=dtype.bits) in ptx for kind in kinds), name
    assert ptx.count(".global.cas.") == ptx.count(f".cas.b{dtype.bits}") == 1


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_float_atomic_add_is_a_single_instruction(dtype):
    ptx = compiled("weft.atomic_add(cells, 0, cells[1])", {"cells": dtype}).ptx
    assert f".global.add.{dtype}" in ptx
    assert ".cas." not in ptx


@pytest.mark.parametrize(
    ("order", "scope", "expected"),
    [
        ("acquire", "block", "atom.acquire.cta.global.add"),
        ("release", "device", "atom.release.gpu.global.add"),
        ("acq_rel", "system", "atom.acq_rel.sys.global.add"),
    ],
)
def test_order_and_scope_of_an_atomic_reach_the_instruction(order, scope, expected):
    body = f"out[i] = weft.atomic_add(cells, 0, 1, order='{order}', scope='{scope}')"
    assert expected in compiled(body, {"cells": weft.i32, "out": weft.i32}).ptx


def test_local_array_indexed_by_constants_lives_in_registers():
    body = """
        window = weft.local(4, weft.f32)
        for k in weft.static_range(4):
            window[k] = a[i + k]
        a[i] = window[0] + window[3]
        """
    (kernel,) = compiled(body, {"a": weft.f32}).kernels.values()
    assert kernel.stack_bytes == 0


def test_local_array_indexed_at_run_time_lives_on_the_stack():
    body = """
        window = weft.local(16, weft.f32)
        for k in range(16):
            window[places[k] % 16] = a[i + k]
        a[i] = window[i % 16]
        """
    (kernel,) = compiled(body, {"a": weft.f32, "places": weft.i32}).kernels.values()
    assert kernel.stack_bytes == 64


def test_printf_calls_vprintf():
    body = 'weft.printf("%d %f %s\\n", i, a[i], "text")'
    assert "vprintf" in compiled(body, {"a": weft.f32}).ptx


def test_assert_is_compiled_only_when_asked_for():
    body = 'assert a[i] > 0, "not positive"\na[i] = 1'
    without = compiled(body, {"a": weft.f32}).ptx
    enabled = compiled(body, {"a": weft.f32}, options="--enable-assertions").ptx
    assert "weft_report" not in without
    assert "weft_report" in enabled and "trap" not in enabled and "call" not in enabled


def test_a_failed_assertion_traps_beside_counted_barriers():
    body = 'assert a[i] > 0, "not positive"\nweft.sync_warpgroup()\na[i] = 1'
    assert "trap;" in compiled(body, {"a": weft.f32}, options="--enable-assertions").ptx


def test_unused_parameters_are_dropped():
    (kernel,) = compiled("a[i] = 1", {"a": weft.f32, "unused": weft.f32}).kernels.values()
    assert kernel.parameter_sizes == (4, 8)  # count and the pointer of a


def test_coalesced_access_uses_32_bit_indices():
    ptx = compiled("a[i] = a[i] + 1", {"a": weft.f32}).ptx
    assert "mul.wide.s32" in ptx
    assert "mul.lo.s64" not in ptx


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_small_floats_add_in_f32_and_iterations_in_the_store(dtype):
    ptx = compiled(
        """
        s = 0.0
        for j in range(a.shape[0]):
            s += a[j]
        out[i] = s
        """,
        {"a": dtype, "out": dtype},
    ).ptx
    assert "add.rn.f32" in ptx
    assert f"add.rn.{dtype}" not in ptx
    assert ptx.count(f"cvt.rn.{dtype}.f32") == 1


@pytest.mark.parametrize("dtype", [weft.i8, weft.u8, weft.i16, weft.u16], ids=str)
def test_sum_of_small_integers_adds_32_bits(dtype):
    ptx = compiled(
        """
        s = 0
        for j in range(a.shape[0]):
            s += a[j]
        out[i] = s
        """,
        {"a": dtype, "out": weft.i32},
    ).ptx
    assert "add.s32" in ptx
    assert "add.s16" not in ptx
