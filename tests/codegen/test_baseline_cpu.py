# SPDX-License-Identifier: Apache-2.0
"""Code for a CPU without extensions: every type and family of operations needs libc and libm only.

LLVM calls functions of its own run-time library for what a CPU lacks (`__truncsfbf2`, `__extendhfsf2`), and
weft's objects are linked to no such library.
"""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import weft
from tests.codegen.kernel_runner import lowered_module
from tests.conformance.harness import NUMPY_TYPES, Exported, define, math_functions, run_threads
from tests.sampling import sampled
from weft.backends.cpu.lowering.split_kernel import waiting_operation
from weft.backends.cpu.stages import print_kernels
from weft.backends.host import HostMachine, machine_of
from weft.codegen.llvm.optimize import emit_object, parse, run_pipeline
from weft.codegen.operations.launch import kernels_of
from weft.language.memory.atomics import ATOMIC_DTYPES

DTYPES = list(NUMPY_TYPES)
NUMBERS = [dtype for dtype in DTYPES if dtype is not weft.bool_]
FLOATS = [dtype for dtype in DTYPES if dtype.is_float]
_SYMBOL = struct.Struct("<IBBHQQ")


def undefined_symbols(data: bytes) -> set[str]:
    """The names that an ELF object expects others to define."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_size)
        for index in range(count)
    ]
    (symbols,) = [section for section in sections if section[1] == 2]
    names = sections[symbols[6]][4]
    found = set()
    for offset in range(symbols[4], symbols[4] + symbols[5], _SYMBOL.size):
        name, information, _, section, _, _ = _SYMBOL.unpack_from(data, offset)
        if section == 0 and information >> 4:
            end = data.index(b"\0", names + name)
            found.add(data[names + name : end].decode())
    return found


def in_libc_or_libm(name: str) -> bool:
    """Whether this process finds a symbol in the C library or its mathematics."""
    libraries = (ctypes.CDLL("libc.so.6"), ctypes.CDLL("libm.so.6"))
    return any(hasattr(library, name) for library in libraries)


def compile_for(machine: HostMachine, statements: str, dtype: weft.DType) -> bytes:
    """The object of a kernel that sees tensors a, b, out of one type, a scalar `given` and an index i."""
    module = lowered_module(statements, dtype)
    kernels = parse(print_kernels(module, machine), "kernels")
    if any(waiting_operation(kernel) is not None for kernel in kernels_of(module)):
        run_pipeline(kernels, machine.machine, 0, vectorize=False)
    run_pipeline(kernels, machine.machine, 2, vectorize=True)
    return emit_object(kernels, machine.machine)


def assert_links(statements: str, dtype: weft.DType) -> None:
    """The kernel's object for a baseline CPU asks for nothing but libc and libm."""
    missing = undefined_symbols(compile_for(machine_of("x86-64", ""), statements, dtype))
    assert {name for name in missing if not in_libc_or_libm(name)} == set()


CARRIED = """\
acc = given
for k in range(n):
    if a[k] {test} y:
        acc = {step}
    else:
        acc = b[k]
out[i] = acc"""


@pytest.mark.parametrize("dtype", sampled(DTYPES, 3), ids=lambda dtype: dtype.name)
def test_values_pass_through_arguments_branches_and_loops(dtype: weft.DType):
    step = "acc != a[k]" if dtype.is_bool else f"weft.{dtype.name}(acc + a[k])"
    assert_links(CARRIED.format(test="==" if dtype.is_bool else "<", step=step), dtype)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_arithmetic_and_extrema(dtype: weft.DType):
    lines = [
        f"out[{index}] = weft.{dtype.name}({expression})"
        for index, expression in enumerate(
            ("x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "-x", "min(x, y)", "max(x, y)")
        )
    ]
    assert_links("\n".join(lines), dtype)


@pytest.mark.parametrize("dtype", sampled(DTYPES, 3), ids=lambda dtype: dtype.name)
def test_conversions_to_every_type_and_back(dtype: weft.DType):
    lines = [
        f"out[{index}] = weft.{dtype.name}(weft.{other.name}(x))"
        for index, other in enumerate(DTYPES)
    ]
    assert_links("\n".join(lines), dtype)


@pytest.mark.parametrize("dtype", sampled(FLOATS, 3), ids=lambda dtype: dtype.name)
def test_mathematics(dtype: weft.DType):
    expressions = [f"weft.math.{name}(x)" for name in math_functions(1)]
    expressions += [f"weft.math.{name}(x, y)" for name in math_functions(2)]
    expressions += ["weft.math.fma(x, y, x)", "x ** 3", "x ** y"]
    lines = [
        f"out[{index}] = weft.{dtype.name}({expression})"
        for index, expression in enumerate(expressions)
    ]
    assert_links("\n".join(lines), dtype)


ATOMIC_TYPES = [
    dtype for dtype in DTYPES if any(dtype in allowed for allowed in ATOMIC_DTYPES.values())
]


@pytest.mark.parametrize("dtype", sampled(ATOMIC_TYPES, 3), ids=lambda dtype: dtype.name)
def test_atomics(dtype: weft.DType):
    kinds = [kind for kind, allowed in ATOMIC_DTYPES.items() if dtype in allowed]
    given = {"cas": ", x, y", "load": ""}
    lines = [
        f"{'' if kind == 'store' else 'out[i] = '}weft.atomic_{kind}(out, 0{given.get(kind, ', x')})"
        for kind in kinds
    ]
    assert_links("\n".join(lines), dtype)


@pytest.mark.parametrize("dtype", sampled(NUMBERS, 3), ids=lambda dtype: dtype.name)
def test_warps_and_barriers(dtype: weft.DType):
    lines = [
        f"tile = weft.shared(64, weft.{dtype.name})",
        "tile[i] = weft.shfl_xor(x, 1)",
        "weft.sync_threads()",
        f"acc = weft.{dtype.name}(weft.warp.sum(tile[63 - i]))",
        "for k in range(n):",
        "    weft.sync_threads()",
        f"    acc = weft.{dtype.name}(weft.warp.max(acc + y))",
        "out[i] = acc",
    ]
    assert_links("\n".join(lines), dtype)


STORE_ARGUMENT = """
@weft.kernel
def kernel(out: weft.Tensor, value: weft.bf16):
    out[weft.thread_idx.x] = value

@weft.jit
def store(out: weft.Tensor, value: weft.bf16):
    kernel(out, value).launch(grid=1, block=out.shape[0])
"""


@pytest.mark.parametrize("value", [1e-39, -1e-39, 9.2e-41, 1.5, float("inf")])
def test_a_bf16_argument_keeps_its_subnormal_numbers(value: float):
    out = np.zeros(3, NUMPY_TYPES[weft.bf16])
    define(STORE_ARGUMENT)["store"](Exported(out), value)
    expected = np.full(3, np.float32(value).astype(out.dtype))
    np.testing.assert_array_equal(out.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("dtype", [weft.bf16, weft.f16], ids=lambda dtype: dtype.name)
def test_subnormal_numbers_survive_branches_and_loops(dtype: weft.DType):
    subnormal = np.arange(1, 100, dtype=np.uint16)
    values = subnormal.view(NUMPY_TYPES[dtype])
    out = np.zeros_like(values)
    body = """
        kept = values[0]
        for k in range(i + 1):
            if k % 2 == i % 2:
                kept = values[k]
        out[i] = kept
    """
    run_threads(body, len(values), {"values": values, "out": out})
    np.testing.assert_array_equal(out.view(np.uint16), subnormal)
