# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.rope``: rotary positions, pairs of elements turned by an angle of the token.

In: an array of tokens and heads, and the angles' cosines and sines. Out: an array of its shape.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.arrays import Array, Constant, given, output_like
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.rows import sum_type
from weft.language.threads.each import each

_STYLES: Final = ("half", "interleaved")


def _rope_backward(
    gradient: Any, _: Any, x: Any, cos: Any, sin: Any, style: str, inverse: bool
) -> Any:
    return rope(gradient, cos, sin, style, not inverse), None, None, None, None


@differentiable(like_first, _rope_backward)
@remembered
def rope(
    x: Any, cos: Any, sin: Any, style: str = "half", inverse: bool = False, out: Any = None
) -> Any:
    """Turns pairs of each head's elements: (p, q) becomes (p cos − q sin, q cos + p sin).

    Args:
        x: an array of 16, 32 or 64-bit floats, (..., tokens, heads, hdim), of any layout: of (..., heads, tokens,
            hdim) pass a view with the two exchanged. Computed in f32, or f64 for f64.
        cos: an array of floats, (tokens, pairs), the cosine of each token's angle for each pair. Of other positions
            than 0, 1, … take the rows with `embedding`.
        sin: an array of cos's shape.
        style: which elements make a pair: ``"half"``: d and d + pairs, as in Llama and GPT-NeoX; ``"interleaved"``: 2d
            and 2d + 1, as in GPT-J. Elements beyond 2 · pairs stay as they are.
        inverse: whether to turn the other way, which is also the derivative.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats.
        ValueError: for shapes that do not fit, another style; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> x, quarter = np.array([[[1.0, 2.0]]]), np.array([[np.pi / 2]])
        >>> weft.kernels.rope(x, np.cos(quarter), np.sin(quarter)).round(6).tolist()
        [[[-2.0, 1.0]]]
    """
    source = given(x, "x", is_float=True)
    if style not in _STYLES:
        raise ValueError(f"style is {brief(style)}, expected 'half' or 'interleaved'")
    if len(source.shape) < 3:
        raise ValueError(f"x has shape {source.shape}, expected (..., tokens, heads, hdim)")
    tokens, hdim = source.shape[-3], source.shape[-1]
    for name, table in (("cos", cos), ("sin", sin)):
        found = given(table, name, is_float=True)
        if len(found.shape) != 2 or found.shape[0] != tokens or 2 * found.shape[1] > hdim:
            raise ValueError(
                f"{name} has shape {found.shape}, expected ({tokens}, pairs), at most {hdim // 2} pairs"
            )
        pairs = found.shape[1]
    if given(cos, "cos").shape != given(sin, "sin").shape:
        raise ValueError(f"cos has {given(cos, 'cos').shape[1]} pairs, and sin {pairs}")
    out = output_like(source, out, ("x",), x=x, cos=cos, sin=sin)
    turn = style == "half", -1 if inverse else 1, 2 * pairs < hdim
    return Call(_rope, (x, cos, sin, out, *turn), out)


@jit
def _rope(
    x: Array,
    cos: Array,
    sin: Array,
    out: Array,
    is_half: Constant,
    sign: Constant,
    has_rest: Constant,
) -> None:
    pairs = cos.shape[1]
    if is_half:
        sources = x[..., :pairs], x[..., pairs : 2 * pairs]
        targets = out[..., :pairs], out[..., pairs : 2 * pairs]
    else:
        sources = x[..., : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
        targets = out[..., : 2 * pairs : 2], out[..., 1 : 2 * pairs : 2]
    turn_kernel(*sources, cos, sin, *targets, sign).launch(over=sources[0].shape)
    if has_rest:
        rest = x[..., 2 * pairs :]
        keep_kernel(rest, out[..., 2 * pairs :]).launch(over=rest.shape)


@kernel
def turn_kernel(
    p: Array, q: Array, cos: Array, sin: Array, p_out: Array, q_out: Array, sign: Constant
) -> None:
    """A round: a pair."""
    wide = sum_type(p.dtype)
    for place in each(p.shape):
        token, pair = place[-3], place[-1]
        c, s = wide(cos[token, pair]), sign * wide(sin[token, pair])
        first, second = wide(p[place]), wide(q[place])
        p_out[place] = p.dtype(first * c - second * s)
        q_out[place] = p.dtype(second * c + first * s)


@kernel
def keep_kernel(x: Array, out: Array) -> None:
    """A round: an element without a pair."""
    for place in each(x.shape):
        out[place] = x[place]
