# SPDX-License-Identifier: Apache-2.0
"""Tensor maps and their copies as text: they print, parse again in both forms, refuse what is wrong."""

from __future__ import annotations

import math

import pytest
from xdsl.dialects.builtin import Float64Type, IntegerType, bf16, f32
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.dialects.test_simt_text import generic, parsed
from weft.dialects.nvgpu.tensor_map import MOST_BOX, TensorMapType

pytestmark = pytest.mark.joined

MATRIX = "!simt.tensor<bf16, [?, 64], inner, global, dims 32, offsets 64, align 16>"
MAP = "!nvgpu.tensor_map<bf16, [128, 64], swizzle 128>"
TEXT = f"""builtin.module {{
  simt.kernel @k(%m: {MAP} {{weft.name = "m"}}, %i: i32 {{weft.name = "i"}}) {{
    nvgpu.tma_prefetch %m : {MAP}
    nvgpu.tma_prefetch %m[%i, %i : i32, i32] : {MAP}
    simt.return
  }}
  func.func @host(%a: {MATRIX}, %n: i64, %i: i32) {{
    %m = nvgpu.make_tensor_map %a "tensor_map(a)" "a" "bf16" "128B" "zero" : {MATRIX} -> {MAP}
    simt.launch_ex @k grid(%n, %n, %n) block(%n, %n, %n) args(%m, %i : {MAP}, i32)
    func.return
  }}
}}"""


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    assert str(parsed(generic(parsed(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MAP, MAP.replace("swizzle 128", "swizzle 48")),
        (MAP, MAP.replace("[128, 64]", "[]")),
        (MAP, MAP.replace("[128, 64]", "[0, 64]")),
        (MAP, MAP.replace("[128, 64]", "[64]")),
        (MAP, MAP.replace("bf16", "f32")),
        ("%m[%i, %i : i32, i32]", "%m[%i : i32]"),
        ("inner, global", "inner, shared"),
    ],
)
def test_what_is_wrong_is_refused(before: str, after: str):
    with pytest.raises((ParseError, VerifyException)):
        parsed(TEXT.replace(before, after)).verify()


@pytest.mark.parametrize(
    ("element", "box", "swizzle", "piece"),
    [
        (bf16, (128, 64), 128, (128, 64)),
        (bf16, (256, 128), 128, (256, 64)),
        (bf16, (512, 64), 128, (256, 64)),
        (bf16, (384, 64), 128, (192, 64)),
        (bf16, (2, 128, 64), 128, (2, 128, 64)),
        (bf16, (128, 1, 128), 128, (128, 1, 64)),
        (bf16, (2, 128, 1, 1, 128), 128, (1, 128, 1, 1, 64)),
        (bf16, (1, 1, 128), 128, (1, 1, 64)),
        (bf16, (2, 128, 128), 128, (1, 128, 64)),
        (bf16, (2, 512, 64), 128, (1, 256, 64)),
        (f32, (64, 32), 64, (64, 16)),
        (f32, (1024,), 0, (256,)),
        (f32, (8, 512), 0, (1, 256)),
        (f32, (8, 256), 0, (8, 256)),
        (Float64Type(), (3, 1, 1, 4, 8), 32, (1, 1, 1, 4, 4)),
        (IntegerType(1), (4, 128), 128, (4, 128)),
    ],
)
def test_a_piece_is_what_lies_together_in_the_tile(element, box, swizzle: int, piece):
    kind = TensorMapType.get(element, box, swizzle)
    assert kind.piece == piece and max(piece) <= MOST_BOX
    assert kind.pieces * math.prod(piece) == math.prod(box)
