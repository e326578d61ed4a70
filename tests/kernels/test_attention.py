# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.attention` and losses against NumPy in f64: batches, sequences, masks, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from examples.checks.attention import attend
from tests.kernels.counting import like_ampere, like_hopper
from tests.sampling import sampled
from weft import kernels
from weft.kernels.device.row_mapping import RowMapping
from weft.kernels.flash_attention import api, bwd_sm90, fwd_decode, fwd_simt, fwd_sm80, fwd_sm90
from weft.kernels.nn import cross_entropy

LIKE = like_hopper, like_ampere
RANDOM = np.random.default_rng(4)


def numbers(*shape: int, dtype: object = np.float64) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def aligned(a: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 64 bytes, with strides that TMA takes where dims are 1, too."""
    memory = np.zeros(a.nbytes + 64, np.uint8)
    found = memory[-memory.ctypes.data % 64 :][: a.nbytes].view(np.float16).reshape(a.shape)
    found[...] = a
    return found


def with_options(
    q, k, v, causal=False, window_size=(-1, -1), softcap=None, sinks=None, alignment="bottom-right"
):
    """Attention of one batch in f64, with the matrix of scores."""
    k, v = (one.astype(np.float64).repeat(q.shape[1] // k.shape[1], 1) for one in (k, v))
    scores = q.shape[-1] ** -0.5 * np.einsum("qhd,khd->hqk", q.astype(np.float64), k)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    queries, keys = scores.shape[1:]
    own = np.arange(queries)[:, None] + (keys - queries if alignment == "bottom-right" else 0)
    left, right = window_size[0], 0 if causal else window_size[1]
    scores[:, (np.arange(keys) < own - left) & (left >= 0)] = -np.inf
    scores[:, (np.arange(keys) > own + right) & (right >= 0)] = -np.inf
    sink = np.full(q.shape[1], -np.inf) if sinks is None else sinks.astype(np.float64)
    scores = np.concatenate(
        [scores, np.broadcast_to(sink[:, None, None], (*scores.shape[:2], 1))], 2
    )
    weights = np.exp(scores - scores.max(2, keepdims=True, initial=np.finfo(np.float64).min))
    total = weights.sum(2, keepdims=True)
    return np.einsum("hqk,khd->qhd", (weights / np.where(total == 0, 1, total))[..., :-1], v)


def of_batches(q, k, v, causal, scale):
    return np.stack([attend(*one, scale, causal) for one in zip(q, k, v, strict=True)])


def cumulative(lengths) -> np.ndarray:
    """`cu_seqlens` of packed sequences."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def of_sequences(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale):
    """Zeros for tokens outside of all sequences."""
    found = np.zeros(q.shape)
    for i in range(len(cu_seqlens_q) - 1):
        own, other = slice(*cu_seqlens_q[i : i + 2]), slice(*cu_seqlens_k[i : i + 2])
        found[own] = attend(q[own], k[other], v[other], scale, causal)
    return found


@pytest.mark.parametrize("causal", sampled([False, True], 2))
def test_batches_and_sequences(causal):
    q, k, v = numbers(2, 5, 4, 20), numbers(2, 200, 2, 20), numbers(2, 200, 2, 20)
    scale = 20**-0.5
    found = kernels.attention(q, k, v, causal)
    assert np.allclose(found, of_batches(q, k, v, causal, scale))
    swapped = (one.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3) for one in (q, k, v))
    assert np.allclose(kernels.attention(*swapped, causal), found)
    starts = cumulative([3, 0, 2]), cumulative([0, 10, 190])
    expected = of_sequences(q[0], k[0], v[0], *starts, causal, 0.5)
    packed = kernels.attention(q[0], k[0], v[0], causal, 0.5, *starts, max_seqlen_q=3)
    assert np.allclose(packed, expected)
    for cu_seqlens_q, cu_seqlens_k in (
        ([0, 6], [0, 200]),
        ([0, 5], [-1, 200]),
        ([0, 4, 2], [0, 9, 9]),
    ):
        bounds = np.array(cu_seqlens_q, np.int32), np.array(cu_seqlens_k, np.int32)
        with pytest.raises(AssertionError, match="decreases or is outside of"):
            kernels.attention(q[0], k[0], v[0], causal, 0.5, *bounds, max_seqlen_q=6)
    with pytest.raises(
        AssertionError, match="max_seqlen_q is smaller than the longest sequence of q"
    ):
        kernels.attention(q[0], k[0], v[0], causal, 0.5, *starts, max_seqlen_q=2)


# Queries and keys of each sequence, heads, key heads.
PACKED = {
    "one query": ([1], [1], 1, 1),
    "two blocks": ([130], [129], 1, 1),
    "more keys": ([3, 70], [500, 131], 2, 1),
    "fewer keys": ([200, 5], [10, 2], 1, 1),
    "no keys": ([4, 3], [0, 300], 1, 1),
    "no queries": ([0, 129, 0], [7, 128, 0], 4, 2),
}


@pytest.mark.parametrize("causal", sampled([False, True], 2))
@pytest.mark.parametrize("hdim", sampled([64, 128], 3))
@pytest.mark.parametrize("packed", PACKED)
def test_hopper_kernel_of_packed_sequences(packed, hdim, causal, monkeypatch):
    queries, keys, heads, k_heads = PACKED[packed]
    # The first two and the last three tokens of q are outside of all sequences.
    counts = (2 + sum(queries) + 3, heads), (sum(keys), k_heads), (sum(keys), k_heads)
    q, k, v = (numbers(*count, hdim, dtype=np.float16) for count in counts)
    cu_seqlens, scale = (cumulative(queries) + np.int32(2), cumulative(keys)), hdim**-0.5
    like_hopper(monkeypatch)
    given, out = [aligned(one) for one in (q, k, v)], q * np.nan
    kernels.attention(*given, causal, scale, *cu_seqlens, max_seqlen_q=max(queries), out=out)
    expected = of_sequences(q, k, v, *cu_seqlens, causal, scale)
    assert np.allclose(out, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("like", [like_hopper, like_ampere])
@pytest.mark.parametrize("hdim", sampled([96, 24, 32, 72, 112, 160, 192, 200, 250, 256], 10))
def test_heads_of_each_size_by_tensor_cores(hdim, like, monkeypatch):
    q, k, v = (numbers(1, n, h, hdim, dtype=np.float16) for n, h in ((70, 2), (131, 1), (131, 1)))
    like(monkeypatch)
    found = kernels.attention(*map(aligned, (q, k, v)), True)
    assert np.allclose(found, of_batches(q, k, v, True, hdim**-0.5), atol=2e-3)


SINKS = np.array([0.5, -1.0, 2.0, -np.inf])
OPTIONS = {
    "all": {"window_size": (70, 3), "softcap": 1.5, "sinks": SINKS},
    "window": {"window_size": (30, 50)},
    "left": {"window_size": (9, -1), "causal": True},
    "right": {"window_size": (-1, 20), "softcap": 2.0},
    "top-left": {"causal": True, "alignment": "top-left", "sinks": SINKS},
    "window without keys": {"window_size": (1, 0), "alignment": "top-left"},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", sampled(OPTIONS, 3))
def test_options_are_those_of_the_formula(options, packed):
    given, lengths = OPTIONS[options], ([40, 7], [33, 20])
    q, k, v = numbers(50, 4, 5), numbers(53, 2, 5), numbers(53, 2, 3)
    starts = [cumulative(one) for one in lengths]
    if packed:
        found = kernels.attention(q, k, v, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], **given)
        for i in range(2):
            own, other = (slice(*one[i : i + 2]) for one in starts)
            assert np.allclose(found[own], with_options(q[own], k[other], v[other], **given))
    else:
        found = kernels.attention(q[None], k[None], v[None], **given)
        assert np.allclose(found[0], with_options(q, k, v, **given))


@pytest.mark.parametrize(
    ("options", "hdim", "like"),
    sampled(itertools.product(OPTIONS, (64, 256), LIKE), 24, several=True),
)
def test_options_by_tensor_cores(options, hdim, like, monkeypatch):
    given = OPTIONS[options]
    shapes = (1, 230, 4, hdim), (1, 230, 4, hdim), (1, 200, 2, hdim), (1, 200, 2, hdim)
    arrays = [numbers(*shape, dtype=np.float16) for shape in shapes]
    wide = [one.astype(np.float64) for one in arrays]
    grads = kernels.attention_backward(*wide, **given)
    like(monkeypatch)
    tensors = [aligned(one) for one in arrays]
    found = kernels.attention(*tensors[1:], **given)
    expected = with_options(*(one[0] for one in arrays[1:]), **given)
    assert np.allclose(found[0], expected, atol=3e-3)
    for one, other in zip(kernels.attention_backward(*tensors, **given), grads, strict=True):
        assert np.allclose(one, other, atol=4e-3 * np.abs(other).max())


def test_a_large_softcap_keeps_the_bits_of_scores(monkeypatch):
    arrays = [numbers(1, 80, 1, 64, dtype=np.float16) for _ in range(4)]
    exact = kernels.attention_backward(*[one.astype(np.float64) for one in arrays], softcap=1e8)
    like_ampere(monkeypatch)
    tensors = [aligned(one) for one in arrays]
    found = kernels.attention(*tensors[1:], softcap=1e8)
    expected = with_options(*(one[0] for one in arrays[1:]), softcap=1e8)
    assert np.allclose(found[0], expected, atol=3e-3)
    for one, other in zip(kernels.attention_backward(*tensors, softcap=1e8), exact, strict=True):
        assert np.allclose(one, other, atol=4e-3 * np.abs(other).max())


@pytest.mark.parametrize("like", sampled(LIKE, 2))
@pytest.mark.parametrize(
    ("hdim", "hdim_v"), sampled([(32, 64), (256, 256), (192, 128), (40, 250)], 4, several=True)
)
def test_gradients_of_heads_of_each_size_by_tensor_cores(hdim, hdim_v, like, monkeypatch):
    """Key heads that serve two, values of another size, and causal queries that see no key."""
    q, gradient = (numbers(1, 70, 2, columns, dtype=np.float16) for columns in (hdim, hdim_v))
    k, v = (numbers(1, 67, 1, columns, dtype=np.float16) for columns in (hdim, hdim_v))
    wide = [one.astype(np.float64) for one in (gradient, q, k, v)]
    exact = kernels.attention_backward(*wide, True)
    for one, other in zip(exact, grads_of(*(a[0] for a in wide), True, hdim**-0.5), strict=True):
        assert np.allclose(one[0], other)
    like(monkeypatch)
    given = [aligned(one) for one in (gradient, q, k, v)]
    out = kernels.attention(*given[1:], True)
    assert np.allclose(out, of_batches(q, k, v, True, hdim**-0.5), atol=3e-3)
    found = kernels.attention_backward(*given, True)
    for one, other in zip(found, exact, strict=True):
        assert np.allclose(one, other, atol=3e-3 * np.abs(other).max())


@pytest.mark.parametrize("causal", sampled([False, True], 2))
def test_hopper_kernel_of_batches(causal, monkeypatch):
    q, k, v = (numbers(2, n, h, 40, dtype=np.float16) for n, h in ((130, 2), (200, 1), (200, 1)))
    like_hopper(monkeypatch)
    found = kernels.attention(*map(aligned, (q, k, v)), causal, 0.125)
    assert np.allclose(found, of_batches(q, k, v, causal, 0.125), atol=2e-3)
    k[0, 100, 0, 3] = np.nan
    found = kernels.attention(*map(aligned, (q, k, v)), causal, 0.125)
    expected = of_batches(q, k, v, causal, 0.125)  # with causal some queries do not see it
    assert np.allclose(found, expected, atol=2e-3, equal_nan=True)


@pytest.mark.parametrize("scale", [0.0, -0.125])
def test_scales_up_to_0_go_around_tensor_cores(scale, monkeypatch):
    like_hopper(monkeypatch)
    q, k, v = (numbers(1, n, 1, 64, dtype=np.float16) for n in (2, 3, 3))
    found = kernels.attention(q, k, v, scale=scale)
    assert np.allclose(found, of_batches(q, k, v, False, scale), atol=2e-3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_not_hidden(wrong):
    q, k, v = np.ones((1, 2, 1, 2)), np.ones((1, 3, 1, 2)), numbers(1, 3, 1, 2)
    k[0, 2] = wrong  # which the first query does not see
    expected = np.array([v[0, :2, 0].mean(0), [np.nan] * 2])
    if wrong < 0:  # a weight of 0
        expected[1] = expected[0]
    found = kernels.attention(q, k, v, True)
    assert np.allclose(found[0, :, 0], expected, equal_nan=True)
    summed = np.array([1.0, 1.0, 0.0] if wrong < 0 else [np.nan] * 3)
    dq, _, dv = kernels.attention_backward(q, q, k, v, True)
    assert np.isfinite(dq[0, 0]).all() and np.isnan(dq[0, 1]).all()
    assert np.allclose(dv[0, :, 0, 0], summed, equal_nan=True)


def test_tokens_outside_of_all_sequences_are_zeros():
    q, starts = np.ones((8, 1, 2)), np.array([1, 1, 4, 6], np.int32)
    for max_seqlen_q in (None, 3):
        out = np.full_like(q, 7)
        kernels.attention(
            q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=max_seqlen_q, out=out
        )
        assert out[:, 0, 0].tolist() == [0, 1, 1, 1, 1, 1, 0, 0]


def grads_of(gradient, q, k, v, causal, scale):
    """Gradients of one batch, in f64; key heads serve several."""
    dq, dk, dv = (np.zeros(one.shape) for one in (q, k, v))
    gradient, q, k, v = (one.astype(np.float64) for one in (gradient, q, k, v))
    queries, keys = len(q), len(k)
    visible = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    for head in range(q.shape[1]):
        h = head * k.shape[1] // q.shape[1]
        p = np.exp(scale * q[:, head] @ k[:, h].T) * (visible if causal else 1)
        p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
        dp = gradient[:, head] @ v[:, h].T
        ds = p * (dp - (p * dp).sum(-1, keepdims=True))
        dq[:, head] = scale * ds @ k[:, h]
        dk[:, h] += scale * ds.T @ q[:, head]
        dv[:, h] += p.T @ gradient[:, head]
    return dq, dk, dv


@pytest.mark.parametrize("causal", sampled([False, True], 2))
def test_gradients_of_batches_and_sequences(causal):
    shapes = (2, 140, 4, 130), (2, 140, 4, 130), (2, 9, 2, 130), (2, 9, 2, 130)
    arrays = [numbers(*shape) for shape in shapes]
    batches = [grads_of(*one, causal, 0.1) for one in zip(*arrays, strict=True)]
    found = kernels.attention_backward(*arrays, causal, 0.1)
    for one, *others in zip(found, *batches, strict=True):
        assert np.allclose(one, others)
    flat = [one.reshape(-1, *one.shape[2:])[::-1] for one in arrays]
    starts, others = cumulative([150, 0, 100]), cumulative([3, 5, 9])  # the last tokens have none
    found = kernels.attention_backward(*flat, causal, 0.1, starts, others)
    expected = [np.zeros(one.shape) for one in found]
    for i in range(3):
        mine = [slice(bounds[i], bounds[i + 1]) for bounds in (starts, starts, others, others)]
        parts = grads_of(*(a[part] for a, part in zip(flat, mine, strict=True)), causal, 0.1)
        for target, rows, part in zip(expected, mine[1:], parts, strict=True):
            target[rows] = part
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other)
    q, k = arrays[0], arrays[2]
    for one, other in ((q[:, :0], k), (q, k[:, :0]), (q[:, :, :0], k), (q[:0], k[:0])):
        found = kernels.attention_backward(one, one, other, other, causal)
        assert all((grad == 0).all() for grad in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("like", "hdim", "packed"),
    [(like_ampere, 9, False), (like_ampere, 24, True), (like_hopper, 40, True)],
    ids=["sm80", "sm80 aligned", "sm90"],
)
def test_gradients_by_tensor_cores(like, hdim, packed, monkeypatch):
    """Key heads that serve two; of sequences some tokens are outside, and some queries see no key."""
    shapes = (2, 50, 4, hdim), (2, 50, 4, hdim), (2, 45, 2, hdim), (2, 45, 2, hdim)
    arrays, starts = [numbers(*shape, dtype=np.float16) for shape in shapes], (None, None)
    if packed:
        arrays = [one.reshape(-1, *one.shape[2:]) for one in arrays]
        starts = cumulative([40, 0, 55]), cumulative([30, 5, 50])
    lse = np.zeros((4, 100) if packed else (2, 4, 50), np.float32)
    result = kernels.attention(*arrays[1:], packed, 0.2, *starts, lse=lse)
    wide = [one.astype(np.float64) for one in arrays]
    exact = kernels.attention_backward(*wide, packed, 0.2, *starts)
    like(monkeypatch)
    given = [aligned(one) for one in arrays]
    found = kernels.attention_backward(*given, packed, 0.2, *starts, result, lse)
    again = kernels.attention_backward(*given, packed, 0.2, *starts)  # computes them first
    for one, other, third in zip(found, exact, again, strict=True):
        assert np.allclose(one, other, atol=2e-3 * np.abs(other).max())
        assert np.allclose(third, other, atol=3e-3 * np.abs(other).max())


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.slow
def test_losses_and_their_derivatives():
    logits, classes = numbers(2, 5, 300), RANDOM.integers(0, 300, (2, 5))
    classes[0, 0] = -100
    shares, taken = softmax(logits), np.eye(300)[classes]
    expected = -np.log((shares * taken).sum(-1))
    expected[0, 0] = 0
    assert np.allclose(kernels.cross_entropy(logits, classes), expected)
    narrow = kernels.cross_entropy(logits.astype(np.float16), classes)
    assert narrow.dtype == np.float32 and np.allclose(narrow, expected, atol=2e-2)
    gradient = numbers(2, 5)
    grad = (shares - taken) * gradient[..., None]
    grad[0, 0] = 0
    found = kernels.cross_entropy_backward(gradient, logits, classes, out=logits)
    assert found is logits and np.allclose(found, grad)
    with pytest.raises(AssertionError, match="a target of cross_entropy is out of range"):
        kernels.cross_entropy(logits, classes + 300)
    gradient = numbers(2, 5, 300)
    expected = shares * (gradient - (gradient * shares).sum(-1, keepdims=True))
    assert np.allclose(kernels.softmax_backward(gradient, shares), expected)


@pytest.mark.slow
def test_each_kernel_assembles_for_a_gpu():
    tokens = weft.fake_tensor(weft.bf16, ("b", "n", "h", 64))
    aligned = weft.fake_tensor(weft.bf16, ("b", "n", "h", 64), alignment_bytes=16)
    logits, of_rows = weft.fake_tensor(weft.bf16, ("n", "m")), weft.fake_tensor(weft.f32, ("n",))
    sums = weft.fake_tensor(weft.f32, ("b", "h", "n"))
    indices = weft.fake_tensor(weft.i64, ("k",))
    for function, *arguments in (
        (
            fwd_simt.attention,
            *[tokens] * 4,
            None,
            None,
            None,
            7,
            1,
            1.0,
            *[None] * 4,
            True,
            False,
            (128, 128),
        ),
        (
            fwd_sm90.attention,
            *[aligned] * 4,
            sums,
            None,
            None,
            7,
            1.0,
            *[None] * 4,
            True,
            False,
            fwd_sm90.config_for(64, 64, True),
        ),
        (
            cross_entropy._cross_entropy_backward,
            of_rows,
            logits,
            indices,
            logits,
            -100,
            RowMapping(1, 256, 0, 1),
        ),
    ):
        assert weft.compile(function, *arguments, options="--gpu-arch sm_90a").cubin


def test_sm80_kernel_agrees_with_the_simt_kernel(monkeypatch):
    """Packed sequences, causal, tokens outside of all, and queries that see no key."""
    q, k, v = (numbers(100, h, 24, dtype=np.float16) for h in (4, 2, 2))
    starts = cumulative([40, 0, 55]), cumulative([30, 5, 50])
    lse, other = np.ones((2, 4, 100), "f")
    exact = kernels.attention(q, k, v, True, 0.2, *starts, lse=other)
    like_ampere(monkeypatch)
    given, out = [aligned(one) for one in (q, k, v)], q * 0 + 7
    kernels.attention(*given, True, 0.2, *starts, lse=lse, out=out)
    assert np.allclose(out, exact, atol=2e-3) and np.allclose(lse, other)


# Batch, tokens, heads, key heads, keys, hdim, hdim of values.
DECODE = {
    "one query of a group": (2, 1, 8, 2, 700, 128, 128),
    "tokens of a group": (1, 3, 6, 2, 77, 40, 24),
    "fewer keys than tokens": (2, 5, 5, 5, 3, 64, 64),
    "one query of one head": (1, 1, 1, 1, 1, 64, 64),
    "wide heads": (1, 2, 16, 1, 600, 256, 256),
    "wide values": (1, 9, 2, 1, 131, 32, 248),
    "several tiles of queries": (1, 16, 4, 1, 300, 128, 64),
    "the most queries": (3, 64, 1, 1, 65, 96, 96),
}


@pytest.mark.parametrize("like", sampled(LIKE, 2))
@pytest.mark.parametrize("decode", sampled(DECODE, 8))
def test_few_queries_share_keys_and_split_them(decode, like, monkeypatch):
    b, n, heads, k_heads, keys, hdim, hdim_v = DECODE[decode]
    counts = (n, heads, hdim), (keys, k_heads, hdim), (keys, k_heads, hdim_v)
    q, k, v = (numbers(b, *count, dtype=np.float16) for count in counts)
    splits, num_splits_for = [], fwd_decode.num_splits_for

    def noted(*given: int) -> int:
        splits.append(num_splits_for(*given))
        return splits[-1]

    like(monkeypatch)
    monkeypatch.setattr(fwd_decode, "num_splits_for", noted)
    sinks = numbers(heads, dtype=np.float32)
    for options in (
        {},
        {"causal": True},
        {"causal": True, "window_size": (40, 0), "softcap": 3.0},
        {"window_size": (300, 2), "sinks": sinks},
        {"causal": True, "alignment": "top-left", "sinks": sinks},
    ):
        out = np.full((b, n, heads, hdim_v), np.nan, np.float16)
        lse, other = np.ones((2, b, heads, n), np.float32)
        wide = [one.astype(np.float32) for one in (q, k, v)]
        exact = kernels.attention(*wide, scale=0.2, lse=other, **options)
        kernels.attention(*map(aligned, (q, k, v)), scale=0.2, out=out, lse=lse, **options)
        assert np.allclose(out, exact, atol=3e-3) and np.allclose(lse, other, atol=1e-4)
    assert [one > 1 for one in splits[:2]] == [keys > fwd_decode.MIN_KEYS] * 2
    assert len(splits) == 5


@pytest.mark.parametrize("shape", [(1, 0, 2, 4), (0, 3, 2, 4), (0, 2, 4)])
def test_gradients_of_sinks_without_queries_are_zeros(shape, monkeypatch):
    monkeypatch.setattr(api, "output_like", lambda like: np.ones(like.shape, np.float32))
    q, lse = np.zeros(shape, np.float32), np.zeros((*shape[:-3], 2, shape[-3]), np.float32)
    found = api._sinks_backward(q, q, q, q, result=q, lse=lse, sinks=np.zeros(2, np.float32))
    assert found.tolist() == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hdim", fwd_sm90.HDIMS)
def test_heads_of_each_size_stay_in_registers(hdim, causal):
    tokens = weft.fake_tensor(weft.bf16, ("b", "n", "h", hdim), alignment_bytes=16)
    arguments = *[tokens] * 4, weft.fake_tensor(weft.f32, ("b", "h", "n")), None, None
    config = fwd_sm90.config_for(hdim, hdim, causal)
    given = fwd_sm90.attention, *arguments, 7, 0.1, *[None] * 4, causal, False, config
    assert weft.compile(*given, options="--gpu-arch sm_90a").remarks == ()
    config, hdims = fwd_sm80.config_for(hdim), fwd_sm80.padded(hdim, hdim)
    given = fwd_sm80.attention, *arguments, 0.1, *[None] * 4, causal, False, hdims, config, True
    assert weft.compile(*given, options="--gpu-arch sm_80").remarks == ()
    for queries in (1, fwd_decode.MAX_QUERIES):
        config, options = fwd_decode.config_for(queries, hdim, hdim), [*[None] * 4, causal, False]
        given = fwd_decode.attention, *arguments[:5], 7, True, 0.1, *options, config
        assert weft.compile(*given, options="--gpu-arch sm_80").remarks == ()


@pytest.mark.slow
@pytest.mark.parametrize("hdim", fwd_sm90.HDIMS)
def test_hopper_gradients_stay_in_registers(hdim):
    tokens = weft.fake_tensor(weft.bf16, ("b", "n", "h", hdim), alignment_bytes=16)
    sums = weft.fake_tensor(weft.f32, ("b", "h", "n"))
    arrays = *[tokens] * 5, sums, *[tokens] * 3
    for causal in (False, True):
        options = None, None, None, causal, False
        arguments = *arrays, None, None, 0.1, *options, bwd_sm90.configs_for(hdim, hdim)
        found = weft.compile(bwd_sm90.attention_backward, *arguments, options="--gpu-arch sm_90a")
        assert found.remarks == ()


def test_bad_input_is_refused_by_name():
    q, row, starts = numbers(2, 3, 4, 8), np.zeros(3, np.int32), np.array([0, 3], np.int32)
    logits, other, sums = numbers(3, 4), q.copy(), numbers(2, 4, 3)
    for error, text, call in (
        (TypeError, "k has elements of float32", lambda: kernels.attention(q, q.astype("f"), q)),
        (ValueError, "v has shape", lambda: kernels.attention(q, q, q[:, :2])),
        (
            ValueError,
            r"window_size is \(1,\), expected two numbers",
            lambda: kernels.attention(q, q, q, window_size=(1,)),
        ),
        (ValueError, "window_size is -2", lambda: kernels.attention(q, q, q, window_size=(-2, 0))),
        (ValueError, "softcap is 0.0, expected", lambda: kernels.attention(q, q, q, softcap=0.0)),
        (ValueError, "alignment is 'x'", lambda: kernels.attention(q, q, q, alignment="x")),
        (
            ValueError,
            r"sinks has shape \(3,\), expected \(4,\): one of each head",
            lambda: kernels.attention(q, q, q, sinks=np.zeros(3)),
        ),
        (ValueError, "hdim of v is 0", lambda: kernels.attention(q, q, q[..., :0])),
        (
            ValueError,
            "k has 3 heads, expected a divisor of q's 4",
            lambda: kernels.attention(q, q[:, :, :3], q[:, :, :3]),
        ),
        (
            ValueError,
            "expected 3 dimensions",
            lambda: kernels.attention(q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts),
        ),
        (
            ValueError,
            "expected both or neither",
            lambda: kernels.attention(q, q, q, cu_seqlens_k=starts),
        ),
        (
            ValueError,
            "max_seqlen_q is 2, expected None",
            lambda: kernels.attention(q, q, q, max_seqlen_q=2),
        ),
        *(
            (
                ValueError,
                f"out overlaps with {name}, expected memory of its own",
                lambda number=number: kernels.attention(
                    *(q if number == i else other for i in range(3)), out=q
                ),
            )
            for number, name in enumerate("qkv")
        ),
        *(
            (
                ValueError,
                r"cu_seqlens_q has shape \(1,\), expected shape \(batch \+ 1,\), batch ≥ 1, equal for q and k",
                lambda function=function, count=count: function(
                    *[q[0]] * count, cu_seqlens_q=starts[:1], cu_seqlens_k=starts[:1]
                ),
            )
            for function, count in ((kernels.attention, 3), (kernels.attention_backward, 4))
        ),
        (TypeError, "scale is 'a', expected", lambda: kernels.attention(q, q, q, scale="a")),
        *(
            (error, text, lambda lse=lse: kernels.attention(q, q, q, lse=lse))
            for error, text, lse in (
                (TypeError, "lse has elements of float32, expected float64", sums.astype("f")),
                (ValueError, r"lse has shape \(2, 4\), expected \(2, 4, 3\)", sums[..., 0]),
                (
                    ValueError,
                    "lse overlaps with q, expected memory",
                    q.reshape(-1)[:24].reshape(sums.shape),
                ),
            )
        ),
        (
            ValueError,
            "lse overlaps with sinks, expected memory",
            lambda: kernels.attention(q, q, q, sinks=sums[0, :, 0], lse=sums),
        ),
        (
            ValueError,
            "expected both or neither",
            lambda: kernels.attention_backward(q, q, q, q, lse=sums),
        ),
        (
            ValueError,
            r"lse has shape \(2, 4\), expected",
            lambda: kernels.attention_backward(q, q, q, q, result=q, lse=sums[..., 0]),
        ),
        (ValueError, "gradient has shape", lambda: kernels.attention_backward(q[:1], q, q, q)),
        (
            TypeError,
            "cu_seqlens_k has elements of int64",
            lambda: kernels.attention(
                q[0], q[0], q[0], cu_seqlens_q=starts, cu_seqlens_k=starts.astype(int)
            ),
        ),
        (ValueError, r"target has shape \(2,\)", lambda: kernels.cross_entropy(logits, row[:2])),
        (
            TypeError,
            "target has elements of float64",
            lambda: kernels.cross_entropy(logits, logits[:, 0]),
        ),
        (
            ValueError,
            "gradient has shape",
            lambda: kernels.cross_entropy_backward(logits, logits, row),
        ),
    ):
        with pytest.raises(error, match=text):
            call()
