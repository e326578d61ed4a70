# SPDX-License-Identifier: Apache-2.0
"""Splits addresses into what loops leave as it is, what they change, and constants, in which neighbors differ.

In: a traced module, in which `overflow<nsw>` marks the sums, differences and products that an index is written as. Out:
`simt.advance` by what stays the same in the loops around an access, then by what each loop changes, then by constants
times strides; accesses are left with the constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import (
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    LoadOp,
    StoreOp,
)
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.scalar import NO_WRAP
from weft.dialects.simt.types import TensorType
from weft.dialects.simt.views import AdvanceOp, LoadVectorOp, StoreVectorOp, ViewOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import OperationT

# What has a tensor as an operand, and then the indices of an element.
ACCESSES: Final = (
    *(LoadOp, StoreOp, LoadVectorOp, StoreVectorOp),
    *(AtomicLoadOp, AtomicStoreOp, AtomicRmwOp, AtomicCasOp, RedAddOp, ViewOp),
)
_USERS: Final = (
    *(*ACCESSES, AdvanceOp),
    *(arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ExtSIOp),
)
# Levels of terms: 0 and up for the loops around what they are computed from; then these.
_STRIDES: Final = 1 << 30
_CONSTANTS: Final = _STRIDES + 1
_LARGEST: Final = 1 << 31


class _Term(NamedTuple):
    """A part of an index: a constant times values, whose sums may only wrap in 64 bits, as addresses do."""

    level: int
    coefficient: int
    factors: tuple[SSAValue, ...]


def split_addresses(module: ModuleOp) -> None:
    """Splits those that have parts of several kinds; of two neighbors' addresses the common part is computed once."""
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            splitter = _Splitter(kernel)
            for op in list(walk(kernel)):
                if isinstance(op, ACCESSES):
                    splitter.split(op)
                elif not _is_plain(op):
                    splitter.forget()


class _Splitter:
    """Rewrites the accesses of one kernel, in text order."""

    def __init__(self, kernel: KernelOp) -> None:
        self._entry = kernel.body.block
        self._constants: dict[int, SSAValue] = {}
        self._advanced: dict[object, AdvanceOp] = {}
        self._depths: dict[Block, int] = {self._entry: 0}
        self._levels: dict[SSAValue, int] = {}

    def forget(self) -> None:
        """Steps are not shared from here on: what lives while a thread waits is kept in memory on a CPU."""
        self._advanced.clear()

    def split(self, access: Operation) -> None:
        """Rewrites one access."""
        operands = enumerate(access.operands)
        place, tensor = next(pair for pair in operands if isinstance(pair[1].type, TensorType))
        kind = cast("TensorType", tensor.type)
        if kind.panels is not None:
            return  # neighbors in a row lie in other chunks
        places = range(place + 1, place + 1 + kind.rank)
        indices = [access.operands[number] for number in places]
        terms = [self._terms(index) for index in indices]
        groups: dict[int, list[list[_Term]]] = {}
        for dimension, several in enumerate(terms):
            for term in several:
                level = term.level
                if level == _CONSTANTS and kind.static_stride(dimension) is None:
                    level = _STRIDES
                groups.setdefault(level, [[] for _ in terms])[dimension].append(term)
        if len(groups) > 1:
            *steps, last = sorted(groups)
            for level in steps:
                tensor = self._advance(access, tensor, groups[level])
            access.operands[place] = tensor
            for number, several in zip(places, groups[last], strict=True):
                access.operands[number] = self._sum(access, several)
        for index in indices:
            _release(index)

    def _advance(
        self, access: Operation, tensor: SSAValue, terms: Sequence[Sequence[_Term]]
    ) -> SSAValue:
        key = (access.parent, tensor, tuple(map(tuple, terms)))
        found = self._advanced.get(key)
        if found is None:
            indices = [self._sum(access, several) for several in terms]
            found = self._advanced[key] = _before(access, AdvanceOp(tensor, indices))
        return found.result

    def _terms(self, value: SSAValue) -> list[_Term]:
        """The terms of an index, or of a part of one."""
        constant = constant_integer(value)
        if constant is not None:
            return [_Term(_CONSTANTS, constant, ())] if constant else []
        owner = value.owner
        found: list[_Term] | None = None
        if isinstance(owner, arith.ExtSIOp):
            found = self._terms(owner.input)
        elif (total := _marked(value)) is not None:
            left, right = self._terms(total.lhs), self._terms(total.rhs)
            if isinstance(total, arith.MuliOp):
                found = _product(left, right)
            else:
                found = left + (_scaled(right, -1) if isinstance(total, arith.SubiOp) else right)
        levels = {term.level for term in found or ()}
        if found is None or (len(levels) == 1 and max(levels) < _STRIDES):
            return [_Term(self._level(value), 1, (value,))]
        return found

    def _level(self, value: SSAValue) -> int:
        """How many of the loops around a value change it."""
        found = self._levels.get(value)
        if found is None:
            owner = value.owner
            block = owner if isinstance(owner, Block) else owner.parent
            assert block is not None
            found = self._depth(block)
            if found and not isinstance(owner, Block) and _is_plain(owner):
                found = max(map(self._level, owner.operands), default=0)
            self._levels[value] = found
        return found

    def _depth(self, block: Block) -> int:
        found = self._depths.get(block)
        if found is None:
            around = block.parent_op()
            assert around is not None and around.parent is not None
            is_loop = isinstance(around, scf.ForOp | scf.WhileOp)
            found = self._depths[block] = self._depth(around.parent) + is_loop
        return found

    def _sum(self, access: Operation, terms: Sequence[_Term]) -> SSAValue:
        """An index: one value as it is, a constant, or the sum in 64 bits."""
        if len(terms) == 1 and terms[0].coefficient == 1 and len(terms[0].factors) == 1:
            return _widened(access, terms[0].factors[0], i32)
        constant = sum(term.coefficient for term in terms if not term.factors)
        parts: list[SSAValue] = []
        for term in terms:
            if term.factors:
                scale = [] if term.coefficient == 1 else [self._constant(term.coefficient)]
                wide = (_widened(access, factor, i64) for factor in term.factors)
                parts.append(_folded(access, arith.MuliOp, [*scale, *wide]))
        if constant or not parts:
            parts.append(self._constant(constant))
        return _folded(access, arith.AddiOp, parts)

    def _constant(self, value: int) -> SSAValue:
        found = self._constants.get(value)
        if found is None:
            constant = arith.ConstantOp.from_int_and_width(value, i64)
            assert self._entry.first_op is not None
            self._entry.insert_op_before(constant, self._entry.first_op)
            found = self._constants[value] = constant.result
        return found


def _scaled(terms: Sequence[_Term], factor: int) -> list[_Term]:
    return [term._replace(coefficient=factor * term.coefficient) for term in terms]


def _product(left: list[_Term], right: list[_Term]) -> list[_Term] | None:
    """The product of a sum and one term; None for two sums, and where 64 bits may not do."""
    if len(right) > 1:
        left, right = right, left
    if len(right) > 1:
        return None
    if not left or not right:
        return []
    (by,) = right
    if any(abs(term.coefficient * by.coefficient) >= _LARGEST for term in left):
        return None
    if not by.factors:
        return _scaled(left, by.coefficient)
    if len(left) == 1 and not left[0].factors:
        return _scaled(right, left[0].coefficient)
    return [
        _Term(
            max(term.level, by.level) if term.factors else _STRIDES,
            term.coefficient * by.coefficient,
            term.factors + by.factors,
        )
        for term in left
    ]


def _is_plain(operation: Operation) -> bool:
    """Whether an operation only computes its results from its operands."""
    return not operation.regions and operation.has_trait(Pure)


def _widened(access: Operation, value: SSAValue, least: IntegerType) -> SSAValue:
    bits = value.type.width.data  # pyright: ignore
    if bits >= least.width.data:
        return value
    return _before(access, arith.ExtSIOp(value, least)).result


def _folded(
    access: Operation, kind: type[arith.AddiOp | arith.MuliOp], values: Sequence[SSAValue]
) -> SSAValue:
    first, *others = values
    for value in others:
        first = _before(access, kind(first, value)).result
    return first


def _before(access: Operation, operation: OperationT) -> OperationT:
    operation.location = access.location  # pyright: ignore[reportAttributeAccessIssue]
    assert access.parent is not None
    access.parent.insert_op_before(operation, access)
    return operation


def _release(index: SSAValue) -> None:
    """Erases what computed an index and nothing else; for other uses it may wrap, such as for a check of the index."""
    waiting = [index]
    while waiting:
        value = waiting.pop()
        total = _marked(value)
        part = value.owner if total is None else total
        if part.parent is None or not (total or isinstance(part, arith.ExtSIOp)):
            continue  # erased, or no part of an index
        assert not isinstance(part, Block)
        waiting += part.operands
        if not value.first_use:
            Rewriter.erase_op(part)
        elif total and not all(isinstance(use.operation, _USERS) for use in value.uses):
            total.overflow_flags = arith.IntegerOverflowAttr("none")


def _marked(value: SSAValue) -> arith.AddiOp | arith.SubiOp | arith.MuliOp | None:
    owner = value.owner
    if isinstance(owner, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return owner if owner.overflow_flags == NO_WRAP else None
    return None
