# SPDX-License-Identifier: Apache-2.0
"""docs/mathematics.md states a bound for every function; tests/codegen/test_math_library.py holds them."""

from __future__ import annotations

from tests.codegen.test_math_library import FUNCTIONS
from tests.conformance.harness import math_functions
from tools.sweep_math import promised


def test_every_function_of_floats_has_a_bound():
    assert sorted(promised()) == sorted(name for n in (1, 2, 3) for name in math_functions(n))


def test_functions_without_a_polynomial_are_correctly_rounded():
    rounded = promised().keys() - {*FUNCTIONS, "atan2", "pow"}
    assert "sqrt" in rounded
    for name in rounded:
        assert promised()[name] == {"f32": 0.5, "f64": 0.5}, name
