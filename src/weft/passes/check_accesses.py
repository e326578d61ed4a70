# SPDX-License-Identifier: Apache-2.0
"""Adds checks to accesses of memory, for the sanitizer: that indices are in bounds; and events, for traces of threads.

In: a traced module. Out: `simt.check` before each access, of the indices in the exact width that addresses are computed
in, and of those of the arrays that its array is a view of; of whole tiles and fragments, the first and the last
element. Where a check does not end the launch, `skip_bad_accesses` puts each checked access in an `scf.if` of its
checks' conditions; a read that is left out gives 0. So a GPU's thread goes on to the barriers that others wait at.
Where others wait for the access itself, the check ends the launch. `trace_accesses` adds `simt.event` after accesses,
after waits for other threads and after copies begin. Only functions compiled with `--sanitize` and
`weft.testing.trace_thread` pass here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Block, BlockArgument, Region
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from weft.dialects.access import Accesses, StartsAsync, Synchronizes, accesses_of, trait_of
from weft.dialects.builder import ELEMENT_TYPE, constant_integer
from weft.dialects.flow import walk
from weft.dialects.nvgpu.mma import LoadMatrixOp
from weft.dialects.nvgpu.threads import MapSharedOp
from weft.dialects.simt.debug import AssertOp, AssumeOp, CheckOp, EventOp
from weft.dialects.simt.fragment import (
    FragmentFillOp,
    FragmentLoadOp,
    FragmentRedAddOp,
    FragmentStoreOp,
    FragmentType,
    fragment_type,
)
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import DimOp, ReinterpretOp, ReshapeOp, ViewOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.threads import CoordinateOp, ThreadIdxOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.passes.arithmetic import index_term

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.dialects.builtin import AnyFloat, ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.dialects.builder import OperationT


_IS_ALIGNED: Final = " is a multiple of "
"""In the text of an assertion about a vector's place."""
_WHOLE: Final = (LoadMatrixOp, FragmentLoadOp, FragmentStoreOp, FragmentRedAddOp)
"""Operations whose regions say what happens to an element, and which are checked as a whole."""


def is_checked(op: Operation | type[Operation]) -> bool:
    """Whether checks come before an operation, on every target."""
    declared = trait_of(op, Accesses)
    return declared is not None and bool(declared.accesses)


def is_required(op: Operation | type[Operation]) -> bool:
    """Whether others wait for an operation, or use its result, so that a failing check ends the launch."""
    declared = trait_of(op, Accesses)
    return declared is not None and declared.is_required


class _Access(NamedTuple):
    """Elements that an operation reads or writes: `length` consecutive ones from `indices` on.

    Attributes:
        name: of the array, where the text of the access does not say it.
    """

    tensor: SSAValue
    indices: Sequence[SSAValue]
    word: str
    length: int = 1
    name: str = ""


def check_accesses(module: ModuleOp) -> None:
    """Checks each access of an array with a shape, in text order; pointers have none."""
    for kernel in module.body.block.ops:
        inside: set[Operation] = set()
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            if op not in inside:
                _check(op)
            if isinstance(op, _WHOLE):
                inside.update(walk(op))


def _check(op: Operation) -> None:
    found = list(accesses_of(op))
    for access in found:
        place = _Access(access.tensor, access.indices, access.kind, access.length)
        if access.extent == "barrier" or (
            access.extent == "elements" and place.tensor != _first(op)
        ):
            place = place._replace(name=tensor_name(access.tensor))
        if access.extent in ("elements", "barrier"):
            checker = _Checker(op, place)
            for promise in _alignment(op) if access.extent == "elements" else ():
                checker.check_alignment(promise)
            checker.add_checks()
    for access in found:
        checker = _Checker(op, _Access(access.tensor, access.indices, access.kind))
        if access.extent == "tile" and isinstance(access.tensor.type, TensorType):
            checker.add_tile_checks()
        elif isinstance(op, FragmentStoreOp | FragmentRedAddOp):
            checker.add_box_checks(fragment_type(op.fragment).dims)
        elif isinstance(op, FragmentLoadOp):
            checker.add_box_checks(op.result.type.dims)


def _first(op: Operation) -> SSAValue:
    """The first array of an operation, which the text of the access names."""
    return next(value for value in op.operands if isinstance(value.type, TensorType))


def _alignment(op: Operation) -> Iterator[AssertOp]:
    """Yields the language's assertions of a vector's alignment, before it."""
    has_promise = hasattr(op, "elements") and trait_of(op, StartsAsync) is None
    before = op.prev_op if has_promise else None
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
        is_sum = index_term(value) is not None
        self.narrow = value if value.type == i32 and not is_sum else None
        self.wide = checker.exact(value)


class _Checker:
    """Adds the checks of one access, before its operation."""

    def __init__(self, op: Operation, access: _Access) -> None:
        self._op = op
        self._access = access
        self._is_empty: SSAValue | None = None

    def add_checks(self) -> None:
        """Bounds of the array, and of the underlying one of a view."""
        tensor, indices, _, count, name = self._access
        if cast("TensorType", tensor.type).is_pointer:
            return
        found = [_Index(self, index) for index in indices]
        # Words of packed elements are checked as the elements that they are.
        if isinstance(words := tensor.owner, ReinterpretOp) and words.bits[0] < words.bits[1]:
            tensor, count = words.source, count * (words.bits[1] // words.bits[0])
            found[-1] = self._source_index(words, found[-1])
            name = tensor_name(tensor)
        self._check_bounds(tensor, found, range(len(found)), count, name)
        self._check_views(tensor, found)

    def add_tile_checks(self) -> None:
        """Bounds of a whole tile in the underlying array: of its first element and of its last, unless it has none."""
        tile = self._access.tensor
        kind = cast("TensorType", tile.type)
        if not isinstance(tile.owner, ViewOp) or 0 in kind.dims:
            return
        zero = self._constant(0)
        sizes = [self._size(tile, number, i64) for number in range(kind.rank)]
        for size, dim in zip(sizes, kind.dims, strict=True):
            if dim == DYNAMIC:
                self._has_none_if(self._add(arith.CmpiOp(size, zero, "sle")).result)
        self._check_corners([zero] * kind.rank, sizes)

    def add_box_checks(self, shape: Sequence[int]) -> None:
        """The same of the part of a tile that a fragment of this shape covers."""
        tile, indices, *_ = self._access
        if not isinstance(tile.owner, ViewOp):
            return
        zero = self._constant(0)
        firsts: list[SSAValue] = []
        ends: list[SSAValue] = []
        for number, (index, extent) in enumerate(zip(indices, shape, strict=True)):
            start = self.exact(index)
            end = self._add(arith.AddiOp(start, self._constant(extent))).result
            firsts.append(self._add(arith.MaxSIOp(start, zero)).result)
            ends.append(self._add(arith.MinSIOp(end, self._size(tile, number, i64))).result)
            self._has_none_if(self._add(arith.CmpiOp(ends[-1], firsts[-1], "sle")).result)
        self._check_corners(firsts, ends)

    def _has_none_if(self, empty: SSAValue) -> None:
        either = self._is_empty and self._add(arith.OrIOp(self._is_empty, empty)).result
        self._is_empty = either or empty

    def _check_corners(self, firsts: Sequence[SSAValue], ends: Sequence[SSAValue]) -> None:
        tile = self._access.tensor
        self._check_views(tile, [_Index(self, first) for first in firsts])
        if any(dim != 1 for dim in cast("TensorType", tile.type).dims):
            one = self._constant(1)
            lasts = [self._add(arith.SubiOp(end, one)).result for end in ends]
            self._check_views(tile, [_Index(self, last) for last in lasts])

    def check_alignment(self, promise: AssertOp) -> None:
        """A check in place of an assertion."""
        tensor, indices, _, count, _ = self._access
        rank = cast("TensorType", tensor.type).rank
        values = [_Index(self, index).wide for index in indices]
        values += [self._size(tensor, number, i64) for number in range(rank)]
        self._add_check(promise.condition, "misaligned", "", count, values)
        promise.detach()
        promise.erase()

    def _check_views(self, tensor: SSAValue, indices: list[_Index]) -> None:
        """The element's indices in each array that this one is a view of, where the view's own do not bound them."""
        while isinstance(view := tensor.owner, ViewOp | MapSharedOp | ReinterpretOp | ReshapeOp):
            if isinstance(view, ReshapeOp):
                # The elements before it are as many in both.
                indices = self._unfolded(view.source, self._folded(tensor, indices))
                tensor = view.source
                continue
            if isinstance(view, MapSharedOp):
                tensor = view.tensor
                continue
            if isinstance(view, ReinterpretOp):
                last = self._source_index(view, indices[-1])
                tensor, indices = view.source, [*indices[:-1], last]
                continue
            starts = [_Index(self, start) for start in view.starts]
            open_ends = set(range(len(starts)))
            for number, (dimension, step) in enumerate(view.dimensions):
                if _lies_inside(view, number):
                    open_ends.discard(dimension)
                starts[dimension] = self._moved(starts[dimension], indices[number], step)
            tensor, indices = view.source, starts
            self._check_bounds(tensor, indices, sorted(open_ends), 1, tensor_name(tensor))

    def _folded(self, tensor: SSAValue, indices: Sequence[_Index]) -> SSAValue:
        """The number of elements of a contiguous tensor before one, an i64."""
        found = self._constant(0)
        for number, index in enumerate(indices):
            size = self._size(tensor, number, i64)
            found = self._add(arith.MuliOp(found, size)).result
            found = self._add(arith.AddiOp(found, index.wide)).result
        return found

    def _unfolded(self, tensor: SSAValue, before: SSAValue) -> list[_Index]:
        """The indices of the element of a contiguous tensor at that flat position; those beyond it are in the first."""
        found: list[_Index] = []
        for number in reversed(range(cast("TensorType", tensor.type).rank)):
            if number == 0:
                found.append(_Index(self, before))
                break
            size = self._size(tensor, number, i64)
            found.append(_Index(self, self._add(FloorModOp(before, size)).result))
            before = self._add(FloorDivOp(before, size)).result
        return found[::-1]

    def _moved(self, start: _Index, index: _Index, step: int) -> _Index:
        by = index.wide
        if step != 1:
            by = self._add(arith.MuliOp(by, self._constant(step))).result
        return _Index(self, self._add(arith.AddiOp(start.wide, by)).result)

    def _source_index(self, words: ReinterpretOp, index: _Index) -> _Index:
        """The first of the source's elements in one of the result."""
        before, after = words.bits
        shared = math.gcd(before, after)
        if after > shared:
            index = self._scaled(index, after // shared)
        return self._divided(index, before // shared) if before > shared else index

    def _scaled(self, index: _Index, by: int) -> _Index:
        return _Index(self, self._add(arith.MuliOp(index.wide, self._constant(by))).result)

    def _divided(self, index: _Index, by: int) -> _Index:
        if by & (by - 1):
            return _Index(self, self._add(FloorDivOp(index.wide, self._constant(by))).result)
        shift = self._constant(by.bit_length() - 1)
        return _Index(self, self._add(arith.ShRSIOp(index.wide, shift)).result)

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
        # is the same for all the loop's iterations if only the last index changes.
        unknown.sort(key=lambda number: _varies(indices[number].wide))
        condition: SSAValue | None = None
        for number in unknown:
            reach = self._reach(kind, number, count)
            condition = self._is_below(tensor, number, indices[number], reach, condition)
        if condition is None:
            return
        if self._is_empty is not None:
            condition = self._add(arith.OrIOp(condition, self._is_empty)).result
        values = [index.wide for index in indices]
        values += [self._size(tensor, number, i64) for number in range(kind.rank)]
        self._add_check(condition, "out_of_bounds", name, count, values)

    def _add_check(
        self, condition: SSAValue, kind: str, name: str, count: int, values: Sequence[SSAValue]
    ) -> None:
        ends = is_required(self._op)
        self._add(CheckOp(condition, kind, name, self._access.word, count, values, ends=ends))

    def _reach(self, kind: TensorType, number: int, count: int) -> int:
        """Number of elements of a dimension that an access needs from its index on."""
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
        total = index_term(value)
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


def _lies_inside(view: ViewOp, number: int) -> bool:
    """Whether a dimension of a view is in its source's for certain."""
    dimension, step = view.dimensions[number]
    start = constant_integer(view.starts[dimension])
    if start is None or start < 0 or step < 0:
        return False
    size = view.result_type.dims[number]
    if size == DYNAMIC:
        return True  # a slice is clipped to the end
    whole = cast("TensorType", view.source.type).dims[dimension]
    return whole != DYNAMIC and start + (size - 1) * step < whole


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
    """Whether an index is known at compile time to be in its dimension."""
    size, known = kind.dims[number], constant_integer(index.wide)
    return size != DYNAMIC and known is not None and 0 <= known <= size - reach


def _varies(value: SSAValue) -> bool:
    """Whether a value may differ between adjacent threads along x, or iterations of a loop."""
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


def skip_bad_accesses(module: ModuleOp) -> None:
    """Puts each access under its checks, which stand before it, and has assumptions checked."""
    for kernel in module.body.block.ops:
        conditions: list[SSAValue] = []
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            if isinstance(op, AssumeOp):
                op.properties["checked"] = UnitAttr()
            elif isinstance(op, CheckOp):
                if op.ends is None:
                    conditions.append(op.condition)
            elif conditions and is_checked(op):
                _put_under(op, conditions)
                conditions = []


def _put_under(access: Operation, conditions: list[SSAValue]) -> None:
    """Makes an access depend on all of the conditions."""
    block = access.parent
    assert block is not None
    added: list[Operation] = []
    condition = conditions[0]
    for other in conditions[1:]:
        added.append(arith.AndIOp(condition, other))
        condition = added[-1].results[0]
    otherwise = Block()
    zeros = [_zero(otherwise, result.type) for result in access.results]
    otherwise.add_op(scf.YieldOp(*zeros))
    body = Block()
    kinds = [result.type for result in access.results]
    choice = scf.IfOp(condition, kinds, Region(body), Region(otherwise) if kinds else None)
    for op in (*added, choice):
        op.location = access.location  # pyright: ignore[reportAttributeAccessIssue]
        block.insert_op_before(op, access)
    for result, chosen in zip(access.results, choice.results, strict=True):
        chosen.name_hint = result.name_hint
        result.replace_all_uses_with(chosen)
    access.detach()
    body.add_ops([access, scf.YieldOp(*access.results)])


def _zero(block: Block, kind: Attribute) -> SSAValue:
    """Adds the operations of a zero."""
    if isinstance(kind, FragmentType):
        made: Operation = FragmentFillOp(_zero(block, kind.element_type), kind)
    elif isinstance(kind, IntegerType):
        made = arith.ConstantOp(IntegerAttr(0, cast("IntegerType", kind)))
    else:
        made = arith.ConstantOp(FloatAttr(0.0, cast("AnyFloat", kind)))
    block.add_op(made)
    return made.results[0]


def trace_accesses(module: ModuleOp) -> None:
    """Adds the events of memory and of waiting to each kernel."""
    for kernel in module.body.block.ops:
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            started = trait_of(op, StartsAsync)
            if trait_of(op, Synchronizes) is not None:
                _after(op, EventOp("barrier", "", "", [], []))
            elif started is None:
                _trace_accesses(op)
            elif started.completion != "mma":
                _after(op, EventOp("copy", "", "", [], []))


def _trace_accesses(op: Operation) -> None:
    for access in accesses_of(op):
        if access.extent == "elements":
            # A reduction returns nothing of what was there.
            event = "added" if access.kind == "updated" and not op.results else access.kind
            indices, values = access.indices, access.elements
            widths = [f"index{_width(index)}" for index in indices]
            types = [*widths, *[_type_name(op, value) for value in values]]
            _after(op, EventOp(event, _name(access.tensor), "", types, [*indices, *values]))


def _name(tensor: SSAValue) -> str:
    """An array's name; of a view, whose part it is."""
    if not isinstance(tensor.owner, ViewOp):
        return tensor_name(tensor)
    while isinstance(view := tensor.owner, ViewOp):
        tensor = view.source
    return f"part of {tensor_name(tensor)}"


def _type_name(op: Operation, value: SSAValue) -> str:
    """The type of an element; without a sign where nothing says which."""
    known = op.attributes.get(ELEMENT_TYPE)
    if isinstance(known, StringAttr):
        return known.data
    if isinstance(value.type, IntegerType):
        return f"i{_width(value)}"
    return str(value.type).lower().removesuffix("fn")


def _width(value: SSAValue) -> int:
    return cast("IntegerType", value.type).width.data


def _after(op: Operation, event: EventOp) -> None:
    event.location = op.location  # pyright: ignore[reportAttributeAccessIssue]
    Rewriter.insert_op(event, InsertPoint.after(op))
