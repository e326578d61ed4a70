# SPDX-License-Identifier: Apache-2.0
"""docs/mathematics.md states the bounds that tests/codegen/test_math_library.py checks, for every function."""

from __future__ import annotations

import re
from pathlib import Path

from tests.codegen.test_math_library import FUNCTIONS, PAIRS, bound_of
from weft.language import LANGUAGE

PAGE = Path(__file__).parents[2] / "docs" / "mathematics.md"
# Integers and truth values have no error.
EXACT = {"clz", "ctz", "ffs", "isfinite", "isinf", "isnan", "mulhi", "popcount"}


def stated() -> dict[str, tuple[float, float]]:
    """Function → its bounds in f32 and f64, from the page's table."""
    rows = re.findall(r"^\| (`.+`) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        name: (float(f32), float(f64))
        for names, f32, f64 in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def test_every_function_of_floats_has_a_bound():
    functions = {name.removeprefix("math.") for name in LANGUAGE if name.startswith("math.")}
    assert set(stated()) == functions - EXACT


def test_the_bounds_are_those_that_are_tested():
    for name, bounds in stated().items():
        if name in FUNCTIONS or name in PAIRS:
            assert bounds == (bound_of(name, "f32"), bound_of(name, "f64")), name
        else:
            assert bounds == (0.5, 0.5), name
