# SPDX-License-Identifier: Apache-2.0
"""Of many cases of one statement, some with every change and all of them each night.

In: the cases of a parametrized test. Out: the same, of which most have the mark `slow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


PARAMETERS = type(pytest.param())


def sampled(cases: Iterable[Any], every: int, *, several: bool = False) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, of which the first and each `every`-th after it is not slow.

    Of all pairs of two lists, a number without a common factor with the second's length takes each item of both.

    Args:
        cases: the values, or `pytest.param` of them.
        every: of how many cases one runs with every change.
        several: whether a case is a tuple with a value for each of several parameters.
    """
    found = [
        case if isinstance(case, PARAMETERS) else pytest.param(*(case if several else (case,)))
        for case in cases
    ]
    return [
        pytest.param(
            *case.values, id=case.id, marks=[*case.marks, *[pytest.mark.slow] * (turn % every > 0)]
        )
        for turn, case in enumerate(found)
    ]
