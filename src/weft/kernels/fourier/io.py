# SPDX-License-Identifier: Apache-2.0
"""The points of Fourier transforms as arrays have them: pairs of floats, real numbers, halves of spectra.

In: a row's number and a place in it. Out: a complex number, read or written. Traced in kernels.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from weft.kernels.device.row import elements, index_of, put_elements, row_count
from weft.kernels.device.views import aligned
from weft.kernels.fourier.butterfly import Complex, unit
from weft.language.control import where
from weft.language.numbers.math import min as lesser

Source = Literal["pairs", "reals", "neighbors", "folded", "mirrored"]
Target = Literal["pairs", "half", "reals", "neighbors"]


class Ends(NamedTuple):
    """How arrays have the points that a transform reads and writes; constants, but for the points of convolutions.

    Attributes:
        points: of a transform; 0 where kernels are told.
        source: ``"pairs"``: (…, points, 2); ``"reals"``: (…, points), imaginary parts are 0; ``"neighbors"``: (…, 2
            points), two for each point; ``"mirrored"``: (…, points // 2 + 1, 2), the others are their conjugates, of an
            odd number of points; ``"folded"``: (…, points + 1, 2), half the spectrum of twice as many real numbers,
            which come out two for each point.
        target: ``"pairs"``, ``"neighbors"``, ``"reals"``: as `source`, imaginary parts are left away; ``"half"``: (…,
            points // 2 + 1, 2), the others are left away.
        widths: whether a pair is read, and written, in one access of 2 elements, or 1.
        step: π / (4 points) where kernels are told, else None.
    """

    points: int
    source: Source = "pairs"
    target: Target = "pairs"
    widths: tuple[int, int] = (2, 2)
    step: Any = None


def rows_of(a: Any, form: Any) -> Any:
    """How many rows an array of that form has."""
    return row_count(_outer(a, form)[0])


def read_point(x: Any, row: Any, place: Any, ends: Any, turn: Any = None) -> Any:
    """A point of a row; of a folded one maybe with exp(πi place / points), which neighbors know by less work."""
    form, width, points = ends.source, ends.widths[0], ends.points
    index = index_of(row, _outer(x, form)[1])
    if form == "pairs":
        return _pair(x[(*index, place)], 0, width)
    if form == "reals":
        return Complex(x[(*index, place)], x.dtype(0.0))
    if form == "neighbors":
        return _pair(x[index] if index else x, 2 * place, width)
    if form == "mirrored":
        point = _pair(x[(*index, lesser(place, points - place))], 0, width)
        is_there = 2 * place < points
        return Complex(point.real, where(is_there, point.imaginary, -point.imaginary))
    near = _pair(x[(*index, place)], 0, width)
    far = _pair(x[(*index, points - place)], 0, width)
    is_end, zero = place == 0, x.dtype(0.0)  # where the imaginary parts are 0, whatever is stored
    near = Complex(near.real, where(is_end, zero, near.imaginary))
    far = Complex(far.real, where(is_end, zero, -far.imaginary))
    turn = unit(place, 2 * points, 1, x.dtype, ends.step) if turn is None else turn
    turned = near.minus(far).times(turn)
    return near.plus(far).plus(Complex(-turned.imaginary, turned.real))


def write_point(out: Any, row: Any, place: Any, point: Any, ends: Any) -> None:
    """Writes a point of a row, or what its array has of it."""
    form, width = ends.target, ends.widths[1]
    index = index_of(row, _outer(out, form)[1])
    if form == "neighbors":
        _put(out[index] if index else out, 2 * place, point, width)
    elif form == "reals":
        out[(*index, place)] = point.real
    elif form == "pairs":
        _put(out[(*index, place)], 0, point, width)
    elif 2 * place <= ends.points:
        _put(out[(*index, place)], 0, point, width)


def _outer(a: Any, form: Any) -> Any:
    """The sizes of an array up to that of its rows, and without it."""
    kept = a.shape if form in ("reals", "neighbors") else a.shape[:-1]
    return kept, kept[:-1]


def _pair(row: Any, place: Any, width: Any) -> Any:
    if width == 2:
        return Complex(*elements(aligned(row, 2), place, 2))
    return Complex(row[place], row[place + 1])


def _put(row: Any, place: Any, point: Any, width: Any) -> None:
    if width == 2:
        put_elements(aligned(row, 2), place, point)
    else:
        row[place], row[place + 1] = point
