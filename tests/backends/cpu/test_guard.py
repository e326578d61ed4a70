# SPDX-License-Identifier: Apache-2.0
"""Threads split by affine guards do what a guard asked by each thread would do, wrapping included."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.kernel_runner import CpuKernel, parse_module, tensor
from tests.sampling import sampled
from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.rows import find_guard
from weft.backends.host import machine_of
from weft.codegen.operations.launch import kernels_of

PREDICATES = ("slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "eq", "ne")
MODEL = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
BLOCK = 37
EXTREMES = (0, 1, -1, 5, BLOCK, 2**31 - 1, -(2**31), 2**31 - 20, -(2**31) + 20, 2**30)


def kernel_text(conditions: str, growth: int = 1, negated: bool = False) -> str:
    """A kernel that writes 1 where `%c` holds and 2 where it does not; %i = base + growth * thread."""
    out = tensor("i32")
    inside, outside = ("%two", "%one") if negated else ("%one", "%two")
    return f"""simt.kernel @kernel(%out : {out}, %base : i32, %n : i32, %m : i32, %wide : i64) {{
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %growth = arith.constant {growth} : i32
  %true = arith.constant true
  %false = arith.constant false
  %t = simt.thread_idx "x" : i32
  %scaled = arith.muli %t, %growth : i32
  %i = arith.addi %base, %scaled : i32
  {conditions}
  scf.if %c {{
    simt.store {inside}, %out[%t : i32] : i32, {out}
  }} else {{
    simt.store {outside}, %out[%t : i32] : i32, {out}
  }}
  simt.return
}}"""


@functools.cache
def compiled(conditions: str, growth: int) -> CpuKernel:
    return CpuKernel(kernel_text(conditions, growth), level=1)


def is_split(text: str) -> bool:
    (kernel,) = kernels_of(parse_module(text))
    return find_guard(kernel.body.block.ops, RowAnalysis()) is not None


def values(base: int, growth: int) -> np.ndarray:
    """%i of each thread, as wrapped 32-bit integers."""
    exact = np.arange(BLOCK, dtype=np.int64) * growth + base
    return exact.astype(np.int32)


def compare(predicate: str, left: np.ndarray, right: int) -> np.ndarray:
    """An integer comparison on every thread."""
    kind = predicate if predicate in ("eq", "ne") else predicate[1:]
    if predicate.startswith("u"):
        return MODEL[kind](left.astype(np.uint32), np.uint32(right & 0xFFFFFFFF))
    return MODEL[kind](left, np.int32(right))


def run(kernel: CpuKernel, base: int, n: int, m: int = 0, wide: int = 0) -> np.ndarray:
    out = np.zeros(BLOCK, np.int32)
    arguments = (out, np.int32(base), np.int32(n), np.int32(m), np.int64(wide))
    assert kernel((1,), (BLOCK,), *arguments) == 0
    return out == 1


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("growth", sampled([1, 3, 1000], 2))
def test_one_comparison_splits_threads_exactly(predicate: str, growth: int):
    kernel = compiled(f"%c = arith.cmpi {predicate}, %i, %n : i32", growth)
    for base, n in itertools.product(EXTREMES, EXTREMES):
        expected = compare(predicate, values(base, growth), n)
        assert (run(kernel, base, n) == expected).all(), (base, n)


@pytest.mark.parametrize("predicate", PREDICATES)
def test_the_affine_side_may_be_on_the_right(predicate: str):
    kernel = compiled(f"%c = arith.cmpi {predicate}, %n, %i : i32", 1)
    mirrored = predicate.translate(str.maketrans("lg", "gl"))
    for base, n in itertools.product(EXTREMES, EXTREMES):
        expected = compare(mirrored, values(base, 1), n)
        assert (run(kernel, base, n) == expected).all(), (base, n)


CONJUNCTION = """%p = arith.cmpi sge, %i, %m : i32
  %q = arith.cmpi slt, %i, %n : i32
  %c = arith.andi %p, %q : i1"""
DISJUNCTION = """%p = arith.cmpi slt, %i, %m : i32
  %q = arith.cmpi sge, %i, %n : i32
  %c = arith.ori %p, %q : i1"""
SHORT_CIRCUIT = """%p = arith.cmpi sge, %i, %m : i32
  %c = scf.if %p -> (i1) {
    %q = arith.cmpi slt, %i, %n : i32
    scf.yield %q : i1
  } else {
    scf.yield %false : i1
  }"""
SHORT_CIRCUIT_OR = """%p = arith.cmpi slt, %i, %m : i32
  %c = scf.if %p -> (i1) {
    scf.yield %true : i1
  } else {
    %q = arith.cmpi sge, %i, %n : i32
    scf.yield %q : i1
  }"""
UNIFORM = """%p = arith.cmpi slt, %m, %n : i32
  %q = arith.cmpi slt, %i, %n : i32
  %c = arith.andi %p, %q : i1"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "model"),
    [
        (CONJUNCTION, lambda i, m, n: (i >= m) & (i < n)),
        (DISJUNCTION, lambda i, m, n: (i < m) | (i >= n)),
        (SHORT_CIRCUIT, lambda i, m, n: (i >= m) & (i < n)),
        (SHORT_CIRCUIT_OR, lambda i, m, n: (i < m) | (i >= n)),
        (UNIFORM, lambda i, m, n: (m < n) & (i < n)),
    ],
    ids=["and", "or", "short-circuit and", "short-circuit or", "uniform and"],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_joined_comparisons_split_threads_exactly(conditions: str, model, data):
    near = st.integers(-60, 60) | st.sampled_from(EXTREMES)
    base, m, n = (data.draw(near) for _ in range(3))
    expected = model(values(base, 1), np.int32(m), np.int32(n))
    assert is_split(kernel_text(conditions))
    assert (run(compiled(conditions, 1), base, n, m) == expected).all()


WIDE = """%w = arith.extsi %i : i32 to i64
  %j = arith.addi %w, %wide : i64
  %n64 = arith.extsi %n : i32 to i64
  %c = arith.cmpi slt, %j, %n64 : i64"""


def test_an_index_that_wraps_before_it_is_widened_is_split_exactly():
    kernel = compiled(WIDE, 1)
    assert is_split(kernel_text(WIDE))
    for base, n, wide in itertools.product(EXTREMES, EXTREMES, (0, 7, 2**62, 2**63 - 5, -(2**63))):
        index = values(base, 1).astype(np.int64)
        with np.errstate(over="ignore"):
            expected = index + np.int64(wide) < n
        assert (run(kernel, base, n, wide=wide) == expected).all(), (base, n, wide)


VARYING = "%s = arith.muli %t, %t : i32\n  %c = arith.cmpi slt, %s, %n : i32"


def test_a_guard_that_is_not_affine_is_left_to_each_thread():
    assert not is_split(kernel_text(VARYING))
    expected = np.arange(BLOCK) ** 2 < 100
    assert (run(compiled(VARYING, 1), 0, 100) == expected).all()


def test_an_early_return_is_split_as_well():
    text = kernel_text("%c = arith.cmpi sge, %i, %n : i32").replace(
        "simt.store %one, %out[%t : i32] : i32, " + tensor("i32"), ""
    )
    assert is_split(text)
    out = np.zeros(BLOCK, np.int32)
    kernel = CpuKernel(text, level=1)
    kernel((1,), (BLOCK,), out, np.int32(0), np.int32(20), np.int32(0), np.int64(0))
    assert (out == np.where(np.arange(BLOCK) < 20, 2, 0)).all()


def test_split_loops_have_no_mask_where_partial_stores_are_slow():
    machine = machine_of("x86-64-v3", "+avx2,+fma")
    text = kernel_text("%c = arith.cmpi slt, %i, %n : i32")
    split = CpuKernel(text.split("else {")[0] + "\n  simt.return\n}", machine)
    assert "llvm.masked.store" not in split.optimized
    assert "x i32>" in split.optimized
    varying = CpuKernel(kernel_text(VARYING), machine)
    assert "x i32>" not in varying.optimized


@pytest.mark.parametrize("block", [(5, 3, 2), (1, 7, 1), (64, 1, 4)])
def test_every_thread_of_a_block_in_three_dimensions_runs_once(block: tuple[int, int, int]):
    out = tensor("i32")
    text = f"""simt.kernel @kernel(%out : {out}, %n : i32) {{
  %x = simt.thread_idx "x" : i32
  %y = simt.thread_idx "y" : i32
  %z = simt.thread_idx "z" : i32
  %bx = simt.block_dim "x" : i32
  %by = simt.block_dim "y" : i32
  %b = simt.block_idx "x" : i32
  %b2 = simt.block_idx "y" : i32
  %gx = simt.grid_dim "x" : i32
  %one = arith.constant 1 : i32
  %p = arith.muli %b2, %gx : i32
  %q = arith.addi %p, %b : i32
  %bz = simt.block_dim "z" : i32
  %r = arith.muli %q, %bz : i32
  %s = arith.addi %r, %z : i32
  %u = arith.muli %s, %by : i32
  %v = arith.addi %u, %y : i32
  %w = arith.muli %v, %bx : i32
  %i = arith.addi %w, %x : i32
  %c = arith.cmpi slt, %i, %n : i32
  scf.if %c {{
    %old = simt.load %out[%i : i32] : {out} -> i32
    %new = arith.addi %old, %one : i32
    simt.store %new, %out[%i : i32] : i32, {out}
  }}
  simt.return
}}"""
    total = 3 * 2 * block[0] * block[1] * block[2]
    result = np.zeros(total + 8, np.int32)
    CpuKernel(text, level=1)((3, 2), block, result, np.int32(total - 2))
    assert (result == np.where(np.arange(total + 8) < total - 2, 1, 0)).all()
