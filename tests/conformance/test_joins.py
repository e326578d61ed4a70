# SPDX-License-Identifier: Apache-2.0
"""Where control flow joins, types agree; what each thread skips has no effect; kernels return early.

In: kernels with stores, conditions and loops. Out: memory as Python would leave it.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define, run_threads


def test_only_the_chosen_branch_stores():
    out = np.full(40, -1, np.int32)
    run_threads(
        """
        if i % 3 == 0:
            out[i] = 0
        elif i % 3 == 1:
            out[i] = i
        """,
        40,
        {"out": out},
    )
    assert out.tolist() == [0 if k % 3 == 0 else k if k % 3 == 1 else -1 for k in range(40)]


def test_return_ends_the_thread_at_any_depth():
    out = np.zeros(40, np.int32)
    run_threads(
        """
        out[i] = 1
        for k in range(10):
            if k == i:
                return
            while True:
                out[i] += 1
                if out[i] > 5:
                    return
                break
        out[i] = 100
        """,
        40,
        {"out": out},
    )
    assert out.tolist() == [min(k + 1, 6) for k in range(40)]


def test_right_side_of_and_or_is_evaluated_only_when_needed():
    # An index beyond the end is read only if the left side does not decide.
    a = np.arange(4, dtype=np.int32)
    out = np.zeros(64, np.int32)
    run_threads(
        """
        if i < a.shape[0] and a[i] > 1:
            out[i] = 1
        if i >= a.shape[0] or a[i] == 0:
            out[i] += 2
        """,
        64,
        {"a": a, "out": out},
    )
    assert out.tolist() == [2, 0, 1, 1] + [2] * 60


def test_ternary_evaluates_one_side_only():
    a = np.arange(4, dtype=np.int32)
    out = np.zeros(64, np.int32)
    run_threads("out[i] = a[i] if i < a.shape[0] else -1", 64, {"a": a, "out": out})
    assert out.tolist() == [0, 1, 2, 3] + [-1] * 60


def test_operands_are_evaluated_from_left_to_right():
    order = np.zeros(4, np.int32)
    used = np.zeros(1, np.int32)
    names = define(
        """
        def note(order, used, value):
            order[used[0]] = value
            used[0] += 1
            return value
        """
    )
    run_threads(
        """
        total = note(order, used, 1) + note(order, used, 2) * note(order, used, 3)
        order[3] = total
        """,
        1,
        {"order": order, "used": used},
        note=names["note"],
    )
    assert order.tolist() == [1, 2, 3, 7]


def test_straight_line_rebinding_may_change_type():
    a, out = np.array([7], np.int32), np.zeros(1, np.float64)
    run_threads(
        """
        x = a[i]
        x = x / 2
        x = weft.f64(x)
        out[i] = x
        """,
        1,
        {"a": a, "out": out},
    )
    assert out[0] == 3.5


def test_types_that_differ_at_a_join_are_refused_with_the_name():
    a, out = np.array([7], np.int32), np.zeros(1, np.float32)
    with pytest.raises(weft.CompileError, match=r"'x'.*(i32.*f32|f32.*i32)"):
        run_threads(
            """
            x = a[i]
            if a[i] > 3:
                x = weft.f32(1.5)
            out[i] = x
            """,
            1,
            {"a": a, "out": out},
        )


def test_type_that_changes_in_a_loop_is_refused_with_the_name():
    a, out = np.array([7], np.int32), np.zeros(1, np.float32)
    with pytest.raises(weft.CompileError, match=r"'x'.*(i32.*f32|f32.*i32)"):
        run_threads(
            """
            x = a[i]
            for k in range(3):
                x = x * 0.5
            out[i] = x
            """,
            1,
            {"a": a, "out": out},
        )


def test_variable_assigned_in_one_branch_only_is_refused_when_used():
    a, out = np.array([7], np.int32), np.zeros(1, np.int32)
    with pytest.raises(weft.CompileError, match="'x'"):
        run_threads(
            """
            if a[i] > 3:
                x = a[i]
            out[i] = x
            """,
            1,
            {"a": a, "out": out},
        )


def test_variable_of_one_branch_may_be_used_there():
    a, out = np.array([7, 1], np.int32), np.zeros(2, np.int32)
    run_threads(
        """
        if a[i] > 3:
            x = a[i] * 2
            out[i] = x
        """,
        2,
        {"a": a, "out": out},
    )
    assert out.tolist() == [14, 0]


def test_weak_initial_value_of_a_while_takes_the_type_of_the_loop():
    a, out = np.array([2.5], np.float64), np.zeros(1, np.float64)
    run_threads(
        """
        total, k = 0.0, 0
        while total < 1e6:
            total = total * 1.5 + a[i]
            k += 1
        out[i] = total + k
        """,
        1,
        {"a": a, "out": out},
    )
    total, k = 0.0, 0
    while total < 1e6:
        total, k = total * 1.5 + 2.5, k + 1
    assert out[0] == total + k


def test_loop_over_64_bit_bounds():
    bounds, out = np.array([1 << 33, (1 << 33) + 5], np.int64), np.zeros(5, np.int64)
    run_threads(
        """
        for k in range(bounds[0], bounds[1]):
            out[k - bounds[0]] = k
        """,
        1,
        {"bounds": bounds, "out": out},
    )
    assert out.tolist() == [(1 << 33) + k for k in range(5)]


def test_loop_to_the_end_of_the_type_ends():
    edge, out = np.array([2**31 - 3, 2**31 - 1], np.int32), np.zeros(1, np.int32)
    run_threads(
        """
        for k in range(edge[0], edge[1]):
            out[0] += 1
        for k in range(edge[0], edge[1], 5):
            out[0] += 10
        """,
        1,
        {"edge": edge, "out": out},
    )
    assert out[0] == 12


def test_range_with_a_zero_step_is_refused_where_it_is_known():
    with pytest.raises(weft.CompileError, match="step"):
        run_threads("for k in range(0, 5, 0):\n    out[0] = k", 1, {"out": np.zeros(1, np.int32)})


def test_condition_of_each_type_asks_whether_it_is_zero():
    out = np.zeros((3, 4), np.int32)
    flags = np.array([True, False, True])
    numbers, reals = np.array([0, -5, 7], np.int64), np.array([0.0, -0.0, np.nan])
    run_threads(
        """
        if flags[i]:
            out[i, 0] = 1
        if numbers[i]:
            out[i, 1] = 1
        if reals[i]:
            out[i, 2] = 1
        if not numbers[i]:
            out[i, 3] = 1
        """,
        3,
        {"out": out, "flags": flags, "numbers": numbers, "reals": reals},
    )
    assert out.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 1, 0]]


def test_hundred_nested_expressions_compile():
    out = np.zeros(1, np.int32)
    run_threads(f"out[0] = {' + '.join(['i'] * 200)} + 1", 1, {"out": out})
    assert out[0] == 1
