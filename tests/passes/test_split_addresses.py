# SPDX-License-Identifier: Apache-2.0
"""The parts of an address are found in a time that does not grow with the number of ways to compute it."""

from __future__ import annotations

import weft
from tests.conformance.harness import define

DOUBLINGS = 64


def test_a_sum_whose_operands_are_the_same_sums_is_looked_at_once():
    doubled = "\n    ".join(["i = i + i"] * DOUBLINGS)
    space = define(
        f"""
@weft.kernel
def kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    {doubled}
    if i < a.shape[0]:
        a[i + 1, i] = 0.0
    if i < a.shape[1]:
        a[i, i] = 1.0

@weft.jit
def host(a: weft.Tensor):
    kernel(a).launch(grid=1, block=32)
"""
    )
    a = weft.fake_tensor(weft.f32, (None, None), device="cuda")
    text = weft.compile(space["host"], a, options="--gpu-arch sm_90a").stages["split_addresses"]
    first, _, branches = text.partition("scf.if")
    assert "simt.advance %a" in first
    assert branches.count("arith.addi") == 0
