# SPDX-License-Identifier: Apache-2.0
"""Operations of several threads stay where the program has them: in the same branches, once per time they run."""

from __future__ import annotations

import pytest

import weft
from tests.frontend.tracing import kernel_of, kernel_text, ops, trace_kernel, written_names

REGIONS = {"scf.if": ("if", "else"), "scf.for": ("for",), "scf.while": ("while", "do")}


def paths(function, name: str) -> list[str]:
    """For each operation of that name, the regions around it, from the outside."""
    kernel = kernel_of(trace_kernel(function))
    return [" ".join(_around(op, kernel)) for op in kernel.walk() if op.name == name]


def _around(op, kernel) -> list[str]:
    region, parent = op.parent_region(), op.parent_op()
    if parent is kernel:
        return []
    return [*_around(parent, kernel), REGIONS[parent.name][parent.regions.index(region)]]


def after_a_return(a):
    i = weft.thread_idx.x
    if i >= a.shape[0]:
        return
    a[i] = i
    weft.sync_threads()
    a[i] = a[i + 1]


def test_a_barrier_after_an_early_return_is_reached():
    assert paths(after_a_return, "simt.barrier") == ["else"]


def after_a_return_in_a_loop(a):
    for k in range(a.shape[0]):
        if a[k] == 7:
            return
        weft.sync_threads()
    weft.sync_threads()


def test_a_barrier_after_a_loop_with_a_return_is_reached():
    inside, behind = paths(after_a_return_in_a_loop, "simt.barrier")
    assert inside in ("do else", "do if", "do if if", "do else if")
    assert behind == "if"


def exits(function) -> list[str]:
    """The regions at whose end a thread has returned."""
    kernel = kernel_of(trace_kernel(function))
    return [" ".join(_around(op, kernel)) for op in kernel.walk() if op.name == "simt.exit"]


def return_alone(a):
    for _ in range(a.shape[0]):
        weft.sync_threads()
        if a[0] == 7:
            return
    a[1] = 1


def return_in_the_rest(a):
    for _ in range(a.shape[0]):
        if a[0] == 7:
            a[1] = 1
        else:
            return
    a[1] = 1


def first_above(a, limit):
    for k in range(a.shape[0]):
        if a[k] > limit:
            return k
    return -1


def return_of_a_helper(a):
    a[0] = first_above(a, 3)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (after_a_return, ["if"]),
        (after_a_return_in_a_loop, ["do if", "else"]),
        (return_alone, ["do if", "else"]),
        (return_in_the_rest, ["do else", "else"]),
        (return_of_a_helper, []),
    ],
)
def test_a_region_says_that_its_thread_has_returned(function, expected):
    assert exits(function) == expected


def after_a_break(a):
    for k in range(a.shape[0]):
        if a[k] == 7:
            break
        weft.sync_threads()
    weft.sync_threads()


def test_a_barrier_behind_a_loop_with_a_break_is_reached_by_all():
    inside, behind = paths(after_a_break, "simt.barrier")
    assert inside.startswith("do ")
    assert behind == ""


def after_a_continue(a):
    for k in range(a.shape[0]):
        if a[k] == 7:
            continue
        weft.sync_threads()


def test_a_barrier_after_a_continue_is_skipped():
    (path,) = paths(after_a_continue, "simt.barrier")
    assert path == "for else"


def in_both_branches(a):
    if a[0] > 0:
        weft.sync_threads()
    else:
        weft.sync_threads()


def test_barriers_of_two_branches_stay_two():
    assert paths(in_both_branches, "simt.barrier") == ["if", "else"]


def in_a_condition(a):
    while weft.sync_threads_or(a[weft.thread_idx.x] > 0):
        a[weft.thread_idx.x] -= 1


def test_a_barrier_in_a_condition_runs_in_every_iteration():
    assert paths(in_a_condition, "simt.barrier_reduce") == ["while"]


def behind_and(a):
    if a[0] > 0 and weft.warp.any(a[1] > 0):
        a[0] = 1


def behind_or(a):
    a[0] = weft.i32(a[0] > 0 or weft.warp.all(a[1] > 0))


def in_a_conditional_expression(a):
    a[0] = weft.shfl_up(a[1], 1) if a[0] > 0 else 0


@pytest.mark.parametrize(
    ("function", "operation"),
    [(behind_and, "vote"), (behind_or, "vote"), (in_a_conditional_expression, "shuffle")],
)
def test_a_collective_that_may_be_skipped_is_not_run_early(function, operation):
    (path,) = paths(function, f"simt.{operation}")
    assert path in ("if", "else")


def unrolled(a):
    for _ in weft.static_range(3):
        weft.sync_threads()


def test_an_unrolled_barrier_is_as_many():
    assert ops(kernel_text(unrolled), "simt.barrier") == {"simt.barrier": 3}


def exchange(a, i):
    tile = weft.shared(32, weft.i32)
    tile[i] = a[i]
    weft.sync_threads()
    return tile[31 - i]


def in_a_helper_and_a_loop(a):
    i = weft.thread_idx.x
    total = 0
    for _ in range(a.shape[0]):
        total += exchange(a, i)
    a[i] = total


def twice(a):
    i = weft.thread_idx.x
    a[i] = exchange(a, i) + exchange(a, i)


def unused(a):
    weft.shared(32, weft.i32)
    a[0] = 1


@pytest.mark.parametrize(
    ("function", "count"), [(in_a_helper_and_a_loop, 1), (twice, 2), (unused, 0)]
)
def test_each_call_in_the_source_makes_one_shared_array(function, count):
    assert ops(kernel_text(function), "simt.shared") == {"simt.shared": count}


def only_reads(a, b):
    tile = weft.shared(32, weft.i32)
    tile[0] = a[0]
    weft.dynamic_shared(a.shape[0], weft.i32)[1] = a[1]
    b[0] = tile[0]


def test_writing_shared_memory_writes_no_argument():
    traced = trace_kernel(only_reads)
    assert kernel_of(traced) is not None
    assert written_names(traced) == {"b"}


def each_time(a):
    a[0] = weft.i32(weft.globaltimer() - weft.globaltimer())


def test_a_clock_is_read_each_time():
    assert ops(kernel_text(each_time), "simt.timer") == {"simt.timer": 2}
