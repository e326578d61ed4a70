# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.rope``: rotary positions, pairs of elements rotated by an angle of the token.

Computes (p · cos − q · sin, p · sin + q · cos) of each pair (p, q) (Su et al., 2021, arXiv:2104.09864). In: an array of
tokens and heads, and the angles' cosines and sines. Out: an array of its shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Array, Constant, Int, Numbers, Shape
from weft.kernels.device.row import aligned, elements, put_elements, sum_type
from weft.kernels.host.arrays import ArrayInfo, common_width, describe, output_like, unexpected
from weft.kernels.host.autograd import differentiable, like_first, upcast
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

_STYLES: Final = ("half", "interleaved")
_MOST_HEADS: Final = 2  # of a thread: four loads of x are in flight, and twice as many of angles


class RopeConfig(NamedTuple):
    """Tiling of a thread's work; a constant of kernels.

    Attributes:
        is_half: whether a pair's elements are half of the rotated ones apart, else adjacent.
        pairs: of a head per iteration, adjacent.
        heads: per iteration, rotated by the same angles.
        width: elements per access to x.
        table_width: of one to cos and sin.
    """

    is_half: bool
    pairs: int
    heads: int
    width: int
    table_width: int


def _iterations(shape: Shape, table_shape: Shape, config: Any) -> Shape:
    """The iteration space."""
    return (*shape[:-2], shape[-2] // config.heads, table_shape[1] // config.pairs)


@weft.kernel
def rope_kernel(
    x: Array, cos: Array, sin: Array, out: Array, config: Constant, sign: Constant
) -> None:
    """An iteration: adjacent pairs of some heads, all by the same angles."""
    wide, count = sum_type(x.dtype), cos.shape[1]
    for place in weft.each(_iterations(x.shape, cos.shape, config)):
        *leading, token, head, first = place
        first *= config.pairs
        heads = [
            (*leading, token, head * config.heads + k) for k in weft.static_range(config.heads)
        ]
        found = [_pairs_of(x[one], first, count, config) for one in heads]
        c = _load(cos[token], first, config.pairs, config.table_width)
        s = _load(sin[token], first, config.pairs, config.table_width)
        c, s = [wide(one) for one in c], [sign * wide(one) for one in s]
        for one, (p, q) in zip(heads, found, strict=True):
            p, q = [wide(value) for value in p], [wide(value) for value in q]
            angles = [*zip(p, q, c, s, strict=True)]
            rotated = [x.dtype(p * c - q * s) for p, q, c, s in angles]
            others = [x.dtype(q * c + p * s) for p, q, c, s in angles]
            _put_pairs(out[one], first, count, rotated, others, config)


@weft.device
def _pairs_of(row: weft.Tensor, first: Int, count: Int, config: Any) -> tuple[Numbers, Numbers]:
    """The first and the second elements of neighboring pairs."""
    if config.is_half:
        p = _load(row, first, config.pairs, config.width)
        return p, _load(row, first + count, config.pairs, config.width)
    both = _load(row, 2 * first, 2 * config.pairs, config.width)
    return both[::2], both[1::2]


@weft.device
def _put_pairs(
    row: weft.Tensor, first: Int, count: Int, p: Numbers, q: Numbers, config: Any
) -> None:
    if config.is_half:
        _store(row, first, p, config.width)
        _store(row, first + count, q, config.width)
    else:
        both = [value for pair in zip(p, q, strict=True) for value in pair]
        _store(row, 2 * first, both, config.width)


@weft.device
def _load(row: weft.Tensor, first: Int, count: Int, width: Int) -> Numbers:
    """So many elements of a row, in accesses of `width`."""
    found: Any = []
    for k in weft.static_range(0, count, width):
        found += elements(aligned(row, width), first + k, width)
    return found


@weft.device
def _store(row: weft.Tensor, first: Int, values: Numbers, width: Int) -> None:
    for k in weft.static_range(0, len(values), width):
        put_elements(aligned(row, width), first + k, values[k : k + width])


@weft.kernel
def copy_rest_kernel(x: Array, out: Array) -> None:
    """An iteration: an element without a pair."""
    for place in weft.each(x.shape):
        out[place] = x[place]


@weft.jit
def _rope(
    x: Array,
    cos: Array,
    sin: Array,
    out: Array,
    config: Constant,
    sign: Constant,
    has_rest: Constant,
) -> None:
    rope_kernel(x, cos, sin, out, config, sign).launch(over=_iterations(x.shape, cos.shape, config))
    if has_rest:
        rest = x[..., 2 * cos.shape[1] :]
        copy_rest_kernel(rest, out[..., 2 * cos.shape[1] :]).launch(over=rest.shape)


def _rope_backward(
    gradient: Array, _: object, x: Array, cos: Array, sin: Array, style: str, inverse: bool
) -> Array:
    by_cos = by_sin = None
    if cos.requires_grad or sin.requires_grad:
        by_cos, by_sin = _by_angles(gradient, x, cos, style)
        by_cos, by_sin = by_cos.to(cos.dtype), (-by_sin if inverse else by_sin).to(sin.dtype)
    return rope(gradient, cos, sin, style, not inverse), by_cos, by_sin, None, None


def _by_angles(gradient: Array, x: Array, cos: Array, style: str) -> tuple[Array, Array]:
    """The derivatives by cosines and sines, in the type in which kernels compute."""
    pairs = cos.shape[-1]
    parts = [slice(pairs), slice(pairs, 2 * pairs)]
    if style == "interleaved":
        parts = [slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)]
    (p, q), (by_p, by_q) = ([upcast(one)[..., part] for part in parts] for one in (x, gradient))
    others = [dim for dim in range(x.ndim) if dim not in (x.ndim - 3, x.ndim - 1)]
    return (by_p * p + by_q * q).sum(others), (by_q * p - by_p * q).sum(others)


def _saved(needed: Sequence[bool], *_: Any) -> frozenset[str]:
    """The arguments whose elements the derivative reads: x for that by the angles alone."""
    return frozenset({"x", "cos", "sin"} if needed[1] or needed[2] else {"cos", "sin"})


def _config_for(
    source: ArrayInfo, target: ArrayInfo, tables: list[ArrayInfo], is_half: bool
) -> RopeConfig:
    """Accesses of 16 bytes, as far as everything lies so."""
    count = tables[0].shape[1]
    width = math.gcd(common_width(source, target), count if is_half else 2 * count)
    pairs = width if is_half else max(width // 2, 1)
    heads = math.gcd(source.shape[-2], _MOST_HEADS)
    return RopeConfig(is_half, pairs, heads, width, math.gcd(pairs, common_width(*tables)))


@differentiable(like_first, _rope_backward, rows={"x": 3}, saves=_saved)
@cached_dispatch
def rope(
    x: Array, cos: Array, sin: Array, style: str = "half", inverse: bool = False, out: Array = None
) -> Array:
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
    source = describe(x, "x", is_float=True)
    if style not in _STYLES:
        raise ValueError(unexpected("style", style, "'half' or 'interleaved'"))
    if len(source.shape) < 3:
        raise ValueError(f"x has shape {source.shape}, expected (..., tokens, heads, hdim)")
    tokens, hdim = source.shape[-3], source.shape[-1]
    tables = [describe(table, name, is_float=True) for name, table in (("cos", cos), ("sin", sin))]
    for name, table in zip(("cos", "sin"), tables, strict=True):
        if len(table.shape) != 2 or table.shape[0] != tokens or 2 * table.shape[1] > hdim:
            raise ValueError(
                f"{name} has shape {table.shape}, expected ({tokens}, pairs), at most {hdim // 2} pairs"
            )
    pairs = tables[0].shape[1]
    if tables[1].shape[1] != pairs:
        raise ValueError(f"cos has {pairs} pairs, and sin {tables[1].shape[1]}")
    out = output_like(source, out, ("x",), x=x, cos=cos, sin=sin)
    config = _config_for(source, describe(out, "out"), tables, style == "half")
    return Call(_rope, (x, cos, sin, out, config, -1 if inverse else 1, 2 * pairs < hdim), out)
