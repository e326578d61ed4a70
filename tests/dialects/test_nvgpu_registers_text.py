# SPDX-License-Identifier: Apache-2.0
"""Registers and dependent launches as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

TEXT = """builtin.module {
  simt.kernel @k() {
    nvgpu.grid_dependency_wait
    nvgpu.setmaxnreg 40
    nvgpu.grid_dependency_launch
    simt.return
  }
}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize("count", [16, 44, 264])
def test_other_numbers_of_registers_are_refused(count):
    with pytest.raises(VerifyException, match="expected a multiple of 8 from 24 to 256"):
        parsed(TEXT.replace("40", str(count))).verify()
