# SPDX-License-Identifier: Apache-2.0
"""FFTs of an even number of real numbers, by a complex FFT of half the length.

With z[j] = x[2j] + i x[2j + 1] and its spectrum Z = E + iO, X[k] = E[k] + exp(−πi k / points) O[k]. It is one kernel
where a row fits shared memory, else the FFT and `split_kernel`.
"""

from __future__ import annotations

import weft
from weft.kernels.annotations import Int, Numbers
from weft.kernels.device.row import elements, put_elements
from weft.kernels.fourier.bluestein import BluesteinArgs, FFTConfig, transform
from weft.kernels.fourier.butterfly import Complex, root_of_unity
from weft.kernels.fourier.io import IOFormat, rows_of, write_point
from weft.kernels.fourier.stockham import (
    Pass,
    butterflies,
    is_within,
    read,
    run_stages,
    smem_points,
)


@weft.kernel
def rfft_kernel(x: weft.Tensor, out: weft.Tensor, plan: weft.Constexpr[Pass]) -> None:
    """A block transforms some rows as `pass_kernel` does, and splits pairs k, points − k."""
    rows, last, points = rows_of(x, plan.io.source), len(plan.radices) - 1, plan.length
    smem = weft.shared((max(smem_points(plan), plan.pencils_per_block * points), 2), x.dtype)
    groups = [read(x, rows, pencil, place, plan) for pencil, place in butterflies(plan, 0)]
    results = run_stages(groups, smem, plan)
    if last:
        weft.sync_threads()
    for number, (pencil, place) in enumerate(butterflies(plan, last)):
        if is_within(plan, last, number):
            for at, value in zip(plan.results(last, place), results[number], strict=True):
                put_elements(smem[pencil * points + at], 0, value)
    weft.sync_threads()
    each_row = points // 2 + 1
    count = plan.pencils_per_block * each_row
    for k in weft.static_range(-(-count // plan.threads)):
        i = weft.thread_idx.x + k * plan.threads
        pencil, place = (0, i) if plan.pencils_per_block == 1 else (i // each_row, i % each_row)
        row = weft.i64(weft.block_idx.x) * plan.pencils_per_block + pencil
        if (i < count) & (row < rows):
            start = pencil * points
            near = Complex(*elements(smem[start + place], 0, 2))
            far = Complex(*elements(smem[start + conjugate_index(place, points)], 0, 2))
            write_split(out, row, place, near, far, plan)


@weft.kernel
def split_kernel(
    spectrum: weft.Tensor,
    out: weft.Tensor,
    args: BluesteinArgs | None,
    plan: weft.Constexpr[FFTConfig],
) -> None:
    """An iteration splits a pair k, points − k."""
    plan = plan.with_args(args)
    points = plan.io.points
    for row, place in weft.each((spectrum.shape[0], points // 2 + 1)):
        near = Complex(spectrum[row, place, 0], spectrum[row, place, 1])
        far_place = conjugate_index(place, points)
        far = Complex(spectrum[row, far_place, 0], spectrum[row, far_place, 1])
        write_split(out, row, place, near, far, plan)


@weft.device
def conjugate_index(place: Int, points: Numbers) -> Int:
    """The index of the conjugate frequency."""
    return weft.where(place == 0, 0, points - place)


@weft.device
def write_split(
    out: weft.Tensor, row: Int, place: Int, near: Complex, far: Complex, plan: Pass | FFTConfig
) -> None:
    """Stores X[k] and X[points − k] of a half spectrum, from Z[k] and Z[points − k]."""
    points, half = plan.io.points, out.dtype(plan.scale) / 2
    even = Complex((near.real + far.real) * half, (near.imag - far.imag) * half)
    odd = Complex((near.imag + far.imag) * half, (far.real - near.real) * half)
    odd = odd.times(root_of_unity(place, 2 * points, -1, out.dtype, plan.io.step))
    low, high = even.plus(odd), even.minus(odd)
    write_point(out, row, place, low, plan.io)
    write_point(out, row, points - place, Complex(high.real, -high.imag), plan.io)


def rfft_even(x: weft.Tensor, out: weft.Tensor, plan: FFTConfig, args: Numbers) -> None:
    """Launches FFTs of rows of 2 points real numbers; traced in host functions."""
    rows, size = rows_of(x, plan.io.source), x.dtype.itemsize
    points = plan.with_args(args).io.points
    if args is None and plan.factors == (points,):
        one = Pass(points, plan.io, points, 1, -1, plan.scale, size, plan.most)
        grid = weft.ceil_div(rows, one.pencils_per_block)
        rfft_kernel(x, out, one).launch(grid=grid, block=one.threads)
        return
    io = plan.io
    middle = weft.scratch((rows, points, 2), x.dtype)
    inner = IOFormat(io.points, io.source, "pairs", (io.widths[0], 2))
    unscaled = None if args is None else args._replace(scale=1.0)
    transform(x, middle, plan._replace(io=inner, scale=1.0), unscaled)
    split_kernel(middle, out, args, plan).launch(over=(rows, points // 2 + 1))
