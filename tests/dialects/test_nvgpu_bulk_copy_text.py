# SPDX-License-Identifier: Apache-2.0
"""Bulk copies as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

TENSOR = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>"
ARRAY = "!simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 128>"
WORDS = "!simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%a: {TENSOR} {{weft.name = "a"}}, %n: i32 {{weft.name = "n"}}) {{
    %tile = simt.shared : {ARRAY}
    %full = simt.shared : {WORDS}
    nvgpu.bulk_load %n bytes to %tile from %a for %full[%n] : {ARRAY}, {TENSOR}, {WORDS}
    nvgpu.bulk_load %n bytes to %tile from %a for %full[%n] cache "evict_first" : {ARRAY}, {TENSOR}, {WORDS}
    nvgpu.bulk_store %n bytes to %a from %tile : {TENSOR}, {ARRAY}
    nvgpu.bulk_store %n bytes to %a from %tile cache "evict_last" : {TENSOR}, {ARRAY}
    nvgpu.bulk_reduce "add" "f32" %n bytes to %a from %tile : {TENSOR}, {ARRAY}
    nvgpu.bulk_reduce "max" "f32" %n bytes to %a from %tile cache "evict_normal" : {TENSOR}, {ARRAY}
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("to %tile from %a", "to %a from %tile", "a copy from shared to global memory"),
        ("[?], contiguous", "[?], strided", "is not known to be contiguous"),
        ("offsets 64, align 16", "offsets 64, align 4", "aligned to 16"),
        ("tensor<f32, [?]", "tensor<i32, [?]", "are not those of"),
        ('"evict_first"', '"first"', "first is not one of"),
        ('"evict_last"', '"last"', "last is not one of"),
        ('"evict_normal"', '"normal"', "normal is not one of"),
        ('"max"', '"largest"', "largest is not one of"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, message):
    text = TEXT.replace(old, new)
    if old.startswith("to"):
        text = text.replace(f": {ARRAY}, {TENSOR}", f": {TENSOR}, {ARRAY}")
    with pytest.raises(VerifyException, match=message):
        parsed(text).verify()
