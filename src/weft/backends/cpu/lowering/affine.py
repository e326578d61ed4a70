# SPDX-License-Identifier: Apache-2.0
"""Uniform and affine values: the same for all threads of a row, or growing by a constant per thread.

In: SSA values at the top of a kernel's body. Out: whether a value varies with thread_idx.x, and its growth per
thread. Only operations that can be re-evaluated anywhere are followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import arith
from xdsl.ir import Block

from weft.codegen.operations.conversions import CONVERSIONS
from weft.codegen.operations.floating_point import FLOATING_POINT
from weft.codegen.operations.integer import INTEGER
from weft.codegen.operations.mathematics import MATHEMATICS
from weft.dialects.builder import constant_integer
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import AdvanceOp, DimOp, ReinterpretOp, StrideOp, ViewOp
from weft.dialects.simt.threads import CoordinateOp, ThreadIdxOp

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

_PURE: Final = frozenset(
    {
        *INTEGER,
        *CONVERSIONS,
        *FLOATING_POINT,
        *MATHEMATICS,
        DimOp,
        StrideOp,
        ViewOp,
        AdvanceOp,
        ReinterpretOp,
    }
)
# Growth beyond this would not fit the 64-bit arithmetic on bounds.
_LARGEST_GROWTH: Final = 1 << 24


def is_pure(operation: Operation) -> bool:
    """Whether an operation only computes its results, for any operands."""
    return type(operation) in _PURE or isinstance(operation, CoordinateOp)


class Checkpoint(NamedTuple):
    """A value that must not wrap for its growth to continue in a wider type or a comparison.

    Attributes:
        value: grows by `growth` per thread, modulo its width.
        growth: per thread, positive.
        signed: whether it is read as a signed integer.
    """

    value: SSAValue
    growth: int
    signed: bool


class RowAnalysis:
    """Facts about one kernel's values along x, cached."""

    def __init__(self) -> None:
        self._varies: dict[SSAValue, bool] = {}

    def varies(self, value: SSAValue) -> bool:
        """Whether threads of a row may see different values; True if unknown."""
        found = self._varies.get(value)
        if found is None:
            found = self._varies[value] = self._compute_varies(value)
        return found

    def _compute_varies(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, Block):
            # Arguments of the kernel are uniform; those of loops are not followed.
            return not isinstance(owner.parent_op(), KernelOp)
        if isinstance(owner, ThreadIdxOp):
            return owner.dimension.data == "x"
        if not is_pure(owner):
            return True
        return any(self.varies(operand) for operand in owner.operands)

    def growth(self, value: SSAValue, checkpoints: list[Checkpoint]) -> int | None:
        """How much an integer grows per thread, modulo its width; None if that is not constant.

        Values that must not wrap for this to hold are added to `checkpoints`.
        """
        if not self.varies(value):
            return 0
        owner = value.owner
        if isinstance(owner, ThreadIdxOp):
            return 1
        if isinstance(owner, arith.AddiOp | arith.SubiOp):
            left = self.growth(owner.lhs, checkpoints)
            right = self.growth(owner.rhs, checkpoints)
            if left is None or right is None:
                return None
            return _bounded(left + right if isinstance(owner, arith.AddiOp) else left - right)
        if isinstance(owner, arith.MuliOp):
            return self._scaled(owner.lhs, owner.rhs, checkpoints)
        if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp):
            inner = owner.input
            growth = self.growth(inner, checkpoints)
            if growth is None or growth < 0:
                return None
            checkpoints.append(Checkpoint(inner, growth, isinstance(owner, arith.ExtSIOp)))
            return growth
        return None

    def _scaled(self, left: SSAValue, right: SSAValue, checkpoints: list[Checkpoint]) -> int | None:
        factor, other = constant_integer(right), left
        if factor is None:
            factor, other = constant_integer(left), right
        growth = self.growth(other, checkpoints) if factor is not None else None
        return None if growth is None or factor is None else _bounded(growth * factor)


def _bounded(growth: int) -> int | None:
    return growth if abs(growth) < _LARGEST_GROWTH else None
