# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

MAP = "!nvgpu.tensor_map<f16, [1, 64, 128], swizzle 128>"
TILE = (
    "!simt.tensor<f16, [64, 128], swizzled 128 atoms 4096, shared, dims 32, offsets 32, align 1024>"
)
PLAIN = TILE.replace("swizzled 128 atoms 4096", "contiguous")
WORDS = "!simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>"
INDICES = "%i, %i, %i : i32, i32, i32"
BOX = "%m[%i, %i, %i : i32, i32, i32] with %tile"
TEXT = f"""builtin.module {{
  simt.kernel @k(%m: {MAP} {{weft.name = "m"}}, %i: i32 {{weft.name = "i"}}) {{
    %tile = simt.shared : {TILE}
    %full = simt.shared : {WORDS}
    nvgpu.tma_load %m[%i, %i, %i : i32, i32, i32] to %tile for %full[%i] : {MAP}, {TILE}, {WORDS}
    nvgpu.tma_load %m[{INDICES}] to %tile for %full[%i] ranks %i, %i cache "evict_last" : {MAP}, {TILE}, {WORDS}
    nvgpu.fence_proxy
    nvgpu.fence_proxy global
    nvgpu.watch_box "reads async phase" "" "read" {BOX} for %full[%i] : {WORDS} : {MAP}, {TILE}
    nvgpu.tma_store %m[%i, %i, %i : i32, i32, i32] from %tile : {MAP}, {TILE}
    nvgpu.tma_store %m[%i, %i, %i : i32, i32, i32] from %tile cache "evict_first" : {MAP}, {TILE}
    nvgpu.tma_reduce "add" %m[%i, %i, %i : i32, i32, i32] from %tile : {MAP}, {TILE}
    nvgpu.tma_reduce "xor" %m[%i, %i, %i : i32, i32, i32] from %tile cache "evict_normal" : {MAP}, {TILE}
    nvgpu.tma_wait 1 read
    nvgpu.tma_wait 0
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1, 64, 128], swizzle 128", "[1, 64, 64], swizzle 128", "is not the tile"),
        ("[1, 64, 128], swizzle 128", "[1, 64, 128], swizzle 64", "is not that of the tile"),
        ("map<f16", "map<f32", "is not the tile"),
        ("[%i, %i, %i : i32, i32, i32] to", "[%i, %i : i32, i32] to", "2 indices for"),
        ('cache "evict_last"', 'cache "evict"', "evict is not one of"),
        ('cache "evict_first"', 'cache "first"', "first is not one of"),
        ('"xor"', '"nor"', "nor is not one of"),
        ("swizzled 128 atoms 4096", "contiguous", "is not that of the tile"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, message):
    with pytest.raises(VerifyException, match=message):
        parsed(TEXT.replace(old, new)).verify()


def test_a_tile_without_a_swizzle_is_whole():
    plain = TEXT.replace("swizzled 128 atoms 4096", "contiguous").replace("e 128>", "e 0>")
    parsed(plain).verify()
    kind = "!simt.tensor<f16, [64, 128], inner, global, dims 32, offsets 32, align 1024>"
    outside = plain.replace("%i: i32 {", f'%tile: {kind} {{weft.name = "t"}}, %i: i32 {{')
    outside = outside.replace(f"    %tile = simt.shared : {PLAIN}\n", "").replace(PLAIN, kind)
    with pytest.raises(VerifyException, match="a contiguous tile"):
        parsed(outside).verify()


ROW_MAP = "!nvgpu.tensor_map<f16, [1, 64], swizzle 0>"
ROW_TILE = "!simt.tensor<f16, [4, 64], contiguous, shared, dims 32, offsets 32, align 128>"
FOUR = "%i, %i, %i, %i, %i : i32, i32, i32, i32, i32"
ROWS = f"""builtin.module {{
  simt.kernel @k(%m: {ROW_MAP} {{weft.name = "m"}}, %i: i32 {{weft.name = "i"}}) {{
    %tile = simt.shared : {ROW_TILE}
    %full = simt.shared : {WORDS}
    nvgpu.tma_load %m[{FOUR}] to %tile for %full[%i] : {ROW_MAP}, {ROW_TILE}, {WORDS}
    nvgpu.watch_box "reads async phase" "" "read" %m[{FOUR}] with %tile for %full[%i] : {WORDS} : {ROW_MAP}, {ROW_TILE}
    nvgpu.tma_store %m[{FOUR}] from %tile : {ROW_MAP}, {ROW_TILE}
    simt.return
  }}
}}"""


def test_rows_with_an_index_each_print_and_parse():
    assert str(parsed(ROWS)) == ROWS
    assert str(parsed(generic(parsed(ROWS)))) == ROWS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (FOUR, "%i, %i, %i, %i : i32, i32, i32, i32", "4 indices for"),
        ("[1, 64], swizzle", "[4, 64], swizzle", "5 indices for"),
        ("[4, 64], contiguous", "[8, 64], contiguous", "is not the tile"),
        ("%full[%i] : {ROW_MAP}", "%full[%i] ranks %i : {ROW_MAP}", "come into one block"),
        ("tma_store", 'tma_reduce "add"', "a reduction of rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused(old, new, message):
    old, new = (text.replace("{ROW_MAP}", ROW_MAP) for text in (old, new))
    with pytest.raises(VerifyException, match=message):
        parsed(ROWS.replace(old, new)).verify()
