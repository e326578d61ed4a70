# SPDX-License-Identifier: Apache-2.0
"""Operations of cp.async as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

TILE = "!simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>"
SOURCE = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%a: {SOURCE} {{weft.name = "a"}}, %i: i32 {{weft.name = "i"}}, %c: i1 {{weft.name = "c"}}) {{
    %t = simt.shared : {TILE}
    nvgpu.cp_async_copy 4 to %t[%i : i32] from %a[%i : i32] : {TILE}, {SOURCE}
    nvgpu.cp_async_copy 1 to %t[%i : i32] from %a[%i : i32] when %c : {TILE}, {SOURCE}
    nvgpu.cp_async_commit
    nvgpu.cp_async_wait 1
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
        ("copy 4", "copy 3", "a copy of 12 bytes"),
        ("tensor<f32, [?]", "tensor<i32, [?]", "elements of"),
    ],
)
def test_a_copy_is_what_the_instruction_does(right, wrong, message):
    with pytest.raises(VerifyException, match=message):
        parsed(TEXT.replace(right, wrong)).verify()


def test_a_copy_goes_from_global_to_shared_memory():
    text = TEXT.replace("copy 4 to %t[%i : i32] from %a", "copy 4 to %t[%i : i32] from %t", 1)
    with pytest.raises(VerifyException, match="from global to shared"):
        parsed(text.replace(f"{TILE}, {SOURCE}", f"{TILE}, {TILE}", 1)).verify()
