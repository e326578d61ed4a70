# SPDX-License-Identifier: Apache-2.0
"""Attention of one query for each sequence, over keys and values in pages; pages are split among blocks and warps."""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.sampling import sampled

WARPS, STAGES, PAGE, DEPTH = 4, 3, 16, 128
LOG2_E = 1.4426950408889634
LOWEST = -1e30  # finite, so that a head that has seen nothing scales by 1


@weft.kernel(max_threads=32 * WARPS)
def decode_kernel(
    q: weft.Tensor,
    keys: weft.Tensor,
    values: weft.Tensor,
    table: weft.Tensor,
    lengths: weft.Tensor,
    parts: weft.Tensor,
    lse: weft.Tensor,
    pages: weft.i32,
    factor: weft.f32,
):
    """The heads of one key, which are columns of an MMA, attend to some pages; each warp to every fourth of them."""
    heads, columns = q.shape[2], 8 * weft.ceil_div(q.shape[2], 8)
    k_ring = weft.shared((WARPS, STAGES, PAGE, DEPTH), q.dtype, swizzle=128)
    v_ring = weft.shared((WARPS, STAGES, PAGE, DEPTH), q.dtype, swizzle=128)
    warp = weft.warp_id()
    split, kv, batch = weft.block_idx.xyz
    length, first = lengths[batch], split * pages
    last = min(first + pages, weft.ceil_div(length, PAGE))

    def fetch(page, stage):
        number = table[batch, page] if page < last else 0
        first_row, chunk = divmod(weft.lane_id(), DEPTH // 8)
        for ring, cache in ((k_ring, keys), (v_ring, values)):
            source = cache[number, first_row:, kv, 8 * chunk :]
            for row in weft.static_range(0, PAGE, 2):
                to = first_row + row, 8 * chunk
                weft.cp_async.copy(ring[warp, stage], to, source, (row, 0), 8, pred=page < last)
        weft.cp_async.commit()

    for i in weft.static_range(STAGES - 1):
        fetch(first + warp + WARPS * i, i)
    queries = weft.mma.from_values(
        (DEPTH, columns),
        lambda depth, head: q[batch, kv, head, depth] if head < heads else 0,
        q.dtype,
        "b",
    )
    acc, stage = weft.mma.zeros((DEPTH, columns)), weft.PipelineState(STAGES)
    total, largest = weft.mma.zeros((PAGE, columns)), acc.cols(LOWEST)
    for page in range(first + warp, last, WARPS):
        weft.cp_async.wait(pending=STAGES - 2)
        weft.sync_warp()
        scores = weft.mma.zeros((PAGE, columns))
        scores = weft.mma.mma(weft.mma.load_a(k_ring[warp, stage]), queries, scores)
        is_seen = scores.rows(lambda token, page=page: PAGE * page + token < length)
        scores = weft.where(is_seen, scores, -float("inf"))
        now = max(largest, scores.col_max() * factor)
        weights = weft.math.exp2(scores * factor - now, approx=True)
        alpha, largest = weft.math.exp2(largest - now, approx=True), now
        total = total * alpha + weights
        right = weights.to(q.dtype).as_operand_b()
        acc = weft.mma.mma(weft.mma.load_a(v_ring[warp, stage].T), right, acc * alpha)
        fetch(page + WARPS * (STAGES - 1), stage.next(STAGES - 1))
        stage = stage.next()
    weft.cp_async.wait()
    weft.sync_threads()
    sums = weft.shared((WARPS, DEPTH, columns), weft.f32, reuse=k_ring)
    logs = weft.shared((WARPS, columns), weft.f32)
    total = total.col_sum()
    (acc * (1 / weft.where(total > 0, total, 1))).store(sums[warp])
    (largest + weft.math.log2(total, approx=True)).store(logs[warp])
    weft.sync_threads()
    for i in range(weft.thread_idx.x, heads * DEPTH, weft.block_dim.x):
        head, depth = divmod(i, DEPTH)
        of_warps = [(logs[w, head], sums[w, depth, head]) for w in weft.static_range(WARPS)]
        log, parts[split, batch, kv, head, depth] = joined(of_warps)
        if depth == 0:
            lse[split, batch, kv, head] = log


def joined(pairs):
    """The logarithm of the sum of weights to base 2, and the mean by weights, of several parts."""
    largest = max(LOWEST, *(log for log, _ in pairs))
    weights = [weft.math.exp2(log - largest, approx=True) for log, _ in pairs]
    total = sum(weights)
    value = sum(weight * one for weight, (_, one) in zip(weights, pairs, strict=True))
    return largest + weft.math.log2(total, approx=True), value / max(total, 1e-30)


@weft.kernel(max_threads=DEPTH)
def combine_kernel(parts: weft.Tensor, lse: weft.Tensor, out: weft.Tensor, logs: weft.Tensor):
    """Joins the splits of one head."""
    row, head, batch = weft.block_idx.xyz
    column = weft.thread_idx.x
    log, value = -float("inf"), 0.0
    for split in range(parts.shape[0]):
        log, value = joined(
            [
                (log, value),
                (lse[split, batch, head, row], parts[split, batch, head, row, column]),
            ]
        )
    out[batch, head, row, column] = value
    if column == 0:
        logs[batch, head, row] = log / LOG2_E


def decoder(heads):
    """out[b, j, i] = softmax(q[b, j, i] · keys of j) · values of j, for `heads` queries of each key."""
    b, kv = weft.sym("b"), weft.sym("kv")
    q_type, out_type = (
        weft.fake_tensor(weft.bf16, (b, kv, heads, DEPTH), alignment_bytes=16) for _ in range(2)
    )
    cache = weft.fake_tensor(weft.bf16, ("pages", PAGE, kv, DEPTH), alignment_bytes=16)

    @weft.jit
    def decode(
        q: q_type,
        keys: cache,
        values: cache,
        table: weft.Tensor[weft.i32, (b, "most")],
        lengths: weft.Tensor[weft.i32, (b,)],
        out: out_type,
        lse: weft.Tensor[weft.f32, (b, kv, heads)],
        scale: weft.f32,
        splits: weft.i32,
    ):
        shape = q.shape[0], q.shape[1], heads
        pages = WARPS * weft.ceil_div(table.shape[1], WARPS * splits)
        parts = weft.scratch((splits, *shape, DEPTH), weft.f32)
        logs = weft.scratch((splits, *shape), weft.f32)
        decode_kernel(q, keys, values, table, lengths, parts, logs, pages, scale * LOG2_E).launch(
            grid=(splits, q.shape[1], q.shape[0]), block=32 * WARPS
        )
        combine_kernel(parts, logs, out, lse).launch(
            grid=(heads, q.shape[1], q.shape[0]), block=DEPTH
        )

    return decode


@pytest.mark.parametrize(
    ("heads", "kv", "lengths", "splits"),
    sampled(
        [(8, 2, [100, 1, 333, 16], 3), (1, 2, [37, 200], 1), (16, 1, [300, 0], 2)], 2, several=True
    ),
)
def test_queries_attend_to_the_pages_of_their_sequence(heads, kv, lengths, splits):
    random = np.random.default_rng(0)
    b, most = len(lengths), -(-max(lengths) // PAGE)
    count = b * most + 3
    table = random.permutation(count)[: b * most].reshape(b, most).astype(np.int32)
    q = random.standard_normal((b, kv, heads, DEPTH)).astype(ml_dtypes.bfloat16)
    shape = count, PAGE, kv, DEPTH
    keys, values = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(2))
    out = np.full(q.shape, np.nan, ml_dtypes.bfloat16)
    lse = np.zeros((b, kv, heads), np.float32)
    scale = DEPTH**-0.5
    decoder(heads)(q, keys, values, table, np.array(lengths, np.int32), out, lse, scale, splits)
    for number, length in enumerate(lengths):
        own, mine = (
            cache[table[number]].reshape(-1, kv, DEPTH)[:length].astype(np.float64)
            for cache in (keys, values)
        )
        scores = scale * np.einsum("jid,tjd->jit", q[number].astype(np.float64), own)
        weights = np.exp(scores)
        total = weights.sum(-1)
        expected = np.einsum("jit,tjd->jid", weights, mine) / np.maximum(total, 1e-30)[..., None]
        np.testing.assert_allclose(out[number].astype(np.float64), expected, atol=2e-2)
        if length:
            np.testing.assert_allclose(lse[number], np.log(total), atol=1e-3)
        else:
            assert (lse[number] < -1e29).all()


def test_a_page_takes_few_instructions():
    """The loop of a page: 8 MMAs for the scores and 8 for the sums; 16 copies of 16 bytes."""
    compiled = weft.compile(decoder(8), options="--gpu-arch sm_90a")
    found = Counter(loop_of(compiled.sass, "decode_kernel"))
    assert (found["HMMA"], found["LDSM"], found["LDGSTS"]) == (16, 16, 16)
    assert found["SHFL"] == 6 + 4  # the largest of each column; the weights as an operand
    assert sum(found.values()) < 380, found
    assert not compiled.remarks


def loop_of(sass, kernel):
    """The instructions of the innermost loop with all MMAs."""
    text = sass.split(f"\n.text.{kernel}:\n")[1].split(".section")[0]
    code = re.compile(
        r"^\s*\.(L_x_\d+):|^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)(.*)", re.M
    )
    lines = code.findall(text)
    labels = {label: number for number, (label, _, _) in enumerate(lines) if label}
    jumps = [
        (labels.get(label, number), number)
        for number, (_, name, rest) in enumerate(lines)
        if name == "BRA"
        for label in re.findall(r"L_x_\d+", rest)
    ]
    loops = [[name for _, name, _ in lines[begin : end + 1] if name] for begin, end in jumps]
    return max(loops, key=lambda loop: (loop.count("HMMA"), -len(loop)))
