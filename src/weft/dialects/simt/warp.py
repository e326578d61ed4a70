# SPDX-License-Identifier: Apache-2.0
"""Warp collectives: shuffles, votes, matches, reductions; and a thread's lane and warp.

In: a value, and a mask of lanes, each of which executes the operation with that mask. Out: the combined values. Lanes
are the block's threads in order, 32 to a warp; the last warp of a block may have fewer, and lanes it lacks are ignored
in a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i1, i32
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import CalledAs
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

SHUFFLE_KINDS: Final = ("up", "down", "xor", "idx")
VOTE_KINDS: Final = ("ballot", "any", "all")
MATCH_KINDS: Final = ("any", "all")
WARP_REDUCTIONS: Final = ("add", "min", "max", "umin", "umax", "and", "or", "xor")


def _check_kind(kind: str, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise VerifyException(f"kind {kind!r} is not one of {kinds}")


@operation_definition
class LaneIdOp(IRDLOperation):
    """The thread's lane in its warp, 0 to 31: its number in the block modulo 32."""

    name = "simt.lane_id"

    result = result_def(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class WarpIdOp(IRDLOperation):
    """The thread's warp in its block: its number in the block divided by 32."""

    name = "simt.warp_id"

    result = result_def(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class ShuffleOp(IRDLOperation):
    """The value of another lane, or the lane's own.

    Warps are cut into groups of `width` lanes. With n = `lane` modulo 32, the lane read is

    * `up`: this lane − n, or itself if that is before its group;
    * `down`: this lane + n, or itself if that is past its group;
    * `xor`: this lane ^ n, or itself if that is past its group (earlier lanes may be read);
    * `idx`: the group's first lane + n % width.

    It must be in `mask`: otherwise the result is undefined on a GPU, and the lane's own value on the CPU.
    """

    name = "simt.shuffle"

    T: ClassVar = VarConstraint("T", AnyAttr())
    kind = prop_def(StringAttr)
    width = prop_def(IntegerAttr.constr(i32))
    mask = operand_def(i32)
    value = operand_def(T)
    lane = operand_def(i32)
    result = result_def(T)

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("shfl_{kind}")
    )
    assembly_format = (
        "$kind $value `,` $lane `mask` $mask `width` $width attr-dict `:` type($result)"
    )

    def __init__(
        self, kind: str, mask: SSAValue, value: SSAValue, lane: SSAValue, width: int = WARP_SIZE
    ) -> None:
        super().__init__(
            operands=[mask, value, lane],
            properties={"kind": StringAttr(kind), "width": IntegerAttr(width, i32)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        _check_kind(self.kind.data, SHUFFLE_KINDS)
        width = self.width.value.data
        if not 1 <= width <= WARP_SIZE or width & (width - 1):
            raise VerifyException(f"width {width} is not a power of two from 1 to {WARP_SIZE}")


@operation_definition
class VoteOp(IRDLOperation):
    """The lanes' predicates combined: `ballot` yields an i32 with one bit per lane, `any` and `all` an i1."""

    name = "simt.vote"

    kind = prop_def(StringAttr)
    mask = operand_def(i32)
    predicate = operand_def(i1)
    result = result_def(IntegerType)

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("{kind}")
    )
    assembly_format = "$kind $predicate `mask` $mask attr-dict `:` type($result)"

    def __init__(self, kind: str, mask: SSAValue, predicate: SSAValue) -> None:
        super().__init__(
            operands=[mask, predicate],
            properties={"kind": StringAttr(kind)},
            result_types=[i32 if kind == "ballot" else i1],
        )

    def verify_(self) -> None:
        _check_kind(self.kind.data, VOTE_KINDS)
        if self.result.type != (i32 if self.kind.data == "ballot" else i1):
            raise VerifyException("ballot yields an i32, any and all yield an i1")


@operation_definition
class MatchOp(IRDLOperation):
    """Which lanes of `mask` hold the same bits.

    `any` yields the lanes whose value equals this lane's; `all` yields `mask` if all are equal, else 0.
    """

    name = "simt.match"

    kind = prop_def(StringAttr)
    mask = operand_def(i32)
    value = operand_def(IntegerType)
    result = result_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs("match{kind}", {"any": "", "all": "_all"}),
    )
    assembly_format = "$kind $value `mask` $mask attr-dict `:` type($value)"

    def __init__(self, kind: str, mask: SSAValue, value: SSAValue) -> None:
        super().__init__(
            operands=[mask, value], properties={"kind": StringAttr(kind)}, result_types=[i32]
        )

    def verify_(self) -> None:
        _check_kind(self.kind.data, MATCH_KINDS)


@operation_definition
class WarpReduceOp(IRDLOperation):
    """The lanes' values combined; every lane of `mask` gets the result.

    The order is the same on every target, so that sums of floats agree: with the lanes of the mask numbered
    from 0 without gaps, adjacent lanes (0, 1), (2, 3), ... are combined first, the lower one on the left, then
    adjacent results, and so on; a value without a partner is kept. `min` and `max` of floats are IEEE's
    minNum and maxNum: a number wins over NaN.
    """

    name = "simt.warp_reduce"

    T: ClassVar = VarConstraint("T", AnyAttr())
    kind = prop_def(StringAttr)
    mask = operand_def(i32)
    value = operand_def(T)
    result = result_def(T)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs("warp_{kind}", {"add": "sum", "umin": "min", "umax": "max"}),
    )
    assembly_format = "$kind $value `mask` $mask attr-dict `:` type($result)"

    def __init__(self, kind: str, mask: SSAValue, value: SSAValue) -> None:
        super().__init__(
            operands=[mask, value],
            properties={"kind": StringAttr(kind)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        _check_kind(self.kind.data, WARP_REDUCTIONS)
