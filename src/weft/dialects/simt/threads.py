# SPDX-License-Identifier: Apache-2.0
"""Threads: coordinates, `simt.each`, barriers and fences, warp collectives.

In: a dimension, a mask, a value. Out: an i32, the combined value, or nothing. Memory written before a barrier is seen
after it by the threads that meet there. A warp's lanes are the block's threads in order, 32 to a warp; the last warp
of a block may have fewer, and lanes that it lacks are ignored in a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerType,
    SymbolRefAttr,
    i1,
    i32,
    i64,
)
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import CalledAs, Orders, Requires, Synchronizes
from weft.dialects.definition import (
    BaseOperation,
    DependsOnWarps,
    fixed_result,
    integer,
    operand,
    operands,
    operation_definition,
    result_of,
    single_block,
    string,
)
from weft.dialects.simt.atomics import MEMORY_SCOPES
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import OpResult
    from xdsl.irdl import Operand

    from weft.dialects.definition import Body, Integer, Operands, String


DIMENSIONS: Final = ("x", "y", "z")


class CoordinateOp(BaseOperation):
    """Base of the four coordinates: one dimension in, one i32 out."""

    dimension: String = string()
    result = fixed_result(i32)
    assembly_format = "$dimension attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.dimension.data not in DIMENSIONS:
            raise VerifyException(f"dimension {self.dimension.data!r} is not one of {DIMENSIONS}")


@operation_definition
class ThreadIdxOp(CoordinateOp):
    """Index of the thread in its block, 0 ≤ value < block_dim."""

    name = "simt.thread_idx"


@operation_definition
class BlockIdxOp(CoordinateOp):
    """Index of the block in the grid, 0 ≤ value < grid_dim."""

    name = "simt.block_idx"


@operation_definition
class BlockDimOp(CoordinateOp):
    """Threads per block in one dimension."""

    name = "simt.block_dim"


@operation_definition
class GridDimOp(CoordinateOp):
    """Blocks of the grid in one dimension."""

    name = "simt.grid_dim"


@operation_definition
class MultiprocessorsOp(BaseOperation):
    """Number of multiprocessors of the call's device, in a host function."""

    name = "simt.multiprocessors"

    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class MaxClustersOp(IRDLOperation):
    """Number of clusters of these kernels that the call's device holds at once, in a host function: the least of them.

    Clusters, blocks and shared memory are the kernels' own.
    """

    name = "simt.max_clusters"

    kernels = prop_def(ArrayAttr[SymbolRefAttr])
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$kernels attr-dict `:` type($result)"

    def __init__(self, kernels: Sequence[str] = ()) -> None:
        super().__init__(result_types=[i32], properties={"kernels": _symbols(kernels)})

    def name_kernels(self, kernels: Sequence[str]) -> None:
        """Says which kernels are meant, once their names are known."""
        self.kernels = _symbols(kernels)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The kernels' names."""
        return tuple(symbol.string_value() for symbol in self.kernels.data)

    def verify_(self) -> None:
        if not self.kernels.data:
            raise VerifyException("no kernel is named")


def _symbols(names: Sequence[str]) -> ArrayAttr[SymbolRefAttr]:
    return ArrayAttr([SymbolRefAttr(name) for name in names])


@operation_definition
class EachOp(BaseOperation):
    """One iteration for each index below the extents, the last one fastest; the whole grid shares them, each runs once.

    Iterations are independent: they may run in any order, and parts of several in turn, each iteration's own parts in
    order. Every thread of the grid arrives here with the same extents. The region has an argument per extent, of its
    type; a negative extent is 0.
    """

    name = "simt.each"

    extents: Operands = operands()
    body: Body = single_block()

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())
    assembly_format = "$extents `:` type($extents) $body attr-dict"

    def verify_(self) -> None:
        kinds = [extent.type for extent in self.extents]
        if not kinds or any(kind not in (i32, i64) for kind in kinds):
            raise VerifyException("each extent is i32 or i64, and there is one or more")
        if [argument.type for argument in self.body.block.args] != kinds:
            raise VerifyException("the region has an argument of each extent's type")


BARRIER_REDUCTIONS: Final = ("count", "and", "or")


@operation_definition
class BarrierOp(IRDLOperation):
    """Barrier: all threads of the block that have not exited.

    A thread that reaches the kernel's end is no longer waited for. Threads of one block waiting at different barriers
    are undefined behavior on a GPU and an error on the CPU.
    """

    name = "simt.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Synchronizes("block"), CalledAs("sync_threads")
    )


@operation_definition
class BarrierReduceOp(BaseOperation):
    """A block barrier that combines the threads' predicates.

    `count` yields an i32, the number of threads with a true one; `and` and `or` yield an i1.
    """

    name = "simt.barrier_reduce"

    kind: String = string()
    predicate: Operand = operand(i1)
    result: OpResult[IntegerType] = result_of(
        "kind", IntegerType, kind=lambda kind: i32 if kind == "count" else i1
    )

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Synchronizes("block"),
        CalledAs("sync_threads_{kind}"),
    )
    assembly_format = "$kind $predicate attr-dict `:` type($result)"

    def verify_(self) -> None:
        if self.kind.data not in BARRIER_REDUCTIONS:
            raise VerifyException(f"kind {self.kind.data!r} is not one of {BARRIER_REDUCTIONS}")
        if self.result.type != (i32 if self.kind.data == "count" else i1):
            raise VerifyException("count yields an i32, and and or yield an i1")


@operation_definition
class WarpBarrierOp(BaseOperation):
    """Barrier: the lanes of `mask`, each with the same mask."""

    name = "simt.warp_barrier"

    mask: Operand = operand(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Synchronizes("warp"),
        CalledAs("sync_warp"),
    )
    assembly_format = "$mask attr-dict"


@operation_definition
class GridBarrierOp(IRDLOperation):
    """Barrier: all threads of the grid; the launch must be cooperative."""

    name = "simt.grid_barrier"
    assembly_format = "attr-dict"
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Synchronizes("grid"),
        CalledAs("sync_grid"),
        Requires("grid_sync"),
    )


@operation_definition
class FenceOp(BaseOperation):
    """Orders all of this thread's memory accesses before and after it, as seen by the threads of `scope`.

    It is sequentially consistent, as CUDA's `__threadfence` is: a store before it and a load after it are
    ordered too.
    """

    name = "simt.fence"

    scope: String = string()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), Orders("fence"))
    assembly_format = "$scope attr-dict"

    def verify_(self) -> None:
        if self.scope.data not in MEMORY_SCOPES:
            raise VerifyException(f"scope {self.scope.data!r} is not one of {MEMORY_SCOPES}")


SHUFFLE_KINDS: Final = ("up", "down", "xor", "idx")
VOTE_KINDS: Final = ("ballot", "any", "all")
MATCH_KINDS: Final = ("any", "all")
WARP_REDUCTIONS: Final = ("add", "min", "max", "umin", "umax", "and", "or", "xor")


def _check_kind(kind: str, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise VerifyException(f"kind {kind!r} is not one of {kinds}")


@operation_definition
class LaneIdOp(BaseOperation):
    """The thread's lane in its warp, 0 to 31: its number in the block modulo 32."""

    name = "simt.lane_id"

    result = fixed_result(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class WarpIdOp(BaseOperation):
    """The thread's warp in its block: its number in the block divided by 32."""

    name = "simt.warp_id"

    result = fixed_result(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class ShuffleOp(BaseOperation):
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
    kind: String = string()
    mask: Operand = operand(i32)
    value: Operand = operand(T)
    lane: Operand = operand(i32)
    width: Integer = integer(i32, default=WARP_SIZE)
    result: OpResult = result_of("value", T)

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("shfl_{kind}")
    )
    assembly_format = (
        "$kind $value `,` $lane `mask` $mask `width` $width attr-dict `:` type($result)"
    )

    def verify_(self) -> None:
        _check_kind(self.kind.data, SHUFFLE_KINDS)
        width = self.width.value.data
        if not 1 <= width <= WARP_SIZE or width & (width - 1):
            raise VerifyException(f"width {width} is not a power of two from 1 to {WARP_SIZE}")


@operation_definition
class VoteOp(BaseOperation):
    """The lanes' predicates combined: `ballot` yields an i32 with one bit per lane, `any` and `all` an i1."""

    name = "simt.vote"

    kind: String = string()
    mask: Operand = operand(i32)
    predicate: Operand = operand(i1)
    result: OpResult[IntegerType] = result_of(
        "kind", IntegerType, kind=lambda kind: i32 if kind == "ballot" else i1
    )

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs("{kind}", {"any": "warp.any", "all": "warp.all"}),
    )
    assembly_format = "$kind $predicate `mask` $mask attr-dict `:` type($result)"

    def verify_(self) -> None:
        _check_kind(self.kind.data, VOTE_KINDS)
        if self.result.type != (i32 if self.kind.data == "ballot" else i1):
            raise VerifyException("ballot yields an i32, any and all yield an i1")


@operation_definition
class MatchOp(BaseOperation):
    """Lanes of `mask` that hold the same bits.

    `any` yields the lanes whose value equals this lane's; `all` yields `mask` if all are equal, else 0.
    """

    name = "simt.match"

    kind: String = string()
    mask: Operand = operand(i32)
    value: Operand = operand(IntegerType)
    result = fixed_result(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs("match{kind}", {"any": "", "all": "_all"}),
        Requires("match"),
    )
    assembly_format = "$kind $value `mask` $mask attr-dict `:` type($value)"

    def verify_(self) -> None:
        _check_kind(self.kind.data, MATCH_KINDS)


@operation_definition
class WarpReduceOp(BaseOperation):
    """The lanes' values combined; every lane of `mask` gets the result.

    The order is the same on every target, so that sums of floats agree: with the lanes of the mask numbered
    from 0 without gaps, adjacent lanes (0, 1), (2, 3), ... are combined first, the lower one on the left, then
    adjacent results, and so on; a value without a partner is kept. `min` and `max` of floats are IEEE's
    minNum and maxNum: a number wins over NaN.
    """

    name = "simt.warp_reduce"

    T: ClassVar = VarConstraint("T", AnyAttr())
    kind: String = string()
    mask: Operand = operand(i32)
    value: Operand = operand(T)
    result: OpResult = result_of("value", T)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs(
            "warp.{kind}",
            {"add": "sum", "umin": "min", "umax": "max"}
            | {kind: f"bitwise_{kind}" for kind in ("and", "or", "xor")},
        ),
    )
    assembly_format = "$kind $value `mask` $mask attr-dict `:` type($result)"

    def verify_(self) -> None:
        _check_kind(self.kind.data, WARP_REDUCTIONS)
