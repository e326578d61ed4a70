# SPDX-License-Identifier: Apache-2.0
"""What Python does with a value known only at run time is refused without naming weft's own classes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.harness import define
from weft.errors import CompileError

pytestmark = pytest.mark.joined

PROGRAM = """
@weft.kernel
def kernel(a: weft.Tensor, n: weft.i32):
    found = {expression}

@weft.jit
def host(a: weft.Tensor, n: weft.i32):
    kernel(a, n).launch(grid=1, block=1)
"""
VALUES = ("range(n)", "weft.unroll(range(n), 2)", "weft.each(n)", "a", "a[0]", "n")
USES = (
    *(
        f"{name}({{}})"
        for name in ("list", "tuple", "set", "sorted", "reversed", "enumerate", "sum")
    ),
    *("dict({})", "len({})", "next({})", "iter({})", "zip({0}, {0})", "map(abs, {})", "max({})"),
    *("[*{}]", "[x for x in {}]", "3 in {}", "{}()", "'%d' % {}", "{}.nothing", "bytes({})"),
)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("value", VALUES)
def test_a_message_does_not_name_classes_of_wefts(value, use):
    host = define(PROGRAM.format(expression=use.format(value)))["host"]
    try:
        host(np.zeros(4, np.float32), 3)
    except CompileError as error:
        text = str(error)
        assert not [
            name for name in ("Scalar", "StagedRange", "'Tensor'", "Iterations") if name in text
        ]
