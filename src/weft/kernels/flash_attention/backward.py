# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.attention_backward``: without the matrix of scores, and always in the same order.

In: the gradient of the result, queries, keys and values. Out: the derivatives by the three.
"""

from __future__ import annotations

import math
import sys
from typing import Any, cast

from weft.kernels.flash_attention.dispatch import Options, backward, sums_of
from weft.kernels.flash_attention.shapes import attention_flops, check_shapes, check_starts, keys_of
from weft.kernels.host.arrays import Given, given, number, output_like
from weft.kernels.host.autograd import differentiable
from weft.kernels.host.calls import remembered
from weft.kernels.host.compositions import composed, pulled_back, widened
from weft.kernels.nn.activation import check_alike


def _like(gradient: Any, q: Any, k: Any, v: Any, *_: Any) -> tuple[Any, Any, Any]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _flops(_: Any, gradient: Any, *arguments: Any) -> int:
    return attention_flops(gradient, *arguments[:3], *arguments[5:7]) * 5 // 2


def _slopes_by_torch(
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: float | None,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *_: Any,
) -> Any:
    """With the matrix of scores, as a second derivative needs it."""
    torch: Any = sys.modules["torch"]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    seen = _seen(q, k, causal, cu_seqlens_q, cu_seqlens_k)

    def own(q: Any, k: Any, v: Any) -> Any:
        shared = q.shape[-2] // k.shape[-2]
        k, v = (widened(one).repeat_interleave(shared, -2) for one in (k, v))
        scores = torch.einsum("...qhd,...khd->...hqk", scale * widened(q), k)
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)
        return torch.einsum("...hqk,...khd->...qhd", weights.masked_fill(~seen, 0), v)

    return pulled_back(own, gradient, q, k, v)


def _seen(q: Any, k: Any, causal: bool, cu_seqlens_q: Any, cu_seqlens_k: Any) -> Any:
    """Which keys each query sees, a matrix of bools."""
    (rows, of_rows, row_ends), (columns, of_columns, column_ends) = (
        _places(q, cu_seqlens_q),
        _places(k, cu_seqlens_k),
    )
    seen = (of_rows[:, None] == of_columns) & (of_rows[:, None] >= 0)
    return seen & (columns - column_ends <= (rows - row_ends)[:, None]) if causal else seen


def _places(tokens: Any, starts: Any) -> tuple[Any, Any, Any]:
    """Each token's number, that of its sequence, -1 for none, and where this ends."""
    torch: Any = sys.modules["torch"]
    numbers = torch.arange(tokens.shape[-3], device=tokens.device)
    if starts is None:
        return numbers, torch.zeros_like(numbers), torch.full_like(numbers, len(numbers))
    bounds = starts.long()
    own = torch.searchsorted(bounds, numbers, right=True) - 1
    own = own.masked_fill(numbers >= bounds[-1], -1)
    return numbers, own, bounds[(own + 1).clamp(0)]


@differentiable(_like, composed(_slopes_by_torch), flops=_flops)
@remembered
def attention_backward(
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    result: Any = None,
    lse: Any = None,
) -> tuple[Any, Any, Any]:
    """Gradients of `attention` with respect to q, k and v: P is recomputed from the scores and `lse`.

    Deterministic: every sum has one order, without atomics. Tensor cores compute 16-bit floats of hdim up to 128 on
    GPUs from sm_80 on.

    Args:
        gradient: gradient of the result, of q's shape and type.
        q: as in `attention`.
        k: as in `attention`.
        v: as in `attention`.
        causal: as in `attention`.
        scale: as in `attention`.
        cu_seqlens_q: as in `attention`.
        cu_seqlens_k: as in `attention`.
        result: result of `attention`.
        lse: as `attention` wrote it; without `result` and `lse` both are recomputed where needed.

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
    rank = 3 if cu_seqlens_q is not None else 4
    queries = given(q, "q", is_float=True)
    check_starts(queries, cu_seqlens_q, cu_seqlens_k)
    keys, values = keys_of(queries, k, "k", rank), keys_of(queries, v, "v", rank)
    check_shapes(queries, keys, values, rank)
    check_alike(queries, gradient, "gradient")
    if (result is None) != (lse is None):
        raise ValueError("result and lse: expected both or neither")
    found = None
    if result is not None:
        check_alike(queries, result, "result")
        check_sums(queries, lse)
        found = result, lse
    by_q, by_k, by_v = map(output_like, (queries, keys, values))
    hdim = queries.shape[-1]
    scale = 1 / math.sqrt(hdim) if scale is None else number(scale, "scale")
    arrays = given(gradient, "gradient"), queries, keys, values
    options = Options(bool(causal), scale, cu_seqlens_q, cu_seqlens_k)
    if 0 in queries.shape[:-3]:
        return by_q, by_k, by_v
    return cast("Any", backward(arrays, found, (by_q, by_k, by_v), options))


def check_sums(queries: Given, lse: object) -> None:
    """Raises an error unless an array is what `attention` writes to its `lse`."""
    found, (shape, dtype, name) = given(lse, "lse"), sums_of(queries)
    if found.dtype is not dtype:
        raise TypeError(f"lse has elements of {found.type_name}, expected {name}")
    if found.shape != shape:
        raise ValueError(f"lse has shape {found.shape}, expected {shape}")
    if found.device != queries.device:
        raise ValueError(f"lse is on {found.device}, expected {queries.device}")
