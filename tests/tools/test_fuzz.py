# SPDX-License-Identifier: Apache-2.0
"""The fuzzer: some random programs mean what the documentation says, and the fuzzer sees where one does not."""

from __future__ import annotations

import math

import pytest

from tests.sampling import sampled
from tools.fuzz import machine
from tools.fuzz.compare import defined, difference, given, unassembled
from tools.fuzz.machine import run
from tools.fuzz.programs import Program, program_of
from tools.fuzz.shrink import shrink
from tools.fuzz.values import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    SIGNED,
    UNSIGNED,
    UnspecifiedError,
    Value,
    allow,
    convert,
    to_float,
)
from weft import _native

SEEDS = 40
AT_ONCE = 5
LEVELS = (3, 0)


@pytest.fixture(autouse=True)
def _the_pool_as_it_was():
    allow(1_000_000)
    before = _native.cpu_threads()
    yield
    _native.set_cpu_threads(before)


def differences(seeds: range) -> list[str]:
    """Describe a difference, with a small program; each seed at one of the levels."""
    found = []
    for seed in seeds:
        try:
            unlike = difference(program_of(seed), (LEVELS[seed % 2],))
        except UnspecifiedError:
            continue
        if unlike is not None:
            found.append(f"python -m tools.fuzz --seeds {seed}: {unlike.text}")
    return found


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, AT_ONCE), 8))
def test_random_programs_mean_what_the_documentation_says(first: int):
    assert differences(range(first, first + AT_ONCE)) == []


def test_random_programs_assemble_for_a_gpu():
    assert [unassembled(program_of(seed)) for seed in range(3)] == [None] * 3


@pytest.mark.slow
def test_hardly_any_program_is_outside_of_the_documentation():
    refused = 0
    for seed in range(1000, 1030):
        program = program_of(seed)
        try:
            run(program.source, program.arguments)
        except UnspecifiedError:
            refused += 1
    assert refused <= 2


def test_a_seed_is_always_the_same_program():
    assert program_of(7) == program_of(7)
    assert program_of(7).source != program_of(8).source


# ---- it sees what is wrong


PROGRAM = """\
def h0(p):
    if p > 3:
        return p * weft.i32(2)
    return p - weft.i32(1)

@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor, n: weft.i32):
    i = weft.thread_idx.x
    total = weft.i32(0)
    for k in range(n):
        if a[i] == k:
            continue
        total += h0(k) * a[i]
    out[i] = total % 1000

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor, n: weft.i32):
    kernel(a, out, n).launch(grid=1, block=32)
"""
ARGUMENTS = (("i32", (32,), list(range(32))), ("i32", (32,), [0] * 32), 6)


def test_a_wrong_value_is_seen_and_its_program_made_small():
    program = Program(0, PROGRAM, ARGUMENTS)
    assert difference(program) is None
    # Another program's values stand for a compiler that is wrong: it takes `%` for `//`.
    wrong = program.source.replace("%", "//")

    def fails(candidate: Program) -> bool:
        try:
            right = run(candidate.source, candidate.arguments)
            return right != run(candidate.source.replace("%", "//"), candidate.arguments)
        except Exception:
            return False

    assert run(program.source, ARGUMENTS) != run(wrong, ARGUMENTS)
    small = shrink(program, fails)
    assert "%" in small.source
    assert len(small.source.splitlines()) <= 11
    assert "h0" not in small.source
    assert difference(small) is None


def test_what_the_compiler_refuses_is_seen():
    refused = "    try:\n        total += 1\n    finally:\n        pass\n"
    source = PROGRAM.replace("    out[i]", f"{refused}    out[i]")
    found = difference(Program(0, source, ARGUMENTS))
    assert found is not None
    assert "try" in found.text


# ---- the reference itself


def test_conversions_of_the_reference_round_as_the_page_says():
    assert convert(-1.9, I32).number == -1
    assert convert(math.nan, I32).number == 0
    assert convert(math.inf, SIGNED[8]).number == 127
    assert convert(300, UNSIGNED[8]).number == 44
    assert convert(math.nan, BOOL).number == 1
    assert to_float(65520, F16) == math.inf
    assert to_float(2**24 + 1, F32) == 2**24
    assert to_float(257, BF16) == 256.0
    assert to_float(2**-150, F32) == 0.0
    assert to_float(3 * 2**-150, F32) == 2**-148


def test_operands_of_the_reference_meet_as_the_page_says():
    assert (Value(SIGNED[8], 1) + Value(UNSIGNED[8], 1)).type == SIGNED[16]
    assert (Value(I32, 1) + Value(UNSIGNED[32], 1)).type == I64
    assert (Value(F16, 1.0) + Value(BF16, 1.0)).type == F32
    assert (Value(I64, 1) / Value(I32, 2)).type == F64
    assert (Value(BOOL, 1) + Value(BOOL, 1)).number == 2
    assert (Value(SIGNED[8], 127) + 1).number == -128
    assert (Value(SIGNED[8], -7) // 2).number == -4
    assert (Value(SIGNED[8], -7) // Value(SIGNED[8], 0)).number == -1


TOGETHER = """\
@weft.kernel
def kernel(out: weft.Tensor, n: weft.i32):
    i = weft.thread_idx.x
    tile = weft.shared(32, weft.i32)
    tile[i] = i
    {barrier}
    out[i] = tile[i // 2]

@weft.jit
def host(out: weft.Tensor, n: weft.i32):
    kernel(out, n).launch(grid=1, block=32)
"""
OUT = (("i32", (32,), [0] * 32), 0)


def test_threads_that_meet_without_a_barrier_are_not_a_test():
    assert run(TOGETHER.format(barrier="weft.sync_threads()"), OUT)[0] == [
        i // 2 for i in range(32)
    ]
    with pytest.raises(UnspecifiedError, match="two threads meet"):
        run(TOGETHER.format(barrier="pass"), OUT)


def test_a_barrier_that_not_all_reach_is_not_a_test():
    source = TOGETHER.format(barrier="if i < 3: weft.sync_threads()\n    else: weft.ballot(i)")
    with pytest.raises(UnspecifiedError, match="wait for each other"):
        run(source, OUT)


@pytest.mark.parametrize("step", ["out[i + 1]", "out[-1 - i]"])
def test_an_index_out_of_range_is_not_a_test(step: str):
    source = TOGETHER.format(barrier=f"{step} = 1\n    weft.sync_threads()")
    with pytest.raises(UnspecifiedError, match="index"):
        run(source, OUT)


@pytest.mark.parametrize(("restrict", "refused"), [("True", True), ("['b']", True), ("()", False)])
def test_one_array_for_two_restricted_parameters_is_not_a_test(restrict: str, refused: bool):
    source = f"""\
@weft.kernel(restrict={restrict})
def kernel(a: weft.Tensor, b: weft.Tensor):
    b[weft.thread_idx.x] = a[weft.thread_idx.x]

@weft.jit
def host(out: weft.Tensor, n: weft.i32):
    kernel(out, out).launch(grid=1, block=32)
"""
    if refused:
        with pytest.raises(UnspecifiedError, match="restricted"):
            run(source, OUT)
    else:
        assert run(source, OUT)[0] == [0] * 32


def test_a_loop_without_end_is_not_a_test(monkeypatch):
    monkeypatch.setattr(machine, "STEPS", 10_000)
    source = TOGETHER.format(barrier="while n == 0: n = n * 1")
    with pytest.raises(UnspecifiedError, match="too long"):
        run(source, OUT)


def test_weft_runs_the_text_that_the_reference_runs():
    program = Program(0, PROGRAM, ARGUMENTS)
    arguments = given(program)
    defined(program.source)(*arguments)
    assert arguments[1].tolist() == run(program.source, ARGUMENTS)[1]


def test_f64_results_of_the_reference_are_pythons():
    assert (Value(F64, 0.1) + Value(F64, 0.2)).number == 0.1 + 0.2
