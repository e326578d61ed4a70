# SPDX-License-Identifier: Apache-2.0
"""``approx=True``: one instruction per function in PTX, the accurate function on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, apply, elementwise, parse_module
from tests.sampling import sampled
from weft.backends.cuda.stages import emit_ptx, print_kernels
from weft.backends.cuda.target import cuda_machine

# operation → instruction
INSTRUCTIONS = {
    "math.exp": "ex2.approx.ftz.f32",
    "math.exp2": "ex2.approx.ftz.f32",
    "math.log": "lg2.approx.f32",
    "math.log2": "lg2.approx.f32",
    "math.sin": "sin.approx.f32",
    "math.cos": "cos.approx.f32",
    "math.tanh": "tanh.approx.f32",
    "math.sqrt": "sqrt.approx.f32",
    "math.rsqrt": "rsqrt.approx.f32",
    "arith.divf": "div.full.f32",
}
KINDS = ["f16", "bf16", "f32", "f8E4M3FN", "f8E5M2"]


def kernel_text(operation: str, kind: str, flags: str = "fastmath<afn>") -> str:
    """A kernel that applies the operation to each element."""
    sources = [kind] * (2 if operation == "arith.divf" else 1)
    operands = ", ".join(f"%v{number}" for number in range(len(sources)))
    return elementwise(f"%r = {operation} {operands} {flags} : {kind}", sources, kind)


def ptx_of(text: str, architecture: str = "sm_90a") -> str:
    machine = cuda_machine(architecture)
    return emit_ptx(print_kernels(parse_module(text), machine), machine, level=3)


@pytest.mark.parametrize("operation", INSTRUCTIONS)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_gpu_has_one_instruction(operation: str, kind: str):
    ptx = ptx_of(kernel_text(operation, kind))
    assert ptx.count(INSTRUCTIONS[operation]) == 1
    assert "div.rn" not in ptx
    assert "fma" not in ptx


@pytest.mark.parametrize("kind", KINDS[:3])
def test_one_over_a_number_is_the_reciprocal(kind: str):
    body = f"%one = arith.constant 1.0 : {kind} %r = arith.divf %one, %v0 fastmath<afn> : {kind}"
    ptx = ptx_of(elementwise(body, [kind], kind))
    assert ptx.count("rcp.approx.f32") == 1
    assert "div." not in ptx


@pytest.mark.parametrize("operation", INSTRUCTIONS)
def test_f64_stays_accurate(operation: str):
    assert ".approx" not in ptx_of(kernel_text(operation, "f64")).replace("rsqrt.approx.f64", "")


@pytest.mark.parametrize(("architecture", "there"), [("sm_75", True), ("sm_70", False)])
def test_an_older_gpu_without_tanh_has_the_accurate_one(architecture: str, there: bool):
    assert ("tanh.approx" in ptx_of(kernel_text("math.tanh", "f32"), architecture)) == there


@pytest.mark.parametrize("operation", sampled(INSTRUCTIONS, 2))
def test_the_cpu_gives_the_bits_of_the_accurate_function(operation: str):
    words = np.random.default_rng(3).integers(0, 2**32, 4096, dtype=np.uint64)
    x = words.astype(np.uint32).view(np.float32)
    sources = (x, x[::-1]) if operation == "arith.divf" else (x,)
    plain, approximate = (
        apply(CpuKernel(kernel_text(operation, "f32", flags)), np.float32, *sources)
        for flags in ("", "fastmath<afn>")
    )
    np.testing.assert_array_equal(plain, approximate)
