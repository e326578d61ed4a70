# SPDX-License-Identifier: Apache-2.0
"""Nothing that stands in a kernel makes weft fail itself: it compiles, or the user reads what is wrong."""

from __future__ import annotations

import random
import warnings

import pytest

from tests.errors.golden import message_of
from tests.errors.mutations import mutant, programs


@pytest.mark.parametrize("seed", range(4))
def test_exchanged_expressions_never_reach_an_internal_error(seed):
    generator, pool = random.Random(seed), programs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        for _ in range(60):
            text = mutant(generator, pool)
            try:
                compile(text, "program.py", "exec")
            except SyntaxError:
                continue
            message = message_of(text)
            assert "[INTERNAL" not in message, f"{text}\n{message}"
