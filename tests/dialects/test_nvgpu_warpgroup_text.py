# SPDX-License-Identifier: Apache-2.0
"""Operations of warpgroups as text: they print and parse again in both forms."""

from __future__ import annotations

from tests.dialects.test_simt_text import generic, parsed

TEXT = """builtin.module {
  simt.kernel @k() {
    %0 = nvgpu.warpgroup_id : i32
    nvgpu.warpgroup_barrier %0
    %1 = nvgpu.elect_one : i1
    simt.return
  }
}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT
