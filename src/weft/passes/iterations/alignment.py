# SPDX-License-Identifier: Apache-2.0
"""Where the groups of a row begin, so that what is written is aligned, and how other accesses lie beside that.

In: a `simt.each`, the width of a group. Out: arithmetic on addresses. All is counted in elements, modulo the width: by
as much as the array's first element lies after an aligned one, each row's groups begin before the row does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith

from weft.dialects.simt.memory import WORD_BYTES, AddressOp, StoreOp, StrideOp
from weft.passes.iterations.body import access_key, element_bytes, runs_along

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.simt.memory import LoadOp
    from weft.dialects.simt.threads import EachOp
    from weft.passes.iterations.body import Body, Extent, Place
    from weft.passes.iterations.emitter import Emitter


class Alignment:
    """How the accesses of groups are aligned.

    Args:
        emitter: where the arithmetic is emitted.
        loop: whose accesses.
        width: iterations of a group.

    Attributes:
        width: the same.
        places: of the accesses that are aligned as vectors.
        is_possible: whether everything that is written is aligned alike in all rows, an i1; None if it must be.
        margin: columns between a group and the ends of its row at least, an i64: loads that are not aligned read whole
            words, no part of which may lie outside of the row.
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
        """How many columns before a row with these leading indices its first group begins, an i64."""
        return self._emitter.bits(self._number(self._reference, leading), self.width - 1)

    def groups(self, body: Body, extent: Extent) -> SSAValue:
        """How many of a row have a part of it at most, an i64."""
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
        """Which element of all memory an access is at in a row's first column, or in that of the first row."""
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
