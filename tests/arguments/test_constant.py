# SPDX-License-Identifier: Apache-2.0
"""Compile-time values: part of the key, distinguished by type."""

from __future__ import annotations

from typing import Any

from tests.arguments.inferring import kind, refused
from weft.arguments.constant import ConstantKind, Constexpr


def test_constants_are_values_of_their_own():
    assert kind(Constexpr, 3) == ConstantKind(3)
    assert kind(Constexpr[int], 3) != kind(Constexpr, 3.0)
    keys = {kind(Constexpr, value).key for value in (1, True, 1.0, 0.0, -0.0, (1,), (True,))}
    assert len(keys) == 7
    assert kind(Constexpr[Any], 3) == ConstantKind(3)
    nan = float("nan")
    assert kind(Constexpr, nan) == kind(Constexpr, nan)
    assert "expected Constexpr[int], received a Python float 1.5" in refused(
        Constexpr[int], args=(1.5,)
    )
    assert "must be hashable, received a Python list" in refused(Constexpr, args=([1],))
    assert "a value of Constexpr[int] is needed to compile" in refused(Constexpr[int])
