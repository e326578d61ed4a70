# SPDX-License-Identifier: Apache-2.0
"""Adds checks to accesses of memory, for the sanitizer: that indices are in bounds.

In: a traced module. Out: `simt.check` before each access, of the indices in the exact width that addresses are computed
in, and of those of the arrays that its array is a view of. Only functions compiled with `--sanitize` pass here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, i32, i64
from xdsl.ir import Block, BlockArgument
from xdsl.traits import Pure

from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.nvgpu.cp_async import CpAsyncCopyOp
from weft.dialects.simt.check import CheckOp
from weft.dialects.simt.debug import AssertOp
from weft.dialects.simt.grid import CoordinateOp, ThreadIdxOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import (
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    DimOp,
    LoadOp,
    StoreOp,
)
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.scalar import NO_WRAP
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.dialects.simt.views import LoadVectorOp, StoreVectorOp, ViewOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import OperationT

_IS_ALIGNED: Final = " is a multiple of "
"""In the text of an assertion about a vector's place."""
_WORDS: Final[dict[type[Operation], str]] = {
    LoadOp: "read",
    StoreOp: "written",
    LoadVectorOp: "read",
    StoreVectorOp: "written",
    AtomicLoadOp: "read",
    AtomicStoreOp: "written",
    AtomicRmwOp: "updated",
    AtomicCasOp: "updated",
    RedAddOp: "updated",
}


class _Access(NamedTuple):
    """Elements that an operation reads or writes: `length` neighbors from `indices` on."""

    tensor: SSAValue
    indices: Sequence[SSAValue]
    word: str
    length: int = 1


def check_accesses(module: ModuleOp) -> None:
    """Checks each access of an array with a shape, in text order; pointers have none."""
    for kernel in module.body.block.ops:
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            for access in _accesses(op):
                checker = _Checker(op, access)
                for promise in _alignment(op):
                    checker.check_alignment(promise)
                checker.add_checks()


def is_checked(op: Operation) -> bool:
    """Whether an operation is an access that may have checks before it."""
    return type(op) in _WORDS or isinstance(op, CpAsyncCopyOp)


def _accesses(op: Operation) -> Iterator[_Access]:
    if isinstance(op, CpAsyncCopyOp):
        count = op.count.value.data
        yield _Access(op.tensor, list(op.indices), "written", count)
        if op.condition is None:
            yield _Access(op.source, list(op.source_indices), "read", count)
        return
    word = _WORDS.get(type(op))
    if word is None:
        return
    place = next(n for n, value in enumerate(op.operands) if isinstance(value.type, TensorType))
    tensor = op.operands[place]
    indices = op.operands[place + 1 : place + 1 + cast("TensorType", tensor.type).rank]
    is_vector = isinstance(op, LoadVectorOp | StoreVectorOp | RedAddOp)
    yield _Access(tensor, indices, word, len(op.elements) if is_vector else 1)


def _alignment(op: Operation) -> Iterator[AssertOp]:
    """What the language asserts of a vector's place, before it."""
    before = op.prev_op if isinstance(op, LoadVectorOp | StoreVectorOp | RedAddOp) else None
    while before is not None and before.location == op.location:
        following, before = before, before.prev_op
        if isinstance(following, AssertOp) and _IS_ALIGNED in following.text.data:
            yield following


class _Index:
    """An index, and the sums it is written as; these must not wrap, so that its value is that in 64 bits.

    Attributes:
        narrow: the same as an i32, if it is one that nothing was added to.
    """

    def __init__(self, checker: _Checker, value: SSAValue) -> None:
        is_sum = _sum(value) is not None
        self.narrow = value if value.type == i32 and not is_sum else None
        self.wide = checker.exact(value)


class _Checker:
    """Adds the checks of one access, before its operation."""

    def __init__(self, op: Operation, access: _Access) -> None:
        self._op = op
        self._access = access

    def add_checks(self) -> None:
        """Bounds of the array, and of what it is a view of."""
        tensor, indices, _, count = self._access
        if cast("TensorType", tensor.type).is_pointer:
            return
        found = [_Index(self, index) for index in indices]
        self._check_bounds(tensor, found, range(len(found)), count, "")
        self._check_views(tensor, found)

    def check_alignment(self, promise: AssertOp) -> None:
        """A check in place of an assertion."""
        tensor, indices, word, count = self._access
        rank = cast("TensorType", tensor.type).rank
        values = [_Index(self, index).wide for index in indices]
        values += [self._size(tensor, number, i64) for number in range(rank)]
        self._add(CheckOp(promise.condition, "misaligned", "", word, count, values))
        promise.detach()
        promise.erase()

    def _check_views(self, tensor: SSAValue, indices: list[_Index]) -> None:
        """The element's indices in each array that this one is a view of, where the view's own do not bound them."""
        while isinstance(view := tensor.owner, ViewOp):
            starts = [_Index(self, start) for start in view.starts]
            open_ends = set(range(len(starts)))
            for index, (dimension, step) in zip(indices, view.dimensions, strict=True):
                start = constant_integer(view.starts[dimension])
                if start is not None and start >= 0 and step > 0:
                    open_ends.discard(dimension)  # slices are clipped to the end
                starts[dimension] = self._moved(starts[dimension], index, step)
            tensor, indices = view.source, starts
            self._check_bounds(tensor, indices, sorted(open_ends), 1, tensor_name(tensor))

    def _moved(self, start: _Index, index: _Index, step: int) -> _Index:
        by = index.wide
        if step != 1:
            by = self._add(arith.MuliOp(by, self._constant(step))).result
        return _Index(self, self._add(arith.AddiOp(start.wide, by)).result)

    def _check_bounds(
        self,
        tensor: SSAValue,
        indices: Sequence[_Index],
        dimensions: Sequence[int],
        count: int,
        name: str,
    ) -> None:
        kind = cast("TensorType", tensor.type)
        if kind.is_pointer:
            return
        unknown = [
            number
            for number in dimensions
            if not _is_known(kind, number, indices[number], self._reach(kind, number, count))
        ]
        # One comparison ends a loop that LLVM vectorizes: its bound is 0 where another index is out of bounds, which
        # is the same for all the loop's rounds if only the last index changes.
        unknown.sort(key=lambda number: _varies(indices[number].wide))
        condition: SSAValue | None = None
        for number in unknown:
            reach = self._reach(kind, number, count)
            condition = self._is_below(tensor, number, indices[number], reach, condition)
        if condition is None:
            return
        values = [index.wide for index in indices]
        values += [self._size(tensor, number, i64) for number in range(kind.rank)]
        word = self._access.word
        self._add(CheckOp(condition, "out_of_bounds", name, word, count, values))

    def _reach(self, kind: TensorType, number: int, count: int) -> int:
        """How many elements of a dimension an access needs from its index on."""
        return count if number == kind.rank - 1 else 1

    def _is_below(
        self, tensor: SSAValue, number: int, index: _Index, reach: int, condition: SSAValue | None
    ) -> SSAValue:
        """Whether a condition holds, if any, and an index is in its dimension.

        Compared unsigned, so that negative ones are beyond it.
        """
        kind = cast("TensorType", tensor.type)
        size = kind.dims[number]
        is_short = size < 1 << 31 and (size != DYNAMIC or kind.dim_bits.data == 32)
        value, width = (index.narrow, i32) if index.narrow and is_short else (index.wide, i64)
        bound = self._size(tensor, number, width)
        if reach > 1:
            begins = self._add(arith.SubiOp(bound, self._constant(reach - 1, width))).result
            bound = self._add(arith.MaxSIOp(begins, self._constant(0, width))).result
        if condition is not None:
            # The least of the size and a mask: a choice by the condition would be taken apart by LLVM again.
            mask = self._add(arith.ExtSIOp(condition, width)).result
            bound = self._add(arith.MinUIOp(bound, mask)).result
        return self._add(arith.CmpiOp(value, bound, "ult")).result

    def _size(self, tensor: SSAValue, number: int, width: IntegerType) -> SSAValue:
        kind = cast("TensorType", tensor.type)
        if kind.dims[number] != DYNAMIC:
            return self._constant(kind.dims[number], width)
        size = self._add(DimOp(tensor, number)).result
        return size if size.type == width else self._add(arith.ExtSIOp(size, width)).result

    def exact(self, value: SSAValue) -> SSAValue:
        """An index in 64 bits, in which its sums do not wrap."""
        total = _sum(value)
        if total is not None:
            left, right = self.exact(total.lhs), self.exact(total.rhs)
            return self._add(type(total)(left, right)).result
        known = constant_integer(value)
        if known is not None:
            return self._constant(known)
        if isinstance(value.owner, arith.ExtSIOp) and value.type == i64:
            return self.exact(value.owner.input)
        return value if value.type == i64 else self._add(arith.ExtSIOp(value, i64)).result

    def _constant(self, value: int, kind: IntegerType = i64) -> SSAValue:
        return self._add(arith.ConstantOp.from_int_and_width(value, kind)).result

    def _add(self, operation: OperationT) -> OperationT:
        operation.location = self._op.location  # pyright: ignore[reportAttributeAccessIssue]
        assert self._op.parent is not None
        self._op.parent.insert_op_before(operation, self._op)
        return operation


def tensor_name(tensor: SSAValue) -> str:
    """An array's name: that of the argument, or of the variable."""
    found: object = None
    if isinstance(tensor, BlockArgument) and isinstance(
        kernel := tensor.owner.parent_op(), KernelOp
    ):
        attributes = kernel.arg_attrs
        found = attributes and attributes.data[tensor.index].data.get("weft.name")
    return found.data if isinstance(found, StringAttr) else tensor.name_hint or "the array"


def _is_known(kind: TensorType, number: int, index: _Index, reach: int) -> bool:
    """Whether an index is in its dimension by what is known at compile time."""
    size, known = kind.dims[number], constant_integer(index.wide)
    return size != DYNAMIC and known is not None and 0 <= known <= size - reach


def _varies(value: SSAValue) -> bool:
    """Whether a value may differ between neighbors along x, or rounds of a loop."""
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Block):
            if not isinstance(owner.parent_op(), KernelOp):
                return True
        elif isinstance(owner, ThreadIdxOp):
            if owner.dimension.data == "x":
                return True
        elif owner.regions or not owner.has_trait(Pure):
            return not isinstance(owner, CoordinateOp)
        else:
            waiting += [operand for operand in owner.operands if operand not in seen]
            seen.update(owner.operands)
    return False


def _sum(value: SSAValue) -> arith.AddiOp | arith.SubiOp | arith.MuliOp | None:
    """The sum, difference or product that an index is written as."""
    owner = value.owner
    if isinstance(owner, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return owner if owner.overflow_flags == NO_WRAP else None
    return None
