# SPDX-License-Identifier: Apache-2.0
"""Rewrites arithmetic by its marks: multiply-adds are rounded once, and addresses become sums of parts.

In: a traced module, in which `fastmath<contract>` marks the multiplications that are operands of `+` or `-` in the
program's text, and `overflow<nsw>` the sums, differences and products that an index is written as. Out: `math.fma` in
place of
the former, for f32 and f64, and no mark: no backend fuses anything by itself. For the latter `simt.advance` by what
stays the same in the loops around an access, then by what each loop changes, then by constants times strides, in which
adjacent accesses differ; accesses are left with the constants. On a GPU, steps that several branches need are taken
before these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import Float32Type, Float64Type, i32, i64
from xdsl.ir import Block
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from weft.dialects.access import element_access
from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import AdvanceOp, ViewOp
from weft.dialects.simt.scalar import CONTRACT, NO_WRAP
from weft.dialects.simt.types import TensorType, packed_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import OperationT


def fuse_multiply_adds(module: ModuleOp, by_default: bool = True) -> None:
    """Fuses a multiplication with the addition or subtraction that it is an operand of, on every target alike.

    Fuses the left operand where both are multiplications.

    Args:
        module: with kernels and a host function.
        by_default: whether it is done in functions that say nothing; kernels may, see `KernelOp.fp_contract`.
    """
    for function in module.body.block.ops:
        own = function.fp_contract if isinstance(function, KernelOp) else None
        if by_default if own is None else own:
            for op in list(walk(function)):
                if isinstance(op, arith.AddfOp | arith.SubfOp):
                    _fuse(op)
        for op in walk(function):
            if isinstance(op, arith.MulfOp):
                op.fastmath = arith.FastMathFlagsAttr("none")


def _fuse(total: arith.AddfOp | arith.SubfOp) -> None:
    """``a * b + c``, ``c + a * b``, ``a * b - c`` as ``a * b + -c``, and ``c - a * b`` as ``-a * b + c``."""
    left, right = total.lhs, total.rhs
    difference = isinstance(total, arith.SubfOp)
    if (multiply := _marked_multiply(left, total)) is not None:
        a, b, c = multiply.lhs, multiply.rhs, _negated(right, total) if difference else right
    elif (multiply := _marked_multiply(right, total)) is not None:
        a, b, c = _negated(multiply.lhs, total) if difference else multiply.lhs, multiply.rhs, left
    else:
        return
    fused = math.FmaOp(a, b, c)
    fused.location = total.location
    fused.result.name_hint = total.result.name_hint
    Rewriter.replace_op(total, fused)
    Rewriter.erase_op(multiply)


def _marked_multiply(value: SSAValue, total: Operation) -> arith.MulfOp | None:
    """The marked multiplication that makes a value, if the sum is its only use."""
    multiply = value.owner
    if not isinstance(multiply, arith.MulfOp) or multiply.fastmath != CONTRACT:
        return None
    alone = value.has_one_use() and multiply.parent is total.parent
    return multiply if alone and isinstance(value.type, Float32Type | Float64Type) else None


def _negated(value: SSAValue, before: Operation) -> SSAValue:
    negation = arith.NegfOp(value)
    negation.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(negation, before)
    return negation.result


_ARITHMETIC: Final = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ExtSIOp)
_USERS: Final = (AdvanceOp, *_ARITHMETIC)
# Levels of terms: 0 and up for the loops around what they are computed from; then these.
_STRIDES: Final = 1 << 30
_CONSTANTS: Final = _STRIDES + 1
_LARGEST: Final = 1 << 31


def has_address(op: Operation) -> bool:
    """Whether an operation has a tensor as an operand, and then the indices of an element."""
    return isinstance(op, ViewOp) or element_access(op) is not None


def _is_user(op: Operation) -> bool:
    return isinstance(op, _USERS) or has_address(op)


class _Term(NamedTuple):
    """A part of an index: a constant times values, whose sums may only wrap in 64 bits, as addresses do."""

    level: int
    coefficient: int
    variables: tuple[SSAValue, ...]


def split_addresses(module: ModuleOp, on_host: bool = False) -> None:
    """Splits addresses into loop-invariant terms, terms that loops change, and constants.

    Only those that have parts of several kinds; adjacent addresses share their common part.

    Args:
        module: with kernels and a host function.
        on_host: whether the kernels run on the CPU, where addresses in different branches share nothing.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            _Splitter(kernel, shares=not on_host).run()


class _Step(NamedTuple):
    """Terms of an address, by index.

    Attributes:
        terms: the same.
        key: equal for equal steps of equal addresses.
    """

    terms: list[list[_Term]]
    key: object


class _Split(NamedTuple):
    """An access, its tensor's operand index, the advance of its address, and the rest of it."""

    access: Operation
    place: int
    steps: list[_Step]
    rest: list[list[_Term]]


class _Splitter:
    """Rewrites the accesses of one kernel, in text order.

    Args:
        kernel: the same.
        shares: whether a step that several branches need is taken before them.
    """

    def __init__(self, kernel: KernelOp, *, shares: bool) -> None:
        self._kernel = kernel
        self._entry = kernel.body.block
        self._shares = shares
        self._constants: dict[int, SSAValue] = {}
        self._advanced: dict[object, AdvanceOp] = {}
        self._depths: dict[Block, int] = {self._entry: 0}
        self._levels: dict[SSAValue, int] = {}
        self._likes: dict[object, SSAValue] = {}
        self._firsts: dict[SSAValue, SSAValue] = {}
        self._sources: dict[SSAValue, frozenset[SSAValue]] = {}
        self._homes: dict[object, Block] = {}

    def run(self) -> None:
        """Rewrites all of them."""
        found: list[_Split] = []
        indices: list[SSAValue] = []
        part = 0  # of the kernel, between two waits: what lives while a thread waits is kept in memory on a CPU
        for op in walk(self._kernel):
            if has_address(op):
                found += self._parts(op, part, indices)
            elif not _is_plain(op) and not (
                self._shares and isinstance(op, scf.IfOp | scf.YieldOp)
            ):
                part += 1
        shared = {step.key for split in found if any(split.rest) for step in split.steps}
        for split in found:
            if split.steps[-1].key not in shared:
                continue  # the whole address of an access, which no other one begins with
            tensor = split.access.operands[split.place]
            for step in split.steps:
                tensor = self._advance(split.access, tensor, step)
            split.access.operands[split.place] = tensor
            for number, several in enumerate(split.rest, split.place + 1):
                split.access.operands[number] = self._sum(split.access, several)
        for index in indices:
            _release(index)

    def _parts(self, access: Operation, part: int, indices: list[SSAValue]) -> Iterator[_Split]:
        """Splits an access: into parts of several kinds, or all and nothing; adds its indices."""
        operands = enumerate(access.operands)
        place, tensor = next(pair for pair in operands if isinstance(pair[1].type, TensorType))
        kind = cast("TensorType", tensor.type)
        if kind.swizzle_atoms is not None or packed_bits(kind.element_type):
            return  # adjacent elements of a row lie in other chunks, or in one byte
        own = [access.operands[number] for number in range(place + 1, place + 1 + kind.rank)]
        indices += own
        terms = [self._terms(index) for index in own]
        groups: dict[int, list[list[_Term]]] = {}
        for dimension, several in enumerate(terms):
            for term in several:
                level = term.level
                if level == _CONSTANTS and kind.static_stride(dimension) is None:
                    level = _STRIDES
                groups.setdefault(level, [[] for _ in terms])[dimension].append(term)
        if len(groups) == 1 and self._shares and min(groups) < _STRIDES:
            groups[_CONSTANTS] = [[] for _ in terms]
        if len(groups) < 2:
            return
        *levels, last = sorted(groups)
        steps: list[_Step] = []
        assert access.parent is not None
        key: object = (self._around(access.parent), part, tensor)
        for level in levels:
            key = (key, *(tuple(map(self._like, several)) for several in groups[level]))
            steps.append(_Step(groups[level], key))
            home = self._homes.setdefault(key, access.parent)
            self._homes[key] = _common(home, access.parent)
        yield _Split(access, place, steps, groups[last])

    def _advance(self, access: Operation, tensor: SSAValue, step: _Step) -> SSAValue:
        """The tensor a step further on, before the access or, if others share that, before the branches of all."""
        place = access
        if self._shares:
            home = self._homes[step.key]
            leaves = {tensor}
            for several in step.terms:
                for term in several:
                    leaves.update(*map(self._leaves, term.variables))
            while place.parent is not home:
                branch = place.parent_op()
                if not isinstance(branch, scf.IfOp) or not all(
                    _is_before(leaf, branch) for leaf in leaves
                ):
                    break
                place = branch
        key = (place.parent, tensor, step.key)
        found = self._advanced.get(key)
        if found is None:
            copies: dict[SSAValue, SSAValue] = {}
            terms = [
                [
                    term._replace(
                        variables=tuple(_at(place, value, copies) for value in term.variables)
                    )
                    for term in several
                ]
                for several in step.terms
            ]
            indices = [self._sum(place, several) for several in terms]
            found = self._advanced[key] = _before(place, AdvanceOp(tensor, indices))
        return found.result

    def _like(self, term: _Term) -> _Term:
        """The term, of values that stand for all that are computed alike."""
        return term._replace(variables=tuple(map(self._first_like, term.variables)))

    def _first_like(self, value: SSAValue) -> SSAValue:
        found = self._firsts.get(value)
        if found is None:
            owner = value.owner
            known = constant_integer(value)
            key: object = value
            if known is not None:
                key = known, value.type
            elif isinstance(owner, _ARITHMETIC):
                key = type(owner), value.type, *map(self._first_like, owner.operands)
            found = self._firsts[value] = self._likes.setdefault(key, value)
        return found

    def _leaves(self, value: SSAValue) -> frozenset[SSAValue]:
        """Returns the operands of a value that is computed by movable arithmetic."""
        found = self._sources.get(value)
        if found is None:
            leaves: set[SSAValue] = set()
            if isinstance(value.owner, _ARITHMETIC):
                for operand in value.owner.operands:
                    leaves |= self._leaves(operand)
            elif constant_integer(value) is None:
                leaves.add(value)
            found = self._sources[value] = frozenset(leaves)
        return found

    def _around(self, block: Block) -> Block:
        """The block that a block's branches are in: of a loop, or the kernel's own."""
        while isinstance(branch := block.parent_op(), scf.IfOp):
            assert branch.parent is not None
            block = branch.parent
        return block

    def _terms(self, value: SSAValue) -> list[_Term]:
        """The terms of an index, or of a part of one."""
        constant = constant_integer(value)
        if constant is not None:
            return [_Term(_CONSTANTS, constant, ())] if constant else []
        owner = value.owner
        found: list[_Term] | None = None
        if isinstance(owner, arith.ExtSIOp):
            found = self._terms(owner.input)
        elif (total := index_term(value)) is not None:
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
        """Number of loops around a value that change it."""
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
        if len(terms) == 1 and terms[0].coefficient == 1 and len(terms[0].variables) == 1:
            return _widened(access, terms[0].variables[0], i32)
        constant = sum(term.coefficient for term in terms if not term.variables)
        parts: list[SSAValue] = []
        for term in terms:
            if term.variables:
                scale = [] if term.coefficient == 1 else [self._constant(term.coefficient)]
                wide = (_widened(access, factor, i64) for factor in term.variables)
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


def _common(one: Block, other: Block) -> Block:
    """The innermost block that two are in."""
    around = set(_blocks_around(one))
    return next(block for block in _blocks_around(other) if block in around)


def _blocks_around(block: Block | None) -> Iterator[Block]:
    """The block itself, and those that it is in."""
    while block is not None:
        yield block
        block = block.parent_block()


def _is_before(value: SSAValue, operation: Operation) -> bool:
    """Whether a value that an operation needs, or one inside it, is known before it."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return any(one is block for one in _blocks_around(operation.parent))


def _at(place: Operation, value: SSAValue, copies: dict[SSAValue, SSAValue]) -> SSAValue:
    """A value, computed once more before an operation if it is not known there."""
    if _is_before(value, place):
        return value
    found = copies.get(value)
    if found is None:
        owner = value.owner
        assert not isinstance(owner, Block)
        made = owner.clone({one: _at(place, one, copies) for one in owner.operands})
        found = copies[value] = _before(place, made).results[0]
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
    if not by.variables:
        return _scaled(left, by.coefficient)
    if len(left) == 1 and not left[0].variables:
        return _scaled(right, left[0].coefficient)
    return [
        _Term(
            max(term.level, by.level) if term.variables else _STRIDES,
            term.coefficient * by.coefficient,
            term.variables + by.variables,
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
    """Erases operations that only computed an index; for other uses it may wrap, such as for a check of the index."""
    waiting = [index]
    while waiting:
        value = waiting.pop()
        total = index_term(value)
        part = value.owner if total is None else total
        if part.parent is None or not (total or isinstance(part, arith.ExtSIOp)):
            continue  # erased, or no part of an index
        assert not isinstance(part, Block)
        waiting += part.operands
        if not value.first_use:
            Rewriter.erase_op(part)
        elif total and not all(map(_is_user, (use.operation for use in value.uses))):
            total.overflow_flags = arith.IntegerOverflowAttr("none")


def index_term(value: SSAValue) -> arith.AddiOp | arith.SubiOp | arith.MuliOp | None:
    """The sum, difference or product that an index is written as."""
    owner = value.owner
    if isinstance(owner, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return owner if owner.overflow_flags == NO_WRAP else None
    return None
