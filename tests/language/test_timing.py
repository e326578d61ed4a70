# SPDX-License-Identifier: Apache-2.0
"""Clocks: their types, and that each call reads anew."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.language import resolve

TYPES = {"globaltimer": "i64", "clock64": "i64", "clock32": "u32", "sm_id": "i32"}


@pytest.mark.parametrize("name", TYPES)
def test_each_call_reads_anew(name):
    trace = Trace()
    found = [resolve(name).emit(trace.builder) for _ in range(2)]
    assert {value.dtype.name for value in found} == {TYPES[name]}
    assert found[0].ssa is not found[1].ssa
    assert len(trace.names) == 2
    trace.verify()
