# SPDX-License-Identifier: Apache-2.0
"""A warpgroup's tensor cores as text: the operations print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed

A = "!simt.tensor<bf16, [64, 64], swizzled 128 atoms 4096, shared, dims 32, offsets 32, align 1024>"
B = "!simt.tensor<bf16, [64, 32], swizzled 128 atoms 2048 transposed, shared, dims 32, offsets 32, align 1024>"
LEFT = "!simt.fragment<[64, 64], bf16, wgmma a>"
C = "!simt.fragment<[64, 32], f32, wgmma c>"
NAMES = f'%c: i1 {{weft.name = "c"}}, %p: {LEFT} {{weft.name = "p"}}'
TEXT = f"""builtin.module {{
  simt.kernel @k({NAMES}) attributes {{shared_memory_bytes = 16384 : i64}} {{
    %a = simt.shared at 0 : {A}
    %b = simt.shared at 8192 : {B}
    %0 = nvgpu.wgmma_accumulator : {C}
    %1 = nvgpu.wgmma_mma "bf16 bf16" %a, %b to %0 : {C} if %c : {A}, {B} -> {C}
    %2 = nvgpu.wgmma_mma "bf16 bf16" %a, %b to %1 : {C} : {A}, {B} -> {C}
    %3 = nvgpu.wgmma_mma "bf16 bf16" %p, %b : {LEFT}, {B} -> {C}
    %4, %5 = nvgpu.wgmma_wait 1 in(%2, %3 : {C}, {C}) out({C}, {C})
    nvgpu.wgmma_wait 0
    %6 = nvgpu.wgmma_holds_sums %4 : {C}
    simt.return
  }}
}}"""
REFUSALS = [
    ('"bf16 bf16" %a, %b to %1', '"bf16 f16" %a, %b to %1', "is not one of"),
    ("bf16, [64, 32], swizzled", "bf16, [32, 32], swizzled", "do not make"),
    ("[64, 32], f32", "[64, 36], f32", "an MMA of shape"),
    ("[64, 32], f32", "[64, 264], f32", "an MMA of shape"),
    ("[64, 64], bf16, wgmma a", "[64, 48], bf16, wgmma a", "do not make"),
    (f" to %1 : {C}", f" to %p : {LEFT}", "the sums have one type"),
    (
        '%2 = nvgpu.wgmma_mma "bf16 bf16" %a, %b to %1 : ' + C,
        '%2 = nvgpu.wgmma_mma "bf16 bf16" %a, %b if %c',
        "nothing to add to",
    ),
    ("wgmma_wait 0", "wgmma_wait 8", "cannot stay in flight"),
    (f"out({C}, {C})", f"out({C}, {LEFT})", "are not the operands"),
]


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(("old", "new", "complaint"), REFUSALS)
def test_what_is_wrong_is_refused(old, new, complaint):
    with pytest.raises((VerifyException, ParseError), match=complaint):
        parsed(TEXT.replace(old, new, 1 if "to %1" in old else -1)).verify()
