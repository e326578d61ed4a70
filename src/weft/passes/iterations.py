# SPDX-License-Identifier: Apache-2.0
"""Copies the code of iterations: once, or of several in turn, operation by operation.

In: a `simt.each`, and where iterations begin; for arithmetic of i64 and for loops, the block and the location of what
they replace. Out: operations at the block's end. Iterations in turn are as good as one after the other, since they are
independent, and their loads are in flight at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FixedBitwidthType, i32, i64
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter
from xdsl.traits import MemoryWriteEffect, Pure

from weft.dialects.builder import Builder, constant_integer
from weft.dialects.flow import set_unroll_factor, walk
from weft.dialects.simt.memory import DimOp, LoadOp, LoadVectorOp, StoreOp, StoreVectorOp
from weft.dialects.simt.threads import BlockDimOp, BlockIdxOp, CoordinateOp, GridDimOp, ThreadIdxOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

    from weft.dialects.simt.threads import EachOp
    from weft.passes.iterations import Emitter

    Place = tuple[SSAValue, ...]


_NSW = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])


class Position(NamedTuple):
    """A block's number in the grid and how many blocks there are, and the same of a thread in its block."""

    block: SSAValue
    blocks: SSAValue
    thread: SSAValue
    threads: SSAValue


class Emitter(Builder):
    """Emits at one place of the source.

    Args:
        block: an empty one.
        place: its location.
    """

    __slots__ = ("_place",)

    def __init__(self, block: Block, place: Attribute) -> None:
        super().__init__(block)
        self._place = place

    def location_attribute(self) -> Attribute:
        """The location of the replaced operation."""
        return self._place

    def number(self, value: int) -> SSAValue:
        """A constant."""
        return self.constant(i64, value)

    def wide(self, value: SSAValue) -> SSAValue:
        """An i32 or i64 as an i64."""
        known = constant_integer(value)
        if known is not None:
            return self.number(known)
        return value if value.type == i64 else self.emit(arith.ExtSIOp(value, i64)).result

    def cast(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """An integer as an i32, which it fits, or as the i64 that it is."""
        return value if value.type == kind else self.emit(arith.TruncIOp(value, i32)).result

    def plus(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a + b, which does not overflow."""
        return self._folded(arith.AddiOp, a, b, neutral=0)

    def times(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a * b, which does not overflow."""
        return self._folded(arith.MuliOp, a, b, neutral=1)

    def _folded(
        self, kind: type[arith.AddiOp | arith.MuliOp], a: SSAValue, b: SSAValue | int, neutral: int
    ) -> SSAValue:
        left, right = constant_integer(a), b if isinstance(b, int) else constant_integer(b)
        if left is not None and right is not None:
            return self.number(left + right if kind is arith.AddiOp else left * right)
        if right == neutral or (left == 0 and kind is arith.MuliOp):
            return a
        if right == 0 and kind is arith.MuliOp:
            return self.number(0)
        if left == neutral and not isinstance(b, int):
            return b
        return self.emit(kind(a, self._operand(b), overflow=_NSW)).result

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b, which does not overflow."""
        return self.emit(arith.SubiOp(a, b, overflow=_NSW)).result

    def quotient(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a // b of numbers that are not negative."""
        return self.compute(arith.DivUIOp, a, self._operand(b))

    def rest(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a % b of numbers that are not negative."""
        return self.compute(arith.RemUIOp, a, self._operand(b))

    def least(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The smaller one."""
        return self.compute(arith.MinSIOp, a, self._operand(b))

    def most(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The larger one."""
        return self.compute(arith.MaxSIOp, a, self._operand(b))

    def bits(self, a: SSAValue, mask: int) -> SSAValue:
        """The bits of a mask."""
        return self.compute(arith.AndIOp, a, self.number(mask))

    def is_(self, predicate: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """A comparison, as an i1."""
        return self.emit(arith.CmpiOp(a, self._operand(b), predicate)).result

    def both(self, a: SSAValue | None, b: SSAValue) -> SSAValue:
        """Whether both hold, the first one if there is one."""
        return b if a is None else self.compute(arith.AndIOp, a, b)

    def choose(self, condition: SSAValue, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a if the condition holds, else b."""
        return self.emit(arith.SelectOp(condition, a, self._operand(b))).result

    def _operand(self, value: SSAValue | int) -> SSAValue:
        return self.number(value) if isinstance(value, int) else value

    @contextmanager
    def counted(
        self, first: SSAValue, last: SSAValue, unrolled: int | None = None
    ) -> Generator[SSAValue]:
        """A loop over [first, last), of their type, unrolled as said; its body is emitted in the `with`."""
        block = Block(arg_types=[first.type])
        with self.at(block):
            yield block.args[0]
            self.emit(scf.YieldOp())
        one = self.constant(first.type, 1)
        set_unroll_factor(self.emit(scf.ForOp(first, last, one, (), Region(block))), unrolled)

    @contextmanager
    def striding(
        self, first: SSAValue, reach: SSAValue | int, end: SSAValue, step: SSAValue
    ) -> Generator[tuple[SSAValue, list[SSAValue]]]:
        """A loop over first, first + step, ... while that plus `reach` is below `end`; `scf.for` would divide.

        Yields:
            The counter, and a list that holds its value after the loop, once the `with` has ended.
        """
        before, after = Block(arg_types=[i64]), Block(arg_types=[i64])
        with self.at(before):
            goes_on = self.is_("slt", self.plus(before.args[0], reach), end)
            self.emit(scf.ConditionOp(goes_on, before.args[0]))
        left: list[SSAValue] = []
        with self.at(after):
            yield after.args[0], left
            self.emit(scf.YieldOp(self.plus(after.args[0], step)))
        loop = scf.WhileOp([first], [i64], Region(before), Region(after))
        left.append(self.emit(loop).results[0])

    def position(self, is_row: bool) -> Position:
        """Position of the thread.

        Args:
            is_row: whether grid and block have only a size along x.
        """
        return Position(
            *self._linear(BlockIdxOp, GridDimOp, is_row),
            *self._linear(ThreadIdxOp, BlockDimOp, is_row),
        )

    def _linear(
        self, index: type[CoordinateOp], size: type[CoordinateOp], is_row: bool
    ) -> tuple[SSAValue, SSAValue]:
        """The number, x first, and how many there are."""
        number, count = self.number(0), self.number(1)
        for axis in "x" if is_row else "zyx":
            extent = self._coordinate(size, axis)
            number = self.plus(self.times(number, extent), self._coordinate(index, axis))
            count = self.times(count, extent)
        return number, count

    def _coordinate(self, kind: type[CoordinateOp], axis: str) -> SSAValue:
        return self.wide(self.emit(kind(axis)).result)


def reuse_loads(loop: EachOp) -> None:
    """Removes an iteration's repeated loads, in branches too, with nothing written in between.

    LLVM does not take a load in a branch from a vector loaded before.
    """
    known: dict[Place, SSAValue] = {}
    for op in list(loop.body.block.ops):
        inside = list(walk(op))
        if any(inner.has_trait(MemoryWriteEffect) for inner in inside):
            known.clear()
            continue
        for inner in inside:
            if isinstance(inner, LoadOp) and inner.volatile is None:
                value = known.get(access_key(inner))
                if value is not None:
                    Rewriter.replace_op(inner, [], [value])
                elif inner is op:
                    known[access_key(inner)] = inner.result


class Extent(NamedTuple):
    """The iterations as rows of columns.

    Attributes:
        rows: an i64, or None for one row.
        columns: of a row, an i64.
    """

    rows: SSAValue | None
    columns: SSAValue


def extent_of(emitter: Emitter, loop: EachOp) -> Extent:
    """Rows along all dimensions but the last; one row of all where every access is of whole contiguous arrays."""
    sizes = [emitter.most(emitter.wide(extent), 0) for extent in loop.extents]
    if len(sizes) == 1:
        return Extent(None, sizes[0])
    rows = sizes[0]
    for size in sizes[1:-1]:
        rows = emitter.times(rows, size)
    arrays = _flat_arrays(loop)
    if arrays is None:
        return Extent(rows, sizes[-1])
    is_flat = None
    for array in arrays:
        kind = cast("TensorType", array.type)
        for number in range(1, kind.rank):
            known, extent = kind.dims[number], loop.extents[number]
            if extent_is(extent, array, number):
                continue
            size = (
                emitter.number(known)
                if known >= 0
                else emitter.wide(emitter.emit(DimOp(array, number)).result)
            )
            is_flat = emitter.both(is_flat, emitter.is_("eq", size, sizes[number]))
    every = emitter.times(rows, sizes[-1])
    if is_flat is None:
        return Extent(None, every)
    return Extent(
        emitter.choose(is_flat, emitter.number(1), rows), emitter.choose(is_flat, every, sizes[-1])
    )


def extent_is(extent: SSAValue, array: SSAValue, number: int) -> bool:
    """Whether an extent is, as the text says, a dimension of an array."""
    owner, kind = extent.owner, cast("TensorType", array.type)
    if isinstance(owner, DimOp):
        return owner.tensor is array and owner.dimension.value.data == number
    return constant_integer(extent) == kind.dims[number]


def _flat_arrays(loop: EachOp) -> list[SSAValue] | None:
    """The arrays, if the indices serve for nothing but elements of contiguous arrays of as many dimensions."""
    block = loop.body.block
    found: dict[SSAValue, None] = {}
    indices = tuple(block.args)
    for argument in indices:
        for use in argument.uses:
            op = use.operation
            # In an inner block an index has its own type, which the number of all elements may exceed.
            if not isinstance(op, LoadOp | StoreOp) or op.parent is not block:
                return None
            if tuple(op.indices) != indices:
                return None
            if isinstance(op, StoreOp) and op.value in indices:
                return None
            kind = cast("TensorType", op.tensor.type)
            if kind.layout.data != "contiguous" or not is_outside(op.tensor, block):
                return None
            found[op.tensor] = None
    return list(found)


def is_outside(value: SSAValue, block: Block) -> bool:
    """Whether a value is made before the iterations."""
    owner = value.owner
    while owner is not None:
        if owner is block:
            return False
        owner = owner.parent
    return True


def element_bytes(op: LoadOp | StoreOp) -> int:
    """Bytes of an element that is accessed."""
    kind = cast("TensorType", op.tensor.type)
    return cast("FixedBitwidthType", kind.element_type).size


def access_key(op: LoadOp | StoreOp) -> Place:
    """Key of accesses of the same element: the array, and the indices."""
    return (op.tensor, *op.indices)


def runs_along(op: Operation, block: Block) -> bool:
    """Whether an access of global memory is at adjacent elements in adjacent iterations."""
    if not isinstance(op, LoadOp | StoreOp) or not op.indices or op.volatile is not None:
        return False
    kind = cast("TensorType", op.tensor.type)
    if kind.space.data != "global" or kind.layout.data == "strided":
        return False
    *leading, last = op.indices
    return last is block.args[-1] and all(
        index is not last and (index in block.args or is_outside(index, block))
        for index in (op.tensor, *leading)
    )


class Body:
    """Emits iterations.

    Args:
        emitter: where.
        loop: whose.
        aligned: the places of accesses whose groups are aligned as vectors; others may not be.
    """

    def __init__(self, emitter: Emitter, loop: EachOp, aligned: Collection[Place] = ()) -> None:
        self._emitter = emitter
        self._block = loop.body.block
        self._extents = loop.extents
        self._aligned = aligned

    def leading(self, row: SSAValue | None) -> list[SSAValue]:
        """The indices of a row but its column's, as i64; None is the first and only row."""
        emitter, count = self._emitter, len(self._block.args) - 1
        if row is None:
            return [emitter.number(0)] * count
        found: list[SSAValue] = []
        for extent in reversed(self._extents[1:-1]):
            size = emitter.most(emitter.wide(extent), 1)
            found.append(emitter.rest(row, size))
            row = emitter.quotient(row, size)
        return [row, *reversed(found)]

    def iterations(self, starts: Sequence[tuple[Sequence[SSAValue], SSAValue]]) -> None:
        """Iterations in turn, each with its leading indices and its column."""
        self._emit([self._group(leading, column, 1) for leading, column in starts])

    def group(self, leading: Sequence[SSAValue], column: SSAValue, width: int) -> None:
        """Iterations at adjacent columns, whose accesses are vectors."""
        self._emit([self._group(leading, column, width)])

    def _group(self, leading: Sequence[SSAValue], column: SSAValue, width: int) -> _Group:
        return _Group(self._emitter, self._block.args, [*leading, column], width)

    def _emit(self, groups: Sequence[_Group]) -> None:
        for op in self._block.ops:
            vector = groups[0].width > 1 and runs_along(op, self._block)
            needed = self._needed(op)
            shared = (
                not vector and op.has_trait(Pure) and not op.regions and self._is_shared(op, groups)
            )
            for group in groups:
                if shared and group is not groups[0]:
                    group.take(op, groups[0])
                elif vector:
                    access = cast("LoadOp | StoreOp", op)
                    group.access(access, needed, unaligned=access_key(access) not in self._aligned)
                else:
                    group.copy(op, needed, once=shared)

    def _is_shared(self, op: Operation, groups: Sequence[_Group]) -> bool:
        """Whether all iterations compute the same."""
        return all(
            is_outside(operand, self._block) or groups[0].is_shared(operand)
            for operand in op.operands
        )

    def _needed(self, op: Operation) -> list[int]:
        """Indices that an operation uses for more than the place of its own access."""
        used = [op.value] if isinstance(op, StoreOp) else []
        if not isinstance(op, LoadOp | StoreOp):
            used = [operand for inner in walk(op) for operand in inner.operands]
        return [argument.index for argument in self._block.args if argument in used]


class _Group:
    """Adjacent iterations: each value of the body in each of them."""

    def __init__(
        self,
        emitter: Emitter,
        arguments: Sequence[BlockArgument],
        indices: Sequence[SSAValue],
        width: int,
    ) -> None:
        self._emitter = emitter
        self._arguments = arguments
        self._leading = indices[:-1]
        self._columns = [emitter.plus(indices[-1], lane) for lane in range(width)]
        self._values: list[dict[SSAValue, SSAValue]] = [{} for _ in range(width)]
        self._shared: set[SSAValue] = set()

    @property
    def width(self) -> int:
        """Number of iterations."""
        return len(self._columns)

    def is_shared(self, value: SSAValue) -> bool:
        """Whether a value of the body is the same in all iterations."""
        return value in self._shared

    def take(self, op: Operation, other: _Group) -> None:
        """The results that another group has computed."""
        for values in self._values:
            for result in op.results:
                values[result] = other._values[0][result]

    def copy(self, op: Operation, needed: Sequence[int], *, once: bool) -> None:
        """The operation, which needs some of the indices, in each iteration, or once for all of them."""
        for lane, values in enumerate(self._values):
            if once and lane:
                self.take(op, self)
                return
            self.define(lane, needed)
            made = op.clone(values)
            if isinstance(op, LoadOp | StoreOp):
                wide: dict[SSAValue, SSAValue] = dict(
                    zip(self._arguments, self._indices(lane), strict=True)
                )
                first = len(op.operands) - len(op.indices)
                for number, index in enumerate(op.indices, first):
                    if index in wide:
                        made.operands[number] = wide[index]
            self._emitter.block.add_op(made)
            if once:
                self._shared.update(op.results)

    def access(self, op: LoadOp | StoreOp, needed: Sequence[int], *, unaligned: bool) -> None:
        """The operation in all iterations, as one vector."""
        wide: dict[SSAValue, SSAValue] = dict(zip(self._arguments, self._indices(0), strict=True))
        indices = [wide.get(index) or index for index in op.indices]
        if isinstance(op, LoadOp):
            made = LoadVectorOp(op.tensor, indices, self.width, op.cache, unaligned=unaligned)
            for values, element in zip(self._values, made.elements, strict=True):
                values[op.result] = element
                element.name_hint = op.result.name_hint
        else:
            for lane in range(self.width):
                self.define(lane, needed)
            elements = [values.get(op.value, op.value) for values in self._values]
            made = StoreVectorOp(elements, op.tensor, indices, op.cache)
        made.location = op.location
        self._emitter.block.add_op(made)

    def _indices(self, lane: int) -> list[SSAValue]:
        return [*self._leading, self._columns[lane]]

    def define(self, lane: int, numbers: Sequence[int]) -> None:
        """Some of an iteration's indices, in the body's own types."""
        values, indices = self._values[lane], self._indices(lane)
        for number in numbers:
            argument = self._arguments[number]
            if argument not in values:
                values[argument] = self._emitter.cast(indices[number], argument.type)
                values[argument].name_hint = argument.name_hint
