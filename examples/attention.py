# SPDX-License-Identifier: Apache-2.0
"""Attention as FlashAttention-3 computes it on a Hopper GPU: the tensor cores never wait for the softmax.

Shapes: `q` and `out` are query tokens x heads x hdim, `k` and `v` key tokens x key heads x hdim, float16 or bfloat16;
each key head serves as many query heads. Sequences lie one after the other: those of batch i are the tokens from
`q_starts[i]` to `q_starts[i + 1]`, and their keys likewise. With `causal` a query sees the keys up to its own, the last
query all. After the last key of a sequence v is read, and multiplied by 0: it may not be infinite there.

A block takes queries of a head. One warpgroup copies blocks of K and V; the others multiply, 64 queries each: two for
heads of 128 elements, three for those of 64, which leave more registers. While the tensor cores compute P·V of one
block they are given Q·Kᵀ of the next, and its softmax runs between the two waits.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


def exp2(x):
    """As the machine computes it: results below 2^-126 are 0."""
    return weft.math.exp2(x, approx=True)


BN, STAGES = 128, 2
LOG2_E = 1.4426950408889634
HIDDEN = float("-inf")


def masked(scores, keys, first_key, first_query, ahead, causal):
    """The scores of one block of keys, with -inf where a query does not look."""

    def visible(score, row, column):
        last = first_query + row + ahead if causal else keys - 1
        return weft.select(first_key + column <= min(last, keys - 1), score, HIDDEN)

    return scores.map(visible, coordinates=True)


def softmax_step(scores, largest, total, scale):
    """Weights of one block, the rows' new maximum and sum, and the factor for what was summed before."""
    new = scores.row_max().map(max, largest)
    base = new.map(lambda x: weft.select(x == HIDDEN, 0.0, x * scale))  # of a row that sees nothing
    factor = largest.map(lambda old, b: exp2(old * scale - b), base)
    weights = scores.map(lambda x, b: exp2(x * scale - b), base)
    total = total.map(lambda t, f, s: t * f + s, factor, weights.row_sum(partial=True))
    return weights, new, total, factor


@weft.kernel
def attention_kernel(
    q: weft.TensorMap,
    k: weft.TensorMap,
    v: weft.TensorMap,
    out: weft.Tensor,
    q_starts: weft.Tensor,
    k_starts: weft.Tensor,
    group: weft.i32,
    scale: weft.f32,
    hdim: weft.Constexpr[int],
    dtype: weft.Constexpr[weft.DType],
    causal: weft.Constexpr[bool],
    multiply: weft.Constexpr[int],
):
    """One block: queries of one head of one sequence, 64 for each of `multiply` warpgroups."""
    bm, warps = 64 * multiply, 4 * multiply
    q_tile = weft.shared((bm, hdim), dtype, swizzle=128)
    k_ring = weft.shared((STAGES, BN, hdim), dtype, swizzle=128)
    v_ring = weft.shared((STAGES, BN, hdim), dtype, swizzle=128)
    q_full = weft.mbarrier(1, arrivals=1)
    k_full, v_full = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=1)
    k_empty, v_empty = weft.mbarrier(STAGES, arrivals=warps), weft.mbarrier(STAGES, arrivals=warps)

    head, batch = weft.block_idx.y, weft.block_idx.z
    q_start, k_start = q_starts[batch], k_starts[batch]
    queries, keys = q_starts[batch + 1] - q_start, k_starts[batch + 1] - k_start
    first = bm * (weft.grid_dim.x - 1 - weft.block_idx.x)  # the longest of causal rows begin
    if first >= queries:
        return
    ahead = keys - queries
    last = min(keys, first + bm + ahead) if causal else keys
    blocks = max(weft.ceil_div(last, BN), 1)
    role = weft.warpgroup_id()

    if role == 0:  # copies
        weft.setmaxnreg(24 if multiply == 2 else 32)
        if weft.warp_id() == 0 and weft.elect_one():
            q_full[0].arrive(expect_bytes=q_tile.nbytes)
            weft.tma.load(q, (q_start + first, head, 0), q_tile, q_full[0])
            stage = weft.PipelineState(STAGES, producer=True)
            for block in range(blocks - 1, -1, -1):
                where = k_start + BN * block, head // group, 0
                k_empty[stage].wait()
                k_full[stage].arrive(expect_bytes=k_ring[stage].nbytes)
                weft.tma.load(k, where, k_ring[stage], k_full[stage])
                v_empty[stage].wait()
                v_full[stage].arrive(expect_bytes=v_ring[stage].nbytes)
                weft.tma.load(v, where, v_ring[stage], v_full[stage])
                stage = stage.next()
    else:  # multiplies
        weft.setmaxnreg(240 if multiply == 2 else 160)
        mine = role - 1
        first_query = first + 64 * mine
        unmasked = (first_query + ahead) // BN if causal else keys // BN  # below, every key is seen
        queries_tile = q_tile.tile((64, hdim), (mine, 0))
        stage = weft.PipelineState(STAGES)
        q_full[0].wait(0)
        k_full[stage].wait()
        s = weft.wgmma.wait(weft.wgmma.mma(queries_tile, k_ring[stage].T), pending=0)
        k_empty[stage].release()
        s = masked(s, keys, BN * (blocks - 1), first_query, ahead, causal)
        weights, largest, total, _ = softmax_step(
            s, s.rows(lambda row: HIDDEN), s.rows(lambda row: 0.0), scale
        )
        p = weights.to(dtype).as_a()
        o = weft.wgmma.accumulator((64, hdim), weft.f32)

        for block in range(blocks - 2, -1, -1):
            following = stage.next()
            k_full[following].wait()
            s = weft.wgmma.mma(queries_tile, k_ring[following].T)
            v_full[stage].wait()
            o = weft.wgmma.mma(p, v_ring[stage], o, accumulate=block < blocks - 2)
            s = weft.wgmma.wait(s, pending=1)  # P·V still runs
            k_empty[following].release()
            if block >= unmasked:
                s = masked(s, keys, BN * block, first_query, ahead, causal)
            weights, largest, total, factor = softmax_step(s, largest, total, scale)
            o = weft.wgmma.wait(o, pending=0)
            v_empty[stage].release()
            o = o.map(lambda x, f: x * f, factor)
            p = weights.to(dtype).as_a()
            stage = following

        v_full[stage].wait()
        o = weft.wgmma.mma(p, v_ring[stage], o, accumulate=blocks > 1)
        o = weft.wgmma.wait(o, pending=0)
        inverse = total.sum_threads().map(lambda t: weft.select(t > 0, 1.0 / t, 0.0))
        rows = out[q_start + first : q_start + queries, head]  # ends with the sequence
        o.map(lambda x, f: x * f, inverse).to(dtype).store(rows, (64 * mine, 0))


def attention_for(hdim: int):
    """The host function for heads of 64 or 128 elements."""
    multiply = 2 if hdim == 128 else 3  # warpgroups
    bm = 64 * multiply

    @weft.jit
    def attention(
        q: weft.Tensor[None, ("q_tokens", "heads", hdim)],
        k: weft.Tensor[None, ("k_tokens", "k_heads", hdim)],
        v: weft.Tensor[None, ("k_tokens", "k_heads", hdim)],
        out: weft.Tensor[None, ("q_tokens", "heads", hdim)],
        q_starts: weft.Tensor[weft.i32, ("bounds",)],
        k_starts: weft.Tensor[weft.i32, ("bounds",)],
        longest: weft.i32,
        scale: weft.f32,
        causal: weft.Constexpr[bool] = True,
    ):
        """out = softmax(scale · q · kᵀ) · v, by head and sequence; `longest` is the most queries of one."""
        attention_kernel(
            weft.tensor_map(q, box=(bm, 1, hdim), swizzle=128),
            weft.tensor_map(k, box=(BN, 1, hdim), swizzle=128),
            weft.tensor_map(v, box=(BN, 1, hdim), swizzle=128),
            out,
            q_starts,
            k_starts,
            q.shape[1] // k.shape[1],
            scale * LOG2_E,
            hdim,
            q.dtype,
            causal,
            multiply,
        ).launch(
            grid=(weft.ceil_div(longest, bm), q.shape[1], q_starts.shape[0] - 1),
            block=128 * (multiply + 1),
        )

    return attention


attention = attention_for(128)


def starts_of(lengths) -> np.ndarray:
    """Where each sequence begins, and where the last one ends."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def make_arguments(size: int) -> Arguments:
    """Three sequences of up to that many queries, with four query heads to two key heads."""
    random = np.random.default_rng(34)
    queries, keys = (size, size // 2 + 3, 1), (size, size + 7, 2 * size)
    q_starts, k_starts = starts_of(queries), starts_of(keys)
    shapes = (sum(queries), 4, 128), (sum(keys), 2, 128), (sum(keys), 2, 128)
    q, k, v = (
        random.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes
    )
    return {
        "q": q,
        "k": k,
        "v": v,
        "out": np.empty_like(q),
        "q_starts": q_starts,
        "k_starts": k_starts,
        "longest": max(queries),
        "scale": 128**-0.5,
    }


def fake_arguments(hdim: int = 128):
    """Tensors of bfloat16, aligned as tensor maps need it."""
    tokens = (weft.sym(f"{name}_tokens") for name in "qkkq")
    heads = ("heads", "k_heads", "k_heads", "heads")
    tensors = [
        weft.fake_tensor(weft.bf16, (token, head, hdim), alignment_bytes=16)
        for token, head in zip(tokens, heads, strict=True)
    ]
    starts = weft.fake_tensor(weft.i32, ("bounds",))
    return (*tensors, starts, starts, 1, 1.0)


def reference(q, k, v, out, q_starts, k_starts, longest, scale, causal=True) -> Arrays:
    """What NumPy says, in float64; zeros for queries that see nothing."""
    result = np.zeros(q.shape)
    for batch in range(len(q_starts) - 1):
        own = slice(*q_starts[batch : batch + 2])
        theirs = slice(*k_starts[batch : batch + 2])
        for head in range(q.shape[1]):
            where = theirs, head * k.shape[1] // q.shape[1]
            keys, values = k[where].astype(np.float64), v[where].astype(np.float64)
            scores = scale * q[own, head].astype(np.float64) @ keys.T
            if causal:
                ahead = scores.shape[1] - scores.shape[0]
                scores[~np.tri(scores.shape[0], scores.shape[1], ahead, dtype=np.bool_)] = HIDDEN
            largest = scores.max(1, keepdims=True, initial=np.finfo(np.float64).min)
            weights = np.exp(scores - largest)
            total = weights.sum(1, keepdims=True)
            result[own, head] = weights @ values / np.where(total > 0, total, 1)
    return {"out": result.astype(q.dtype)}


EXAMPLE = Example(
    name="attention",
    function=attention,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"up to {size} queries, 4 heads of 128, f16",
    size=512,
    test_size=150,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "cp.async.bulk.tensor.3d", "setmaxnreg", "ex2.approx.ftz.f32"),
)

if __name__ == "__main__":
    show(EXAMPLE)
