# SPDX-License-Identifier: Apache-2.0
"""A warp's tensor cores as text: the operations print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

TILE = "!simt.tensor<bf16, [16, 16], contiguous, shared, dims 32, offsets 32, align 16>"
A = "!simt.fragment<[16, 16], bf16, mma a>"
B = "!simt.fragment<[16, 16], bf16, mma b>"
C = "!simt.fragment<[16, 16], f32, mma c>"
HALF = "!simt.fragment<[16, 8], f32, mma a>"
WIDE = "!simt.fragment<[16, 16], f32, mma b>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%x: f32 {{weft.name = "x"}}) attributes {{shared_memory_bytes = 512 : i64}} {{
    %t = simt.shared : {TILE}
    %l = simt.lane_id : i32
    %a = nvgpu.load_matrix %t from(%l, %l) : {TILE} -> {A} {{
    ^bb0(%0: i32, %1: i32):
      %2 = simt.load %t[%0, %1 : i32, i32] : {TILE} -> bf16
      simt.fragment_yield %2 : bf16
    }}
    %b = nvgpu.load_matrix transposed %t from(%l, %l) : {TILE} -> {B} {{
    ^bb0(%3: i32, %4: i32):
      %5 = simt.load %t[%3, %4 : i32, i32] : {TILE} -> bf16
      simt.fragment_yield %5 : bf16
    }}
    %c = simt.fragment_fill %x : f32 -> {C}
    %w = simt.fragment_fill %x : f32 -> {WIDE}
    %d = nvgpu.mma "bf16 bf16" %a, %b, %c : {A}, {B} -> {C}
    %h = simt.fragment_fill %x : f32 -> {HALF}
    %e = nvgpu.mma "f32 f32" %h, %w, %c sparse(%l) : {HALF}, {WIDE} -> {C}
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (f'"bf16 bf16" %a, %b, %c : {A}, {B}', f'"bf16 bf16" %b, %a, %c : {B}, {A}', "a, b and c"),
        ("[16, 16], f32, mma c", "[16, 8], f32, mma c", "do not fit"),
        ("sparse(%l)", "sparse(%l, %l)", "2 registers of metadata instead of 1"),
        (" sparse(%l)", "", "do not fit"),
        ("^bb0(%0: i32, %1: i32)", "^bb0(%0: i32, %1: i32, %9: i32)", "a row and a column"),
    ],
)
def test_what_is_wrong_is_refused(old, new, complaint):
    with pytest.raises((VerifyException, ParseError), match=complaint):
        parsed(TEXT.replace(old, new)).verify()
