# SPDX-License-Identifier: Apache-2.0
"""Stockham FFT passes: each transforms many short pencils of points in registers and shared memory.

In: complex points, and the radices of the length. Out: the kernel of each pass.

A transform of f₁ f₂ … points takes a pass per factor, and a pencil of r₁ r₂ … points a stage per radix. Both are
Stockham's autosort (Cochran et al., "What is the fast Fourier transform?", 1967): each combines points as far apart as
possible, after their twiddle factors, and writes them where the next one reads, so that no digits are reversed. A pass
loads adjacent pencils side by side and so stores them, except for the first one, whose pencils are contiguous in its
result. Threads hold a block's points in registers and exchange them between stages through shared memory.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Bool, ElementType, Int, Numbers
from weft.kernels.device.row import elements, put_elements
from weft.kernels.fourier.butterfly import (
    Complex,
    apply_twiddles,
    radices_of,
    root_of_unity,
    rotate,
    small_dft,
)
from weft.kernels.fourier.io import IOFormat, read_point, rows_of, write_point

_THREAD_BYTES: Final = 128  # bytes of a thread's points
_REGISTERS: Final = 65536  # of a block's threads
_MOST_REGISTERS: Final = 82  # of a thread, so that several blocks run at once
_OTHER_REGISTERS: Final = 30  # of a thread, beside its points
_POINTS: Final = 2048  # of a block of rows, about
# Bytes of adjacent pencils, unless their points are more than _TILE bytes.
_SEGMENT: Final = 128
_PENCILS: Final = 8  # adjacent pencils then
_TILE: Final = 1 << 15
SHORT_SEGMENT: Final = 64
"""The least of them, for long pencils."""
_SECTOR: Final = 32  # bytes of a memory transaction
_BANK_BYTES: Final = 128  # of shared memory's banks


class Pass(NamedTuple):
    """One pass of a transform; constants.

    Attributes:
        length: of the transform.
        io: the format of the arrays.
        factor: points of a pencil.
        done: the product of the radices of earlier passes.
        sign: of the exponent: -1, or 1 for the inverse.
        scale: of the results.
        itemsize: of an element, in bytes.
        most: points of a block.
        is_reversed: whether the radices are in reverse order.
    """

    length: int
    io: IOFormat
    factor: int
    done: int
    sign: int
    scale: float
    itemsize: int
    most: int
    is_reversed: bool = False

    @property
    def pencils(self) -> int:
        """Pencils of a transform, which is the stride of a pencil's points."""
        return self.length // self.factor

    @property
    def radices(self) -> tuple[int, ...]:
        """Radices of the stages; one of radix 1 only exchanges points, for coalesced loads or stores."""
        found = radices_of(self.factor, _THREAD_BYTES // (2 * self.itemsize))
        assert found is not None
        if self.pencils > 1 or self.factor == 1:
            return found
        least = _SECTOR // (2 * self.itemsize)
        before, after = (self.factor // found[end] < least for end in (0, -1))
        found = (1,) * before + found + (1,) * after
        return found[::-1] if self.is_reversed else found

    @property
    def pencils_per_block(self) -> int:
        """Pencils of a block."""
        return block_shape(self)[0]

    @property
    def blocks(self) -> int:
        """Blocks of a transform; 0 where a block has several transforms."""
        return 0 if self.pencils == 1 else -(-self.pencils // self.pencils_per_block)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return block_shape(self)[1]

    def inverse(self) -> Pass:
        """The inverse pass, unscaled; its first stage takes its points where this one's last stage leaves them."""
        return self._replace(sign=-self.sign, is_reversed=not self.is_reversed)

    def at(self, stage: int, i: Int) -> tuple[Any, Any]:
        """The pencil and first index of a butterfly, whose number may be staged.

        Adjacent butterflies are in adjacent pencils where these are adjacent in memory, else within one.
        """
        radices = self.radices
        count, pencils_per_block = self.factor // radices[stage], self.pencils_per_block
        in_rows = self.pencils == 1 or (self.done == 1 and stage == len(radices) - 1)
        if pencils_per_block == 1:
            return 0, i
        return (
            (i // count, i % count) if in_rows else (i % pencils_per_block, i // pencils_per_block)
        )

    def results(self, stage: int, place: Int) -> list[Any]:
        """The indices of a butterfly's results."""
        done, radix = math.prod(self.radices[:stage]), self.radices[stage]
        before = place % done
        return [(place - before) * radix + before + k * done for k in range(radix)]

    def points(self, stage: int, place: Int) -> list[Any]:
        """The indices of a butterfly's points."""
        radix = self.radices[stage]
        return [place + k * (self.factor // radix) for k in range(radix)]

    def number(self, pencil: Int, place: Int) -> Int:
        """A point's index in the block."""
        return (
            pencil * self.factor + place
            if self.pencils == 1
            else place * self.pencils_per_block + pencil
        )


@cache
def block_shape(plan: Pass) -> tuple[int, int]:
    """Pencils and threads of a block: the fewest idle lanes whose registers hold the points."""
    size, factor = 2 * plan.itemsize, plan.factor
    if plan.pencils == 1:
        least = max(1, _POINTS // 2 // factor)
        end = max(1, min(2 * _POINTS, plan.most) // factor) + 1
        choices = range(least, end, max(1, least // 16))
    else:
        wanted = max(_PENCILS, min(_SEGMENT // size, _TILE // (size * factor)))
        choices = (max(1, min(wanted, plan.most // factor)),)
    found: list[tuple[float, float, int, int]] = []
    for pencils_per_block in choices:
        points = pencils_per_block * factor
        for threads in range(weft.WARP_SIZE, weft.MAX_THREADS + 1, weft.WARP_SIZE):
            each = [-(-points // (radix * threads)) * radix for radix in plan.radices]
            registers = max(each) * size // 4 + _OTHER_REGISTERS
            lacking = max(0, registers - min(_REGISTERS // threads, _MOST_REGISTERS))
            cost = sum(each) * threads / (points * len(each)) + lacking / weft.WARP_SIZE
            distance = abs(math.log2(points / _POINTS))
            found.append((round(cost, 2), round(distance, 2), threads, pencils_per_block))
    _, _, threads, pencils_per_block = min(found)
    return pencils_per_block, threads


@cache
def smem_padding(plan: Pass, stage: int) -> tuple[int, int]:
    """Padding of shared memory, (period, gap), at most an eighth, for the fewest bank conflicts of a stage."""
    lanes = _BANK_BYTES // (2 * plan.itemsize)
    accesses: list[list[int]] = []
    for number, places in ((stage, plan.results), (stage + 1, plan.points)):
        count = plan.pencils_per_block * plan.factor // plan.radices[number]
        for start in range(0, min(count, 4 * lanes), lanes):
            at = [plan.at(number, i) for i in range(start, min(start + lanes, count))]
            accesses.append([plan.number(pencil, places(number, place)[0]) for pencil, place in at])

    def conflicts(period: int, gap: int) -> int:
        banks = [[(one + one // period * gap) % lanes for one in access] for access in accesses]
        return sum(max(map(access.count, access)) for access in banks)

    periods = (plan.pencils_per_block, *(lanes << k for k in range(5)))
    choices = [(period, gap) for period in periods for gap in (0, 1, 2, 4, 8) if gap * 8 <= period]
    return min(choices, key=lambda one: (conflicts(*one), one[1] / one[0]))


def smem_points(plan: Pass) -> int:
    """Points of a block's shared memory with padding; 0 for a single stage."""
    count = plan.pencils_per_block * plan.factor
    gaps = [smem_padding(plan, stage) for stage in range(len(plan.radices) - 1)]
    return max((count + count // period * gap for period, gap in gaps), default=0)


@weft.kernel
def pass_kernel(x: weft.Tensor, out: weft.Tensor, plan: weft.Constexpr[Pass]) -> None:
    """A block transforms some pencils, a thread one or more butterflies of each stage."""
    rows, last = rows_of(x, plan.io.source), len(plan.radices) - 1
    points = [read(x, rows, pencil, place, plan) for pencil, place in butterflies(plan, 0)]
    results = run_stages(points, smem_for(x.dtype, plan), plan)
    for number, (pencil, place) in enumerate(butterflies(plan, last)):
        if is_within(plan, last, number):
            write(out, rows, pencil, plan.results(last, place), results[number], plan)


@weft.device
def smem_for(dtype: ElementType, *plans: Pass) -> weft.Tensor | None:
    """Shared memory for the points of any of these passes; None for single stages."""
    size = max(smem_points(plan) for plan in plans)
    return weft.shared((size, 2), dtype) if size else None


@weft.device
def run_stages(groups: Numbers, smem: weft.Tensor | None, plan: Pass) -> Numbers:
    """Runs all stages of a thread's butterflies: from the first one's points to the last one's results."""
    for stage, radix in enumerate(plan.radices):
        done = math.prod(plan.radices[:stage])
        places = [place for _, place in butterflies(plan, stage)]
        groups = [
            small_dft(apply_twiddles(points, place % done, done * radix, plan.sign), plan.sign)
            for points, place in zip(groups, places, strict=True)
        ]
        if stage < len(plan.radices) - 1:
            groups = exchange(groups, smem, plan, stage)
    return groups


@weft.device
def exchange(groups: Numbers, smem: weft.Tensor, plan: Pass, stage: Int) -> Numbers:
    """Exchanges a stage's results for the points of the next stage."""
    if stage:
        weft.sync_threads()  # all have read the elements that are overwritten
    for number, (pencil, place) in enumerate(butterflies(plan, stage)):
        if is_within(plan, stage, number):
            store_smem(smem, pencil, place, groups[number], plan, stage)
    weft.sync_threads()
    return [
        load_smem(smem, pencil, place, plan, stage + 1)
        for pencil, place in butterflies(plan, stage + 1)
    ]


def butterfly_count(plan: Pass, stage: Int) -> Int:
    """The number of a block's butterflies in a stage."""
    return plan.pencils_per_block * plan.factor // plan.radices[stage]


@weft.device
def butterflies(plan: Pass, stage: Int) -> Int:
    """The pencils and first indices of this thread's butterflies, clamped to the last one."""
    count = butterfly_count(plan, stage)
    iterations = -(-count // plan.threads)
    numbers = [weft.thread_idx.x + k * plan.threads for k in weft.static_range(iterations)]
    if count % plan.threads:
        numbers = [*numbers[:-1], min(numbers[-1], count - 1)]
    return [plan.at(stage, i) for i in numbers]


@weft.device
def is_within(plan: Pass, stage: Int, number: Int) -> Bool:
    """Whether this thread's butterfly of that number exists."""
    count = butterfly_count(plan, stage)
    if (number + 1) * plan.threads <= count:
        return True
    return weft.thread_idx.x + number * plan.threads < count


@weft.device
def pencil_index(pencil: Int, plan: Pass) -> Int:
    """The row and the column of a pencil of the block."""
    if plan.blocks == 0:
        return weft.i64(weft.block_idx.x) * plan.pencils_per_block + pencil, 0
    return weft.i64(
        weft.block_idx.x
    ) // plan.blocks, weft.block_idx.x % plan.blocks * plan.pencils_per_block + pencil


@weft.device
def read(x: weft.Tensor, rows: Int, pencil: Int, place: Int, plan: Pass) -> Numbers:
    """Loads the points of a first-stage butterfly, with the twiddle factors of earlier passes; clamped to the array."""
    row, column = pencil_index(pencil, plan)
    if plan.blocks:
        column = min(column, plan.pencils - 1)
    else:
        row = min(row, rows - 1)
    start, step, radix = (
        column + place * plan.pencils,
        plan.length // plan.radices[0],
        plan.radices[0],
    )
    twiddles: Any = [None for _ in range(radix)]
    if plan.io.source == "folded":
        first = root_of_unity(start, 2 * plan.length, 1, x.dtype)
        twiddles = [rotate(first, k, 2 * radix, 1) for k in range(radix)]
    points = [
        read_point(x, row, start + k * step, plan.io, twiddle) for k, twiddle in enumerate(twiddles)
    ]
    if plan.done == 1:
        return points
    before = column % plan.done
    first = root_of_unity(before * place, plan.done * plan.factor, plan.sign, x.dtype)
    return apply_twiddles(points, before, plan.done * plan.radices[0], plan.sign, first)


@weft.device
def write(
    out: weft.Tensor, rows: Int, pencil: Int, places: Numbers, points: Numbers, plan: Pass
) -> None:
    """Stores points of a pencil, unless it is beyond the last row or column."""
    row, column = pencil_index(pencil, plan)
    if (column < plan.pencils) if plan.blocks else (row < rows):
        before = column % plan.done
        for place, point in zip(places, points, strict=True):
            if plan.scale != 1:
                point = Complex(point.real * plan.scale, point.imag * plan.scale)
            place = (column - before) * plan.factor + before + place * plan.done
            write_point(out, row, place, point, plan.io)


@weft.device
def load_smem(smem: weft.Tensor, pencil: Int, place: Int, plan: Pass, stage: Int) -> Numbers:
    """Loads a butterfly's points from shared memory."""
    period, gap = smem_padding(plan, stage - 1)
    points: Any = []
    for one in plan.points(stage, place):
        at = plan.number(pencil, one)
        at += at // period * gap
        points = [*points, Complex(*elements(smem[at], 0, 2))]
    return points


@weft.device
def store_smem(
    smem: weft.Tensor, pencil: Int, place: Int, points: Numbers, plan: Pass, stage: Int
) -> None:
    """Stores a butterfly's results in shared memory."""
    period, gap = smem_padding(plan, stage)
    for one, point in zip(plan.results(stage, place), points, strict=True):
        at = plan.number(pencil, one)
        put_elements(smem[at + at // period * gap], 0, point)
