# SPDX-License-Identifier: Apache-2.0
"""Butterflies: complex arithmetic, twiddle factors, small DFTs in registers. Traced in kernels."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import weft
from weft.kernels.annotations import ElementType, Int, Number, Numbers


class Complex(NamedTuple):
    """A complex number."""

    real: Number
    imag: Number

    def plus(self, other: Complex) -> Complex:
        """Their sum."""
        return Complex(self.real + other.real, self.imag + other.imag)

    def minus(self, other: Complex) -> Complex:
        """Their difference."""
        return Complex(self.real - other.real, self.imag - other.imag)

    def times(self, other: Complex) -> Complex:
        """Multiply two complex numbers."""
        return Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )


@cache
def radices_of(length: int, most: int) -> tuple[int, ...] | None:
    """Radices of at most `most` whose product is a length: as few as possible, about equal; None if there are none."""

    @cache
    def split(length: int, largest: int) -> tuple[int, ...] | None:
        if length == 1:
            return ()
        found: tuple[int, ...] | None = None
        for radix in range(min(largest, length), 1, -1):
            others = split(length // radix, radix) if length % radix == 0 else None
            if others is None:
                continue
            one = (radix, *others)
            if found is None or (len(one), one) < (len(found), found):
                found = one
        return found

    if any(length % prime == 0 for prime in (11, 13)):
        return None
    return (1,) if length == 1 else split(length, most)


@weft.device
def apply_twiddles(
    points: Numbers, place: Int, length: Int, sign: Int, first: Int = None
) -> Numbers:
    """Multiplies points by the powers 0, 1, 2, … of exp(sign · 2πi place / length), and by `first`, if given."""
    if len(points) == length:
        return points  # the first stage has no twiddle factors
    powers: Any = [None, root_of_unity(place, length, sign, points[0].real.dtype)]
    for k in weft.static_range(2, len(points)):
        powers = [*powers, powers[k // 2].times(powers[k - k // 2])]
    if first is not None:
        powers = [first, *(one.times(first) for one in powers[1:])]
        return [point.times(one) for point, one in zip(points, powers, strict=False)]
    return [points[0], *(points[k].times(powers[k]) for k in weft.static_range(1, len(points)))]


@weft.device
def small_dft(points: Numbers, sign: Int) -> Numbers:
    """The DFT of a few points in registers, by prime factors."""
    n = len(points)
    if n == 1:
        return points
    prime = next(one for one in range(2, n + 1) if n % one == 0)
    if prime == n:
        return prime_dft(points, sign)
    parts = [small_dft(points[k::prime], sign) for k in range(prime)]
    parts = [
        [rotate(one, k * place, n, sign) for place, one in enumerate(part)]
        for k, part in enumerate(parts)
    ]
    columns = [prime_dft(list(column), sign) for column in zip(*parts, strict=True)]
    return [column[k] for k in range(prime) for column in columns]


@weft.device
def prime_dft(points: Numbers, sign: Int) -> Numbers:
    """The DFT of a prime number of points: for odd n by sums and differences of points k and n − k."""
    n = len(points)
    if n == 2:
        return [points[0].plus(points[1]), points[0].minus(points[1])]
    sums = [points[k].plus(points[n - k]) for k in weft.static_range(1, n // 2 + 1)]
    differences = [points[k].minus(points[n - k]) for k in weft.static_range(1, n // 2 + 1)]
    total = points[0]
    low: Any = []
    high: Any = []
    for one in sums:
        total = total.plus(one)
    for k in weft.static_range(1, n // 2 + 1):
        common, other = points[0], Complex(0.0, 0.0)
        for j, (one, difference) in enumerate(zip(sums, differences, strict=True), 1):
            angle = 2 * math.pi * (j * k % n) / n
            c, s = math.cos(angle), sign * math.sin(angle)
            common = common.plus(Complex(one.real * c, one.imag * c))
            other = other.plus(Complex(-difference.imag * s, difference.real * s))
        low.append(common.plus(other))
        high.append(common.minus(other))
    return [total, *low, *high[::-1]]


@weft.device
def rotate(point: Complex, k: Int, n: Int, sign: Int) -> Number:
    """A point times exp(sign · 2πi k / n), for constant k and n."""
    if k == 0:
        return point
    if 4 * k == n:
        return Complex(-sign * point.imag, sign * point.real)
    angle = 2 * math.pi * k / n
    return point.times(Complex(math.cos(angle), sign * math.sin(angle)))


def root_of_unity(
    place: Int, length: Int, sign: Int, dtype: ElementType, step: Int = None
) -> Number:
    """The twiddle factor exp(sign · 2πi place / length), for 0 <= place < length <= 2²⁷.

    `step` is π / (2 length); None for a constant length. The angle is reduced in integers to an eighth of a turn, where
    a short Taylor series suffices, without rounding and without code for large angles.
    """
    quarter = (8 * place + length) // (2 * length)
    step = math.pi / (2 * length) if step is None else dtype(step)
    angle = dtype(4 * place - quarter * length) * step
    square, sine, cosine = angle * angle, 1.0, 1.0
    for k in weft.static_range(10 if dtype is weft.f32 else 18, 0, -2):
        sine = 1.0 - square * sine * (1 / (k * (k + 1)))
        cosine = 1.0 - square * cosine * (1 / (k * (k - 1)))
    sine *= angle
    real, imag = (sine, cosine) if quarter % 2 == 1 else (cosine, sine)
    real = -real if (quarter == 1) | (quarter == 2) else real
    imag = -imag if (quarter == 2) | (quarter == 3) else imag
    return Complex(real, sign * imag)
