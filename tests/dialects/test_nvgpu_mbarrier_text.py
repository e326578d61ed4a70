# SPDX-License-Identifier: Apache-2.0
"""Operations of mbarriers as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

WORDS = "!simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%i: i32 {{weft.name = "i"}}) {{
    %a = simt.shared : {WORDS}
    %b = simt.shared : {WORDS}
    nvgpu.mbarrier_init %a, %b : {WORDS}, {WORDS} arrivals [1, 8]
    nvgpu.mbarrier_arrive %a[%i] : {WORDS}
    nvgpu.mbarrier_arrive %a[%i] expect %i : {WORDS}
    nvgpu.mbarrier_release %b[%i] : {WORDS}
    nvgpu.mbarrier_release %b[%i] ranks %i, %i : {WORDS}
    nvgpu.mbarrier_wait %a[%i] parity %i : {WORDS}
    %0 = nvgpu.mbarrier_try_wait %a[%i] parity %i : {WORDS} -> i1
    simt.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [("[1]", "1 numbers of arrivals for 2 arrays"), ("[1, 0]", "arrivals are 1 to 1048575")],
)
def test_arrivals_are_one_number_for_each_array(arrivals, message):
    with pytest.raises(VerifyException, match=message):
        parsed(TEXT.replace("[1, 8]", arrivals)).verify()
