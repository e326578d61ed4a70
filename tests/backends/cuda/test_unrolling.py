# SPDX-License-Identifier: Apache-2.0
"""How often the loops of a kernel are unrolled in PTX: by their length and what an iteration does.

In: kernels that load one element in each iteration. Out: the loads in their PTX.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from xdsl.dialects import scf

import weft
from tests.conformance.harness import define
from tests.sampling import sampled
from weft.backends.cpu import stages as cpu
from weft.codegen.operations.control_flow import print_for_by_factors

A = weft.fake_tensor(weft.f32, ("n",))


def compiled(body: str) -> weft.CompiledFunction:
    """A kernel over `a` with these statements, which sum up in `total`."""
    kernel = f"""
@weft.kernel
def kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    shared = weft.shared(32, weft.f32)
    total = 0.0
{textwrap.indent(textwrap.dedent(body).strip(), "    ")}
    a[i] = total

@weft.jit
def host(a):
    kernel(a).launch(grid=1, block=32)
"""
    return weft.compile(define(kernel)["host"], A, options="--gpu-arch sm_90a")


def loads(body: str) -> int:
    return compiled(body).ptx.count("ld.global")


# Loads of all loops that are made of one: the rest after 8 is unrolled by 4, and the last rest is not.
LOOPS = {
    "a-sum": ("for k in range(a.shape[0]):\n    total += a[k]", 8 + 4 + 1),
    "in-steps": ("for k in range(i, a.shape[0], 256):\n    total += a[k]", 8 + 4 + 1),
    "down": ("for k in range(a.shape[0] - 1, -1, -1):\n    total += a[k]", 8 + 4 + 1),
    "two-terms": (
        "for k in range(a.shape[0]):\n    total += weft.math.abs(a[k]) - weft.math.abs(a[k + i])",
        2 * (8 + 4 + 1),
    ),
    "an-exponential": ("for k in range(a.shape[0]):\n    total += weft.math.exp(a[k])", 4 + 1),
    "two-exponentials": (
        "for k in range(a.shape[0]):\n    total += weft.math.exp(weft.math.exp(a[k]))",
        2 + 1,
    ),
    "much": (
        "for k in range(a.shape[0]):\n    x = a[k]\n"
        "    for _ in weft.static_range(60):\n        x = x * x + 1\n    total += x",
        1,
    ),
    "short-inner-loops": (
        "for k in range(a.shape[0]):\n    for j in range(3):\n        total += a[k + 7 * j]",
        3 * (4 + 1),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_unknown_length_is_unrolled_if_small(name: str):
    body, count = LOOPS[name]
    assert loads(body) == count


def test_a_short_loop_of_known_length_is_unrolled_as_a_whole():
    assert loads("for k in range(-20, 12):\n    total += a[i + k + 20]") == 32
    assert loads("for k in range(50, 0, -2):\n    total += a[i * k]") == 25
    assert loads("for k in range(5):\n    for j in range(4):\n        total += a[i * k + j]") == 20


def test_a_long_loop_is_unrolled_by_a_divisor():
    for trips, factor in ((4000, 8), (4004, 4), (4002, 2)):
        assert loads(f"for k in range({trips}):\n    total += a[i * k]") == factor


def test_a_loop_with_barriers_is_unrolled_without_a_remainder(
    capfd: pytest.CaptureFixture[str],
):
    body = """
        for k in range({}):
            shared[i] = a[k]
            weft.sync_threads()
            total += shared[31 - i]
    """
    assert loads(body.format("a.shape[0]")) == 1
    assert loads(body.format("10")) == 10
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("factor", sampled(range(1, 10), 2))
def test_a_loop_is_unrolled_as_the_program_says(factor: int, capfd: pytest.CaptureFixture[str]):
    rest = factor > 1
    body = f"for k in weft.unroll(range(a.shape[0]), {factor}):\n    total += a[k]"
    text = compiled(body).ptx
    assert text.count("ld.global") == factor + rest
    # What LLVM leaves alone, ptxas might unroll.
    assert '.pragma "nounroll"' in text
    body = f"for k in weft.unroll(range(i, 0, -3), {factor}):\n    total += a[k]"
    assert loads(body) == factor + rest
    body = f"for k in weft.unroll(range(72), {factor}):\n    total += a[i * k]"
    assert loads(body) == factor
    assert capfd.readouterr().err == ""


def test_a_loop_with_an_exit_is_unrolled_as_the_program_says():
    body = "for k in weft.unroll(range(a.shape[0]), {}):\n    if a[k] < 0: break\n    total += a[k]"
    assert loads(body.format(1)) == 1
    assert loads(body.format(4)) == 4


def test_more_copies_than_iterations_are_the_whole_loop(capfd: pytest.CaptureFixture[str]):
    assert loads("for k in weft.unroll(range(5), 8):\n    total += a[i * k]") == 5
    assert capfd.readouterr().err == ""


def test_a_loop_in_which_threads_wait_keeps_its_form(capfd: pytest.CaptureFixture[str]):
    body = """
        for k in weft.unroll(range({}), 4):
            shared[i] = a[k]
            weft.sync_threads()
            total += shared[31 - i]
    """
    assert loads(body.format("a.shape[0]")) == 1
    assert loads(body.format("8")) == 4
    assert loads(body.format("4000")) == 4
    assert capfd.readouterr().err == ""


def test_the_variable_of_a_loop_in_steps_of_the_grid_does_not_wrap():
    def llvm(step: str) -> str:
        return compiled(f"for k in range(i, a.shape[0], {step}):\n    total += a[k]").llvm_ir

    assert llvm("weft.grid_dim.x * 32").count("= add nsw i32 %k") == 2
    assert llvm("weft.grid_dim.y").count("= add nsw i32 %k") == 2
    assert "= add nsw i32 %k" not in llvm("i - 7")


@pytest.mark.parametrize("step", (1, 7, -3))
def test_every_iteration_runs_once_and_in_order_by_whatever_loop(
    step: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(
        cpu.KERNEL_ROWS, scf.ForOp, lambda printer, op: print_for_by_factors(printer, op, (8, 4))
    )
    kernel = f"""
@weft.kernel
def kernel(first: weft.i32, end: weft.i32, out: weft.Tensor):
    order = 1
    last = -7
    for k in range(first, end, {step}):
        order = 3 * order + k
        last = k
    out[0] = order
    out[1] = last

@weft.jit
def host(first: weft.i32, end: weft.i32, out: weft.Tensor):
    kernel(first, end, out).launch(grid=1, block=1)
"""
    out = np.zeros(2, np.int32)
    host = weft.compile(define(kernel)["host"], 0, 0, out)
    least, most = -(2**31), 2**31 - 1
    counts = [(0, step * count) for count in range(30)]
    near = (least, least + 20), (least + 20, least), (most - 61, most), (most, most - 61)
    for first, end in (*counts, *near, (least, least)):
        host(first, end, out)
        order, last = 1, -7
        for k in range(first, end, step):
            order, last = (3 * order + k) % 2**32, k
        assert (int(out[0]) % 2**32, out[1]) == (order, last), (first, end)
