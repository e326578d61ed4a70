# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of FFT points: complex pairs, real numbers, half spectra.

In: a row's number and an index in it. Out: a complex number, loaded or stored. Traced in kernels.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import weft
from weft.kernels.annotations import Int, Number, Shape
from weft.kernels.device.row import aligned, elements, index_of, put_elements, row_count
from weft.kernels.fourier.butterfly import Complex, root_of_unity

Source = Literal["pairs", "reals", "packed", "folded", "mirrored"]
Target = Literal["pairs", "half", "reals", "packed"]


class IOFormat(NamedTuple):
    """Formats of the arrays that a transform loads and stores; constants, but for Bluestein's run-time arguments.

    Attributes:
        points: of a transform; 0 where it is a run-time argument.
        source: ``"pairs"``: (…, points, 2), complex; ``"reals"``: (…, points); ``"packed"``: (…, 2 points), two real
            numbers as a complex one; ``"mirrored"``: (…, points // 2 + 1, 2), half a spectrum of odd length;
            ``"folded"``: (…, points + 1, 2), half a spectrum of length 2 points, transformed to packed reals.
        target: ``"pairs"``, ``"packed"``, ``"reals"`` likewise; ``"half"``: (…, points // 2 + 1, 2), half a spectrum.
        widths: elements per load, and per store: a pair at once, or 1.
        step: π / (4 points) at run time, else None.
    """

    points: int
    source: Source = "pairs"
    target: Target = "pairs"
    widths: tuple[int, int] = (2, 2)
    step: Number | None = None


def rows_of(a: weft.Tensor, form: Source) -> Int:
    """The number of rows of an array in that format."""
    return row_count(_outer(a, form)[0])


@weft.device
def read_point(
    x: weft.Tensor, row: Int, place: Int, io: IOFormat, twiddle: Number = None
) -> Number:
    """Loads a point of a row; `twiddle` is exp(πi place / points) of a folded one, if the caller has it."""
    form, width, points = io.source, io.widths[0], io.points
    index = index_of(row, _outer(x, form)[1])
    if form == "pairs":
        return _pair(x[(*index, place)], 0, width)
    if form == "reals":
        return Complex(x[(*index, place)], x.dtype(0.0))
    if form == "packed":
        return _pair(x[index] if index else x, 2 * place, width)
    if form == "mirrored":
        point = _pair(x[(*index, min(place, points - place))], 0, width)
        is_there = 2 * place < points
        return Complex(point.real, weft.where(is_there, point.imag, -point.imag))
    near = _pair(x[(*index, place)], 0, width)
    far = _pair(x[(*index, points - place)], 0, width)
    is_end, zero = place == 0, x.dtype(0.0)  # where the imaginary parts are 0, whatever is stored
    near = Complex(near.real, weft.where(is_end, zero, near.imag))
    far = Complex(far.real, weft.where(is_end, zero, -far.imag))
    twiddle = root_of_unity(place, 2 * points, 1, x.dtype, io.step) if twiddle is None else twiddle
    odd = near.minus(far).times(twiddle)
    return near.plus(far).plus(Complex(-odd.imag, odd.real))


@weft.device
def write_point(out: weft.Tensor, row: Int, place: Int, point: Complex, io: IOFormat) -> None:
    """Stores a point of a row, as far as its format keeps it."""
    form, width = io.target, io.widths[1]
    index = index_of(row, _outer(out, form)[1])
    if form == "packed":
        _put(out[index] if index else out, 2 * place, point, width)
    elif form == "reals":
        out[(*index, place)] = point.real
    elif form == "pairs":
        _put(out[(*index, place)], 0, point, width)
    elif 2 * place <= io.points:
        _put(out[(*index, place)], 0, point, width)


def _outer(a: weft.Tensor, form: Source | Target) -> tuple[Shape, Shape]:
    """The sizes of an array up to its points, and of its rows."""
    kept = a.shape if form in ("reals", "packed") else a.shape[:-1]
    return kept, kept[:-1]


@weft.device
def _pair(row: weft.Tensor, place: Int, width: Int) -> Number:
    if width == 2:
        return Complex(*elements(aligned(row, 2), place, 2))
    return Complex(row[place], row[place + 1])


@weft.device
def _put(row: weft.Tensor, place: Int, point: Complex, width: Int) -> None:
    if width == 2:
        put_elements(aligned(row, 2), place, point)
    else:
        row[place], row[place + 1] = point
