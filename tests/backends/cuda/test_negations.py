# SPDX-License-Identifier: Apache-2.0
"""Negations of narrow integers wrap on every target, and whichever ptxas assembles them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.backends.cuda.peephole import wrap_negations


@weft.kernel
def negate_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    if i < a.shape[0]:
        out[i] = weft.i32(-a[i])


@weft.jit
def negate(a: weft.Tensor, out: weft.Tensor[weft.i32, ("n",)]):
    negate_kernel(a, out).launch(grid=1, block=32)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_the_least_integer_is_its_own_negation(dtype):
    least = np.iinfo(dtype).min
    a, out = np.array([least, 1, -1, 0], dtype), np.empty(4, np.int32)
    negate(a, out)
    assert out.tolist() == [least, -1, 1, 0]


@pytest.mark.parametrize("dtype", [weft.i8, weft.i16])
@pytest.mark.parametrize("architecture", sampled(["sm_80", "sm_90a", "sm_120a"], 2))
def test_no_16_bit_integer_is_negated_but_by_a_product(dtype, architecture):
    arrays = [weft.fake_tensor(one, (weft.sym("n"),), device="cuda") for one in (dtype, weft.i32)]
    function = weft.compile(negate, *arrays, options=f"--gpu-arch {architecture}")
    assert "neg.s16" not in function.ptx
    assert function.cubin  # it assembles


def test_other_instructions_stay():
    for text in ("neg.s32 %r2, %r1;", "sub.s16 %rs3, %rs1, %rs2;", "neg.bf16x2 %r2, %r1;"):
        assert wrap_negations(text) == text
    assert wrap_negations("sub.s16 %rs3, 0, %rs2;") == "mul.lo.s16 %rs3, %rs2, -1;"
