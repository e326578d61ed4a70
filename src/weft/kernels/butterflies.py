# SPDX-License-Identifier: Apache-2.0
"""The passes of a Fourier transform: each transforms many short pencils of points in shared memory.

In: pairs of a real and an imaginary part, and a transform's length as factors. Out: the kernel of each pass.

A pencil of n = r₁ r₂ … points goes through Stockham's stages (Cochran et al., "What is the fast Fourier transform?",
1967): stage s combines r_s points at a time, n / r_s apart, and writes them where the next stage reads, so that no
stage reverses digits. A transform of f₁ f₂ … points, too long for shared memory, takes a pass for each factor (Bailey,
"FFTs in external or hierarchical memory", 1990): pencils along the first factor, whose points are that of all others
apart, then turned by the angles of both places, then those along the next one, each of which lies within one result
of the first; the last pass also puts the points in order.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, NamedTuple

from weft.api import kernel
from weft.kernels.arrays import Array, Constant
from weft.kernels.rows import elements, index_of, put_elements, row_count
from weft.kernels.views import aligned
from weft.language.control import static_range
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.types.dtype import f32, i32, i64
from weft.types.launch_limits import WARP_SIZE

PENCIL_BYTES: Final = 1 << 15
"""Of the points of the longest pencil; shared memory has them twice."""
_POINTS: Final = 1024  # that a block has at least
_SIDE_BY_SIDE: Final = 8  # pencils of a block that reads or writes their points in columns
_EACH: Final = 8  # points of a thread
_MOST_THREADS: Final = 512
_BANKS: Final = (
    8  # points after which shared memory leaves one out, so that no stage's writes share banks
)


class Complex(NamedTuple):
    """A number that is two."""

    real: Any
    imaginary: Any

    def plus(self, other: Complex) -> Complex:
        """Their sum."""
        return Complex(self.real + other.real, self.imaginary + other.imaginary)

    def minus(self, other: Complex) -> Complex:
        """Their difference."""
        return Complex(self.real - other.real, self.imaginary - other.imaginary)

    def times(self, other: Complex) -> Complex:
        """Their product."""
        return Complex(
            self.real * other.real - self.imaginary * other.imaginary,
            self.real * other.imaginary + self.imaginary * other.real,
        )


class Pass(NamedTuple):
    """One pass of a transform; constants.

    Attributes:
        factors: the transform's length, a factor for each pass.
        number: of this pass.
        sign: of the exponents: -1, or 1 for the inverse.
        scale: by which results are multiplied.
        widths: whether a point is read and written in one access of 2 elements, or 1.
        itemsize: of an element, in bytes.
    """

    factors: tuple[int, ...]
    number: int
    sign: int
    scale: float
    widths: tuple[int, int]
    itemsize: int

    @property
    def length(self) -> int:
        """Points of a pencil."""
        return self.factors[self.number]

    @property
    def pencils(self) -> int:
        """In a transform."""
        return math.prod(self.factors) // self.length

    @property
    def rest(self) -> int:
        """The product of later passes' factors: how far apart the points of a pencil are."""
        return math.prod(self.factors[self.number + 1 :])

    @property
    def pitch(self) -> int:
        """Places of a pencil in shared memory."""
        return self.length + self.length // _BANKS + 1

    @property
    def together(self) -> int:
        """Pencils of a block."""
        wanted = _POINTS // self.length
        if len(self.factors) > 1:
            wanted = max(wanted, _SIDE_BY_SIDE)
        return max(1, min(wanted, PENCIL_BYTES // (2 * self.itemsize * self.length)))

    @property
    def threads(self) -> int:
        """Of a block."""
        wanted = -(-self.together * self.length // (_EACH * WARP_SIZE)) * WARP_SIZE
        return min(wanted, _MOST_THREADS)


@cache
def radices_of(length: int) -> tuple[int, ...] | None:
    """The stages of a length: factors 8, 4, 2, 3, 5 and 7; None if it has other prime factors."""
    radices: list[int] = []
    for prime in (2, 3, 5, 7):
        exponent = 0
        while length % prime == 0:
            length, exponent = length // prime, exponent + 1
        if prime > 2:
            radices += [prime] * exponent
            continue
        while exponent:
            bits = 3 if exponent == 3 or exponent > 4 else min(exponent, 2)
            radices, exponent = [*radices, 1 << bits], exponent - bits
    return None if length > 1 else tuple(radices) or (1,)


@kernel
def pass_kernel(x: Array, out: Array, plan: Constant) -> None:
    """A block: some pencils. A thread: a radix's points at a time, from and to memory in the first and last stage."""
    radices, length, together = radices_of(plan.length), plan.length, plan.together
    end, first = row_count(x.shape[:-1]) * plan.pencils, i64(block_idx.x) * together
    is_last_pass = plan.rest == 1
    board = shared((2, 2, together * plan.pitch), x.dtype) if len(radices) > 1 else None
    done = 1
    for stage, radix in enumerate(radices):
        is_first, is_last = stage == 0, stage == len(radices) - 1
        in_columns = not is_last_pass if is_first else is_last and len(plan.factors) > 1
        count = length // radix
        for i in range(thread_idx.x, together * count, plan.threads):
            if together == 1:
                pencil, place = 0, i
            elif in_columns:
                pencil, place = i % together, i // together
            else:
                pencil, place = i // count, i % count
            if first + pencil < end:
                places = [place + k * count for k in static_range(radix)]
                if is_first:
                    points = [read(x, first + pencil, one, plan) for one in places]
                else:
                    points = [taken(board, 1 - stage % 2, pencil, one, plan) for one in places]
                before = place % done
                points = small_transform(turned(points, before, done * radix, plan.sign), plan.sign)
                places = [(place - before) * radix + before + k * done for k in static_range(radix)]
                for one, point in zip(places, points, strict=True):
                    if is_last:
                        write(out, first + pencil, one, point, plan)
                    else:
                        put(board, stage % 2, pencil, one, point, plan)
        done *= radix
        if not is_last:
            sync_threads()


def turned(points: Any, place: Any, length: Any, sign: Any) -> Any:
    """Points times the powers 0, 1, 2, … of a root of unity, of the angle sign · place / length in turns."""
    if len(points) == length:
        return points  # of the first stage, whose place is 0
    powers = [Complex(1.0, 0.0), unit(place, length, sign, points[0].real.dtype)]
    for k in static_range(2, len(points)):
        powers = [*powers, powers[k // 2].times(powers[k - k // 2])]
    return [points[0], *(points[k].times(powers[k]) for k in static_range(1, len(points)))]


def small_transform(points: Any, sign: Any) -> Any:
    """The transform of a few points in registers: by halves, or of an odd number by sums of opposite ones."""
    n = len(points)
    if n == 1:
        return points
    if n % 2 == 0:
        even, odd = small_transform(points[::2], sign), small_transform(points[1::2], sign)
        odd = [turned_by(point, k, n, sign) for k, point in enumerate(odd)]
        both = list(zip(even, odd, strict=True))
        return [one.plus(other) for one, other in both] + [one.minus(other) for one, other in both]
    sums = [points[k].plus(points[n - k]) for k in static_range(1, n // 2 + 1)]
    differences = [points[k].minus(points[n - k]) for k in static_range(1, n // 2 + 1)]
    total = points[0]
    low: Any = []
    high: Any = []
    for one in sums:
        total = total.plus(one)
    for k in static_range(1, n // 2 + 1):
        common, other = points[0], Complex(0.0, 0.0)
        for j, (one, difference) in enumerate(zip(sums, differences, strict=True), 1):
            angle = 2 * math.pi * (j * k % n) / n
            c, s = math.cos(angle), sign * math.sin(angle)
            common = common.plus(Complex(one.real * c, one.imaginary * c))
            other = other.plus(Complex(-difference.imaginary * s, difference.real * s))
        low.append(common.plus(other))
        high.append(common.minus(other))
    return [total, *low, *high[::-1]]


def turned_by(point: Any, k: Any, n: Any, sign: Any) -> Any:
    """A point turned by k / n of a turn, which are constants."""
    if k == 0:
        return point
    if 4 * k == n:
        return Complex(-sign * point.imaginary, sign * point.real)
    angle = 2 * math.pi * k / n
    return point.times(Complex(math.cos(angle), sign * math.sin(angle)))


def unit(place: Any, length: Any, sign: Any, dtype: Any) -> Any:
    """The root of unity of place / length turns; place is from 0 below length, a constant of at most 2²⁷.

    The angle is reduced in integers to an eighth of a turn, where Taylor's series ends soon: there is no rounding
    before, and no code for large angles.
    """
    quarter = (8 * place + length) // (2 * length)
    angle = dtype(4 * place - quarter * length) * (math.pi / (2 * length))
    square, sine, cosine = angle * angle, 1.0, 1.0
    for k in static_range(10 if dtype is f32 else 18, 0, -2):
        sine = 1.0 - square * sine * (1 / (k * (k + 1)))
        cosine = 1.0 - square * cosine * (1 / (k * (k - 1)))
    sine *= angle
    real, imaginary = (sine, cosine) if quarter % 2 == 1 else (cosine, sine)
    real = -real if (quarter == 1) | (quarter == 2) else real
    imaginary = -imaginary if (quarter == 2) | (quarter == 3) else imaginary
    return Complex(real, sign * imaginary)


def point_of(a: Any, number: Any, place: Any, pencils: Any, width: Any) -> Any:
    """A point of the row that a pencil belongs to: its pair of elements."""
    row = number // pencils
    return aligned(a[(*index_of(row, a.shape[:-2]), place)], width)


def read(x: Any, number: Any, place: Any, plan: Any) -> Any:
    """A point of the pencil of that number."""
    pencil = i32(number % plan.pencils)
    if plan.rest > 1:
        place = pencil % plan.rest + (pencil // plan.rest * plan.length + place) * plan.rest
    else:  # results of all passes before, of which the first counts first
        weight = plan.pencils
        for factor in plan.factors[:-1]:
            weight //= factor
            place += pencil % factor * weight * plan.length
            pencil //= factor
    pair = point_of(x, number, place, plan.pencils, plan.widths[0])
    return Complex(*elements(pair, 0, 2)) if plan.widths[0] == 2 else Complex(pair[0], pair[1])


def write(out: Any, number: Any, place: Any, point: Any, plan: Any) -> None:
    """Writes a point of the pencil of that number."""
    pencil = i32(number % plan.pencils)
    if plan.rest > 1:
        after = pencil % plan.rest
        length = plan.length * plan.rest
        point = point.times(unit(after * place, length, plan.sign, out.dtype))
        place = after + (pencil // plan.rest * plan.length + place) * plan.rest
    else:
        place = pencil + place * plan.pencils
    if plan.scale != 1:
        point = Complex(point.real * plan.scale, point.imaginary * plan.scale)
    pair = point_of(out, number, place, plan.pencils, plan.widths[1])
    if plan.widths[1] == 2:
        put_elements(pair, 0, point)
    else:
        pair[0], pair[1] = point


def taken(board: Any, side: Any, pencil: Any, place: Any, plan: Any) -> Any:
    """A point that a stage has left in shared memory."""
    at = pencil * plan.pitch + place + place // _BANKS
    return Complex(board[side, 0, at], board[side, 1, at])


def put(board: Any, side: Any, pencil: Any, place: Any, point: Any, plan: Any) -> None:
    """Leaves a point in shared memory."""
    at = pencil * plan.pitch + place + place // _BANKS
    board[side, 0, at], board[side, 1, at] = point
