# SPDX-License-Identifier: Apache-2.0
"""Profilers and their marks, as text: they print, parse again in both forms, and refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

RECORDS = "!simt.tensor<i64, [?], contiguous, global, dims 32, offsets 32, align 8>"
TYPES = {"i": "i32", "w": "i64", "x": "f32", "c": "i1", "r": RECORDS}
PARAMETERS = ", ".join(f'%{n}: {t} {{weft.name = "{n}"}}' for n, t in TYPES.items())
PROPERTIES = (
    "records = 10 : i64, blocks = array<i64: 0, 8, 2>, wide, ring, "
    'kernel = "k", groups = ["a"], events = []'
)
TEXT = f"""builtin.module {{
  simt.kernel @k({PARAMETERS}) {{
    %p = simt.track_profiler {{kernel = "k", groups = ["a"], events = ["load", ""]}}
    %q = simt.track_profiler buffer %r : {RECORDS} leader %c enabled %c {{{PROPERTIES}}}
    %t = simt.tirx_profiler buffer %r : {RECORDS} stride %w groups %w leader %c enabled %c {{fence}}
    simt.mark "init" %p group %w leader %c
    simt.mark "counter" %p event 1 payload %i {{long}}
    %y = simt.mark "start" %p event 0 anchor %x : f32 -> f32
    simt.mark "finalize" %t leader %c
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


WRONG = [
    ("array<i64: 0, 8, 2>", "array<i64: 0, 8>", "blocks has a first, an end and a step"),
    ("records = 10 : i64", "records = 10 : i32", None),
    ('"finalize"', '"final"', "'final' is not a kind of mark"),
    ("-> f32", "-> i32", "the result of a mark has the type of its anchor"),
    ("<i64, [?]", "<i32, [?]", "a profiler records into a tensor of rank 1 of i64"),
    ('groups = ["a"], events = ["load", ""]', 'groups = ["a"]', None),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_wrong_operation_is_refused(right, wrong, message):
    assert right in TEXT
    with pytest.raises((VerifyException, ParseError), match=message):
        parsed(TEXT.replace(right, wrong))
