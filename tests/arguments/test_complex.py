# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: their own type, the annotated one, and other values."""

from __future__ import annotations

import numpy
import pytest

from tests.arguments.inferring import kind, refused
from weft.arguments.base import MISSING
from weft.types import dtype as types


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (MISSING, 1j, "c64"),
        (MISSING, numpy.complex64(1), "c64"),
        (MISSING, numpy.complex128(1), "c128"),
        (types.c64, numpy.complex128(1), "c64"),
        (types.c128, 1j, "c128"),
        (types.c128, MISSING, "c128"),
        (complex, numpy.complex128(1), "c128"),
    ],
)
def test_a_complex_number_has_its_own_type_or_the_annotated_one(annotation, value, text):
    assert kind(annotation, value).text == text


@pytest.mark.parametrize("value", [1.0, 2, "1j", (1.0, 2.0)])
def test_other_values_are_refused(value):
    message = refused(types.c64, args=(value,))
    assert "[ARGUMENT_NOT_SCALAR]" in message and "it is annotated c64" in message
    assert message.endswith("hint: pass a complex number: complex(x)")
