# SPDX-License-Identifier: Apache-2.0
"""Every wrong use of the tuner gets exactly its message, and each of its codes has a program."""

from __future__ import annotations

import pytest

from docs import generate_errors
from tests.errors.golden import TUNING, message_of, read_cases

CASES = read_cases(TUNING)
# Said of another process, which tests/autotune/test_workers.py has.
ELSEWHERE = {"AUTOTUNE_COMPILATION"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_program_gets_exactly_its_message(case):
    assert message_of(case.program) == case.message


def test_every_code_has_a_program():
    rows = generate_errors.rows_of("compile_errors.txt")
    codes = {row[0] for row in rows if row[0].startswith("AUTOTUNE_")}
    assert codes - ELSEWHERE == {case.code for case in CASES}
