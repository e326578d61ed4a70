# SPDX-License-Identifier: Apache-2.0
"""`x & mask | bits` becomes one `lop3` where nothing else needs `x & mask`."""

from __future__ import annotations

import re

import pytest

import weft
from weft.backends.cuda.peephole import join_masks

PAIR = "\tand.b32 \t%r2, %r1, 15;\n\tor.b32 \t%r3, %r2, 768;\n"
JOINED = "\tlop3.b32 \t%r3, %r1, 15, 768, 0xEA;\n"
USE = "\tst.global.b32 \t[%rd1], %r2;\n"
BRACES = "\t// begin inline asm\n\t{\n.reg .b32 t;\nmov.b32 t, %r3;\n}\n\t// end inline asm\n"


def function(body: str, name: str = "f") -> str:
    return f".func {name}()\n{{\n{body}}}\n"


def test_a_mask_without_other_use_is_joined():
    assert join_masks(function(PAIR)) == function(JOINED)


@pytest.mark.parametrize("between", ["", BRACES])
@pytest.mark.parametrize("first", [True, False])
def test_a_mask_with_another_use_stays(between, first):
    body = USE + between + PAIR if first else PAIR + between + USE
    assert join_masks(function(body)) == function(body)


def test_registers_are_each_functions_own():
    both = function(PAIR) + function(USE, "g")
    assert join_masks(both) == function(JOINED) + function(USE, "g")


@weft.kernel
def masks_kernel(x: weft.Tensor, o: weft.Tensor, p: weft.Tensor):
    i = weft.thread_idx.x
    mask = x[i] & 252645135
    bits = mask | 1677747200
    o[i] = weft.inline_ptx(
        """{
.reg .b32 t;
mov.b32 t, $1;
add.u32 $0, t, 1;
}""",
        bits,
        result=weft.i32,
    )
    p[i] = mask


@weft.jit
def host(
    x: weft.Tensor[weft.i32, ("n",)],
    o: weft.Tensor[weft.i32, ("n",)],
    p: weft.Tensor[weft.i32, ("n",)],
):
    masks_kernel(x, o, p).launch(grid=1, block=32)


def test_a_use_after_assembly_in_braces_keeps_the_mask():
    vector = weft.fake_tensor(weft.i32, (weft.sym("n"),))
    ptx = weft.compile(host, vector, vector, vector, options="--gpu-arch sm_90").ptx
    stored = re.findall(r"st\.global\.b32 +\t\[[^\]]*\], (%r\d+);", ptx)
    assert len(stored) == 2
    for register in stored:
        assert len(re.findall(rf"{register}\b", ptx)) > 1, f"{register} is stored and never set"
