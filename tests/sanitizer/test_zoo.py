# SPDX-License-Identifier: Apache-2.0
"""Every faulty kernel gets exactly its report; with its change it is silent."""

from __future__ import annotations

import pytest

from tests.sampling import sampled
from tests.sanitizer.zoo import SILENT, all_cases, report_of

ALL = all_cases()


@pytest.mark.parametrize("case", sampled(ALL, 2), ids=[f"{c.checks}-{c.name}" for c in ALL])
def test_a_faulty_kernel_gets_exactly_its_report(case):
    assert case.report != SILENT
    assert report_of(case.program, case.checks) == case.report


@pytest.mark.parametrize("case", sampled(ALL, 6), ids=[f"{c.checks}-{c.name}" for c in ALL])
def test_its_correct_twin_is_silent(case):
    assert report_of(case.twin, case.checks) == SILENT
