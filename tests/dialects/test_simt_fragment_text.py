# SPDX-License-Identifier: Apache-2.0
"""Fragments as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

C = "!simt.fragment<[32, 16], f32, mma c>"
TILE = "!simt.tensor<f32, [32, 16], contiguous, shared, dims 32, offsets 32, align 16>"
ROW = "!simt.fragment<[32], f32, mma row>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%x: f32 {{weft.name = "x"}}) attributes {{shared_memory_bytes = 2048 : i64}} {{
    %c = simt.fragment_fill %x : f32 -> {C}
    %r = simt.fragment_fill %x : f32 -> {ROW}
    %l = simt.lane_id : i32
    %v, %0, %1, %2 = simt.fragment_values %r : {ROW} -> f32, f32, f32, f32
    %m = simt.fragment_map of(%c, %r : {C}, {ROW}) from(%l, %l) -> !simt.fragment<[32, 16], i32, mma c> {{
    ^bb0(%3: f32, %4: f32, %5: i32, %6: i32):
      simt.fragment_yield %5 : i32
    }}
    %n = simt.fragment_map from(%l, %l) -> {ROW} {{
    ^bb0(%7: i32, %8: i32):
      simt.fragment_yield %x : f32
    }}
    %p = simt.fragment_part %c from 8 : {C} -> !simt.fragment<[32, 8], f32, mma c>
    %s = simt.fragment_reduce %c : {C} -> {ROW} {{
    ^bb0(%9: f32, %10: f32):
      simt.fragment_yield %9 : f32
    }}
    %f = simt.fragment_of %v, %0, %1, %2 : f32, f32, f32, f32 -> {ROW}
    %11, %12, %13, %14 = simt.fragment_values %r : {ROW} -> i32, i32, i32, i32
    %b = simt.fragment_bitcast %r : {ROW} -> !simt.fragment<[32], i32, mma row>
    %u = simt.fragment_reduce %c : {C} -> !simt.fragment<[16], f32, mma column> {{
    ^bb0(%15: f32, %16: f32):
      simt.fragment_yield %15 : f32
    }}
    %t = simt.shared : {TILE}
    simt.fragment_store whole %c, %t[%l, %l] from(%l, %l) : {C}, {TILE}[i32, i32] {{
    ^bb0(%17: f32, %18: i32, %19: i32):
      simt.store %17, %t[%18, %19 : i32, i32] : f32, {TILE}
      simt.fragment_yield
    }}
    simt.fragment_red_add %c, %t[%l, %l] from(%l, %l) : {C}, {TILE}[i32, i32] {{
    ^bb0(%20: f32, %21: i32, %22: i32):
      simt.store %20, %t[%21, %22 : i32, i32] : f32, {TILE}
      simt.fragment_yield
    }}
    %e = simt.fragment_load whole %t[%l, %l] from(%l, %l) : {TILE}[i32, i32] -> {C} {{
    ^bb0(%23: i32, %24: i32):
      %25 = simt.load %t[%23, %24 : i32, i32] : {TILE} -> f32
      simt.fragment_yield %25 : f32
    }}
    %d = simt.fragment_map of(%c, %r : {C}, {ROW}) from(%l, %l) -> {C} {{
    ^bb0(%26: f32, %27: f32, %28: f32, %29: f32, %30: i32, %31: i32):
      simt.fragment_yield %27, %29 : f32, f32
    }}
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
        ("f32, mma c>", "f32, dmma c>", "'dmma' is not one of"),
        ("f32, mma c>", "f32, mma d>", "'d' is not one of"),
        ("[32], f32, mma row", "[32, 1], f32, mma row", "a row fragment of shape"),
        ("%3: f32", "%3: i32", "the region's arguments are not the inputs' elements"),
        ("simt.fragment_yield %5 : i32", "simt.fragment_yield %3 : f32", "does not yield"),
        ("yield %27, %29 : f32, f32", "yield %27, %30 : f32, i32", "does not yield"),
        ("yield %27, %29 : f32, f32", "yield %27, %28, %29 : f32, f32, f32", "or two adjacent"),
        ("yield %27, %29 : f32, f32", "yield %27 : f32", "not the inputs' elements"),
        ("^bb0(%9: f32, %10: f32)", "^bb0(%9: f32)", "does not take two elements"),
        (
            "^bb0(%17: f32, %18: i32, %19: i32)",
            "^bb0(%17: f32, %18: i32, %19: i32, %y: i32)",
            "an element, its row",
        ),
        (
            "^bb0(%20: f32, %21: i32, %22: i32)",
            "^bb0(%20: f32, %21: i32, %22: i32, %y: i32)",
            "an element, its row",
        ),
        (" from(%l, %l) -> " + ROW, " from(%l) -> " + ROW, "the region's arguments"),
        ("[16], f32, mma column>", "[16], f32, mma row>", "for each row or column"),
        ("^bb0(%23: i32, %24: i32)", "^bb0(%23: i32, %24: i32, %y: i32)", "a row and a column"),
        ("%v, %0, %1, %2 : f32, f32, f32, f32", "%v, %0 : f32, f32", "holds 4 elements"),
        (
            "-> !simt.fragment<[32], i32, mma row>",
            "-> !simt.fragment<[32], i16, mma row>",
            "same bits",
        ),
    ],
)
def test_what_is_wrong_is_refused(old, new, complaint):
    with pytest.raises((VerifyException, ParseError), match=complaint):
        parsed(TEXT.replace(old, new)).verify()
