# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.attention`` and ``attention_backward``: of batches or packed sequences (varlen), of any float type.

O = softmax(scale · Q Kᵀ) V without storing the matrix of scores, and its gradients. Arguments are validated, then one
of the kernels is launched: `*_sm90` (Hopper, by TMA and wgmma), `*_sm80` (mma, 16-bit floats in any layout),
`*_decode` (mma, few queries) or `*_simt` (everything else, and the CPU).
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import weft
from weft.kernels.annotations import Array
from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention import (
    bwd_preprocess,
    bwd_simt,
    bwd_sm80,
    bwd_sm90,
    fwd_decode,
    fwd_simt,
    fwd_sm80,
    fwd_sm90,
)
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_device,
    check_shape,
    checked_output,
    describe,
    describe_alike,
    integer_from,
    number,
    output,
    output_like,
    refuse_overlap,
)
from weft.kernels.host.autograd import NARROW, composite_backward, differentiable, upcast, vjp
from weft.kernels.host.devices import capabilities, multiprocessors_of, shared_bytes_of
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_HDIM: Final = 1024
_ALIGNMENTS: Final = ("bottom-right", "top-left")
_SINKS: Final = 11  # among the arguments of `attention_backward` after the gradient
_MAX_SOFTCAP: Final = 4096  # by tensor cores: `cap_scores` is 2⁻²² of it off
_CHUNK_BYTES: Final = 16  # alignment of rows for TMA and cp.async


class Problem(NamedTuple):
    """Validated arguments of `attention` and `attention_backward`.

    Attributes:
        q, k, v: inputs, validated.
        cu_seqlens_q, cu_seqlens_k: arrays, or None for batches.
        causal: whether a query sees the keys up to its own alone.
        scale: of the scores.
        left, right: keys that a query sees before its own and after it; None: all.
        softcap: the largest scaled score, by tanh; None: any.
        sinks: array of a score of each head without a value, or None.
        top_left: whether the first query's own key is the first one.
    """

    q: ArrayInfo
    k: ArrayInfo
    v: ArrayInfo
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    causal: bool
    scale: float
    left: int | None
    right: int | None
    softcap: float | None
    sinks: Any
    top_left: bool

    @property
    def hdims(self) -> tuple[int, int]:
        """Elements per head, of q and k, and of v."""
        return self.q.shape[-1], self.v.shape[-1]

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*self.q.shape[:-1], self.v.shape[-1])

    @property
    def packed_queries(self) -> int:
        """Queries per key head and batch: of all tokens, and the heads that share the key head."""
        return self.q.shape[-3] * (self.q.shape[-2] // self.k.shape[-2])

    def new_out(self, out: Array = None, **inputs: object) -> Array:
        """The user's array for the result, validated, or a new one."""
        q = self.q
        return output(q, self.out_shape, q.dtype, q.type_name, out, (), **inputs)


def _lse_like(q: ArrayInfo) -> tuple[tuple[int, ...], weft.DType, str]:
    """Shape, type and its name of lse: (*batch, heads, tokens), f32, or f64 for f64."""
    tokens, heads = q.shape[-3:-1]
    dtype = sum_type(q.dtype)
    name = "float64" if dtype.itemsize == 8 else "float32"
    return (*q.shape[:-3], heads, tokens), dtype, name


def _like(q: Array, _: Array, v: Array, *__: object) -> Array:
    *batch, tokens, heads, _ = q.shape
    lse = q.new_empty((*batch, heads, tokens))
    return q.new_empty((*q.shape[:-1], v.shape[-1])), lse if q.dtype.itemsize == 8 else lse.float()


def _backward(gradient: Array, results: Array, *inputs: Any) -> Array:
    q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k, _, *options = inputs
    given = q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k
    grads = attention_backward(gradient, *given, *results, *options)
    dsinks = None
    if options[2] is not None:
        dsinks = _sinks_backward(gradient, *given, *results, *options)
    return *grads, *[None] * 7, dsinks, None


def _by_torch(*inputs: Any) -> Callable[..., Any]:
    """`attention` of q, k, v and sinks with the matrix of scores, by torch; `inputs` are those of its gradient."""
    torch: Any = sys.modules["torch"]
    q, k, _, causal, scale, cu_q, cu_k, _, _, window_size, softcap, _, alignment = inputs
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    left, right = _window(window_size)
    right = 0 if causal else right
    visible = _visible(q, k, left, right, cu_q, cu_k, alignment == "top-left")

    def forward(q: Array, k: Array, v: Array, sinks: Array) -> Array:
        group_size = q.shape[-2] // k.shape[-2]
        k, v = (upcast(one).repeat_interleave(group_size, -2) for one in (k, v))
        scores = torch.einsum("...qhd,...khd->...hqk", scale * upcast(q), k)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        if sinks is not None:
            column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
            scores = torch.cat([scores, column], -1)
        p = scores.softmax(-1)[..., : k.shape[-3]]
        return torch.einsum("...hqk,...khd->...qhd", p.masked_fill(~visible, 0), v)

    return forward


def _sinks_by_torch(gradient: Array, *inputs: Any) -> Array:
    """`_sinks_backward` with the matrix of scores, by torch, for second derivatives."""
    qkv, forward = inputs[:3], _by_torch(*inputs)
    return vjp(lambda sinks: forward(*qkv, sinks), gradient, inputs[_SINKS])[0]


def _like_sinks(_: Array, *inputs: Any) -> Array:
    sinks = inputs[_SINKS]
    return sinks.new_empty(sinks.shape)


@differentiable(_like_sinks, composite_backward(_sinks_by_torch))
@cached_dispatch
def _sinks_backward(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Array = None,
    cu_seqlens_k: Array = None,
    result: Any = None,
    lse: Array = None,
    window_size: Sequence[int] | None = None,
    softcap: float | None = None,
    sinks: Array = None,
    alignment: str = "bottom-right",
) -> Array:
    """Gradients of `attention` with respect to `sinks`; the arguments of `attention_backward`."""
    dsinks = output_like(describe(sinks, "sinks"))
    arguments = gradient, result, lse, sinks, dsinks, cu_seqlens_q
    return cast("Any", Call(bwd_preprocess.sinks_backward, arguments, dsinks))


def _new_lse(q: ArrayInfo) -> Array:
    return output(q, *_lse_like(q))


def _flops(out: Array, q: Array, k: Array, v: Array, *options: Any) -> int:
    return sum(_matmul_flops(out, k, *options[2:4]))


@cached_dispatch
def _attention_and_lse(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Array = None,
    cu_seqlens_k: Array = None,
    max_seqlen_q: int | None = None,
    window_size: Sequence[int] | None = None,
    softcap: float | None = None,
    sinks: Array = None,
    alignment: str = "bottom-right",
) -> Any:
    """`attention` and a new array of its `lse`."""
    options = window_size, softcap, sinks, alignment
    problem = _validate(q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k, *options)
    lse = _new_lse(problem.q)
    call = _attention_call(problem, max_seqlen_q, None, lse)
    return call._replace(result=(call.result, lse)) if isinstance(call, Call) else (call, lse)


@differentiable(_like, _backward, kept=("lse", _attention_and_lse), autocast=NARROW, flops=_flops)
@cached_dispatch
def attention(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Array = None,
    cu_seqlens_k: Array = None,
    max_seqlen_q: int | None = None,
    window_size: Sequence[int] | None = None,
    softcap: float | None = None,
    sinks: Array = None,
    alignment: str = "bottom-right",
    out: Array = None,
    lse: Array = None,
) -> Array:
    """Attention of each head, softmax(scale · q · kᵀ) · v, by online softmax: no matrix of scores is stored.

    Args:
        q: 16, 32 or 64-bit floats, (batch, tokens, heads, hdim), or with `cu_seqlens_q` (tokens, heads, hdim), of any
            strides: pass (batch, heads, tokens, hdim) as a transposed view. Computed in f32, for f64 in f64; P is
            rounded to q's type if that has 16 bits.
        k: (batch, keys, key heads, hdim), or with `cu_seqlens_k` (keys, key heads, hdim), of q's type. Key heads divide
            heads (GQA, MQA).
        v: (batch, keys, key heads, hdim of values), of k's type: of k's shape but for the last dimension.
        causal: hide keys after a query's own.
        scale: multiplies the scores; None: 1 / √hdim.
        cu_seqlens_q: packed sequences: cumulative lengths of q's, int32, shape (batch + 1,); None: a batch dimension.
        cu_seqlens_k: cumulative lengths of k's, int32, shape (batch + 1,).
        max_seqlen_q: longest sequence of q, for `cu_seqlens_q` alone; None: q.shape[0], which launches empty blocks.
        window_size: (left, right): a query sees as many keys before its own and after it; -1: all. Blocks of keys
            outside of it are skipped.
        softcap: scaled scores become softcap · tanh(score / softcap); None: they stay.
        sinks: a score of each head that takes part in the softmax without a value, floats, (heads,); None: no such.
        alignment: which key is a query's own, where there are more or fewer keys than queries: ``"bottom-right"``, that
            of the last query is the last one, or ``"top-left"``, that of the first one is the first one.
        out: written, (batch, tokens, heads, hdim of values), of q's type, without overlap with q, k or v; None: a new
            array of q's library.
        lse: written, logsumexp of the scaled scores, f32 (f64 for f64), (batch, heads, tokens), or with `cu_seqlens_q`
            (heads, tokens): an input of `attention_backward`; None: not computed.

    Returns:
        `out`, or the new array; 0 for a query that sees no key, and for a token outside of all sequences.

    Raises:
        TypeError: for anything but arrays of one float type; for `cu_seqlens` of another type than int32.
        ValueError: for shapes that do not fit, hdim above 1024, arrays on different devices, `max_seqlen_q` without
            `cu_seqlens_q`, `out` or `lse` that overlaps another array.
        AssertionError: on the CPU, for `cu_seqlens` that decrease or are outside of q or k, and for sequences of q
            longer than `max_seqlen_q`. A GPU does not check them.

    Example:
        >>> import numpy as np, weft
        >>> q, v = np.zeros((1, 2, 1, 2)), np.array([[[[1.0, 3.0]], [[3.0, 5.0]]]])
        >>> weft.kernels.attention(q, q, v)[0, :, 0].tolist()
        [[2.0, 4.0], [2.0, 4.0]]
        >>> weft.kernels.attention(q, q, v, causal=True)[0, :, 0].tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    options = window_size, softcap, sinks, alignment
    problem = _validate(q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k, *options)
    return _attention_call(problem, max_seqlen_q, out, lse)


def _attention_call(problem: Problem, max_seqlen_q: int | None, out: Array, lse: Array) -> Any:
    """The call that computes `attention`, or an empty result."""
    q, k, v, cu_seqlens_q, cu_seqlens_k, *_, sinks, _ = problem
    if max_seqlen_q is None:
        most = q.shape[-3]
    else:
        most = integer_from(max_seqlen_q, "max_seqlen_q", 1, 1 << 31)
        if cu_seqlens_q is None:
            raise ValueError(
                f"max_seqlen_q is {max_seqlen_q}, expected None without cu_seqlens_q and cu_seqlens_k"
            )
    inputs = {"q": q.array, "k": k.array, "v": v.array}
    inputs |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "sinks": sinks}
    out = problem.new_out(out, **inputs)
    if lse is not None:
        target = checked_output(q, *_lse_like(q), lse, "lse")
        for name, one in {**inputs, "out": out}.items():
            if one is not None:
                source = describe(one, name)
                refuse_overlap(source, target, may_be_same=False, name=name, target_name="lse")
    return out if 0 in q.shape[:-1] else _forward(problem, out, lse, most)


def _like_inputs(
    gradient: Array, q: Array, k: Array, v: Array, *_: object
) -> tuple[Array, Array, Array]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _backward_flops(_: object, gradient: Array, q: Array, k: Array, v: Array, *options: Any) -> int:
    of_q, of_v = _matmul_flops(gradient, k, *options[2:4])
    return 3 * of_q + 2 * of_v


def _backward_by_torch(gradient: Array, *inputs: Any) -> Array:
    """`attention_backward` with the matrix of scores, by torch, for second derivatives."""
    forward = _by_torch(*inputs)
    return vjp(lambda *qkv: forward(*qkv, inputs[_SINKS]), gradient, *inputs[:3])


@differentiable(_like_inputs, composite_backward(_backward_by_torch), flops=_backward_flops)
@cached_dispatch
def attention_backward(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Array = None,
    cu_seqlens_k: Array = None,
    result: Any = None,
    lse: Array = None,
    window_size: Sequence[int] | None = None,
    softcap: float | None = None,
    sinks: Array = None,
    alignment: str = "bottom-right",
) -> tuple[Array, Array, Array]:
    """Gradients of `attention` with respect to q, k and v: P is recomputed from the scores and `lse`.

    Deterministic: every sum has one order, without atomics. Tensor cores compute 16-bit floats of hdim up to 256 on
    GPUs from sm_80 on.

    Args:
        gradient: gradient of the result, of its shape and q's type.
        q: as in `attention`.
        k: as in `attention`.
        v: as in `attention`.
        causal: as in `attention`.
        scale: as in `attention`.
        cu_seqlens_q: as in `attention`.
        cu_seqlens_k: as in `attention`.
        result: result of `attention`.
        lse: as `attention` wrote it; without `result` and `lse` both are recomputed where needed.
        window_size: as in `attention`.
        softcap: as in `attention`.
        sinks: as in `attention`; torch computes their gradients, too.
        alignment: as in `attention`.

    Returns:
        dq, dk, dv: new arrays of the shapes and the type of q, k and v; 0 for tokens outside of all sequences.

    Raises:
        TypeError: as `attention`; for a gradient, `result` or `lse` of another type.
        ValueError: as `attention`; for a gradient, `result` or `lse` of another shape, or one of `result` and `lse`
            without the other.

    Example:
        >>> import numpy as np, weft
        >>> q, v = np.zeros((1, 2, 1, 2)), np.array([[[[1.0, 3.0]], [[3.0, 5.0]]]])
        >>> dq, dk, dv = weft.kernels.attention_backward(np.ones((1, 2, 1, 2)), q, q, v)
        >>> dv[0, :, 0].tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    options = window_size, softcap, sinks, alignment
    problem = _validate(q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k, *options)
    upstream = describe_alike(problem.q, gradient, "gradient", problem.out_shape)
    if (result is None) != (lse is None):
        raise ValueError("result and lse: expected both or neither")
    if result is not None:
        describe_alike(problem.q, result, "result", problem.out_shape)
        _check_lse(problem, lse)
    grads = output_like(problem.q), output_like(problem.k), output_like(problem.v)
    if 0 in problem.q.shape[:-3]:
        return grads
    call = _backward_call(problem, upstream, result, lse, grads)
    return cast("Any", call)


def _validate(
    q: Array,
    k: Array,
    v: Array,
    causal: bool,
    scale: float | None,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    window_size: Sequence[int] | None,
    softcap: float | None,
    sinks: Array,
    alignment: str,
) -> Problem:
    """Arguments that fit each other.

    Raises:
        TypeError, ValueError: for others, with the argument's name.
    """
    rank = 4 if cu_seqlens_q is None else 3
    queries = describe(q, "q", is_float=True)
    _check_cu_seqlens(queries, cu_seqlens_q, cu_seqlens_k)
    keys, values = _keys(queries, k, "k", rank), _keys(queries, v, "v", rank)
    if len(queries.shape) != rank:
        raise ValueError(f"q has shape {queries.shape}, expected {rank} dimensions")
    if values.shape[:-1] != keys.shape[:-1]:
        raise ValueError(
            f"v has shape {values.shape}, expected that of k, {keys.shape}, but for the last dimension"
        )
    if queries.shape[:-3] != keys.shape[:-3] or queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"k has shape {keys.shape}, expected the batches and the hdim of q, {queries.shape}"
        )
    heads, key_heads, hdim = queries.shape[-2], keys.shape[-2], queries.shape[-1]
    if key_heads == 0 or heads % key_heads:
        raise ValueError(f"k has {key_heads} heads, expected a divisor of q's {heads}")
    for name, columns in (("hdim", hdim), ("hdim of v", values.shape[-1])):
        if not 0 < columns <= MAX_HDIM:
            raise ValueError(f"{name} is {columns}, expected 1 to {MAX_HDIM}")
    factor = 1 / math.sqrt(hdim) if scale is None else number(scale, "scale")
    if softcap is not None:
        softcap = number(softcap, "softcap")
        if not 0 < softcap < math.inf:
            raise ValueError(f"softcap is {softcap}, expected a positive number, or None")
    if alignment not in _ALIGNMENTS:
        raise ValueError(f"alignment is {alignment!r}, expected one of {', '.join(_ALIGNMENTS)}")
    if sinks is not None:
        found = describe(sinks, "sinks", is_float=True)
        check_shape(found, "sinks", queries, (heads,), "one of each head")
    left, right = _window(window_size)
    if right == 0 or causal:
        causal, right = True, None
    arrays = queries, keys, values, cu_seqlens_q, cu_seqlens_k
    top_left = alignment == "top-left"
    return Problem(*arrays, bool(causal), factor, left, right, softcap, sinks, top_left)


def _window(window_size: Sequence[int] | None) -> tuple[int | None, int | None]:
    """`Problem.left` and `Problem.right`."""
    if window_size is None:
        return None, None
    if not isinstance(window_size, (tuple, list)) or len(window_size) != 2:
        raise ValueError(f"window_size is {window_size!r}, expected two numbers, (left, right)")
    left, right = (integer_from(one, "window_size", -1, 1 << 30) for one in window_size)
    return None if left < 0 else left, None if right < 0 else right


def _keys(queries: ArrayInfo, array: object, name: str, rank: int) -> ArrayInfo:
    """Keys or values, of q's type, device and rank."""
    keys = describe(array, name)
    if keys.dtype is not queries.dtype:
        raise TypeError(f"{name} has elements of {keys.type_name}, expected {queries.type_name}")
    check_device(keys, name, queries)
    if len(keys.shape) != rank:
        raise ValueError(f"{name} has shape {keys.shape}, expected {rank} dimensions")
    return keys


def _check_cu_seqlens(queries: ArrayInfo, cu_seqlens_q: object, cu_seqlens_k: object) -> None:
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise ValueError("cu_seqlens_q and cu_seqlens_k: expected both or neither")
    if cu_seqlens_q is None:
        return
    first, second = describe(cu_seqlens_q, "cu_seqlens_q"), describe(cu_seqlens_k, "cu_seqlens_k")
    for name, lengths in (("cu_seqlens_q", first), ("cu_seqlens_k", second)):
        if lengths.dtype is not weft.i32:
            raise TypeError(f"{name} has elements of {lengths.type_name}, expected int32")
        check_device(lengths, name, queries)
        if len(lengths.shape) != 1 or lengths.shape != first.shape or lengths.shape[0] < 2:
            raise ValueError(
                f"{name} has shape {lengths.shape}, expected shape (batch + 1,), batch ≥ 1, equal for q and k"
            )


def _check_lse(problem: Problem, lse: object) -> None:
    found, (shape, dtype, name) = describe(lse, "lse"), _lse_like(problem.q)
    if found.dtype is not dtype:
        raise TypeError(f"lse has elements of {found.type_name}, expected {name}")
    check_shape(found, "lse", problem.q, shape)


def _forward(problem: Problem, out: Array, lse: Array, max_seqlen_q: int) -> Call:
    """Dispatch `attention`."""
    q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, *options, top_left = problem
    left, right, softcap, sinks = options
    arrays = q.array, k.array, v.array, out, lse, cu_seqlens_q, cu_seqlens_k
    scores = scale, softcap, left, right, sinks, causal, top_left
    hdims = problem.hdims
    # Tensor cores: with a scale of 0 or less, the largest score is not the largest weight.
    if k.shape[-3] and scale > 0 and _has_tensor_cores(problem):
        is_decode = cu_seqlens_q is None and problem.packed_queries <= fwd_decode.MAX_QUERIES
        if is_decode and _is_aligned(k, v):
            splits, config = _decode_config(problem)
            arguments = *arrays[:5], splits, splits > 1, *scores, config
            return Call(fwd_decode.attention, arguments, out)
        if _suits_sm90(q, k, v):
            config = fwd_sm90.config_for(*hdims, causal)
            return Call(fwd_sm90.attention, (*arrays, max_seqlen_q, *scores, config), out)
        config = fwd_sm80.config_for(max(hdims))
        arguments = *arrays, *scores, fwd_sm80.padded(*hdims), config
        return Call(fwd_sm80.attention, (*arguments, _is_aligned(q, k, v)), out)
    group_size = q.shape[-2] // max(k.shape[-2], 1)
    arguments = *arrays, max_seqlen_q, group_size, *scores, fwd_simt.padded(*hdims)
    return Call(fwd_simt.attention, arguments, out)


def _decode_config(problem: Problem) -> tuple[int, fwd_decode.DecodeConfig]:
    """Splits of the keys, and the shape of a block's work, for few queries."""
    q, k = problem.q, problem.k
    config = fwd_decode.config_for(problem.packed_queries, *problem.hdims)
    per_multiprocessor = max(shared_bytes_of(q.device) // config.shared_bytes, 1)
    resident = multiprocessors_of(q.device) * per_multiprocessor
    tiles = -(-problem.packed_queries // config.columns)
    keys = k.shape[-3]
    if problem.left is not None and (problem.causal or problem.right is not None):
        keys = min(keys, problem.left + q.shape[-3] + (problem.right or 0))
    return fwd_decode.num_splits_for(q.shape[0] * k.shape[-2] * tiles, keys, resident), config


def _backward_call(
    problem: Problem, gradient: ArrayInfo, out: Array, lse: Array, grads: tuple[Any, Any, Any]
) -> Call:
    """Dispatch `attention_backward`; `out` and `lse` are recomputed if they are None and needed."""
    q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, *others, top_left = problem
    left, right, softcap, sinks = others
    inputs, hdims = (gradient.array, q.array, k.array, v.array), problem.hdims
    options = cu_seqlens_q, cu_seqlens_k, scale, softcap, left, right
    if not _has_tensor_cores(problem) or 0 in (q.size, k.size):
        arguments = *inputs, *grads, *options, sinks, causal, top_left, fwd_simt.padded(*hdims)
        return Call(bwd_simt.attention_backward, arguments, grads, unread=(out, lse))
    if out is None:
        out, lse = problem.new_out(), _new_lse(q)
        forward = _forward(problem, out, lse, q.shape[-3])
        forward.function(*forward.arguments)
    arrays = *inputs, out, lse, *grads, *options, causal, top_left
    if _suits_sm90(gradient, q, k, v):
        configs = bwd_sm90.configs_for(*hdims)
        return Call(bwd_sm90.attention_backward, (*arrays, configs), grads)
    configs = bwd_sm80.configs_for(max(hdims), shared_bytes_of(q.device))
    arguments = *arrays, fwd_sm80.padded(*hdims), configs
    return Call(bwd_sm80.attention_backward, (*arguments, _is_aligned(gradient, q, k, v)), grads)


def _has_tensor_cores(problem: Problem) -> bool:
    q, softcap = problem.q, problem.softcap
    is_narrow = q.dtype.itemsize == 2 and max(problem.hdims) <= fwd_sm80.MAX_HDIM
    is_precise = softcap is None or softcap <= _MAX_SOFTCAP
    return is_narrow and is_precise and capabilities(q.device).mma


def _suits_sm90(*arrays: ArrayInfo) -> bool:
    return capabilities(arrays[0].device).wgmma and _is_aligned(*arrays)


def _is_aligned(*arrays: ArrayInfo) -> bool:
    """Whether rows of 16-bit elements are whole chunks of 16 bytes."""
    return all(
        array.dtype.itemsize == 2
        and 2 * array.shape[-1] % _CHUNK_BYTES == 0
        and array.address % _CHUNK_BYTES == 0
        and array.strides[-1] == 1
        and all(stride > 0 and 2 * stride % _CHUNK_BYTES == 0 for stride in array.strides[:-1])
        for array in arrays
    )


def _matmul_flops(
    out: Array, k: Array, cu_seqlens_q: Array, cu_seqlens_k: Array
) -> tuple[int, int]:
    """FLOPs of Q·Kᵀ and of P·V without a mask, as torch's FlopCounterMode counts; of tensors of torch."""
    *batch, tokens, heads, hdim_v = out.shape
    if cu_seqlens_q is None:
        scores = math.prod(batch) * tokens * k.shape[-3]
    else:
        others = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
        scores = int((cu_seqlens_q.diff() * others.diff()).sum())
    return 2 * heads * k.shape[-1] * scores, 2 * heads * hdim_v * scores


def _visible(
    q: Array,
    k: Array,
    left: int | None,
    right: int | None,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    top_left: bool,
) -> Array:
    """Mask (queries, keys) of a tensor of torch: which keys each query sees."""
    rows, row_sequences, row_starts, row_ends = _sequences(q, cu_seqlens_q)
    columns, column_sequences, column_starts, column_ends = _sequences(k, cu_seqlens_k)
    visible = (row_sequences[:, None] == column_sequences) & (row_sequences[:, None] >= 0)
    if top_left:
        after = columns - column_starts - (rows - row_starts)[:, None]
    else:
        after = columns - column_ends - (rows - row_ends)[:, None]
    if left is not None:
        visible = visible & (after >= -left)
    return visible if right is None else visible & (after <= right)


def _sequences(tokens: Array, cu_seqlens: Array) -> tuple[Array, Array, Array, Array]:
    """Index of each token, its sequence (-1 for none), the sequence's start and end, as tensors of torch."""
    torch: Any = sys.modules["torch"]
    indices = torch.arange(tokens.shape[-3], device=tokens.device)
    if cu_seqlens is None:
        zeros = torch.zeros_like(indices)
        return indices, zeros, zeros, torch.full_like(indices, len(indices))
    bounds = cu_seqlens.long()
    sequences = torch.searchsorted(bounds, indices, right=True) - 1
    sequences = sequences.masked_fill(indices >= bounds[-1], -1)
    return indices, sequences, bounds[sequences.clamp(0)], bounds[(sequences + 1).clamp(0)]
