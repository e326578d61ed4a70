# SPDX-License-Identifier: Apache-2.0
"""Maps the iterations of `weft.each` to the grid's threads, and chooses the grid of launches `over` iterations.

In: a traced module with `simt.each`. Out: loops in its place. On a CPU each thread runs adjacent iterations, a plain
loop that LLVM vectorizes. On a GPU adjacent threads run adjacent groups of iterations, whose accesses are vectors: each
group is aligned where the iterations write; what they read may lie differently. A group that a row does not fill runs
iteration by iteration. Where a body has no vectors, or writes to arrays that the run finds aligned differently, there
is a loop over iterations, several in turn, and one over the iterations that are left.

Alignment is counted in elements, modulo the width of a group: by as much as the array's first element lies after an
aligned one, each row's groups begin before the row does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.math import Math
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from weft.dialects.access import element_access
from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.atomics import AtomicRmwOp
from weft.dialects.simt.debug import AssertOp, AssumeOp
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.dialects.simt.memory import WORD_BYTES, AddressOp, LoadOp, StoreOp, StrideOp
from weft.dialects.simt.threads import EachOp
from weft.passes.iterations import (
    Body,
    Emitter,
    access_key,
    element_bytes,
    extent_of,
    reuse_loads,
    runs_along,
)
from weft.types.launch_limits import GRID, VECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.simt.types import TensorType
    from weft.passes.iterations import Extent, Place


_THREADS = 256
"""Threads of a block, on a GPU."""


def map_each(module: ModuleOp, on_host: bool = False) -> None:
    """Maps the iterations of `weft.each` to the grid's threads, and chooses the grid of launches `over` iterations.

    Args:
        module: with kernels and a host function.
        on_host: whether the kernels run on the CPU.
    """
    operations = list(module.body.block.ops)
    loops = {
        kernel.sym_name.data: (kernel, found)
        for kernel in operations
        if isinstance(kernel, KernelOp)
        and (found := [op for op in walk(kernel) if isinstance(op, EachOp)])
    }
    if not loops:
        return
    launches: dict[str, list[LaunchExOp]] = {name: [] for name in loops}
    for host in operations:
        for op in walk(host) if isinstance(host, FuncOp) else ():
            if isinstance(op, LaunchExOp) and op.kernel.string_value() in launches:
                launches[op.kernel.string_value()].append(op)
    for name, (kernel, found) in loops.items():
        for loop in found:
            reuse_loads(loop)
        plans = [Plan.of(loop) for loop in found]
        iterations = min(
            map(iterations_per_block, found) if on_host else (p.iterations for p in plans)
        )
        threads = 1 if on_host else min(_THREADS, kernel.max_threads or _THREADS)
        for launch in launches[name]:
            if launch.over is not None:
                _choose_grid(launch, launch.over, iterations, threads)
        is_row = all(map(_is_row, launches[name]))
        for loop, plan in zip(found, plans, strict=True):
            block = Block()
            emitter = Emitter(block, loop.location)
            if on_host:
                map_on_cpu(emitter, loop, is_row=is_row)
            else:
                map_on_gpu(emitter, loop, plan, is_row=is_row)
            Rewriter.inline_block(block, InsertPoint.before(loop))
            Rewriter.erase_op(loop)


def _choose_grid(launch: LaunchExOp, over: SSAValue, iterations: int, threads: int) -> None:
    """Sets the number of blocks: `iterations` for each thread of `threads`, or of the launch's own block."""
    block = Block()
    emitter = Emitter(block, launch.location)
    sizes: Sequence[SSAValue] = launch.block or [emitter.number(size) for size in (threads, 1, 1)]
    each = emitter.number(iterations)
    for size in sizes:
        each = emitter.times(each, size)
    most = emitter.least(emitter.most(over, 1), emitter.times(each, GRID[1][0]))
    blocks = emitter.quotient(emitter.plus(most, emitter.plus(each, -1)), each)
    one = emitter.number(1)
    Rewriter.inline_block(block, InsertPoint.before(launch))
    launch.set_sizes([blocks, one, one], sizes)


def _is_row(launch: LaunchExOp) -> bool:
    """Whether grid and block have only a size along x."""
    return all(constant_integer(size) == 1 for size in (*launch.grid[1:], *launch.block[1:]))


class Alignment:
    """Alignment of groups' accesses.

    Args:
        emitter: where the arithmetic is emitted.
        loop: whose accesses.
        width: iterations of a group.

    Attributes:
        width: the same.
        places: of the accesses that are aligned as vectors.
        is_possible: whether everything that is written is aligned alike in all rows, an i1; None if it must be.
        margin: columns between a group and the ends of its row at least, an i64: loads that are not aligned read whole
            words, which must lie entirely inside the row.
    """

    def __init__(self, emitter: Emitter, loop: EachOp, width: int) -> None:
        self._emitter = emitter
        self._arguments = loop.body.block.args
        block = loop.body.block
        along = [cast("LoadOp | StoreOp", op) for op in block.ops if runs_along(op, block)]
        by_place = {access_key(op): op for op in along}
        written = {access_key(op): op for op in along if isinstance(op, StoreOp)}
        self.width = width
        self.places: frozenset[Place] = frozenset(written or list(by_place)[:1])
        self._reference = next(iter((written or by_place).values()))
        others = [op for op in written.values() if op is not self._reference]
        self.is_possible = self._is_aligned(others) if others else None
        short = [
            op
            for place, op in by_place.items()
            if place not in self.places and element_bytes(op) < WORD_BYTES
        ]
        most = max((WORD_BYTES // element_bytes(op) for op in short), default=0)
        self.margin = emitter.number(0)
        if most:
            self.margin = emitter.choose(self._is_aligned(short), self.margin, emitter.number(most))

    def shift(self, leading: Sequence[SSAValue]) -> SSAValue:
        """Number of columns by which a row's first group begins before the row with these leading indices, an i64."""
        return self._emitter.bits(self._number(self._reference, leading), self.width - 1)

    def groups(self, body: Body, extent: Extent) -> SSAValue:
        """Most groups that have a part of a row, an i64."""
        emitter = self._emitter
        before = self.shift(body.leading(None))
        if extent.rows is not None:
            is_steady = self._are_multiples(self._strides(self._reference))
            before = emitter.choose(is_steady, before, emitter.number(self.width - 1))
        is_empty = emitter.is_("eq", extent.columns, 0)
        before = emitter.choose(is_empty, emitter.number(0), before)
        reach = emitter.plus(extent.columns, emitter.plus(before, self.width - 1))
        return emitter.quotient(reach, self.width)

    def _is_aligned(self, accesses: Iterable[LoadOp | StoreOp]) -> SSAValue:
        """Whether accesses lie as the groups do, in all rows."""
        emitter, reference = self._emitter, self._reference
        differences: list[SSAValue] = []
        for op in accesses:
            differences.append(emitter.minus(self._number(op), self._number(reference)))
            pairs = zip(self._strides(op), self._strides(reference), strict=True)
            differences += [emitter.minus(own, other) for own, other in pairs]
        return self._are_multiples(differences)

    def _are_multiples(self, numbers: Iterable[SSAValue]) -> SSAValue:
        """Whether numbers are multiples of the width, an i1."""
        emitter = self._emitter
        every = emitter.number(0)
        for number in numbers:
            every = emitter.compute(arith.OrIOp, every, number)
        return emitter.is_("eq", emitter.bits(every, self.width - 1), 0)

    def _number(self, op: LoadOp | StoreOp, leading: Sequence[SSAValue] | None = None) -> SSAValue:
        """Element number in memory of an access in a row's first column, or in that of the first row."""
        emitter = self._emitter
        zero = emitter.number(0)
        *others, last = self._arguments
        values: dict[SSAValue, SSAValue] = dict(
            zip(others, leading or [zero] * len(others), strict=True)
        )
        indices = [zero if index is last else values.get(index, index) for index in op.indices]
        address = emitter.emit(AddressOp(op.tensor, indices)).result
        return emitter.quotient(address, element_bytes(op))

    def _strides(self, op: LoadOp | StoreOp) -> list[SSAValue]:
        """By how many elements an access moves on along each dimension but the last."""
        emitter = self._emitter
        found: list[SSAValue] = []
        for argument in self._arguments[:-1]:
            total = emitter.number(0)
            for dimension, index in enumerate(op.indices[:-1]):
                if index is argument:
                    stride = emitter.emit(StrideOp(op.tensor, dimension)).result
                    total = emitter.plus(total, stride)
            found.append(total)
        return found


_SHORT_ITERATIONS = 4096
_LONG_ITERATIONS = 64


def iterations_per_block(loop: EachOp) -> int:
    """Iterations per block of a launch that chooses its grid, whose blocks have one thread: enough work for a block."""
    has_loops = any(isinstance(op, scf.ForOp | scf.WhileOp) for op in walk(loop.body.block))
    return _LONG_ITERATIONS if has_loops else _SHORT_ITERATIONS


def map_on_cpu(emitter: Emitter, loop: EachOp, *, is_row: bool) -> None:
    """Thread t of T runs the iterations from t * share on, `share` of them, row by row."""
    body = Body(emitter, loop)
    extent = extent_of(emitter, loop)
    at = emitter.position(is_row)
    thread = emitter.plus(emitter.times(at.block, at.threads), at.thread)
    threads = emitter.times(at.blocks, at.threads)
    rows, columns = extent
    total = columns if rows is None else emitter.times(rows, columns)
    share = emitter.quotient(emitter.plus(total, emitter.plus(threads, -1)), threads)
    first = emitter.least(emitter.times(thread, share), total)
    last = emitter.least(emitter.plus(first, share), total)
    if rows is None:
        if len(loop.extents) == 1 and loop.extents[0].type == i32:
            # The counter is the index: LLVM need not see that a wider one fits.
            first, last = (emitter.cast(end, i32) for end in (first, last))
        with emitter.counted(first, last) as column:
            body.iterations([(body.leading(None), column)])
        return
    columns = emitter.most(columns, 1)
    end = emitter.quotient(emitter.plus(last, emitter.plus(columns, -1)), columns)
    with emitter.counted(emitter.quotient(first, columns), end) as row:
        start = emitter.times(row, columns)
        begin = emitter.most(emitter.minus(first, start), 0)
        stop = emitter.least(emitter.minus(last, start), columns)
        with emitter.counted(begin, stop) as column:
            body.iterations([(body.leading(row), column)])


# Iterations in turn where nothing is a vector; more take registers from all others. Of bytes, eight are needed.
_SINGLES = 4
_SINGLES_OF_BYTES = 8
# Operations in all copies of a body, for the compiler's sake; a function of the math library counts as several.
_MOST_OPERATIONS = 1024
_INSTRUCTIONS = frozenset((math.AbsFOp, math.AbsIOp, math.CopySignOp, math.FmaOp))
_FUNCTIONS = frozenset(Math.operations) - _INSTRUCTIONS
_OF_A_FUNCTION = 16


class Plan(NamedTuple):
    """Execution of iterations by a thread.

    Attributes:
        width: iterations of a group, whose accesses are vectors; 1 for none.
        singles: iterations in turn that are in no group; 0 where all are in groups.
    """

    width: int
    singles: int

    @property
    def iterations(self) -> int:
        """Groups of a thread, in a launch that chooses its grid: more than one group is slower."""
        return max(self.width, self.singles)

    @classmethod
    def of(cls, loop: EachOp) -> Plan:
        """Vectors of 16 bytes of the widest elements, whose threads then leave no gaps; fewer for a long body."""
        body = loop.body.block
        operations = [op for op in walk(loop) if op is not loop]
        if not all(map(_may_alternate, operations)):
            return cls(1, 1)
        along = [cast("LoadOp | StoreOp", op) for op in body.ops if runs_along(op, body)]
        others = [op for op in operations if isinstance(op, LoadOp | StoreOp) and op not in along]
        width, sizes = 1, [element_bytes(op) for op in along] or [VECTOR_BYTES]
        if along and not any(op.indices and op.indices[-1] is body.args[-1] for op in others):
            width = VECTOR_BYTES // max(sizes)
        length = sum(_OF_A_FUNCTION if type(op) in _FUNCTIONS else 1 for op in operations)
        singles = _SINGLES_OF_BYTES if min(sizes) == 1 else _SINGLES
        plans = [cls(1, singles)]
        if width > 1:
            written = {access_key(op) for op in along if isinstance(op, StoreOp)}
            needed = (singles, 1) if len(written) > 1 else (0,)
            plans = [cls(width, count) for count in needed] + [cls(1, _SINGLES)]
        fitting = (plan for plan in plans if plan._copies * length <= _MOST_OPERATIONS)
        return next(fitting, cls(1, 1))

    @property
    def _copies(self) -> int:
        return (self.width + 1) * (self.width > 1) + self.singles + (self.singles > 1)


def _may_alternate(op: Operation) -> bool:
    """Whether an operation may alternate with those of other iterations, and is short; local arrays belong to one."""
    if isinstance(op, LoadOp | StoreOp):
        return op.volatile is None and cast("TensorType", op.tensor.type).space.data != "local"
    if isinstance(op, AtomicRmwOp):
        return op.order.data == "relaxed"
    access = element_access(op)
    if access is not None and access.is_atomic and not op.results:
        return access.kind == "updated"  # a reduction, which is relaxed
    return isinstance(op, scf.IfOp | scf.YieldOp | AssertOp | AssumeOp) or (
        op.has_trait(Pure) and not isinstance(op, scf.ForOp | scf.WhileOp)
    )


def map_on_gpu(emitter: Emitter, loop: EachOp, plan: Plan, *, is_row: bool) -> None:
    """Groups go to threads in turn; so do iterations, where there are no groups."""
    extent = extent_of(emitter, loop)
    at = emitter.position(is_row)
    thread = emitter.plus(emitter.times(at.block, at.threads), at.thread)
    threads = emitter.times(at.blocks, at.threads)
    if plan.width > 1:
        alignment = Alignment(emitter, loop, plan.width)
        _spread_groups(emitter, loop, extent, alignment, thread, threads)
        if alignment.is_possible is None:
            return
        columns = emitter.choose(alignment.is_possible, emitter.number(0), extent.columns)
        extent = extent._replace(columns=columns)
    _map_each(emitter, Body(emitter, loop), extent, plan.singles, thread, threads)


def _spread_groups(
    emitter: Emitter,
    loop: EachOp,
    extent: Extent,
    alignment: Alignment,
    thread: SSAValue,
    threads: SSAValue,
) -> None:
    """A thread's groups, each as vectors if the row fills it."""
    body, width = Body(emitter, loop, alignment.places), alignment.width
    rows, columns = extent
    of_a_row = alignment.groups(body, extent)
    total = of_a_row if rows is None else emitter.times(rows, of_a_row)
    if alignment.is_possible is not None:
        total = emitter.choose(alignment.is_possible, total, 0)
    with emitter.striding(thread, 0, total, threads) as (number, _):
        row, place = _split(emitter, number, rows, of_a_row)
        leading = body.leading(row)
        first = emitter.minus(emitter.times(place, width), alignment.shift(leading))
        end = emitter.plus(first, width)
        is_after = emitter.is_("sge", first, alignment.margin)
        is_before = emitter.is_("sle", emitter.plus(end, alignment.margin), columns)
        vectors, single = Block(), Block()
        with emitter.at(vectors):
            body.group(leading, first, width)
            emitter.emit(scf.YieldOp())
        with emitter.at(single):
            start, last = emitter.most(first, 0), emitter.least(end, columns)
            with emitter.counted(start, last, unrolled=1) as column:
                body.iterations([(leading, column)])
            emitter.emit(scf.YieldOp())
        is_whole = emitter.both(is_after, is_before)
        emitter.emit(scf.IfOp(is_whole, [], Region(vectors), Region(single)))


def _map_each(
    emitter: Emitter, body: Body, extent: Extent, singles: int, thread: SSAValue, threads: SSAValue
) -> None:
    """A thread's iterations, some of them in turn."""
    rows, columns = extent
    total = columns if rows is None else emitter.times(rows, columns)
    first = thread
    for count in dict.fromkeys((singles, 1)):
        reach, step = (emitter.times(threads, times) for times in (count - 1, count))
        with emitter.striding(first, reach, total, step) as (number, after):
            numbers = [emitter.plus(number, emitter.times(threads, each)) for each in range(count)]
            places = [_split(emitter, one, rows, columns) for one in numbers]
            body.iterations([(body.leading(row), column) for row, column in places])
        first = after[0]


def _split(
    emitter: Emitter, number: SSAValue, rows: SSAValue | None, columns: SSAValue
) -> tuple[SSAValue | None, SSAValue]:
    """The row and the column of a number; in the first row, which may be all there is, without a division."""
    if rows is None:
        return None, number
    first, other = Block(), Block()
    with emitter.at(first):
        emitter.emit(scf.YieldOp(emitter.number(0), number))
    with emitter.at(other):
        place = emitter.quotient(number, columns), emitter.rest(number, columns)
        emitter.emit(scf.YieldOp(*place))
    is_first = emitter.is_("slt", number, columns)
    row, column = emitter.emit(scf.IfOp(is_first, [i64, i64], Region(first), Region(other))).results
    return row, column
