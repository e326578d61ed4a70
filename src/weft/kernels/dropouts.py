# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.dropout``: whether an element stays is a function of a seed and its place.

In: an array of floats of any rank and layout. Out: one of its shape. Nothing is kept for the derivative: the same call
of the gradient, with the same seed, drops the same elements. Four neighbors in a row share the work of one random draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.arrays import Array, Constant, Float64, given, integer_from, number, output_like
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.rows import sum_type
from weft.kernels.vectors import Aligned, read, vector_width, write
from weft.language.control import ceil_div, static_range
from weft.language.threads.each import each
from weft.primitives.random.philox import uniform
from weft.types.dtype import f32, i64, u64

if TYPE_CHECKING:
    Seed = Any
else:
    Seed = u64

_DRAWN: Final = 4  # numbers of one draw


def _dropout_backward(gradient: Any, _: Any, x: Any, p: float, seed: int, stream: int) -> Any:
    return dropout(gradient, p, seed, stream), None, None, None


@differentiable(like_first, _dropout_backward)
def dropout(x: Any, p: float, seed: int, stream: int = 0, out: Any = None) -> Any:
    """Each element is 0 with probability p, else x / (1 − p).

    Which ones are dropped is a function of the seed, the stream and x's shape: the same elements in every call, on
    every device, in every layout and type. So the derivative is `dropout` of the gradient with the same seed, and the
    mask that of an array of ones.

    Args:
        x: an array of 16, 32 or 64-bit floats of any rank from 1 on and any layout. Computed in f32, or f64 for f64.
        p: the probability, from 0 to 1, in steps of 2⁻²⁴.
        seed: an integer from 0 below 2⁶⁴; each gives other elements.
        stream: like the seed, a second number: the layer's, say.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of floats.
        ValueError: for another p, seed or stream; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> x = weft.kernels.dropout(np.ones(10000, np.float32), 0.25, seed=42)
        >>> float(x.max()), bool(0.24 < (x == 0).mean() < 0.26)
        (1.3333333730697632, True)
    """
    source = given(x, "x", is_float=True)
    if not 0 <= number(p, "p") <= 1:
        raise ValueError(f"p is {brief(p)}, expected a probability from 0 to 1")
    seed, stream = (
        integer_from(value, name, 0, 1 << 64)
        for name, value in (("seed", seed), ("stream", stream))
    )
    out = output_like(source, out, ("x",), x=x)
    if source.rows and source.shape[-1]:
        aligned = source.dtype.itemsize <= 4 and vector_width(x, out) > 1
        scale = 1 / (1 - p) if p < 1 else 0.0
        (_drop_aligned if aligned else _drop)(x, out, float(p), scale, seed, stream)
    return out


@jit
def _drop(x: Array, out: Array, p: Float64, scale: Float64, seed: Seed, stream: Seed) -> None:
    drop_kernel(x, out, p, scale, seed, stream, False).launch(over=groups_of(x.shape))


@jit
def _drop_aligned(
    x: Aligned, out: Aligned, p: Float64, scale: Float64, seed: Seed, stream: Seed
) -> None:
    drop_kernel(x, out, p, scale, seed, stream, True).launch(over=groups_of(x.shape))


def groups_of(shape: Any) -> Any:
    """The rounds: rows of groups of four; traced in host functions and kernels."""
    return (*shape[:-1], ceil_div(shape[-1], _DRAWN))


@kernel
def drop_kernel(
    x: Array,
    out: Array,
    p: Float64,
    scale: Float64,
    seed: Seed,
    stream: Seed,
    is_aligned: Constant,
) -> None:
    """A round: four neighbors in a row, or those that are left at its end."""
    wide, columns = sum_type(x.dtype), x.shape[-1]
    for place in each(groups_of(x.shape)):
        number = i64(0)
        for index, size in zip(place, groups_of(x.shape), strict=True):
            number = number * size + index
        drawn = uniform(seed, number, stream, count=_DRAWN)
        row, first = place[:-1], _DRAWN * place[-1]

        def kept(k: Any, value: Any, drawn: Any = drawn) -> Any:
            stays = drawn[k] >= f32(p)
            return x.dtype(wide(value) * wide(scale) if stays else wide(0.0))

        if is_aligned and first + _DRAWN <= columns:
            values = read(x, (*row, first), _DRAWN)
            write(out, (*row, first), tuple(kept(k, value) for k, value in enumerate(values)))
        else:
            for k in static_range(_DRAWN):
                if first + k < columns:
                    out[(*row, first + k)] = kept(k, x[(*row, first + k)])
