# SPDX-License-Identifier: Apache-2.0
"""Tensor maps that kernels write, as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

MATRIX = "!simt.tensor<bf16, [?, 64], inner, global, dims 32, offsets 64, align 16>"
PLACE = "!simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128>"
SLOT = "!simt.tensor<i64, [16], contiguous, shared, dims 32, offsets 32, align 128>"
GIVEN = "!nvgpu.tensor_map<bf16, [128, 64], swizzle 128>"
MAP = GIVEN.replace(">", ", memory>")
IMAGES = "!nvgpu.tensor_map<bf16, [64, 64], swizzle 128, im2col 4, memory>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%m: {GIVEN} {{weft.name = "m"}}, %a: {MATRIX} {{weft.name = "a"}}, %p: {PLACE} {{weft.name = "p"}}) {{
    %e = nvgpu.elect_one : i1
    %s = simt.shared : {SLOT}
    %c = nvgpu.copy_map %m to %p by %e : {GIVEN}, {PLACE} -> {MAP}
    %f = nvgpu.map_at %p : {PLACE} -> {MAP}
    %i = nvgpu.map_at %p : {PLACE} -> {IMAGES}
    nvgpu.edit_map %f to %a in %s by %e : {MAP}, {MATRIX}, {SLOT}
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"-> {MAP}\n    %f", f"-> {GIVEN}\n    %f"),  # a copied map is in memory
        (f"-> {MAP}\n    %f", f"-> {MAP.replace('128, 64', '64, 64')}\n    %f"),
        (f"-> {MAP}\n    %i", f"-> {GIVEN}\n    %i"),
        (PLACE, PLACE.replace("[16]", "[8]")),
        (PLACE, PLACE.replace("[16]", "[?]")),
        (PLACE, PLACE.replace("global", "shared")),
        (SLOT, SLOT.replace("[16]", "[32]")),
        (MATRIX, MATRIX.replace("bf16", "f16")),
        (MATRIX, MATRIX.replace("[?, 64]", "[64]")),
        (MATRIX, MATRIX.replace("global", "shared")),
        ("edit_map %f", "edit_map %m"),
        (f"edit_map %f to %a in %s by %e : {MAP}", f"edit_map %i to %a in %s by %e : {IMAGES}"),
    ],
)
def test_what_is_wrong_is_refused(before: str, after: str):
    assert before in TEXT
    with pytest.raises((ParseError, VerifyException)):
        parsed(TEXT.replace(before, after)).verify()
