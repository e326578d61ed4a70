# SPDX-License-Identifier: Apache-2.0
"""Every wrong program gets exactly its message: place, caret, code, sentence, hint, chain of calls."""

from __future__ import annotations

import pytest

from tests.errors.golden import CASES, message_of, read_cases

pytestmark = pytest.mark.joined

ALL = [(path.stem, case) for path in sorted(CASES.glob("*.txt")) for case in read_cases(path)]


@pytest.mark.parametrize(("group", "case"), ALL, ids=[f"{g}-{c.name}" for g, c in ALL])
def test_a_wrong_program_gets_exactly_its_message(group, case):
    assert message_of(case.program) == case.message


def test_every_message_says_where():
    def is_placed(message: str) -> bool:
        return message.startswith("program.py:") and "^" in message.splitlines()[2]

    assert [case.name for _, case in ALL if not is_placed(case.message)] == []


def test_case_names_are_unique():
    names = [case.name for _, case in ALL]
    assert len(set(names)) == len(names)


def test_there_are_at_least_sixty_wrong_programs():
    assert len(ALL) >= 60
