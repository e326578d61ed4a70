# SPDX-License-Identifier: Apache-2.0
"""Views, vectors and inline PTX as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

T = "!simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 16>"
ROW = "!simt.tensor<f32, [4], contiguous, global, dims 32, offsets 64, align 16>"
PART = "!simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4>"
ADVANCED = T.replace("align 16", "align 1")
PACKED = "!simt.tensor<i4, [?, 8], contiguous, global, dims 32, offsets 64, align 4>"
WORDS = PACKED.replace("i4, [?, 8]", "i32, [?, 1]")
FLAT = T.replace("[?, 4]", "[2, ?]")
TABLE = T.replace("[?, 4]", "[2]")
TEXT = f"""builtin.module {{
  simt.kernel @k(%a: {T} {{weft.name = "a"}}, \
%p: {PACKED} {{weft.name = "p"}}, %i: i32 {{weft.name = "i"}}, %w: i64 {{weft.name = "w"}}) {{
    %row = simt.view %a[%i, %w : i32, i64] keeps [1] steps [1] : {T} -> {ROW}
    %part = simt.view %a[%i, %i : i32, i32] keeps [0] steps [-2] sizes(%i : i32) : {T} -> {PART}
    %0, %1 = simt.load_vector %a[%i, %i : i32, i32] : {T} -> f32, f32
    simt.store_vector %0, %1 : f32, f32 into %row[%i : i32] : {ROW}
    %c, %d = simt.load_vector cache "last_use" %a[%i, %i : i32, i32] : {T} -> f32, f32
    simt.store_vector cache "l2_only" %c, %d : f32, f32 into %row[%i : i32] : {ROW}
    %e = simt.load cache "evict_last" %row[%i : i32] : {ROW} -> f32
    simt.store cache "streaming" %e, %row[%i : i32] : f32, {ROW}
    simt.red_add %0, %1 : f32, f32 into %row[%i : i32] : {ROW}
    %2 = simt.advance %a[%i, %w : i32, i64] : {T} -> {ADVANCED}
    %3 = nvgpu.inline_ptx "mov $0, $1;" in(%i : i32) out(i64)
    %words = simt.reinterpret %p sizes(%i : i32) : {PACKED} -> {WORDS}
    %flat = simt.reshape %a sizes(%i : i32) : {T} -> {FLAT}
    %table = simt.table "0000803F00000040" : {TABLE}
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


WRONG = [
    (f"{T} -> {FLAT}", f"{T} -> {FLAT.replace('contiguous', 'inner')}", "are not contiguous, both"),
    (f"{T} -> {FLAT}", f"{T} -> {FLAT.replace('?', '4')}", "1 sizes for"),
    (f"{T} -> {FLAT}", f"{T} -> {FLAT.replace('dims 32', 'dims 64')}", "are i64"),
    (f"{T} -> {FLAT}", f"{T} -> {FLAT.replace('f32', 'f64')}", "source's elements"),
    ('"0000803F00000040"', '"0000803F"', "8 hexadecimal digits"),
    (f": {TABLE}", f": {TABLE.replace('global', 'shared')}", "makes a contiguous global tensor"),
    ("%p sizes(%i : i32)", "%p", "0 sizes for"),
    (f"-> {WORDS}", f"-> {WORDS.replace('i32, [', 'i1, [')}", "is not a number of two bits"),
    (f"-> {WORDS}", f"-> {WORDS.replace('global', 'shared')}", "one address space"),
    (
        f"-> {WORDS}",
        f"-> {WORDS.replace('contiguous', 'inner')}",
        "are not contiguous, inner or swizzled",
    ),
    (f"-> {WORDS}", f"-> {WORDS.replace('[?, 1]', '[4, 1]')}", "in more than the last"),
    ("keeps [1]", "keeps [2]", "of !simt.tensor"),
    ("keeps [1]", "keeps [0, 1]", "2 dimensions and 1 steps"),
    ("steps [-2]", "steps [0]", "in steps of"),
    (" sizes(%i : i32)", "", "0 sizes for"),
    ("sizes(%i : i32)", "sizes(%w : i64)", "are i32"),
    (f"-> {PART}", f"-> {PART.replace('f32', 'f64')}", "source's elements"),
    ("%a[%i, %i : i32, i32] : ", "%a[%i : i32] : ", "1 indices for a tensor of rank 2"),
    (" %0, %1 : f32, f32 ", " %0, %1, %0 : f32, f32, f32 ", "a vector of 3 elements"),
    (f"-> {ADVANCED}", f"-> {T}", "advances to"),
    ('"last_use"', '"lru"', "cache 'lru' is not one of"),
    ('"l2_only"', '"last_use"', "cache 'last_use' is not one of"),
    ('"evict_last"', '"ca"', "cache 'ca' is not one of"),
    ('"streaming"', '"last_use"', "cache 'last_use' is not one of"),
    ("red_add %0, %1 : f32, f32", "red_add %0, %1, %0 : f32, f32, f32", "a vector of 3 elements"),
    (f"%row[%i : i32] : {ROW}", f"%part[%i : i32] : {PART}", "last dimension of stride 1"),
]


@pytest.mark.joined
@pytest.mark.parametrize(("before", "after", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_refused(before, after, words):
    assert before in TEXT
    with pytest.raises((VerifyException, ParseError)) as caught:
        parsed(TEXT.replace(before, after)).verify()
    assert words in str(caught.value)


ATOMS = "!simt.tensor<f16, [2, 16, 128], swizzled 128 atoms 1024, shared, dims 32, offsets 32, align 1024>"
FLIPPED = "!simt.tensor<f16, [128, 16], swizzled 128 atoms 1024 transposed, shared, dims 32, offsets 32, align 1024>"
SWIZZLED = f"""builtin.module {{
  simt.kernel @k(%i: i32 {{weft.name = "i"}}) {{
    %ring = simt.shared : {ATOMS}
    %flipped = simt.view %ring[%i, %i, %i : i32, i32, i32] keeps [2, 1] steps [1, 1] : {ATOMS} -> {FLIPPED}
    simt.return
  }}
}}"""


def test_atoms_print_and_parse():
    assert str(parsed(SWIZZLED)) == SWIZZLED
    assert str(parsed(generic(parsed(SWIZZLED)))) == SWIZZLED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("swizzled 128 atoms 1024,", "swizzled 16 atoms 1024,", "of 16 bytes is not one of"),
        ("atoms 1024, shared", "atoms 1024, local", "in the shared space"),
        ("[2, 16, 128], swizzled", "[2, ?, 128], swizzled", "constant dims"),
    ],
)
def test_wrong_atoms_are_refused(old, new, message):
    with pytest.raises((VerifyException, ParseError), match=message):
        parsed(SWIZZLED.replace(old, new)).verify()
