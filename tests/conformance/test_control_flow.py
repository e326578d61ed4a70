# SPDX-License-Identifier: Apache-2.0
"""Python means Python: the same functions, run by Python and by a kernel, give the same.

In: functions of small integers with every kind of control flow. Out: equal results.
"""

from __future__ import annotations

import pytest

from tests.conformance.harness import assert_python_agrees

SMALL = range(-6, 12)


def if_without_else(a):
    x = 1
    if a > 2:
        x = 10
    return x


def if_elif_else(a):
    if a < -2:
        x = -1
    elif a < 2:
        x = 0
    elif a < 5:
        x = 1
    else:
        x = 2
    return x


def nested_ifs(a):
    x = a
    if a > 0:
        if a % 2 == 0:
            x = x * 10
        else:
            if a > 5:
                x = -x
            x += 1
        x += 100
    return x


def early_returns(a):
    if a < 0:
        return -1
    if a == 3:
        return 33
    x = a * 2
    if x > 10:
        return x
    return 0


def return_in_both_branches(a):
    if a > 0:
        return a
    else:
        return -a


def return_from_a_loop(a):
    for k in range(20):
        if k * k > a:
            return k
    return -1


def return_from_nested_loops(a):
    for j in range(5):
        for k in range(5):
            if j * k == a:
                return 10 * j + k
    return -1


def while_counts_digits(a):
    n = abs(a) * 37
    digits = 0
    while n > 0:
        n //= 10
        digits += 1
    return digits


def while_true_with_break(a):
    k = 0
    while True:
        if k * 3 >= a:
            break
        k += 1
    return k


def while_with_two_conditions(a):
    k, total = 0, 0
    while k < 10 and total < a:
        total += k
        k += 1
    return total * 100 + k


def while_with_continue(a):
    k, total = 0, 0
    while k < 10:
        k += 1
        if k % 3 == a % 3:
            continue
        total += k
    return total


def while_with_break_and_continue(a):
    k, total = -3, 0
    while k < 20:
        k += 1
        if k % 2 == 0:
            continue
        if total > a * 3:
            break
        total += k
    return total * 100 + k


def for_over_n(a):
    total = 0
    for k in range(a):
        total += k * k
    return total


def for_from_to(a):
    total = 0
    for k in range(-3, a):
        total = total * 2 + k
    return total


def for_with_step_two(a):
    total = 0
    for k in range(1, a, 2):
        total = total * 3 + k
    return total


def for_with_step_minus_one(a):
    total = 0
    for k in range(a, -3, -1):
        total = total * 2 + k
    return total


def for_with_step_minus_three(a):
    total = 0
    for k in range(10, a, -3):
        total = total * 5 + k
    return total


def for_with_staged_step(a, step):
    total = 0
    for k in range(a, a + 7 * step, step):
        total = total * 2 + k
    return total


def for_with_break(a):
    total = 0
    for k in range(10):
        if k == a:
            break
        total += k
    return total


def for_with_continue(a):
    total = 0
    for k in range(10):
        if k == a:
            continue
        total += k
    return total


def nested_for_with_breaks(a):
    total = 0
    for j in range(6):
        if j == 4:
            break
        for k in range(6):
            if j + k > a:
                break
            total += 10 * j + k
        total += 1000
    return total


def nested_for_with_continue_of_the_outer(a):
    total = 0
    for j in range(5):
        if (j + a) % 2 == 0:
            continue
        for k in range(j):
            if k == 1:
                continue
            total += k + 1
    return total


def loop_variable_after_the_loop(a):
    k = -1
    for k in range(a):  # noqa: B007 - the point is what k is afterwards
        pass
    return k


def loop_variable_changed_in_the_body(a):
    total = 0
    for k in range(a):
        k = k * 2
        total += k
    return total


def bound_changed_in_the_body(a):
    n, total = a, 0
    for _ in range(n):
        n = 0
        total += 1
    return total * 10 + n


def break_out_of_while_inside_for(a):
    total = 0
    for k in range(4):
        n = a
        while n > 0:
            n -= 1
            if n == k:
                break
            total += 1
        total += 100 * n
    return total


def ternaries(a):
    sign = -1 if a < 0 else 1 if a > 0 else 0
    return sign * 10 + (5 if a % 2 else 7)


def chained_comparisons(a):
    x = 1 if -2 < a <= 4 else 0
    y = 1 if 0 <= a * 2 < 10 > a else 0
    return x * 10 + y


def short_circuit_guards_a_division(a):
    x = 0
    if a != 0 and 12 % a == 0:
        x = 1
    if a == 0 or 12 // a > 3:
        x += 10
    return x


def value_of_and_and_or(a):
    return (a > 0 and a < 5) * 1 + (a < -2 or a > 7) * 2


def not_of_numbers(a):
    return (not a) * 1 + (not not a) * 2


def swap_and_rotate(a, b):
    a, b = b, a
    x, y, z = a, b, a + b
    x, y, z = z, x, y
    return x * 100 + y * 10 + z


def augmented_assignments(a):
    x = a
    x += 3
    x *= 2
    x -= 1
    x //= 3
    x %= 7
    x <<= 2
    x |= 1
    x ^= 5
    x &= 29
    x >>= 1
    return x


def greatest_common_divisor(a, b):
    a, b = abs(a), abs(b)
    while b:
        a, b = b, a % b
    return a


def collatz(a):
    n, steps = abs(a) + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def variable_first_assigned_in_both_branches(a):
    if a > 2:
        x, y = 1, a
    else:
        x, y = 2, -a
    return x * 100 + y


def pass_and_docstring(a):
    """A function may have one."""
    if a > 0:
        pass
    else:
        a = -a
    return a


def for_else(a):
    x = 0
    for k in range(5):
        if k == a:
            break
        x += 1
    else:
        x = 100
    return x


def while_else(a):
    k = 0
    while k < 5:
        if k == a:
            break
        k += 1
    else:
        k = 100
    return k


def builtins(a, b):
    quotient, remainder = divmod(a, 4)
    return abs(a) + 10 * min(a, b) + 100 * max(a, b, 0) + quotient * 7 + remainder


def assignment_expression(a):
    total = 0
    if (double := a * 2) > 6:
        total = double
    return total + double


def function_made_before_a_loop(a):
    def doubled():
        return 2 * x

    x, total = a, 0
    for _ in range(3):
        total += doubled()
        x = 100
    return total


def lambda_made_before_a_loop(a):
    x, total = a, 0
    doubled = lambda: 2 * x
    while total < 50:
        total += doubled() + 1
        x = 10
    return total


def function_made_before_a_branch(a):
    x = 1

    def doubled():
        return 2 * x

    if a > 2:
        x = a
    return doubled()


ONE_ARGUMENT = (
    function_made_before_a_loop,
    lambda_made_before_a_loop,
    function_made_before_a_branch,
    if_without_else,
    if_elif_else,
    nested_ifs,
    early_returns,
    return_in_both_branches,
    return_from_a_loop,
    return_from_nested_loops,
    while_counts_digits,
    while_true_with_break,
    while_with_two_conditions,
    while_with_continue,
    while_with_break_and_continue,
    for_over_n,
    for_from_to,
    for_with_step_two,
    for_with_step_minus_one,
    for_with_step_minus_three,
    for_with_break,
    for_with_continue,
    nested_for_with_breaks,
    nested_for_with_continue_of_the_outer,
    loop_variable_after_the_loop,
    loop_variable_changed_in_the_body,
    bound_changed_in_the_body,
    break_out_of_while_inside_for,
    ternaries,
    chained_comparisons,
    short_circuit_guards_a_division,
    value_of_and_and_or,
    not_of_numbers,
    augmented_assignments,
    collatz,
    variable_first_assigned_in_both_branches,
    pass_and_docstring,
    for_else,
    while_else,
    assignment_expression,
)


@pytest.mark.parametrize("function", ONE_ARGUMENT, ids=lambda function: function.__name__)
def test_control_flow_of_one_number(function):
    assert_python_agrees(function, SMALL)


@pytest.mark.parametrize(
    "function",
    (swap_and_rotate, greatest_common_divisor, builtins),
    ids=lambda function: function.__name__,
)
def test_control_flow_of_two_numbers(function):
    left = [a for a in range(-4, 9) for _ in range(-4, 9)]
    right = list(range(-4, 9)) * 13
    assert_python_agrees(function, left, right)


def test_range_with_a_step_known_only_at_run_time():
    steps = [-3, -2, -1, 1, 2, 5]
    starts = [start for start in (-2, 0, 7) for _ in steps]
    assert_python_agrees(for_with_staged_step, starts, steps * 3)
