# SPDX-License-Identifier: Apache-2.0
"""Operations of threads that cooperate, as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_fragment_text import TEXT as FRAGMENTS
from tests.dialects.test_simt_profiling_text import TEXT as MARKS
from tests.dialects.test_simt_text import TEXT as OTHERS
from tests.dialects.test_simt_text import generic, parsed
from tests.dialects.test_simt_views_text import TEXT as VIEWS
from tests.dialects.test_simt_watch_text import TEXT as WATCHED
from weft.dialects.simt import SIMT

ARRAY = "!simt.tensor<f32, [8, 4], contiguous, shared, dims 32, offsets 32, align 16>"
VIEW = "!simt.tensor<i8, [?, 4], contiguous, shared, dims 32, offsets 32, align 1>"
RECORDS = "!simt.tensor<i64, [?], contiguous, global, dims 32, offsets 32, align 8>"
TYPES = {"i": "i32", "w": "i64", "x": "f32", "c": "i1", "r": RECORDS}
PARAMETERS = ", ".join(f'%{n}: {t} {{weft.name = "{n}"}}' for n, t in TYPES.items())
TEXT = f"""builtin.module {{
  simt.kernel @k({PARAMETERS}) attributes {{shared_memory_bytes = 128 : i64}} {{
    %a = simt.shared : {ARRAY}
    %b = simt.shared at 128 : {ARRAY}
    %d = simt.dynamic_shared %w dims(%i : i32) : {VIEW}
    %e = simt.dynamic_shared %w : {ARRAY}
    simt.barrier
    %n = simt.barrier_reduce "count" %c : i32
    %0 = simt.barrier_reduce "and" %c : i1
    simt.warp_barrier %i
    simt.grid_barrier
    simt.fence "device"
    %l = simt.lane_id : i32
    %1 = simt.warp_id : i32
    %2 = simt.shuffle "down" %x, %l mask %i width 16 : f32
    %3 = simt.vote "ballot" %c mask %i : i32
    %4 = simt.vote "any" %c mask %i : i1
    %5 = simt.match "all" %w mask %i : i64
    %6 = simt.warp_reduce "add" %x mask %i : f32
    %7 = simt.timer "globaltimer" : i64
    %8 = simt.timer "clock32" : i32
    %9 = simt.sm_id : i32
    %10 = simt.prmt %i, %l, %1 : i32
    %11 = simt.lop3 %i, %l, %1 table 202 : i32
    %12 = simt.dp4a %i, %l, %1 : i32
    %13 = simt.dp4a %i signed, %l signed, %1 : i32
    %14 = simt.dp4a %i, %l signed, %1 : i32
    simt.record "clock32" %c, %i, %r[%w : i64] : {RECORDS}
    simt.return
  }}
}}"""


def test_every_operation_of_the_dialect_occurs_in_a_text():
    texts = f"{OTHERS} {VIEWS} {MARKS} {FRAGMENTS} {WATCHED} {TEXT}".replace("\n", " ")
    assert [op.name for op in SIMT.operations if f"{op.name} " not in texts] == []


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


WRONG = [
    ('reduce "count"', 'reduce "xor"', "kind 'xor' is not one of"),
    ('"count" %c : i32', '"count" %c : i1', "count yields an i32"),
    ('"and" %c : i1', '"and" %c : i32', "and and or yield an i1"),
    ('"device"', '"cluster"', "scope 'cluster' is not one of"),
    ('"down"', '"left"', "kind 'left' is not one of"),
    ("width 16", "width 24", "width 24 is not a power of two from 1 to 32"),
    ("width 16", "width 64", "width 64 is not a power of two from 1 to 32"),
    ('"ballot"', '"uni"', "kind 'uni' is not one of"),
    ("%c mask %i : i32", "%c mask %i : i1", "ballot yields an i32"),
    ('match "all"', 'match "none"', "kind 'none' is not one of"),
    ('"add"', '"mul"', "kind 'mul' is not one of"),
    ('"globaltimer"', '"walltime"', "timer 'walltime' is not one of"),
    ('"globaltimer" : i64', '"globaltimer" : i32', "globaltimer yields i64"),
    ('record "clock32"', 'record "clock16"', "timer 'clock16' is not one of"),
    ("table 202", "table 256", "a table has 8 bits, received 256"),
    (f"shared : {ARRAY}", f"shared : {ARRAY.replace('shared', 'local')}", "in the shared space"),
    (f"shared : {ARRAY}", f"shared : {ARRAY.replace('8,', '?,')}", "an array of static shape"),
    (f"%w : {ARRAY}", f"%w : {ARRAY.replace('contiguous', 'strided')}", "arrays are contiguous"),
    ("%w dims(%i : i32)", "%w", "0 dims for"),
    ("dims(%i : i32)", "dims(%w : i64)", "are i32"),
]


@pytest.mark.joined
@pytest.mark.parametrize(("right", "wrong", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_wrong_operation_is_refused(right, wrong, message):
    assert right in TEXT
    with pytest.raises((VerifyException, ParseError), match=message):
        parsed(TEXT.replace(right, wrong, 1))


def test_a_record_goes_into_words():
    with pytest.raises(VerifyException, match="a global tensor of rank 1 of i64"):
        parsed(TEXT.replace(RECORDS, RECORDS.replace("<i64", "<f64"))).verify()
