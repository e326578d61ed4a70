# SPDX-License-Identifier: Apache-2.0
"""`weft.named_barrier`: barriers of some warps of a block, some of which may only arrive.

In: how many barriers, and how many threads meet at each. Out: an object whose items `sync` and `arrive`.
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
from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace, StagedSequence, describe
from weft.types import dtype as types
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

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
    """`count` barriers, at each of which `threads` threads of the block meet, such as two warpgroups.

    An item, ``turn[0]``, has the methods `NamedBarrier.sync`, which waits, and `NamedBarrier.arrive`, which does not:
    so one warpgroup tells another that it may go on. A barrier opens when `threads` have come in either way, and
    is then as new. A kernel has 7; weft numbers them. It stands at the kernel's top level.

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
    if not WARP_SIZE <= threads <= MOST_THREADS or threads % WARP_SIZE:
        raise ValueRangeError(
            "NAMED_BARRIER",
            f"named_barrier: {threads} threads; expected a multiple of {WARP_SIZE} up to {MOST_THREADS}",
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
