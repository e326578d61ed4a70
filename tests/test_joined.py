# SPDX-License-Identifier: Apache-2.0
"""Tests whose cases are joined: each case runs, and none of its outcomes is lost. Those whose cases are sampled."""

from __future__ import annotations

import pytest

from tests.conftest import cases_of, joined
from tests.sampling import sampled

LONG = "a value whose text is cut, since it is longer than a line of a report should be: "


def of_cases(rows, ran):
    """A joined test whose cases fail, skip or pass as they are called."""

    @pytest.mark.parametrize(("outcome", "note"), rows)
    def outcomes(outcome, note):
        ran.append((outcome, note))
        if outcome == "skips":
            pytest.skip("needs a GPU")
        assert outcome == "passes"

    cases = cases_of(outcomes)
    assert cases is not None and len(cases) == len(rows)
    return joined(outcomes, cases, [])


def test_every_failure_is_reported_with_the_traceback_of_the_first():
    ran = []
    rows = [("fails", LONG + "1"), ("passes", ""), ("fails", LONG + "2")]
    with pytest.raises(
        AssertionError, match=r"^2 of 3 cases:\noutcome='fails'.*\noutcome="
    ) as caught:
        of_cases(rows, ran)()
    assert ran == rows
    cause = caught.value.__cause__
    assert cause is not None and cause.__traceback__ is not None


def test_a_case_that_is_skipped_hides_no_other():
    rows = [("skips", ""), ("passes", ""), ("fails", "")]
    with pytest.raises(AssertionError, match=r"^1 of 3 cases"):
        of_cases(rows, ran := [])()
    assert ran == rows
    with pytest.raises(pytest.skip.Exception, match="needs a GPU"):
        of_cases(rows[:2], ran := [])()
    assert ran == rows[:2]


def test_a_case_with_a_mark_or_none_at_all_is_left_to_pytest():
    @pytest.mark.parametrize("one", [1, pytest.param(2, marks=pytest.mark.slow)])
    def with_a_mark(one): ...

    @pytest.mark.parametrize("one", [])
    def of_nothing(one): ...

    assert not cases_of(with_a_mark) and not cases_of(of_nothing)


def test_sampled_cases_keep_their_ids_and_marks():
    found = sampled([1, pytest.param(2, id="two", marks=pytest.mark.torch), 3], 2)
    assert [one.values for one in found] == [(1,), (2,), (3,)]
    assert found[1].id == "two"
    assert [[mark.name for mark in one.marks] for one in found] == [[], ["torch", "slow"], []]
    assert [one.values for one in sampled([(1, 2)], 3, several=True)] == [(1, 2)]
