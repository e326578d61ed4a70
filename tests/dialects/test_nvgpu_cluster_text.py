# SPDX-License-Identifier: Apache-2.0
"""Clusters as text: the operations print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

OWN = "!simt.tensor<f32, [16, 16], contiguous, shared, dims 32, offsets 32, align 16>"
OTHER = OWN.replace("shared", "cluster")
WORDS = "!simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>"
OTHER_WORDS = WORDS.replace("shared", "cluster")
TEXT = f"""builtin.module {{
  simt.kernel @k() attributes {{shared_memory_bytes = 1024 : i64, cluster = array<i32: 2, 1, 1>}} {{
    %t = simt.shared : {OWN}
    %r = nvgpu.cluster_rank : i32
    %o = nvgpu.map_shared %t, %r : {OWN} to {OTHER}
    nvgpu.cluster_barrier
    %w = simt.shared : {WORDS}
    %p = nvgpu.map_shared %w, %r : {WORDS} to {OTHER_WORDS}
    %x, %y = simt.load_vector %t[%r, %r : i32, i32] : {OWN} -> f32, f32
    nvgpu.st_async %x, %y : f32, f32 into %o[%r, %r : i32, i32] for %p[%r] : {OTHER}, {OTHER_WORDS}
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f"to {OTHER}", f"to {OWN}", "becomes the same one|defined with type"),
        (
            f"to {OTHER}",
            f"to {OTHER.replace('f32', 'i32')}",
            "becomes the same one|defined with type",
        ),
        (
            f"for %p[%r] : {OTHER}, {OTHER_WORDS}",
            f"for %w[%r] : {OTHER}, {WORDS}",
            "those of a block",
        ),
        (
            f"into %o[%r, %r : i32, i32] for %p[%r] : {OTHER}",
            f"into %t[%r, %r : i32, i32] for %p[%r] : {OWN}",
            "those of a block",
        ),
        ("st_async %x, %y : f32, f32", "st_async %x, %r : f32, i32", "values' type differs"),
    ],
)
def test_what_is_wrong_is_refused(old, new, words):
    with pytest.raises((VerifyException, ParseError), match=words):
        parsed(TEXT.replace(old, new)).verify()
