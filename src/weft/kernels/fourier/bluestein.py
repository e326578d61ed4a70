# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of any length: passes of `passes`, or a convolution with a chirp of a length that has passes.

In: arrays of rows in any form that `points` knows, and a plan. Out: launches, traced in host functions.

The convolution is Bluestein's ("A linear filtering approach to the computation of discrete Fourier transform", 1970),
by jk = (j² + k² − (k − j)²) / 2: rows times a chirp, convolved with its conjugate, times the chirp. It is one kernel
where a padded row fits a block's shared memory.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from weft.api import kernel
from weft.kernels.fourier.butterfly import Complex, radices_of, unit
from weft.kernels.fourier.io import Ends, read_point, rows_of, write_point
from weft.kernels.fourier.stockham import (
    SHORT_SEGMENT,
    Pass,
    board_of,
    butterflies,
    is_within,
    pass_kernel,
    transformed,
)
from weft.kernels.host.arrays import Array, Constant, Float64, Int32, Int64
from weft.kernels.host.devices import device_info
from weft.language.control import ceil_div, static_range, where
from weft.language.memory.scratch import scratch
from weft.language.numbers.math import min as lesser
from weft.language.numbers.math import mulhi
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx
from weft.types.dtype import i32, i64, u64
from weft.types.launch_limits import MOST_SHARED_BYTES


class Sizes(NamedTuple):
    """What kernels of a convolution are told, so that one program serves all lengths that are padded alike.

    Attributes:
        points: of a row.
        step: π / (4 points).
        inverse: ⌊2⁶⁴ / (2 points)⌋.
        scale: by which results are multiplied.
    """

    points: Int32
    step: Float64
    inverse: Int64
    scale: Float64


class Plan(NamedTuple):
    """How rows are transformed; constants.

    Attributes:
        ends: how arrays have their points.
        factors: of the passes; of more points than there are: of padded rows.
        most: points of a block.
        sign: of the exponents: -1, or 1 for the inverse.
        scale: by which results are multiplied.
    """

    ends: Ends
    factors: tuple[int, ...]
    most: int
    sign: int
    scale: float

    @property
    def padded(self) -> int:
        """Points of a row in the passes."""
        return math.prod(self.factors)

    def told(self, sizes: Any) -> Any:
        """With what kernels are told, if that is not None."""
        if sizes is None:
            return self
        ends = self.ends._replace(points=sizes.points, step=sizes.step)
        return self._replace(ends=ends, scale=sizes.scale)


def plan_of(
    ends: Ends, device: Any, itemsize: int, sign: int, scale: float
) -> tuple[Plan, Sizes | None]:
    """The plan of transforms on a device of points with elements of so many bytes, and what kernels are told."""
    most, points = most_points(device, itemsize), ends.points
    factors = factors_of(points, itemsize, most)
    if factors is None:
        least = 2 * points - 1
        padded = min(one << (-(-least // one) - 1).bit_length() for one in (1, 3, 5, 7))
        factors = factors_of(padded, itemsize, most)
        assert factors is not None
        sizes = Sizes(points, math.pi / (4 * points), (1 << 64) // (2 * points), scale)
        return Plan(ends._replace(points=0), factors, most, sign, 1.0), sizes
    return Plan(ends, factors, most, sign, scale), None


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


def most_points(device: Any, itemsize: int) -> int:
    """Points of a block: the power of two that shared memory has, with some room for what is left out."""
    size = device_info(device).shared_bytes or MOST_SHARED_BYTES
    return 1 << (size * 7 // 8 // (2 * itemsize)).bit_length() - 1


def transform(x: Any, out: Any, plan: Any, sizes: Any) -> None:
    """Launches the transforms of all rows of `x`, which may be `out` if their forms are the same."""
    if sizes is None:
        run_passes(x, out, plan)
    else:
        convolve(x, out, plan, sizes._replace(scale=sizes.scale / plan.padded))


def run_passes(x: Any, out: Any, plan: Any) -> None:
    """Launches a pass for each factor."""
    rows, last, size = rows_of(x, plan.ends.source), len(plan.factors) - 1, x.dtype.itemsize
    source = x
    for number in static_range(last + 1):
        is_last, ends = number == last, plan.ends
        target = out if is_last else scratch((rows, plan.padded, 2), x.dtype)
        if number:
            ends = Ends(ends.points, "pairs", ends.target, (2, ends.widths[1]))
        if not is_last:
            ends = Ends(ends.points, ends.source, "pairs", (ends.widths[0], 2))
        done, scale = math.prod(plan.factors[:number]), plan.scale if is_last else 1.0
        factor = plan.factors[number]
        one = Pass(plan.padded, ends, factor, done, plan.sign, scale, size, plan.most)
        grid = rows * one.blocks if one.blocks else ceil_div(rows, one.together)
        pass_kernel(source, target, one).launch(grid=grid, block=one.threads)
        source = target


def convolve(x: Any, out: Any, plan: Any, sizes: Any) -> None:
    """Launches a convolution with a chirp, whose results are multiplied by `sizes.scale`."""
    rows, padded, size = rows_of(x, plan.ends.source), plan.padded, x.dtype.itemsize
    inner = Plan(Ends(padded), plan.factors, plan.most, -1, 1.0)
    if len(plan.factors) == 1:
        chirp, table = scratch((1, padded, 2), x.dtype), scratch((1, padded, 2), x.dtype)
        spread_kernel(x, chirp, sizes, plan).launch(over=(1, padded))
        run_passes(chirp, table, inner)
        one = Pass(padded, plan.ends, padded, 1, -1, 1.0, size, plan.most)
        grid = ceil_div(rows, one.together)
        convolution_kernel(x, chirp, table, out, sizes, plan, one).launch(
            grid=grid, block=one.threads
        )
        return
    points = scratch((rows + 1, padded, 2), x.dtype)  # the last row is the chirp's conjugate
    spread_kernel(x, points, sizes, plan).launch(over=(rows + 1, padded))
    run_passes(points, points, inner)
    multiply_kernel(points).launch(over=(rows, padded))
    back = Plan(Ends(padded), plan.factors, plan.most, 1, 1.0)
    run_passes(points[:rows], points[:rows], back)
    collect_kernel(points, out, sizes, plan).launch(over=(rows, sizes.points))


@kernel
def convolution_kernel(
    x: Array,
    chirp: Array,
    table: Array,
    out: Array,
    sizes: Sizes,
    plan: Constant,
    one: Constant,
) -> None:
    """A block: some rows, from the first factor of the chirp to the last.

    Args:
        x: the rows.
        chirp: its conjugate, a row of padded points.
        table: the transform of that.
        out: the results.
        sizes: of the rows.
        plan: of the rows.
        one: the pass of the padded rows' transforms.
    """
    plan = plan.told(sizes)
    n, rows, zero = plan.ends.points, rows_of(x, plan.ends.source), x.dtype(0.0)
    back, last = one.turned_back(), len(one.radices) - 1
    board, block = board_of(x.dtype, one, back), i64(block_idx.x) * one.together
    groups: Any = []
    for pencil, place in butterflies(one, 0):
        row, points = lesser(block + pencil, rows - 1), []
        for shift in one.points(0, 0):
            point = Complex(zero, zero)
            if 2 * shift <= one.length:  # beyond, every row has zeros: 2n - 1 <= length
                at = lesser(place + shift, n - 1)
                value = read_point(x, row, at, plan.ends)
                value = value.times(Complex(chirp[0, at, 0], -chirp[0, at, 1]))
                is_there = place + shift < n
                point = Complex(*(where(is_there, part, zero) for part in value))
            points = [*points, point]
        groups = [*groups, points]
    results = transformed(groups, board, one)
    groups = []
    for number, (_, place) in enumerate(butterflies(one, last)):
        points = []
        for at, value in zip(one.results(last, place), results[number], strict=True):
            points = [*points, value.times(Complex(table[0, at, 0], table[0, at, 1]))]
        groups = [*groups, points]
    sync_threads()
    results = transformed(groups, board, back)
    for number, (pencil, place) in enumerate(butterflies(back, last)):
        row = block + pencil
        if is_within(back, last, number) & (row < rows):
            nearest = back.results(last, 0)
            for k, (at, value) in enumerate(
                zip(back.results(last, place), results[number], strict=True)
            ):
                if 2 * nearest[k] <= one.length and at < n:
                    chirped = Complex(chirp[0, at, 0], -chirp[0, at, 1])
                    write_point(out, row, at, scaled(value.times(chirped), plan), plan.ends)


def scaled(value: Any, plan: Any) -> Any:
    """A result of the passes there and back."""
    scale = value.real.dtype(plan.scale)
    return Complex(value.real * scale, value.imaginary * scale)


def chirp_at(place: Any, sizes: Any, sign: Any, dtype: Any) -> Any:
    """exp(sign · πi place² / n), for a place below n, the points."""
    square, period = u64(place) * u64(place), u64(2 * sizes.points)
    rest = square - mulhi(square, u64(sizes.inverse)) * period  # the quotient may be one less
    rest = i32(where(rest >= period, rest - period, rest))
    return unit(rest, 2 * sizes.points, sign, dtype, sizes.step)


@kernel
def spread_kernel(x: Array, points: Array, sizes: Sizes, plan: Constant) -> None:
    """A round: a number of a row times the chirp's, or a zero after its end; of the last row the chirp's conjugate.

    That is the same to both sides of 0.
    """
    plan = plan.told(sizes)
    rows, length, n = points.shape[0] - 1, points.shape[1], plan.ends.points
    for row, place in each(points.shape[:2]):
        value = Complex(x.dtype(0.0), x.dtype(0.0))
        if row < rows:
            if place < n:
                value = read_point(x, row, place, plan.ends)
                value = value.times(chirp_at(place, sizes, plan.sign, x.dtype))
        else:
            distance = min(place, length - place)
            if distance < n:
                value = chirp_at(distance, sizes, -plan.sign, x.dtype)
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
def collect_kernel(points: Array, out: Array, sizes: Sizes, plan: Constant) -> None:
    """A round: a result, times the chirp's number."""
    plan = plan.told(sizes)
    for row, place in each((points.shape[0] - 1, plan.ends.points)):
        value = Complex(points[row, place, 0], points[row, place, 1])
        value = value.times(chirp_at(place, sizes, plan.sign, out.dtype))
        write_point(out, row, place, scaled(value, plan), plan.ends)
