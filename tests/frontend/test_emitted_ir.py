# SPDX-License-Identifier: Apache-2.0
"""What control flow looks like in the IR: structured, small, and only what is live is carried."""

from __future__ import annotations

import re

import weft
from tests.frontend.tracing import kernel_of, kernel_text, ops, trace_kernel, vector
from weft.dialects.builder import source_location
from weft.dialects.context import make_context

F32 = vector(weft.f32)


def guarded_store(a, b):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


def test_a_guarded_store_is_one_if_without_results():
    text = kernel_text(guarded_store, F32, F32)
    assert ops(text, "scf.if", "scf.yield", "else") == {"scf.if": 1, "scf.yield": 0, "else": 0}
    assert "%i = arith.addi" in text


def early_return(a, b):
    i = weft.thread_idx.x
    if i >= a.shape[0]:
        return
    b[i] = a[i]
    if i == 3:
        return
    b[0] = 1.0


def test_code_after_an_early_return_is_in_the_else_branch():
    text = kernel_text(early_return, F32, F32)
    assert ops(text, "scf.if", "else", "scf.yield", "i1") == {
        "scf.if": 2,
        "else": 2,
        "scf.yield": 0,
        "i1": 0,
    }


def plain_loop(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        if a[i] < 0.0:
            continue
        total += a[i]
    b[0] = total


def test_a_loop_without_exits_stays_a_for_also_with_continue():
    text = kernel_text(plain_loop, F32, F32)
    assert ops(text, "scf.for", "scf.while") == {"scf.for": 1, "scf.while": 0}
    assert re.search(r"iter_args\(%total\w* = %\d+\) ->", text)


def breaking_loop(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        if a[i] < 0.0:
            break
        total += a[i]
    b[0] = total


def returning_loop(a, b):
    for i in range(a.shape[0]):
        if a[i] < 0.0:
            return
        b[i] = a[i]
    b[0] = 1.0


def test_an_exit_makes_a_while_with_one_live_flag():
    for program in (breaking_loop, returning_loop):
        text = kernel_text(program, F32, F32)
        assert ops(text, "scf.for", "scf.while") == {"scf.for": 0, "scf.while": 1}
        types = re.search(r"scf\.while .*? -> \((.*?)\)", text)[1]
        assert types.split(", ").count("i1") == 1


def only_what_is_live(a, b):
    for i in range(a.shape[0]):
        x = a[i]
        y = x * x
        b[i] = y


def test_a_variable_of_one_iteration_is_not_carried():
    assert "iter_args" not in kernel_text(only_what_is_live, F32, F32)


def dead_behind_a_branch(a, b):
    if a[0] > 0.0:
        x = a[0]
        y = x * 2.0
        b[0] = y
    else:
        x = weft.i32(3)
        b[0] = weft.f32(x)


def test_what_is_dead_behind_a_branch_is_not_joined():
    text = kernel_text(dead_behind_a_branch, F32, F32)
    assert "scf.if %" in text
    assert "->" not in re.search(r"scf\.if.*", text)[0]


def accumulator(a, b):
    total = 0
    best = -1.0
    for i in range(a.shape[0]):
        total += a[i]
        best = max(best, a[i])
    b[0] = total * best


def test_a_weak_initial_value_takes_the_type_of_what_is_added():
    for dtype in (weft.f64, weft.f32):
        text = kernel_text(accumulator, vector(dtype), vector(dtype))
        assert f"-> ({dtype}, {dtype}) : i32" in text
        assert not re.search(r"arith\.(extf|truncf)", text)


def test_a_weak_initial_value_is_wide_and_the_store_narrows():
    text = kernel_text(accumulator, vector(weft.f16), vector(weft.f16))
    assert "-> (f32, f32) : i32" in text
    assert text.count("arith.truncf") == 1


def test_attempts_that_were_discarded_leave_no_constants():
    text = kernel_text(accumulator, vector(weft.f64), vector(weft.f64))
    defined = re.findall(r"(%\S+) = arith\.constant", text)
    assert defined
    for name in defined:
        assert len(re.findall(rf"{name}\b", text)) > 1


def widening_counter(a, n: weft.i64):
    k = 0
    while k < n:
        k = k + n
    a[0] = weft.f32(k)


def test_a_weak_counter_becomes_as_wide_as_what_it_counts_with():
    text = kernel_text(widening_counter, F32, 3)
    assert re.search(r"scf\.while \(%k\w* = %\d+\) : \(i64\) -> i64", text)


def different_constants(a, b):
    if a[0] > 0.0:
        x, y, z = 1, 1.5, True
    else:
        x, y, z = 2.5, 1, False
    b[0] = x + y
    b[1] = 1.0 if z else 0.0


def test_two_constants_meet_in_their_default_type():
    text = kernel_text(different_constants, F32, F32)
    assert ops(text, "scf.if", "arith.select") == {"scf.if": 0, "arith.select": 4}
    assert len(re.findall(r"arith\.select .* : f32", text)) == 3


def select(a, b):
    x = a[0]
    y = a[1]
    best = x if x > y else y
    if y > 3.0:
        best = 3.0
    b[0] = best


def test_branches_that_only_choose_become_selects():
    text = kernel_text(select, F32, F32)
    assert ops(text, "scf.if", "arith.select") == {"scf.if": 0, "arith.select": 2}


def pure_conditions(a, b):
    i = weft.thread_idx.x
    if (0 <= i < a.shape[0] and i != 7) or i == 100:
        b[i] = 1.0


def test_conditions_without_effect_need_no_branch():
    text = kernel_text(pure_conditions, F32, F32)
    assert ops(text, "scf.if", "arith.andi", "arith.ori") == {
        "scf.if": 1,
        "arith.andi": 2,
        "arith.ori": 1,
    }


def loading_condition(a, b):
    i = weft.thread_idx.x
    if i < a.shape[0] and a[i] > 0.0:
        b[i] = 1.0


def test_a_load_behind_and_is_only_done_where_it_is_asked_for():
    text = kernel_text(loading_condition, F32, F32)
    first = text[text.index("scf.if") : text.index("simt.load")]
    assert "{" in first
    assert ops(text, "scf.if", "arith.andi") == {"scf.if": 2, "arith.andi": 0}


def grid_stride(a, b):
    first = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    for i in range(first, a.shape[0], weft.grid_dim.x * weft.block_dim.x):
        b[i] = a[i]


def test_a_grid_stride_is_known_to_be_positive():
    text = kernel_text(grid_stride, F32, F32)
    assert ops(text, "scf.for", "arith.select", "simt.assert") == {
        "scf.for": 1,
        "arith.select": 0,
        "simt.assert": 0,
    }


def backwards(a, b):
    for i in range(a.shape[0] - 1, -1, -1):
        b[i] = a[i]


def test_going_down_is_a_for_over_the_complement():
    text = kernel_text(backwards, F32, F32)
    assert ops(text, "scf.for", "arith.xori", "arith.subi") == {
        "scf.for": 1,
        "arith.xori": 2,
        "arith.subi": 1,
    }


def inner_products(a, b, n: weft.i64):
    for i in range(n):
        j = 0
        while j < 3:
            b[i + j] = a[i] * 2
            j += 1


def test_only_range_counters_and_sums_in_brackets_carry_nsw():
    text = kernel_text(breaking_loop, F32, F32)
    assert ops(text, "overflow") == {"overflow": 1}
    text = kernel_text(inner_products, F32, F32, 3)
    assert re.findall(r"arith.(\w+) .*overflow", text) == ["addi", "addi"]


def induction_types(a, n: weft.i64, m: weft.u32, k: weft.i8):
    for i in range(n):
        a[i] = 0.0
    for i in range(m):
        a[i] = 0.0
    for i in range(k):
        a[i] = 0.0
    for i in range(4):
        a[i] = 0.0


def test_the_counter_is_i32_unless_a_bound_needs_more():
    text = kernel_text(induction_types, F32, 1, 1, 1)
    assert re.findall(r"scf\.for .* : (i\d+) \{", text) == ["i64", "i64", "i32", "i32"]


def empty_range(a):
    for i in range(4, 0):
        a[i] = 1.0


def test_a_range_that_is_empty_leaves_nothing():
    assert ops(kernel_text(empty_range, F32), "scf.for", "simt.store") == {
        "scf.for": 0,
        "simt.store": 0,
    }


def unrolled(a):
    for i in weft.static_range(3):
        a[i] = i


def test_a_static_range_unrolls():
    text = kernel_text(unrolled, F32)
    assert ops(text, "scf.for", "simt.store") == {"scf.for": 0, "simt.store": 3}


def square(x):
    y = x * x
    return y


def calls_square(a):
    a[0] = square(a[0])


def test_operations_keep_location_and_call_site():
    kernel = kernel_of(trace_kernel(calls_square, F32))
    (multiply,) = [op for op in kernel.walk() if op.name == "arith.mulf"]
    (load,) = [op for op in kernel.walk() if op.name == "simt.load"]
    first = calls_square.__code__.co_firstlineno
    line = square.__code__.co_firstlineno + 1
    place = source_location(load.location)
    assert (place.file, place.line, place.function) == (__file__, first + 1, "calls_square")
    begin = len("    a[0] = square(")
    assert (place.column, place.end_line, place.end_column) == (begin, first + 1, begin + 4)
    inner = source_location(multiply.location)
    assert (inner.function, inner.line, inner.caller.line) == ("square", line, first + 1)


def test_every_operation_but_shared_constants_has_a_place():
    for program in (guarded_store, breaking_loop, select, grid_stride):
        for op in kernel_of(trace_kernel(program, F32, F32)).walk():
            if op.name not in ("scf.yield", "scf.condition", "arith.constant"):
                assert "unknown" not in str(op.location), op


def test_the_text_parses_again():
    from xdsl.parser import Parser

    for program in (breaking_loop, early_return, grid_stride, different_constants):
        module = trace_kernel(program, F32, F32).module
        assert str(Parser(make_context(), str(module)).parse_module()) == str(module)


def local_array(a):
    scratch = weft.local(4, weft.f32)
    for i in range(4):
        scratch[i] = a[i]
    total = 0.0
    for i in range(4):
        total += scratch[i]
    a[0] = total


def test_a_local_array_is_made_once():
    assert ops(kernel_text(local_array, F32), "simt.alloca") == {"simt.alloca": 1}


def names_of_all_kinds(a):
    π = a[0] * 2  # noqa: PLC2401
    _ = a[1]
    x_1 = a[2] + π
    for é in range(3):  # noqa: PLC2401
        x_1 += a[é]
    a[0] = x_1


def test_names_that_the_ir_cannot_print_are_left_out():
    text = kernel_text(names_of_all_kinds, F32)
    assert "π" not in text
    assert "é" not in text
    assert "%x_1" in text


def helper_loop(x, scale):
    y = x
    for i in range(4):
        if i > 2:
            y = 1
    return y * scale


def same_loop_with_other_types(a, b):
    a[0] = helper_loop(a[0], 2)
    b[0] = helper_loop(b[0], 2)
    a[1] = helper_loop(0, a[1])


def test_a_loop_that_is_inlined_again_takes_the_types_of_this_call():
    text = kernel_text(same_loop_with_other_types, F32, vector(weft.f64))
    assert re.findall(r"scf\.for .* -> \((\w+)\)", text) == ["f32", "f64", "i32"]
