# SPDX-License-Identifier: Apache-2.0
"""docs/mathematics.md states a bound for every function; tests/codegen/test_math_library.py holds them."""

from __future__ import annotations

from tests.codegen.test_math_library import FUNCTIONS
from tools.sweep_math import promised
from weft.language import LANGUAGE

# Integers and truth values have no error.
EXACT = {"clz", "ctz", "ffs", "isfinite", "isinf", "isnan", "mulhi", "popcount"}


def test_every_function_of_floats_has_a_bound():
    functions = {name.removeprefix("math.") for name in LANGUAGE if name.startswith("math.")}
    assert set(promised()) == functions - EXACT


def test_what_is_no_polynomial_is_correctly_rounded():
    for name, bounds in promised().items():
        if name not in (*FUNCTIONS, "atan2", "pow"):
            assert bounds == {"f32": 0.5, "f64": 0.5}, name
