# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.dropout``: whether an element stays is a function of a seed and its place.

Computes x / (1 − p) with probability 1 − p, else 0 (Srivastava et al., 2014), by Philox (Salmon et al., 2011).
In: an array of floats of any rank and layout. Out: one of its shape. Nothing is kept for the derivative: the same call
of the gradient, with the same seed, drops the same elements. Eight adjacent elements share one Philox draw, 16 bits
each.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import weft
from weft import _native
from weft.kernels.annotations import (
    Arguments,
    Array,
    Constant,
    ElementType,
    Float64,
    Int,
    Int32,
    Number,
    Shape,
)
from weft.kernels.device.row import aligned, elements, put_elements, sum_type
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_device,
    common_width,
    describe,
    integer_from,
    number,
    output_like,
    unexpected,
)
from weft.kernels.host.autograd import differentiable, like_first
from weft.kernels.host.dispatch_cache import Call, cached_dispatch_except

if TYPE_CHECKING:
    Seed = Any
else:
    Seed = weft.u64

_DRAWN: Final = 8  # elements of one draw
_STEPS: Final = 1 << 16
_BEYOND: Final = 1 << 64


@weft.kernel
def dropout_kernel(
    x: Array,
    out: Array,
    dropped: Int32,
    scale: Float64,
    seed: Seed,
    offset: Seed,
    width: Constant,
    seed_array: weft.Tensor | None,
    offset_array: weft.Tensor | None,
) -> None:
    """An iteration: `width` adjacent elements, a power of two up to 8; fewer at the end of a vector."""
    wide, columns = sum_type(x.dtype), x.shape[-1]
    if seed_array is not None:
        seed = weft.u64(seed_array[0])
    if offset_array is not None:
        offset = weft.u64(offset_array[0])
    factor = wide(scale)
    for place in weft.each((*x.shape[:-1], weft.ceil_div(columns, width))):
        first = weft.i64(0)  # the number of the first element
        for index, size in zip(place[:-1], x.shape[:-1], strict=True):
            first = first * size + index
        first = first * columns + width * place[-1]
        drawn = _drawn(seed, offset, first, width)
        row, column = place[:-1], width * place[-1]

        if width > 1 and (x.ndim > 1 or column + width <= columns):
            values = elements(_aligned_row(x, row, width), column, width)
            found = [
                _scaled(value, drawn[k], dropped, factor, x.dtype) for k, value in enumerate(values)
            ]
            put_elements(_aligned_row(out, row, width), column, found)
        else:
            for k in weft.static_range(width):
                if column + k < columns:
                    out[(*row, column + k)] = _scaled(
                        x[(*row, column + k)], drawn[k], dropped, factor, x.dtype
                    )


@weft.device
def _scaled(
    value: Number, drawn: Number, dropped: Number, factor: Number, dtype: ElementType
) -> Number:
    """Computes value · factor, or 0 if dropped."""
    wide = factor.dtype
    return dtype(wide(value) * factor if drawn >= weft.u32(dropped) else wide(0.0))


@weft.device
def _aligned_row(a: weft.Tensor, row: Shape, width: Int) -> weft.Tensor:
    return aligned(a[row] if row else a, width)


@weft.device
def _drawn(seed: Number, offset: Int, first: Int, count: Int) -> Number:
    """Draws 16 random bits for each of `count` elements, from a multiple of `count` on."""
    number = first // _DRAWN
    counter = weft.u32(number), weft.u32(number >> 32), weft.u32(offset), weft.u32(offset >> 32)
    found = weft.random.philox.words(counter, (weft.u32(seed), weft.u32(seed >> 32)))
    parts = [(word & 0xFFFF, word >> 16) for word in found]
    parts = [part for pair in parts for part in pair]
    # Of fewer elements, those of the words that are theirs.
    half = _DRAWN
    while half > count:
        half //= 2
        is_second = (first & half) != 0
        parts = [weft.where(is_second, parts[half + k], parts[k]) for k in range(half)]
    return parts


@weft.jit
def _dropout(
    x: Array,
    out: Array,
    dropped: Int32,
    scale: Float64,
    seed: Seed,
    offset: Seed,
    width: Constant,
    is_flat: Constant,
    seed_array: weft.Tensor | None = None,
    offset_array: weft.Tensor | None = None,
) -> None:
    if is_flat:
        x, out = x.reshape(x.size), out.reshape(out.size)
    shape = (*x.shape[:-1], weft.ceil_div(x.shape[-1], width))
    arrays = seed_array, offset_array
    dropout_kernel(x, out, dropped, scale, seed, offset, width, *arrays).launch(over=shape)


def _signed(x: Array, p: float, seed: Any, offset: Any = 0) -> Arguments:
    """The operator's arguments: torch's integers are signed, and arrays have parameters of their own."""
    torch: Any = sys.modules["torch"]
    given = (("seed", seed), ("offset", offset))
    # torch's tracer follows this.
    arrays = [one if isinstance(one, torch.Tensor) and one.ndim else None for _, one in given]
    numbers = [
        _signed_number(0 if array is not None else one, name)
        for (name, one), array in zip(given, arrays, strict=True)
    ]
    return x, p, *numbers, *arrays


def _signed_number(value: int, name: str) -> int:
    if not (isinstance(value, int) and 0 <= value < _BEYOND):  # torch's tracer follows this alone
        value = integer_from(value, name, 0, _BEYOND)
    return value - _BEYOND if value >= _BEYOND >> 1 else value


def _dropout_of_signed(
    x: Array,
    p: float,
    seed: int,
    offset: int = 0,
    seed_array: Array = None,
    offset_array: Array = None,
) -> Array:
    numbers = [n + _BEYOND if n < 0 else n for n in (seed, offset)]
    arrays = seed_array, offset_array
    return dropout(x, p, *[n if a is None else a for n, a in zip(numbers, arrays, strict=True)])


def _dropout_backward(gradient: Array, _: object, __: Array, *arguments: Any) -> Array:
    return _dropout_of_signed(gradient, *arguments), None, None, None, None, None


def _flat_number(source: ArrayInfo, value: object, name: str) -> ArrayInfo | None:
    """Describes a number that is an array of one integer; None for a plain number."""
    if _native.describe(value)[0] != "tensor" or not getattr(value, "ndim", 1):
        return None
    found = describe(value, name)
    if found.size != 1 or len(found.shape) != 1 or not found.dtype.is_integer:
        raise ValueError(
            f"{name} has shape {found.shape} of {found.type_name}, expected a number or one integer, (1,)"
        )
    check_device(found, name, source)
    return found


def _width_of(source: ArrayInfo, target: ArrayInfo) -> int:
    """Elements per access to flat arrays of any length."""
    bits = source.address | target.address | weft.VECTOR_BYTES
    return (bits & -bits) // source.dtype.itemsize or 1


@differentiable(
    like_first,
    _dropout_backward,
    _signed,
    run=_dropout_of_signed,
    saves=frozenset({"seed_array", "offset_array"}),
)
@cached_dispatch_except("seed", "offset")
def dropout(
    x: Array, p: float, seed: int | Array, offset: int | Array = 0, out: Array = None
) -> Array:
    """Each element is 0 with probability p, else x / (1 − p).

    Which ones are dropped is a function of the seed, the offset and each element's number, counted row by row: the same
    elements in every call, on every device, in every layout and type. So the derivative is `dropout` of the gradient
    with the same seed, and the mask that of an array of ones.

    Args:
        x: an array of 16, 32 or 64-bit floats of any rank from 1 on and any layout. Computed in f32, or f64 for f64.
        p: the probability, from 0 to 1, in steps of 2⁻¹⁶.
        seed: an integer from 0 below 2⁶⁴; each gives other elements. Or an array of one integer, (1,), on x's device,
            modulo 2⁶⁴: the kernel reads it, so that each replay of a CUDA graph drops by its element then.
        offset: like the seed, a second number: the layer's number, for example.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of floats.
        ValueError: for another p, seed or offset; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> x = weft.kernels.dropout(np.ones(10000, np.float32), 0.25, seed=42)
        >>> float(x.max()), bool(0.24 < (x == 0).mean() < 0.26)
        (1.3333333730697632, True)
    """
    source = describe(x, "x", is_float=True)
    share = number(p, "p")
    if not 0 <= share <= 1:
        raise ValueError(unexpected("p", p, "a probability from 0 to 1"))
    numbers, arrays = list[Any](), list[Any]()
    for name, value in (("seed", seed), ("offset", offset)):
        found = _flat_number(source, value, name)
        plain = 0 if found is not None else integer_from(value, name, 0, _BEYOND)
        numbers.append(value if isinstance(value, int) else plain)
        arrays.append(None if found is None else found.array)
    out = output_like(source, out, ("x",), x=x)
    if source.size:
        dropped = round(share * _STEPS)
        scale = 1 / (1 - share) if share < 1 else 0.0
        target = describe(out, "out")
        is_flat = source.is_contiguous and target.is_contiguous
        together = _width_of(source, target) if is_flat else common_width(source, target)
        width = min(together, _DRAWN)
        return Call(_dropout, (x, out, dropped, scale, *numbers, width, is_flat, *arrays), out)
    return out
