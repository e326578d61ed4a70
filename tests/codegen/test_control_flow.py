# SPDX-License-Identifier: Apache-2.0
"""Loops and branches as basic blocks: the right number of trips up to the largest integers, values by phi."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, tensor

OUT = tensor("i64")


def one_thread(body: str) -> CpuKernel:
    """A kernel whose body writes to %out, an array of i64, and has the scalars %a, %b, %c (i32)."""
    return CpuKernel(
        f"""simt.kernel @kernel(%out : {OUT}, %a : i32, %b : i32, %c : i32) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %none = arith.constant 0 : i64
  %unit = arith.constant 1 : i64
  {body}
  simt.return
}}""",
        level=1,
    )


def run(kernel: CpuKernel, a: int = 0, b: int = 0, c: int = 0) -> list[int]:
    out = np.full(2, -7, np.int64)
    kernel((1,), (1,), out, np.int32(a), np.int32(b), np.int32(c))
    return out.tolist()


SUM = f"""%sum, %count = scf.for %i = %a to %b step %c iter_args(%s = %none, %n = %none) -> (i64, i64) : i32 {{
    %w = arith.extsi %i : i32 to i64
    %t = arith.addi %s, %w : i64
    %m = arith.addi %n, %unit : i64
    scf.yield %t, %m : i64, i64
  }}
  simt.store %sum, %out[%zero : i32] : i64, {OUT}
  simt.store %count, %out[%one : i32] : i64, {OUT}"""
TOP = 2**31 - 1


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(0, 10, 1), (0, 10, 3), (5, 5, 2), (7, 3, 2), (-5, 6, 4), (TOP - 5, TOP, 2), (TOP - 5, TOP, 4),
     (-(2**31), TOP, 2**30), (TOP - 1, TOP, TOP)],
)  # fmt: skip
def test_a_for_loop_makes_the_trips_of_a_range(low: int, high: int, step: int):
    trips = range(low, high, step)
    assert run(one_thread(SUM), low, high, step) == [sum(trips), len(trips)]


@pytest.mark.parametrize(("low", "high"), [(0, 10), (3, 3), (5, -5), (TOP - 3, TOP)])
def test_a_loop_of_unit_step_makes_the_trips_of_a_range(low: int, high: int):
    kernel = one_thread(SUM.replace("step %c", "step %one"))
    assert run(kernel, low, high) == [sum(range(low, high)), len(range(low, high))]


def test_a_while_loop_carries_its_values():
    # Collatz: the steps from %a to 1.
    kernel = one_thread(f"""
  %last, %steps = scf.while (%x = %a, %n = %none) : (i32, i64) -> (i32, i64) {{
    %more = arith.cmpi ne, %x, %one : i32
    scf.condition(%more) %x, %n : i32, i64
  }} do {{
  ^body(%y : i32, %m : i64):
    %bit = arith.andi %y, %one : i32
    %odd = arith.cmpi eq, %bit, %one : i32
    %next = scf.if %odd -> (i32) {{
      %three = arith.constant 3 : i32
      %t = arith.muli %y, %three : i32
      %u = arith.addi %t, %one : i32
      scf.yield %u : i32
    }} else {{
      %h = arith.shrui %y, %one : i32
      scf.yield %h : i32
    }}
    %k = arith.addi %m, %unit : i64
    scf.yield %next, %k : i32, i64
  }}
  %w = arith.extsi %last : i32 to i64
  simt.store %w, %out[%zero : i32] : i64, {OUT}
  simt.store %steps, %out[%one : i32] : i64, {OUT}""")
    assert run(kernel, 27) == [1, 111]
    assert run(kernel, 1) == [1, 0]


def test_both_sides_of_a_branch_that_yield_the_same_need_no_phi():
    kernel = one_thread(f"""
  %p = arith.cmpi slt, %a, %b : i32
  %v = scf.if %p -> (i64) {{
    simt.store %unit, %out[%one : i32] : i64, {OUT}
    scf.yield %unit : i64
  }} else {{
    scf.yield %unit : i64
  }}
  simt.store %v, %out[%zero : i32] : i64, {OUT}""")
    assert " = phi i64 [ 1" not in kernel.llvm
    assert run(kernel, 1, 2) == [1, 1]
    assert run(kernel, 2, 1) == [1, -7]


def test_a_constant_condition_prints_one_side_only():
    kernel = one_thread(f"""
  %false = arith.constant false
  %v = scf.if %false -> (i64) {{
    %bad = simt.floor_div %none, %none : i64
    scf.yield %bad : i64
  }} else {{
    scf.yield %unit : i64
  }}
  simt.store %v, %out[%zero : i32] : i64, {OUT}""")
    assert "sdiv" not in kernel.llvm
    assert run(kernel) == [1, -7]


def test_nested_loops_keep_their_own_values():
    kernel = one_thread(f"""
  %total = scf.for %i = %zero to %a step %one iter_args(%s = %none) -> (i64) : i32 {{
    %inner = scf.for %j = %zero to %i step %one iter_args(%r = %s) -> (i64) : i32 {{
      %n = arith.addi %r, %unit : i64
      scf.yield %n : i64
    }}
    scf.yield %inner : i64
  }}
  simt.store %total, %out[%zero : i32] : i64, {OUT}""")
    assert run(kernel, 10) == [45, -7]


def test_local_arrays_do_not_grow_the_stack_in_loops():
    local = "!simt.tensor<i64, [64], contiguous, local, dims 32, offsets 32, align 8>"
    kernel = one_thread(f"""
  %buffer = simt.alloca : {local}
  scf.for %i = %zero to %a step %one : i32 {{
    %k = arith.constant 63 : i32
    %slot = arith.andi %i, %k : i32
    %w = arith.extsi %i : i32 to i64
    simt.store %w, %buffer[%slot : i32] : i64, {local}
  }}
  %v = simt.load %buffer[%b : i32] : {local} -> i64
  simt.store %v, %out[%zero : i32] : i64, {OUT}""")
    assert run(kernel, 1_000_000, 63) == [999_999, -7]
