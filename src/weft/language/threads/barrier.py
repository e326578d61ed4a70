# SPDX-License-Identifier: Apache-2.0
"""Barriers and fences: ``sync_threads``, ``sync_warp``, ``sync_grid``, ``named_barrier``, ``fence_block`` and wider.

In: an optional predicate or mask. Out: the combined predicate. Barriers may stand in loops and branches; threads that
have returned are not waited for. Of ``weft.named_barrier``, in: how many barriers, and how many threads meet at each.
Out: an object whose items `sync` and `arrive`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.threads import (
    MOST_BARRIERS,
    NamedBarrierArriveOp,
    NamedBarriersOp,
    NamedBarrierSyncOp,
)
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    FenceOp,
    GridBarrierOp,
    WarpBarrierOp,
)
from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.numbers.convert import convert, expect_scalar, truth
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace, StagedSequence, describe
from weft.types import dtype as types
from weft.types.launch_limits import MAX_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


FULL_MASK: Final = 0xFFFFFFFF
"""All 32 lanes of a warp."""


@operation
def sync_threads(builder: Builder) -> None:
    """Waits for every thread of the block that has not returned.

    All of the block's threads then see what any of them wrote to memory before. It may stand in a loop or branch that
    all running threads of the block take together; threads waiting at different barriers are an error on the CPU and
    undefined behavior on a GPU.

    Example:
        ``tile[tid] = a[i]; weft.sync_threads(); b[i] = tile[31 - tid]``
    """
    builder.emit(BarrierOp())


@operation
def sync_threads_count(builder: Builder, predicate: object) -> Scalar:
    """`sync_threads`, and how many of the block's threads had a true predicate: an i32, the same for all.

    Args:
        predicate: a number; true if not 0.

    Raises:
        TypeMismatchError: if an argument is not a number.

    Example:
        ``active = weft.sync_threads_count(i < n)``
    """
    return _reduced(builder, "count", predicate)


@operation
def sync_threads_and(builder: Builder, predicate: object) -> Scalar:
    """`sync_threads`, and whether all of the block's threads had a true predicate: a ``bool_``.

    Arguments and errors as in `sync_threads_count`.

    Example:
        ``done = weft.sync_threads_and(residual < 1e-6)``
    """
    return _reduced(builder, "and", predicate)


@operation
def sync_threads_or(builder: Builder, predicate: object) -> Scalar:
    """`sync_threads`, and whether any of the block's threads had a true predicate: a ``bool_``.

    Arguments and errors as in `sync_threads_count`.

    Example:
        ``while weft.sync_threads_or(changed): changed = False``
    """
    return _reduced(builder, "or", predicate)


def _reduced(builder: Builder, kind: str, predicate: object) -> Scalar:
    name = "sync_threads_" + kind
    holds = truth(builder, expect_scalar(builder, predicate, f"{name}: the predicate"))
    made = builder.emit(BarrierReduceOp(kind, holds.ssa))
    return Scalar(made.result, types.i32 if kind == "count" else types.bool_)


@operation
def sync_warp(builder: Builder, mask: object = FULL_MASK) -> None:
    """Waits for every lane of `mask` that has not returned.

    These lanes then see what any of them wrote to memory before. Each calls it with the same mask, which has its own
    bit set. Bits of lanes that the block does not have are ignored.

    Args:
        mask: one bit per lane: a constant, a u32 or an i32.

    Raises:
        TypeMismatchError: for another type of mask.
        ValueRangeError: for a constant mask without lanes, or beyond 32 bits.

    Example:
        ``if weft.lane_id() < 16: weft.sync_warp(0xFFFF)``
    """
    builder.emit(WarpBarrierOp(lane_mask(builder, mask, "sync_warp")))


@operation
def sync_grid(builder: Builder) -> None:
    """Waits for every thread of the grid; the kernel must be launched with ``cooperative=True``.

    All threads of the grid then see what any of them wrote to memory before. All blocks run at the same time, so the
    grid must fit the device; a larger one is an error at the launch. No thread of the grid may return before it.

    Example:
        ``totals[weft.block_idx.x] = total; weft.sync_grid()``
    """
    builder.emit(GridBarrierOp())


@operation
def fence_block(builder: Builder) -> None:
    """Orders this thread's memory accesses before and after it, as seen by its block.

    It does not wait. Like all three fences it is sequentially consistent, as CUDA's ``__threadfence_block``.

    Example:
        ``values[0] = x; weft.fence_block(); ready[0] = 1``
    """
    builder.emit(FenceOp("block"))


@operation
def fence_device(builder: Builder) -> None:
    """Orders this thread's memory accesses before and after it, as seen by the device.

    Example:
        ``totals[block] = total; weft.fence_device(); last = weft.atomic_add(finished, 0, 1) == blocks - 1``
    """
    builder.emit(FenceOp("device"))


@operation
def fence_system(builder: Builder) -> None:
    """Orders this thread's memory accesses before and after it, as seen by all devices and the host.

    Example:
        ``values[0] = x; weft.fence_system(); ready[0] = 1``
    """
    builder.emit(FenceOp("system"))


def lane_mask(builder: Builder, mask: object, name: str) -> SSAValue:
    """A mask of lanes for the IR.

    Args:
        mask: an int, or a scalar of type u32 or i32.
        name: of the operation, for messages.

    Raises:
        TypeMismatchError, ValueRangeError: as `sync_warp`.
    """
    found = expect_scalar(builder, mask, f"{name}: the mask")
    if isinstance(found, Scalar):
        if found.dtype not in (types.u32, types.i32):
            raise TypeMismatchError(
                "WARP_MASK",
                f"{name}: the mask is {found.dtype}; expected a u32, with one bit per lane",
                hint="weft.ballot(condition) gives the lanes where it holds",
            )
        return found.ssa
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeMismatchError(
            "WARP_MASK", f"{name}: the mask is {describe(found)}; expected an integer"
        )
    if not 1 <= found <= FULL_MASK:
        raise ValueRangeError(
            "WARP_MASK",
            f"{name}: the mask is {found:#x}; expected 0x1 to 0xffffffff, one bit per lane",
            hint="all lanes are 0xffffffff, the default",
        )
    return builder.constant(i32, found)


_METHODS: Final = "NamedBarrier."


class NamedBarrier(StagedNamespace):
    """One barrier.

    Attributes:
        number: of the hardware, an i32.
        threads: that meet.
    """

    __slots__ = ("number", "threads")

    on_host: Final = False

    def __init__(self, number: SSAValue, threads: int) -> None:
        self.number = number
        self.threads = threads

    def __repr__(self) -> str:
        return "a named barrier"

    def attribute(self, builder: Builder, name: str) -> object:
        """A method, which is called with the barrier first.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        del builder
        if f"{_METHODS}{name}" in LANGUAGE:
            return functools.partial(resolve(f"{_METHODS}{name}"), self)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{self!r} has no attribute {name!r}",
            hint="there are sync, arrive",
        )


class NamedBarriers(StagedSequence):
    """The barriers of one `weft.named_barrier`, whose numbers follow each other."""

    __slots__ = ("_count", "_first", "_threads")

    on_host: Final = False

    def __init__(self, first: int, count: int, threads: int) -> None:
        self._first = first
        self._count = count
        self._threads = threads

    def __repr__(self) -> str:
        return f"named_barrier({self._count}, {self._threads})"

    def attribute(self, builder: Builder, name: str) -> object:
        """Raises NameResolutionError: the methods are those of an item."""
        del builder
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{self!r} has no attribute {name!r}",
            hint="index it: a named barrier has sync and arrive",
        )

    def item(self, builder: Builder, index: object) -> NamedBarrier:
        """``barriers[index]``.

        Raises:
            TypeMismatchError: for an index that is not an integer.
            ValueRangeError: for a constant that there is no barrier of.
        """
        found = expect_scalar(builder, index, f"{self!r}: the index")
        known = found.constant if isinstance(found, Scalar) else found
        if isinstance(found, Scalar) and known is None and found.dtype.is_integer:
            place = convert(builder, found, types.i32).ssa
            first = builder.constant(i32, self._first)
            number = builder.emit(arith.AddiOp(place, first)).result
            return NamedBarrier(number, self._threads)
        if not isinstance(known, int) or isinstance(known, bool):
            raise TypeMismatchError(
                "NAMED_BARRIER", f"{self!r} is indexed by an integer, received {describe(index)}"
            )
        if not 0 <= known < self._count:
            raise ValueRangeError("NAMED_BARRIER", f"{self!r} has no barrier {known}")
        return NamedBarrier(builder.constant(i32, self._first + known), self._threads)


@operation
def named_barrier(builder: Builder, count: object, threads: object) -> NamedBarriers:
    """`count` barriers for `threads` threads of the block each, such as two warpgroups.

    An item, ``turn[0]``, has the methods `NamedBarrier.sync`, which waits, and `NamedBarrier.arrive`, which does not:
    so one warpgroup signals another that it may continue. A barrier opens when `threads` have arrived in either
    way, and can be used again. A kernel has 7; weft numbers them. It stands at the kernel's top level.

    Args:
        count: how many, a constant.
        threads: that meet at each, a constant multiple of 32.

    Raises:
        TypeMismatchError: for arguments that are not constants.
        ValueRangeError: for threads that are not whole warps of a block, or more barriers than there are.
        CompileError: inside a branch or loop.

    Example:
        ``turn = weft.named_barrier(2, threads=32); turn[0].sync()``
    """
    for value, what in ((count, "count"), (threads, "threads")):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeMismatchError(
                "NAMED_BARRIER",
                f"named_barrier: {what} is {describe(value)}; expected a constant integer",
            )
    assert isinstance(count, int)
    assert isinstance(threads, int)
    if builder.block is not builder.entry:
        raise CompileError(
            "NAMED_BARRIER",
            "named_barrier: the whole kernel has the barriers, but this is inside a branch or loop, or after a return",
            hint="move it to the kernel's beginning",
        )
    if not WARP_SIZE <= threads <= MAX_THREADS or threads % WARP_SIZE:
        raise ValueRangeError(
            "NAMED_BARRIER",
            f"named_barrier: {threads} threads; expected a multiple of {WARP_SIZE} up to {MAX_THREADS}",
        )
    first = max((op.end for op in builder.entry.ops if isinstance(op, NamedBarriersOp)), default=1)
    if count < 1 or first + count > MOST_BARRIERS + 1:
        raise ValueRangeError(
            "NAMED_BARRIER",
            f"named_barrier: {count} barriers; a kernel has {MOST_BARRIERS} at most, and this one {first - 1} already",
            hint="the other 9 of a block's 16 are sync_threads and sync_warpgroup",
        )
    builder.emit(NamedBarriersOp(first, count))
    return NamedBarriers(first, count, threads)


@operation(name="NamedBarrier.sync")
def sync(builder: Builder, barrier: NamedBarrier) -> None:
    """Arrives at a barrier and waits until all of its threads have: they see what each wrote to memory before.

    All threads of a warp call it together.

    Args:
        barrier: any; ``turn[0].sync()`` passes it.

    Example:
        ``turn = weft.named_barrier(1, threads=32); turn[0].sync()``
    """
    builder.emit(NamedBarrierSyncOp(barrier.number, barrier.threads))


@operation(name="NamedBarrier.arrive")
def arrive(builder: Builder, barrier: NamedBarrier) -> None:
    """Arrives at a barrier without waiting: those who `NamedBarrier.sync` there see what this thread wrote before.

    All threads of a warp call it together.

    Args:
        barrier: any; ``turn[0].arrive()`` passes it.

    Example:
        ``turn = weft.named_barrier(1, threads=32); turn[0].arrive()``
    """
    builder.emit(NamedBarrierArriveOp(barrier.number, barrier.threads))
