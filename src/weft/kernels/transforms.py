# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.fft``: discrete Fourier transforms of rows of complex numbers.

In: an array of complex numbers, or of pairs of floats. Out: one of its shape. Lengths whose prime factors are 2, 3, 5
and 7 go through the passes of `butterflies`; others through a convolution of such a length with a chirp (Bluestein, "A
linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any, Final

from weft.api import jit, kernel
from weft.driver.device import device_properties
from weft.errors import brief
from weft.ffi.tensor import Tensor, from_dlpack
from weft.kernels.arrays import Array, Constant, common_width, given, output_like
from weft.kernels.butterflies import (
    SHORT_SEGMENT,
    Complex,
    Pass,
    board_of,
    butterflies,
    is_within,
    pass_kernel,
    radices_of,
    transformed,
    unit,
)
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.rows import index_of, row_count
from weft.language.control import ceil_div, select, static_range
from weft.language.memory.scratch import scratch
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx
from weft.types.dtype import i32, i64
from weft.types.launch_limits import MOST_SHARED_BYTES

_LONGEST: Final = 1 << 26


def _fft_backward(gradient: Any, _: Any, x: Any, inverse: bool) -> Any:
    length = x.shape[-1] if x.is_complex() else x.shape[-2]
    turned = fft(gradient.resolve_conj(), not inverse)
    return turned / length if inverse else turned * length, None


@differentiable(like_first, _fft_backward)
def fft(x: Any, inverse: bool = False, out: Any = None) -> Any:
    """The discrete Fourier transform of each row of complex numbers: X[k] = Σ x[j] exp(−2πi jk / n).

    Rows of up to 2¹⁴ numbers (2¹³ of f64; half of that, or a quarter, where a block has less than 160 kB of shared
    memory) are read and written once, longer ones twice, and three times beyond 2²², if the length has no prime factor
    above 7. Other lengths are padded to a little more than twice theirs, and transformed there and back, in one kernel
    where that fits a block.

    Args:
        x: complex64 or complex128 numbers of NumPy, torch or CuPy (of weft and JAX: on the host), any rank from 1 on
            and any layout; or, from any library, f32 or f64 pairs of a real and an imaginary part, (..., n, 2). n is at
            most 2²⁶.
        inverse: whether to transform back: exp(+2πi jk / n), and the sum divided by n.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than such an array.
        ValueError: for rows of no or too many numbers; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.fft(np.array([1, 0, 0, 0], np.complex64)).tolist()
        [(1+0j), (1+0j), (1+0j), (1+0j)]
        >>> weft.kernels.fft(np.array([[0.0, 4.0], [0.0, 0.0]]), inverse=True).tolist()  # pairs
        [[0.0, 2.0], [0.0, 2.0]]
    """
    pairs = _pairs_of(x, "x")
    if pairs is None:
        return _of_pairs(x, bool(inverse), out)
    if len(pairs.shape) < 2:
        raise ValueError("x has no dimension, expected one or more")
    if out is None:
        return _complex_of(_of_pairs(pairs, bool(inverse)), x)
    target = _pairs_of(out, "out")
    if target is None:
        raise TypeError(f"out is {brief(out)}, expected an array of {x.dtype} as x")
    _of_pairs(pairs, bool(inverse), target)
    return out


def _pairs_of(array: Any, name: str) -> Any:
    """A view of complex numbers as pairs of floats; None for anything else than an array of complex numbers.

    Raises:
        TypeError: for complex numbers of which there is no such view.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if not array.is_complex():
            return None
        return torch.view_as_real(array.resolve_conj() if name == "x" else array)
    if "complex" not in str(getattr(array, "dtype", "")):
        return None
    numpy, cupy = sys.modules.get("numpy"), sys.modules.get("cupy")
    if isinstance(array, Tensor) and numpy is not None and str(array.device) == "cpu":
        array = numpy.asarray(array)
    if numpy is not None and isinstance(array, numpy.ndarray):
        return array.view((array.real.dtype, 2))
    if cupy is not None and isinstance(array, cupy.ndarray):
        kind = array.real.dtype
        return cupy.ndarray((*array.shape, 2), kind, array.data, (*array.strides, kind.itemsize))
    raise TypeError(f"{name} has elements of {array.dtype}, expected pairs of floats, (..., n, 2)")


def _complex_of(pairs: Any, like: Any) -> Any:
    """New pairs as the complex numbers of another array's library."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(pairs, torch.Tensor):
        return torch.view_as_complex(pairs)
    found = pairs.view(f"complex{16 * pairs.itemsize}")[..., 0]
    return from_dlpack(found) if isinstance(like, Tensor) else found


@remembered
def _of_pairs(x: Any, inverse: bool, out: Any = None) -> Any:
    source = given(x, "x", is_float=True)
    if source.dtype.itemsize < 4:
        raise TypeError(f"x has elements of {source.type_name}, expected float32 or float64")
    if len(source.shape) < 2 or source.shape[-1] != 2:
        raise ValueError(f"x has shape {source.shape}, expected pairs of floats, (..., n, 2)")
    n = source.shape[-2]
    if not 0 < n <= _LONGEST:
        raise ValueError(f"x has rows of {n} complex numbers, expected from 1 to {_LONGEST}")
    out = output_like(source, out, ("x",), x=x)
    if not source.size:
        return out
    width, size = min(common_width(source, given(out, "out")), 2), source.dtype.itemsize
    most, sign = most_points(source.device, size), 1 if inverse else -1
    factors = factors_of(n, size, most)
    if factors is not None:
        return Call(_fft, (x, out, n, factors, most, sign, (width, width)), out)
    least = 2 * n - 1
    padded = min(one << (-(-least // one) - 1).bit_length() for one in (1, 3, 5, 7))
    return Call(_convolved, (x, out, n, factors_of(padded, size, most), most, sign), out)


@cache
def factors_of(length: int, itemsize: int, most: int) -> tuple[int, ...] | None:
    """The passes of a length: as few factors as shared memory allows, about equal; None if it has no such factors.

    Args:
        length: of the transform.
        itemsize: of an element, in bytes.
        most: points of a block.
    """
    if length <= most and radices_of(length, 7) is not None:
        return (length,)
    if radices_of(length, 7) is None:
        return None
    longest = most * 2 * itemsize // SHORT_SEGMENT

    def split(length: int, count: int) -> tuple[int, ...] | None:
        if count == 1:
            return (length,) if length <= longest else None
        divisors = [one for one in range(2, longest + 1) if length % one == 0]
        for one in sorted(divisors, key=lambda one: abs(one - length ** (1 / count))):
            others = split(length // one, count - 1)
            if others is not None:
                return (one, *others)
        return None

    counts = range(2, length.bit_length() + 1)
    return next(found for count in counts if (found := split(length, count)) is not None)


@cache
def most_points(device: Any, itemsize: int) -> int:
    """Points of a block: the power of two that shared memory has, with some room for what is left out."""
    size = MOST_SHARED_BYTES
    if device.type == "cuda":
        size = device_properties(device.index).max_shared_memory_per_block_bytes
    return 1 << (size * 7 // 8 // (2 * itemsize)).bit_length() - 1


def transform(
    x: Any, out: Any, factors: Any, most: Any, sign: Any, scale: Any, widths: Any = (2, 2)
) -> None:
    """Launches the transforms of all rows of pairs; traced in host functions.

    Args:
        x: an array (…, points, 2).
        out: one of its shape, which may be `x`.
        factors: of the points, as `factors_of` gives them.
        most: points of a block.
        sign: of the exponents.
        scale: by which results are multiplied.
        widths: elements of an access of `x` and of `out`, 1 or 2.
    """
    last, length, rows = len(factors) - 1, math.prod(factors), row_count(x.shape[:-1])
    source = x
    for number in static_range(last + 1):
        is_last = number == last
        target = out if is_last else scratch((rows, length, 2), x.dtype)
        own = widths[0] if number == 0 else 2, widths[1] if is_last else 2
        done, factor = math.prod(factors[:number]), factors[number]
        size = x.dtype.itemsize
        plan = Pass(length, factor, done, sign, scale if is_last else 1.0, own, size, most)
        grid = rows * plan.blocks if plan.blocks else ceil_div(rows, plan.together)
        pass_kernel(source, target, plan).launch(grid=grid, block=plan.threads)
        source = target


def scale_of(n: int, sign: int) -> float:
    """What the inverse transform multiplies its results by."""
    return 1 / n if sign > 0 else 1.0


@jit
def _fft(
    x: Array,
    out: Array,
    n: Constant,
    factors: Constant,
    most: Constant,
    sign: Constant,
    widths: Constant,
) -> None:
    transform(x, out, factors, most, sign, scale_of(n, sign), widths)


@jit
def _convolved(
    x: Array, out: Array, n: Constant, factors: Constant, most: Constant, sign: Constant
) -> None:
    """By jk = (j² + k² − (k − j)²) / 2: rows times a chirp, convolved with its conjugate, times the chirp."""
    rows, padded = row_count(x.shape[:-1]), math.prod(factors)
    if len(factors) == 1:
        chirp, table = scratch((1, padded, 2), x.dtype), scratch((1, padded, 2), x.dtype)
        spread_kernel(x, chirp, n, sign).launch(over=(1, padded))
        transform(chirp, table, factors, most, -1, 1.0)
        plan = Pass(padded, padded, 1, -1, 1.0, (1, 1), x.dtype.itemsize, most)
        convolution_kernel(x, chirp, table, out, n, plan, sign).launch(
            grid=ceil_div(rows, plan.together), block=plan.threads
        )
    else:
        points = scratch((rows + 1, padded, 2), x.dtype)  # the last row is the chirp's conjugate
        spread_kernel(x, points, n, sign).launch(over=(rows + 1, padded))
        transform(points, points, factors, most, -1, 1.0)
        multiply_kernel(points).launch(over=(rows, padded))
        transform(points[:rows], points[:rows], factors, most, 1, 1 / padded)
        collect_kernel(points, out, n, sign).launch(over=(rows, n))


@kernel
def convolution_kernel(
    x: Array, chirp: Array, table: Array, out: Array, n: Constant, plan: Constant, sign: Constant
) -> None:
    """A block: some rows, from the first factor of the chirp to the last.

    Args:
        x: the rows.
        chirp: its conjugate, a row of padded points.
        table: the transform of that.
        out: the results.
        n: points of a row.
        plan: of the padded rows' transforms.
        sign: of the exponents.
    """
    back, last, rows = plan.turned_back(), len(plan.radices) - 1, row_count(x.shape[:-1])
    board, block = board_of(plan, x.dtype), i64(block_idx.x) * plan.together
    groups: Any = []
    for pencil, place in butterflies(plan, 0):
        index = index_of(lesser(block + pencil, rows - 1), x.shape[:-2])
        points: Any = []
        for shift in plan.points(0, 0):
            point = Complex(0.0, 0.0)
            if shift < n:
                at = lesser(place + shift, n - 1)
                value = Complex(x[(*index, at, 0)], x[(*index, at, 1)])
                value = value.times(Complex(chirp[0, at, 0], -chirp[0, at, 1]))
                is_there = place + shift < n
                point = Complex(*(select(is_there, one, x.dtype(0.0)) for one in value))
            points = [*points, point]
        groups = [*groups, points]
    results = transformed(groups, board, plan)
    groups = []
    for number, (_, place) in enumerate(butterflies(plan, last)):
        points = []
        for at, one in zip(plan.results(last, place), results[number], strict=True):
            points = [*points, one.times(Complex(table[0, at, 0], table[0, at, 1]))]
        groups = [*groups, points]
    sync_threads()
    results = transformed(groups, board, back)
    for number, (pencil, place) in enumerate(butterflies(back, last)):
        row = block + pencil
        if is_within(back, last, number) & (row < rows):
            index, scale = index_of(row, x.shape[:-2]), scale_of(n, sign) / plan.length
            for at, one in zip(back.results(last, place), results[number], strict=True):
                if at < n:
                    one = one.times(Complex(chirp[0, at, 0], -chirp[0, at, 1]))
                    out[(*index, at, 0)] = one.real * scale
                    out[(*index, at, 1)] = one.imaginary * scale


def chirp_at(place: Any, n: Any, sign: Any, dtype: Any) -> Any:
    """exp(sign · πi place² / n), for a place below n."""
    return unit(i32(i64(place) * place % (2 * n)), 2 * n, sign, dtype)


@kernel
def spread_kernel(x: Array, points: Array, n: Constant, sign: Constant) -> None:
    """A round: a number of a row times the chirp's, or a zero after its end; of the last row the chirp's conjugate.

    That is the same to both sides of 0.
    """
    rows, length = points.shape[0] - 1, points.shape[1]
    for row, place in each(points.shape[:2]):
        value = Complex(x.dtype(0.0), x.dtype(0.0))
        if row < rows:
            if place < n:
                index = (*index_of(row, x.shape[:-2]), place)
                value = Complex(x[(*index, 0)], x[(*index, 1)])
                value = value.times(chirp_at(place, n, sign, x.dtype))
        else:
            distance = min(place, length - place)
            if distance < n:
                value = chirp_at(distance, n, -sign, x.dtype)
        points[row, place, 0], points[row, place, 1] = value


@kernel
def multiply_kernel(points: Array) -> None:
    """A round: a number times that of the last row."""
    rows, length = points.shape[0] - 1, points.shape[1]
    for row, place in each((rows, length)):
        value = Complex(points[row, place, 0], points[row, place, 1])
        value = value.times(Complex(points[rows, place, 0], points[rows, place, 1]))
        points[row, place, 0], points[row, place, 1] = value


@kernel
def collect_kernel(points: Array, out: Array, n: Constant, sign: Constant) -> None:
    """A round: a result, times the chirp's number."""
    for row, place in each((points.shape[0] - 1, n)):
        value = Complex(points[row, place, 0], points[row, place, 1])
        value = value.times(chirp_at(place, n, sign, out.dtype))
        index, scale = (*index_of(row, out.shape[:-2]), place), scale_of(n, sign)
        out[(*index, 0)], out[(*index, 1)] = value.real * scale, value.imaginary * scale
