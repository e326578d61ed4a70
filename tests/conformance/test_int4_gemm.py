# SPDX-License-Identifier: Apache-2.0
"""A product with weights of 4 bits, which become bf16 in the registers of the left operand."""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import weft

BK, GROUP, CONSUMERS, STAGES = 64, 128, 2, 4


@weft.kernel(max_threads=384)
def int4_kernel(
    words: weft.Tensor,
    x: weft.TensorMap,
    scales: weft.Tensor,
    out: weft.TensorMap,
    steps: weft.i32,
    tokens: weft.Constexpr[int],
):
    """A block computes 128 features of some tokens: two warpgroups multiply 64 each, a third one loads."""
    word_ring = weft.shared((STAGES, CONSUMERS, 128, 4), weft.u32)
    x_ring = weft.shared((STAGES, tokens, BK), weft.bf16, swizzle=128)
    tiles = weft.shared((CONSUMERS, tokens, 64), weft.bf16, swizzle=128)
    full, empty = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=4 * CONSUMERS)
    group, leader = weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    first, token = CONSUMERS * weft.block_idx.x, tokens * weft.block_idx.y
    if group == CONSUMERS:
        weft.setmaxnreg(40)
        if leader:
            stage = weft.PipelineState(STAGES, producer=True)
            for step in range(steps):
                empty[stage].wait()
                full[stage].arrive(expect_bytes=word_ring[stage].nbytes + x_ring[stage].nbytes)
                for i in weft.static_range(CONSUMERS):
                    weft.bulk_copy(word_ring[stage, i], words[first + i, step], full[stage])
                weft.tma.load(x, (token, BK * step), x_ring[stage], full[stage])
                stage = stage.next()
    else:
        weft.setmaxnreg(232)
        acc, stage = weft.wgmma.accumulator((64, tokens)), weft.PipelineState(STAGES)
        feature, thread = 64 * (first + group), weft.thread_idx.x % 128
        for step in range(steps):
            of_group = scales[step * BK // GROUP]
            scale = acc.rows(lambda row, of_group=of_group: of_group[feature + row])
            full[stage].wait()
            mine = weft.load_vector(word_ring[stage, group, thread], 0, 4)
            pairs = [(word >> s) & 0x000F000F | 0x43004300 for word in mine for s in (0, 4, 8, 12)]
            left = (weft.wgmma.from_values((64, BK), pairs, weft.bf16, "a") - 136) * scale
            acc = weft.wgmma.mma(left, x_ring[stage].T, acc, accumulate=step > 0)
            acc = weft.wgmma.wait(acc)
            empty[stage].release()
            stage = stage.next()
        acc.to(weft.bf16).store(tiles[group].T)
        weft.fence_proxy()
        weft.sync_warpgroup()
        if leader:
            weft.tma.store(out, (token, feature), tiles[group])
            weft.tma.wait()


def product_of(tokens):
    """out[t, n] = x[t, k] · (w[n, k] - 8) · scales[k // 128, n], in tiles of that many tokens."""
    x_type, out_type = (
        weft.fake_tensor(weft.bf16, ("t", weft.sym(name, divisibility=by)), alignment_bytes=16)
        for name, by in (("k", GROUP), ("n", 64 * CONSUMERS))
    )
    words_type = weft.fake_tensor(weft.u32, ("tiles", "steps", 128, 4), alignment_bytes=16)

    @weft.jit
    def product(
        words: words_type, x: x_type, scales: weft.Tensor[weft.bf16, ("g", "n")], out: out_type
    ):
        grid = words.shape[0] // CONSUMERS, weft.ceil_div(x.shape[0], tokens)
        x_map = weft.tensor_map(x, box=(tokens, BK), swizzle=128)
        out_map = weft.tensor_map(out, box=(tokens, 64), swizzle=128)
        int4_kernel(words, x_map, scales, out_map, words.shape[1], tokens).launch(
            grid=grid, block=128 * (CONSUMERS + 1)
        )

    return product


def packed(weights):
    """The words that each thread reads: its registers in order, a word of four, 4 bits from each half."""
    n, k = weights.shape
    layout = weft.wgmma.layout((64, BK), weft.bf16, "a")
    places = np.array([layout.coordinates(i % 32, i // 32) for i in range(128)])
    tiles = weights.reshape(n // 64, 64, k // BK, BK).swapaxes(1, 2)
    mine = tiles[:, :, places[..., 0], places[..., 1]].reshape(n // 64, k // BK, 128, 4, 4, 2)
    shifts = 4 * np.arange(4)[:, None] + 16 * np.arange(2)
    words = mine.astype(np.uint32) << shifts.astype(np.uint32)
    return np.ascontiguousarray(words.sum((-1, -2), dtype=np.uint32))


@pytest.mark.parametrize("shape", [(16, 21, 128, 384), (64, 3, 256, 128)])
def test_weights_of_four_bits_are_multiplied_in_registers(shape):
    tokens, t, n, k = shape
    random = np.random.default_rng(0)
    weights = random.integers(0, 16, (n, k))
    x = random.standard_normal((t, k)).astype(ml_dtypes.bfloat16)
    scales = random.uniform(0.05, 0.15, (k // GROUP, n)).astype(ml_dtypes.bfloat16)
    out = np.zeros((t, n), ml_dtypes.bfloat16)
    product_of(tokens)(packed(weights), x, scales, out)
    factors = scales.astype(np.float64).repeat(GROUP, axis=0).T
    dense = ((weights - 8) * factors).astype(ml_dtypes.bfloat16).astype(np.float64)
    expected = x.astype(np.float64) @ dense.T
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=2e-2, atol=2e-2)


def test_a_step_unpacks_a_weight_in_two_instructions():
    compiled = weft.compile(product_of(16), options="--gpu-arch sm_90a")
    loop = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)", compiled.sass, re.M)
    found = Counter(loop)
    assert found["HGMMA"] == 4
    assert found["LOP3"] + found["SHF"] <= 48
    assert not compiled.remarks
