# SPDX-License-Identifier: Apache-2.0
"""Half the spectrum of an even number of real ones: from the transform of half as many complex numbers.

In: rows of real numbers, neighbors taken for a complex number each. Out: launches and kernels that transform and part
what is of the numbers at even places from what is of those at odd ones: in one kernel where a row fits shared memory.
"""

from __future__ import annotations

from typing import Any

from weft.api import kernel
from weft.kernels.device.row import elements, put_elements
from weft.kernels.fourier.bluestein import Sizes, transform
from weft.kernels.fourier.butterfly import Complex, unit
from weft.kernels.fourier.io import Ends, rows_of, write_point
from weft.kernels.fourier.stockham import (
    Pass,
    board_size,
    butterflies,
    is_within,
    read,
    transformed,
)
from weft.kernels.host.arrays import Array, Constant
from weft.language.control import ceil_div, static_range, where
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads
from weft.language.threads.each import each
from weft.language.threads.grid import block_idx, thread_idx
from weft.types.dtype import i64


def half_spectra(x: Any, out: Any, plan: Any, sizes: Any) -> None:
    """Launches the transforms of rows of twice as many real numbers as there are points; traced in host functions."""
    rows, size = rows_of(x, plan.ends.source), x.dtype.itemsize
    points = plan.told(sizes).ends.points
    if sizes is None and plan.factors == (points,):
        one = Pass(points, plan.ends, points, 1, -1, plan.scale, size, plan.most)
        grid = ceil_div(rows, one.together)
        half_spectrum_kernel(x, out, one).launch(grid=grid, block=one.threads)
        return
    ends = plan.ends
    middle = scratch((rows, points, 2), x.dtype)
    inner = Ends(ends.points, ends.source, "pairs", (ends.widths[0], 2))
    unscaled = None if sizes is None else sizes._replace(scale=1.0)
    transform(x, middle, plan._replace(ends=inner, scale=1.0), unscaled)
    part_kernel(middle, out, sizes, plan).launch(over=(rows, points // 2 + 1))


@kernel
def half_spectrum_kernel(x: Array, out: Array, plan: Constant) -> None:
    """A block: some rows. A thread: as in `pass_kernel`, and then pairs of places as far from both ends."""
    rows, last, points = rows_of(x, plan.ends.source), len(plan.radices) - 1, plan.length
    board = shared((max(board_size(plan), plan.together * points), 2), x.dtype)
    groups = [read(x, rows, pencil, place, plan) for pencil, place in butterflies(plan, 0)]
    results = transformed(groups, board, plan)
    if last:
        sync_threads()
    for number, (pencil, place) in enumerate(butterflies(plan, last)):
        if is_within(plan, last, number):
            for at, value in zip(plan.results(last, place), results[number], strict=True):
                put_elements(board[pencil * points + at], 0, value)
    sync_threads()
    each_row = points // 2 + 1
    count = plan.together * each_row
    for k in static_range(-(-count // plan.threads)):
        i = thread_idx.x + k * plan.threads
        pencil, place = (0, i) if plan.together == 1 else (i // each_row, i % each_row)
        row = i64(block_idx.x) * plan.together + pencil
        if (i < count) & (row < rows):
            start = pencil * points
            near = Complex(*elements(board[start + place], 0, 2))
            far = Complex(*elements(board[start + opposite(place, points)], 0, 2))
            write_parts(out, row, place, near, far, plan)


@kernel
def part_kernel(spectrum: Array, out: Array, sizes: Sizes | None, plan: Constant) -> None:
    """A round: a pair of places as far from both ends of a row."""
    plan = plan.told(sizes)
    points = plan.ends.points
    for row, place in each((spectrum.shape[0], points // 2 + 1)):
        near = Complex(spectrum[row, place, 0], spectrum[row, place, 1])
        far_place = opposite(place, points)
        far = Complex(spectrum[row, far_place, 0], spectrum[row, far_place, 1])
        write_parts(out, row, place, near, far, plan)


def opposite(place: Any, points: Any) -> Any:
    """The place of the conjugate frequency."""
    return where(place == 0, 0, points - place)


def write_parts(out: Any, row: Any, place: Any, near: Any, far: Any, plan: Any) -> None:
    """Writes two numbers of a half spectrum, `place` from its ends, from those of the complex numbers' spectrum.

    With Z[k] = E[k] + iO[k], where E and O are spectra of real numbers, X[k] = E[k] + exp(−πi k / points) O[k], and
    likewise X[points − k], with the conjugates of both.
    """
    points, half = plan.ends.points, out.dtype(plan.scale) / 2
    even = Complex((near.real + far.real) * half, (near.imaginary - far.imaginary) * half)
    odd = Complex((near.imaginary + far.imaginary) * half, (far.real - near.real) * half)
    odd = odd.times(unit(place, 2 * points, -1, out.dtype, plan.ends.step))
    low, high = even.plus(odd), even.minus(odd)
    write_point(out, row, place, low, plan.ends)
    write_point(out, row, points - place, Complex(high.real, -high.imaginary), plan.ends)
