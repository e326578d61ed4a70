# SPDX-License-Identifier: Apache-2.0
"""Operations of the sanitizer and of traces as text: it prints, parses in both forms, refuses what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

A = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>"
TILE = "!simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>"
TYPES = {"a": A, "tile": TILE, "i": "i32", "w": "i64"}
PARAMETERS = ", ".join(f'%{n}: {t} {{weft.name = "{n}"}}' for n, t in TYPES.items())
TEXT = f"""builtin.module {{
  simt.kernel @k({PARAMETERS}) {{
    simt.watch "reads races" "" "read" 1 %a[%i : i32] sizes(%i : i32) : {A}
    simt.watch_copy "writes shared races uninit async elements" "tile" 0 "written" %w at %tile[%i : i32] plus 0 : {TILE}
    simt.watch_event "commit" 0
    simt.event "line" "" "" ""
    simt.event "assigned" "x" "({{}}, {{}})" "i32 u64"(%i, %w : i32, i64)
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"reads races"', '"reads rats"', r"\['rats'\] are not among"),
        ('"" "read" 1', '"" "seen" 1', "access 'seen' is not one of"),
        ('"commit"', '"omit"', "event 'omit' is not one of"),
        ('"line"', '"lime"', "event 'lime' is not one of"),
        ('"i32 u64"', '"i32"', "2 values of the types 'i32'"),
    ],
)
def test_a_wrong_operation_is_refused(right, wrong, message):
    assert right in TEXT
    with pytest.raises(VerifyException, match=message):
        parsed(TEXT.replace(right, wrong, 1)).verify()
