# SPDX-License-Identifier: Apache-2.0
"""Clusters as text: the operations print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

OWN = "!simt.tensor<f32, [16, 16], contiguous, shared, dims 32, offsets 32, align 16>"
OTHER = OWN.replace("shared", "cluster")
TEXT = f"""builtin.module {{
  simt.kernel @k() attributes {{shared_memory_bytes = 1024 : i64, cluster = array<i32: 2, 1, 1>}} {{
    %t = simt.shared : {OWN}
    %r = nvgpu.cluster_rank : i32
    %o = nvgpu.map_shared %t, %r : {OWN} to {OTHER}
    nvgpu.cluster_barrier
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"to {OTHER}", f"to {OWN}"),
        (f"to {OTHER}", f"to {OTHER.replace('f32', 'i32')}"),
    ],
)
def test_what_is_wrong_is_refused(old, new):
    with pytest.raises((VerifyException, ParseError), match="becomes the same one"):
        parsed(TEXT.replace(old, new)).verify()
