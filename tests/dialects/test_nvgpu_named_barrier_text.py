# SPDX-License-Identifier: Apache-2.0
"""Operations of named barriers as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.dialects.test_simt_text import generic, parsed

TEXT = """builtin.module {
  simt.kernel @k(%i: i32 {weft.name = "i"}) {
    nvgpu.named_barriers 1 count 7
    nvgpu.named_barrier_sync %i threads 64
    nvgpu.named_barrier_arrive %i threads 1024
    simt.return
  }
}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("count 7", "count 8", "numbered 1 to 7"),
        ("barriers 1", "barriers 0", "numbered 1 to 7"),
        ("threads 64", "threads 48", "48 threads are not a number of whole warps"),
        ("threads 1024", "threads 1056", "1056 threads are not"),
    ],
)
def test_numbers_and_threads_are_those_of_a_block(right, wrong, message):
    with pytest.raises(VerifyException, match=message):
        parsed(TEXT.replace(right, wrong)).verify()
