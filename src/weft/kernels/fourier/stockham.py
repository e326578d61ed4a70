# SPDX-License-Identifier: Apache-2.0
"""The passes of a Fourier transform: each transforms many short pencils of points in shared memory.

In: pairs of a real and an imaginary part, and a transform's length as factors. Out: the kernel of each pass.

A transform of f₁ f₂ … points takes a pass for each factor, and a pencil of r₁ r₂ … points a stage for each radix. Both
are Stockham's (Cochran et al., "What is the fast Fourier transform?", 1967): each combines points as far apart as
possible, once they are turned by what was done before, and writes them where the next one reads, so that nothing
reverses digits. A pass reads neighboring pencils side by side, and so writes them, except for the first one, whose
pencils lie one after the other in its result. The points of a block are in its threads' registers, and change hands
between stages through shared memory, which has them once.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, NamedTuple

from weft.api import kernel
from weft.kernels.device.row import elements, put_elements
from weft.kernels.fourier.butterfly import (
    Complex,
    radices_of,
    small_transform,
    turned,
    turned_by,
    unit,
)
from weft.kernels.fourier.io import Ends, read_point, rows_of, write_point
from weft.kernels.host.arrays import Array, Constant
from weft.language.control import static_range
from weft.language.memory.shared import shared
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.types.dtype import i64
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

_EACH: Final = 128  # bytes of a thread's points
_REGISTERS: Final = 65536  # of a block's threads
_MOST_REGISTERS: Final = 82  # of a thread, so that several blocks run at once
_OTHER_REGISTERS: Final = 30  # of a thread, that hold no points
_POINTS: Final = 2048  # that a block of rows has, about
_SEGMENT: Final = (
    128  # bytes of pencils side by side, unless their points are more than _TILE bytes
)
_BESIDE: Final = 8  # pencils side by side then
_TILE: Final = 1 << 15
SHORT_SEGMENT: Final = 64
"""The least of them, for pencils of which shared memory has too few otherwise."""
_SECTOR: Final = 32  # bytes that memory moves at least
_BANK_BYTES: Final = 128  # that shared memory moves at once


class Pass(NamedTuple):
    """One pass of a transform; constants.

    Attributes:
        length: of the transform.
        ends: how arrays have its points.
        factor: points of a pencil.
        done: the product of the factors of all passes before.
        sign: of the exponents: -1, or 1 for the inverse.
        scale: by which results are multiplied.
        itemsize: of an element, in bytes.
        most: points of a block.
        is_turned: whether the radices come in the opposite order.
    """

    length: int
    ends: Ends
    factor: int
    done: int
    sign: int
    scale: float
    itemsize: int
    most: int
    is_turned: bool = False

    @property
    def pencils(self) -> int:
        """In a transform; as far apart are the points of each."""
        return self.length // self.factor

    @property
    def radices(self) -> tuple[int, ...]:
        """Of the stages; one of radix 1 only moves points, which neighboring threads then read or write in order."""
        found = radices_of(self.factor, _EACH // (2 * self.itemsize))
        assert found is not None
        if self.pencils > 1 or self.factor == 1:
            return found
        least = _SECTOR // (2 * self.itemsize)
        before, after = (self.factor // found[end] < least for end in (0, -1))
        found = (1,) * before + found + (1,) * after
        return found[::-1] if self.is_turned else found

    @property
    def together(self) -> int:
        """Pencils of a block."""
        return shape_of(self)[0]

    @property
    def blocks(self) -> int:
        """For a transform; 0 where a block has several."""
        return 0 if self.pencils == 1 else -(-self.pencils // self.together)

    @property
    def threads(self) -> int:
        """Of a block."""
        return shape_of(self)[1]

    def turned_back(self) -> Pass:
        """The pass that undoes this one, but for a factor; its first points are where this one's last results are."""
        return self._replace(sign=-self.sign, is_turned=not self.is_turned)

    def at(self, stage: int, i: Any) -> tuple[Any, Any]:
        """The pencil and the first place of the butterfly of that number, which may be staged.

        Neighbors are in neighboring pencils where these lie side by side in memory, else within one.
        """
        radices = self.radices
        count, together = self.factor // radices[stage], self.together
        in_rows = self.pencils == 1 or (self.done == 1 and stage == len(radices) - 1)
        if together == 1:
            return 0, i
        return (i // count, i % count) if in_rows else (i % together, i // together)

    def results(self, stage: int, place: Any) -> list[Any]:
        """The places of the results of a butterfly with that first place."""
        done, radix = math.prod(self.radices[:stage]), self.radices[stage]
        before = place % done
        return [(place - before) * radix + before + k * done for k in range(radix)]

    def points(self, stage: int, place: Any) -> list[Any]:
        """The places of the points of a butterfly with that first place."""
        radix = self.radices[stage]
        return [place + k * (self.factor // radix) for k in range(radix)]

    def number(self, pencil: Any, place: Any) -> Any:
        """Where a point is among all of a block."""
        return pencil * self.factor + place if self.pencils == 1 else place * self.together + pencil


@cache
def shape_of(plan: Pass) -> tuple[int, int]:
    """The pencils and threads of a block: those with the fewest idle lanes whose registers hold the points."""
    size, factor = 2 * plan.itemsize, plan.factor
    if plan.pencils == 1:
        least = max(1, _POINTS // 2 // factor)
        end = max(1, min(2 * _POINTS, plan.most) // factor) + 1
        choices = range(least, end, max(1, least // 16))
    else:
        wanted = max(_BESIDE, min(_SEGMENT // size, _TILE // (size * factor)))
        choices = (max(1, min(wanted, plan.most // factor)),)
    found: list[tuple[float, float, int, int]] = []
    for together in choices:
        points = together * factor
        for threads in range(WARP_SIZE, MOST_THREADS + 1, WARP_SIZE):
            each = [-(-points // (radix * threads)) * radix for radix in plan.radices]
            registers = max(each) * size // 4 + _OTHER_REGISTERS
            lacking = max(0, registers - min(_REGISTERS // threads, _MOST_REGISTERS))
            cost = sum(each) * threads / (points * len(each)) + lacking / WARP_SIZE
            distance = abs(math.log2(points / _POINTS))
            found.append((round(cost, 2), round(distance, 2), threads, together))
    _, _, threads, together = min(found)
    return together, threads


@cache
def gaps_of(plan: Pass, stage: int) -> tuple[int, int]:
    """After how many places shared memory leaves out how many, an eighth at most, for the fewest waits of a stage."""
    lanes = _BANK_BYTES // (2 * plan.itemsize)
    accesses: list[list[int]] = []
    for number, places in ((stage, plan.results), (stage + 1, plan.points)):
        count = plan.together * plan.factor // plan.radices[number]
        for start in range(0, min(count, 4 * lanes), lanes):
            at = [plan.at(number, i) for i in range(start, min(start + lanes, count))]
            accesses.append([plan.number(pencil, places(number, place)[0]) for pencil, place in at])

    def waits(period: int, gap: int) -> int:
        banks = [[(one + one // period * gap) % lanes for one in access] for access in accesses]
        return sum(max(map(access.count, access)) for access in banks)

    periods = (plan.together, *(lanes << k for k in range(5)))
    choices = [(period, gap) for period in periods for gap in (0, 1, 2, 4, 8) if gap * 8 <= period]
    return min(choices, key=lambda one: (waits(*one), one[1] / one[0]))


def board_size(plan: Pass) -> int:
    """Points of a block's shared memory, with what is left out; 0 for a single stage."""
    count = plan.together * plan.factor
    gaps = [gaps_of(plan, stage) for stage in range(len(plan.radices) - 1)]
    return max((count + count // period * gap for period, gap in gaps), default=0)


@kernel
def pass_kernel(x: Array, out: Array, plan: Constant) -> None:
    """A block: some pencils. A thread: the points of one or more butterflies in each stage."""
    rows, last = rows_of(x, plan.ends.source), len(plan.radices) - 1
    points = [read(x, rows, pencil, place, plan) for pencil, place in butterflies(plan, 0)]
    results = transformed(points, board_of(x.dtype, plan), plan)
    for number, (pencil, place) in enumerate(butterflies(plan, last)):
        if is_within(plan, last, number):
            write(out, rows, pencil, plan.results(last, place), results[number], plan)


def board_of(dtype: Any, *plans: Any) -> Any:
    """Shared memory for a block's points in any of these passes; None where each is a single stage."""
    size = max(board_size(plan) for plan in plans)
    return shared((size, 2), dtype) if size else None


def transformed(groups: Any, board: Any, plan: Any) -> Any:
    """The results of the last stage's butterflies of a thread, from the points of those of the first one."""
    for stage, radix in enumerate(plan.radices):
        done = math.prod(plan.radices[:stage])
        places = [place for _, place in butterflies(plan, stage)]
        groups = [
            small_transform(turned(points, place % done, done * radix, plan.sign), plan.sign)
            for points, place in zip(groups, places, strict=True)
        ]
        if stage < len(plan.radices) - 1:
            groups = exchanged(groups, board, plan, stage)
    return groups


def exchanged(groups: Any, board: Any, plan: Any, stage: Any) -> Any:
    """The points of the next stage's butterflies of a thread, from the results of those of a stage."""
    if stage:
        sync_threads()  # all have read what is overwritten now
    for number, (pencil, place) in enumerate(butterflies(plan, stage)):
        if is_within(plan, stage, number):
            put(board, pencil, place, groups[number], plan, stage)
    sync_threads()
    return [
        taken(board, pencil, place, plan, stage + 1)
        for pencil, place in butterflies(plan, stage + 1)
    ]


def butterfly_count(plan: Any, stage: Any) -> Any:
    """The butterflies of a block in a stage."""
    return plan.together * plan.factor // plan.radices[stage]


def butterflies(plan: Any, stage: Any) -> Any:
    """The pencils and first places of this thread's butterflies; those beyond the last one are the last one's."""
    count = butterfly_count(plan, stage)
    rounds = -(-count // plan.threads)
    numbers = [thread_idx.x + k * plan.threads for k in static_range(rounds)]
    if count % plan.threads:
        numbers = [*numbers[:-1], lesser(numbers[-1], count - 1)]
    return [plan.at(stage, i) for i in numbers]


def is_within(plan: Any, stage: Any, number: Any) -> Any:
    """Whether that butterfly of this thread is one of the block's."""
    count = butterfly_count(plan, stage)
    if (number + 1) * plan.threads <= count:
        return True
    return thread_idx.x + number * plan.threads < count


def place_of(pencil: Any, plan: Any) -> Any:
    """The row and the column of a block's pencil."""
    if plan.blocks == 0:
        return i64(block_idx.x) * plan.together + pencil, 0
    return i64(block_idx.x) // plan.blocks, block_idx.x % plan.blocks * plan.together + pencil


def read(x: Any, rows: Any, pencil: Any, place: Any, plan: Any) -> Any:
    """The points of a butterfly of the first stage, turned by what passes before have done.

    Beyond the last row, or column, they are of that one.
    """
    row, column = place_of(pencil, plan)
    if plan.blocks:
        column = lesser(column, plan.pencils - 1)
    else:
        row = lesser(row, rows - 1)
    start, step, radix = (
        column + place * plan.pencils,
        plan.length // plan.radices[0],
        plan.radices[0],
    )
    turns: Any = [None for _ in range(radix)]
    if plan.ends.source == "folded":
        first = unit(start, 2 * plan.length, 1, x.dtype)
        turns = [turned_by(first, k, 2 * radix, 1) for k in range(radix)]
    points = [read_point(x, row, start + k * step, plan.ends, turn) for k, turn in enumerate(turns)]
    if plan.done == 1:
        return points
    before = column % plan.done
    first = unit(before * place, plan.done * plan.factor, plan.sign, x.dtype)
    return turned(points, before, plan.done * plan.radices[0], plan.sign, first)


def write(out: Any, rows: Any, pencil: Any, places: Any, points: Any, plan: Any) -> None:
    """Writes points of a pencil, unless it is beyond the last row or column."""
    row, column = place_of(pencil, plan)
    if (column < plan.pencils) if plan.blocks else (row < rows):
        before = column % plan.done
        for place, point in zip(places, points, strict=True):
            if plan.scale != 1:
                point = Complex(point.real * plan.scale, point.imaginary * plan.scale)
            place = (column - before) * plan.factor + before + place * plan.done
            write_point(out, row, place, point, plan.ends)


def taken(board: Any, pencil: Any, place: Any, plan: Any, stage: Any) -> Any:
    """The points of a butterfly that the stage before has left in shared memory."""
    period, gap = gaps_of(plan, stage - 1)
    points: Any = []
    for one in plan.points(stage, place):
        at = plan.number(pencil, one)
        at += at // period * gap
        points = [*points, Complex(*elements(board[at], 0, 2))]
    return points


def put(board: Any, pencil: Any, place: Any, points: Any, plan: Any, stage: Any) -> None:
    """Leaves the results of a butterfly in shared memory."""
    period, gap = gaps_of(plan, stage)
    for one, point in zip(plan.results(stage, place), points, strict=True):
        at = plan.number(pencil, one)
        put_elements(board[at + at // period * gap], 0, point)
