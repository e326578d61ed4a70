# SPDX-License-Identifier: Apache-2.0
"""Barriers and fences: ``sync_threads``, ``sync_warp``, ``sync_grid``, ``fence_block`` and wider ones.

In: an optional predicate or mask. Out: the combined predicate. Barriers may stand in loops and branches; threads that
have returned are not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i32

from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    FenceOp,
    GridBarrierOp,
    WarpBarrierOp,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import expect_scalar, truth
from weft.language.operation import operation
from weft.language.values import Scalar, describe
from weft.types import dtype as types

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
