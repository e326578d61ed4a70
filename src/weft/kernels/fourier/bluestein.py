# SPDX-License-Identifier: Apache-2.0
"""FFTs of any length: Stockham passes, or Bluestein's convolution for lengths with a prime factor above 7.

Bluestein ("A linear filtering approach to the computation of discrete Fourier transform", 1970), with
jk = (j² + k² − (k − j)²) / 2 and w[j] = exp(sign · πi j² / n):

    X[k] = w[k] Σ (x[j] w[j]) conj(w[k − j])

a circular convolution of a padded length, by FFTs. It is one kernel where a padded row fits shared memory.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import weft
from weft.kernels.annotations import ElementType, Int, Number, Numbers
from weft.kernels.fourier.butterfly import Complex, radices_of, root_of_unity
from weft.kernels.fourier.io import IOFormat, read_point, rows_of, write_point
from weft.kernels.fourier.stockham import (
    SHORT_SEGMENT,
    Pass,
    butterflies,
    is_within,
    pass_kernel,
    run_stages,
    smem_for,
)
from weft.kernels.host.devices import device_info


class BluesteinArgs(NamedTuple):
    """Run-time arguments of Bluestein's kernels, so that one program serves all lengths with the same padded length.

    Attributes:
        points: the length n of a row.
        step: π / (4 points).
        inverse: ⌊2⁶⁴ / (2 points)⌋.
        scale: of the results.
    """

    points: weft.i32
    step: weft.f64
    inverse: weft.i64
    scale: weft.f64


class FFTConfig(NamedTuple):
    """Plan of an FFT; constants.

    Attributes:
        io: the format of the arrays.
        radices: factors of the length, or the padded length: a pass for each.
        most: points of a block.
        sign: of the exponent: -1, or 1 for the inverse.
        scale: of the results.
    """

    io: IOFormat
    factors: tuple[int, ...]
    most: int
    sign: int
    scale: float

    @property
    def padded(self) -> int:
        """The length of the passes."""
        return math.prod(self.factors)

    def with_args(self, args: Numbers) -> Any:
        """The plan with Bluestein's run-time arguments, unless they are None."""
        if args is None:
            return self
        io = self.io._replace(points=args.points, step=args.step)
        return self._replace(io=io, scale=args.scale)


def fft_config(
    io: IOFormat, device: weft.ffi.Device, itemsize: int, sign: int, scale: float
) -> tuple[FFTConfig, BluesteinArgs | None]:
    """The plan for a device and an element size, and Bluestein's arguments where it takes that algorithm."""
    most, points = most_points(device, itemsize), io.points
    factors = factors_of(points, itemsize, most)
    if factors is None:
        least = 2 * points - 1
        padded = min(one << (-(-least // one) - 1).bit_length() for one in (1, 3, 5, 7))
        factors = factors_of(padded, itemsize, most)
        assert factors is not None
        args = BluesteinArgs(points, math.pi / (4 * points), (1 << 64) // (2 * points), scale)
        return FFTConfig(io._replace(points=0), factors, most, sign, 1.0), args
    return FFTConfig(io, factors, most, sign, scale), None


@cache
def factors_of(length: int, itemsize: int, most: int) -> tuple[int, ...] | None:
    """Factors of a length for passes: as few as shared memory allows, about equal; None for primes above 7.

    Args:
        length: of the FFT.
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


def most_points(device: weft.ffi.Device, itemsize: int) -> int:
    """Points of a block: the power of two that fits shared memory with its padding."""
    size = device_info(device).shared_bytes
    return 1 << (size * 7 // 8 // (2 * itemsize)).bit_length() - 1


def transform(x: weft.Tensor, out: weft.Tensor, plan: FFTConfig, args: Numbers) -> None:
    """Launches the FFT of all rows of `x`, which may be `out` if their formats are the same."""
    if args is None:
        run_passes(x, out, plan)
    else:
        run_bluestein(x, out, plan, args._replace(scale=args.scale / plan.padded))


def run_passes(x: weft.Tensor, out: weft.Tensor, plan: FFTConfig) -> None:
    """Launches a Stockham pass for each factor."""
    rows, last, size = rows_of(x, plan.io.source), len(plan.factors) - 1, x.dtype.itemsize
    source = x
    for number in weft.static_range(last + 1):
        is_last, io = number == last, plan.io
        target = out if is_last else weft.scratch((rows, plan.padded, 2), x.dtype)
        if number:
            io = IOFormat(io.points, "pairs", io.target, (2, io.widths[1]))
        if not is_last:
            io = IOFormat(io.points, io.source, "pairs", (io.widths[0], 2))
        done, scale = math.prod(plan.factors[:number]), plan.scale if is_last else 1.0
        factor = plan.factors[number]
        one = Pass(plan.padded, io, factor, done, plan.sign, scale, size, plan.most)
        grid = rows * one.blocks if one.blocks else weft.ceil_div(rows, one.pencils_per_block)
        pass_kernel(source, target, one).launch(grid=grid, block=one.threads)
        source = target


def run_bluestein(x: weft.Tensor, out: weft.Tensor, plan: FFTConfig, args: Numbers) -> None:
    """Launches Bluestein's convolution."""
    rows, padded, size = rows_of(x, plan.io.source), plan.padded, x.dtype.itemsize
    inner = FFTConfig(IOFormat(padded), plan.factors, plan.most, -1, 1.0)
    if len(plan.factors) == 1:
        phases, table = weft.scratch((1, padded, 2), x.dtype), weft.scratch((1, padded, 2), x.dtype)
        modulate_kernel(x, phases, args, plan).launch(over=(1, padded))
        run_passes(phases, table, inner)
        one = Pass(padded, plan.io, padded, 1, -1, 1.0, size, plan.most)
        grid = weft.ceil_div(rows, one.pencils_per_block)
        bluestein_kernel(x, phases, table, out, args, plan, one).launch(
            grid=grid, block=one.threads
        )
        return
    points = weft.scratch((rows + 1, padded, 2), x.dtype)  # the last row is conj(w)
    modulate_kernel(x, points, args, plan).launch(over=(rows + 1, padded))
    run_passes(points, points, inner)
    multiply_kernel(points).launch(over=(rows, padded))
    back = FFTConfig(IOFormat(padded), plan.factors, plan.most, 1, 1.0)
    run_passes(points[:rows], points[:rows], back)
    demodulate_kernel(points, out, args, plan).launch(over=(rows, args.points))


@weft.kernel
def bluestein_kernel(
    x: weft.Tensor,
    phases: weft.Tensor,
    table: weft.Tensor,
    out: weft.Tensor,
    args: BluesteinArgs,
    plan: weft.Constexpr[FFTConfig],
    one: weft.Constexpr[Pass],
) -> None:
    """A block transforms some rows: modulation, FFT, multiplication by the table, inverse FFT, demodulation.

    Args:
        x: the rows.
        phases: conj(w), padded.
        table: its FFT.
        out: the results.
        args: run-time arguments.
        plan: of the rows.
        one: the pass of the padded length.
    """
    plan = plan.with_args(args)
    n, rows, zero = plan.io.points, rows_of(x, plan.io.source), x.dtype(0.0)
    back, last = one.inverse(), len(one.radices) - 1
    smem, block = smem_for(x.dtype, one, back), weft.i64(weft.block_idx.x) * one.pencils_per_block
    groups: Any = []
    for pencil, place in butterflies(one, 0):
        row, points = min(block + pencil, rows - 1), []
        for shift in one.points(0, 0):
            point = Complex(zero, zero)
            if 2 * shift <= one.length:  # all rows are zero beyond: 2n - 1 <= length
                at = min(place + shift, n - 1)
                value = read_point(x, row, at, plan.io)
                value = value.times(Complex(phases[0, at, 0], -phases[0, at, 1]))
                is_there = place + shift < n
                point = Complex(*(weft.where(is_there, part, zero) for part in value))
            points = [*points, point]
        groups = [*groups, points]
    results = run_stages(groups, smem, one)
    groups = []
    for number, (_, place) in enumerate(butterflies(one, last)):
        points = []
        for at, value in zip(one.results(last, place), results[number], strict=True):
            points = [*points, value.times(Complex(table[0, at, 0], table[0, at, 1]))]
        groups = [*groups, points]
    weft.sync_threads()
    results = run_stages(groups, smem, back)
    for number, (pencil, place) in enumerate(butterflies(back, last)):
        row = block + pencil
        if is_within(back, last, number) & (row < rows):
            nearest = back.results(last, 0)
            for k, (at, value) in enumerate(
                zip(back.results(last, place), results[number], strict=True)
            ):
                if 2 * nearest[k] <= one.length and at < n:
                    phase = Complex(phases[0, at, 0], -phases[0, at, 1])
                    write_point(out, row, at, scale_by(value.times(phase), plan), plan.io)


@weft.device
def scale_by(value: Number, plan: FFTConfig) -> Number:
    """A scaled result."""
    scale = value.real.dtype(plan.scale)
    return Complex(value.real * scale, value.imag * scale)


@weft.device
def phase_at(place: Int, args: Numbers, sign: Int, dtype: ElementType) -> Number:
    """w[place] = exp(sign · πi place² / n), for place < n."""
    square, period = weft.u64(place) * weft.u64(place), weft.u64(2 * args.points)
    # The quotient is ⌊place² / 2n⌋, or one less.
    rest = square - weft.math.mulhi(square, weft.u64(args.inverse)) * period
    rest = weft.i32(weft.where(rest >= period, rest - period, rest))
    return root_of_unity(rest, 2 * args.points, sign, dtype, args.step)


@weft.kernel
def modulate_kernel(
    x: weft.Tensor, points: weft.Tensor, args: BluesteinArgs, plan: weft.Constexpr[FFTConfig]
) -> None:
    """An iteration writes x[place] · w[place], or 0 in the padding; in the last row conj(w), which is even."""
    plan = plan.with_args(args)
    rows, length, n = points.shape[0] - 1, points.shape[1], plan.io.points
    for row, place in weft.each(points.shape[:2]):
        value = Complex(x.dtype(0.0), x.dtype(0.0))
        if row < rows:
            if place < n:
                value = read_point(x, row, place, plan.io)
                value = value.times(phase_at(place, args, plan.sign, x.dtype))
        else:
            distance = min(place, length - place)
            if distance < n:
                value = phase_at(distance, args, -plan.sign, x.dtype)
        points[row, place, 0], points[row, place, 1] = value


@weft.kernel
def multiply_kernel(points: weft.Tensor) -> None:
    """An iteration multiplies a point by that of the last row."""
    rows, length = points.shape[0] - 1, points.shape[1]
    for row, place in weft.each((rows, length)):
        value = Complex(points[row, place, 0], points[row, place, 1])
        value = value.times(Complex(points[rows, place, 0], points[rows, place, 1]))
        points[row, place, 0], points[row, place, 1] = value


@weft.kernel
def demodulate_kernel(
    points: weft.Tensor, out: weft.Tensor, args: BluesteinArgs, plan: weft.Constexpr[FFTConfig]
) -> None:
    """An iteration writes a result times w[place]."""
    plan = plan.with_args(args)
    for row, place in weft.each((points.shape[0] - 1, plan.io.points)):
        value = Complex(points[row, place, 0], points[row, place, 1])
        value = value.times(phase_at(place, args, plan.sign, out.dtype))
        write_point(out, row, place, scale_by(value, plan), plan.io)
