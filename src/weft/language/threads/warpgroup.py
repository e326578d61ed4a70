# SPDX-License-Identifier: Apache-2.0
"""Warpgroups of 128 threads: ``warpgroup_id``, ``sync_warpgroup``; and ``elect_one``, one thread of a group.

In: a group, ``weft.warp`` or ``weft.warpgroup``. Out: its number in the block; whether this thread acts for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.threads import ElectOneOp, WarpgroupBarrierOp, WarpgroupIdOp
from weft.dialects.simt.threads import WarpIdOp
from weft.errors import TypeMismatchError
from weft.language.operation import operation
from weft.language.threads.warp import position
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_WARPS: Final = 4  # of a warpgroup


class ThreadGroup:
    """Threads of a block that follow each other."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.__doc__ = text

    def __repr__(self) -> str:
        return f"weft.{self.name}"


warp: Final = ThreadGroup(
    "warp",
    """The 32 threads of a warp; a user names them by the module ``weft.warp``.""",
)

warpgroup: Final = ThreadGroup(
    "warpgroup",
    """The 128 threads of a warpgroup, for `elect_one`.

    Example:
        ``leader = weft.elect_one(weft.warpgroup)``
    """,
)


@operation
def warpgroup_id(builder: Builder) -> Scalar:
    """This thread's warpgroup in its block: an i32, from 0.

    128 threads in a row are a warpgroup, numbered as `warp_id` does. All threads of a warp have it in one register, so
    that a branch on it costs nothing and what is computed from it is computed once for the warp.

    Example:
        ``if weft.warpgroup_id() == 0: weft.sync_warpgroup()``
    """
    return position(builder, WarpgroupIdOp, "warpgroup")


@operation
def sync_warpgroup(builder: Builder) -> None:
    """Waits for the 128 threads of this warpgroup, which then see what any of them wrote to memory before.

    All of them must call it, at the same place: on a GPU, a thread that has returned is waited for forever; on the CPU
    it is an error, as is a warpgroup with fewer threads.

    Example:
        ``tile[tid % 32] = a[i]; weft.sync_warpgroup(); b[i] = tile[31 - tid % 32]``
    """
    builder.emit(WarpgroupBarrierOp(position(builder, WarpgroupIdOp, "warpgroup").ssa))


@operation
def elect_one(builder: Builder, group: object = warp) -> Scalar:
    """Whether this thread is the one that acts for its group: a ``bool_``, true for one thread, each time the same.

    All threads of the warp call it together, also for a warpgroup, of which it is a thread of the first warp; on the
    CPU, a call by a part of those that have not returned is an error. What only
    one thread should do, such as starting a copy, costs less under `elect_one` than under ``lane_id() == 0``: the
    assembler knows then that it is one.

    Args:
        group: ``weft.warp`` or ``weft.warpgroup``.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        ``if weft.elect_one(): weft.atomic_add(totals, 0, 1.0)``
    """
    name = group.name if isinstance(group, ThreadGroup) else getattr(group, "THREAD_GROUP", None)
    if name not in (warp.name, warpgroup.name):
        raise TypeMismatchError(
            "THREAD_GROUP",
            f"elect_one: expected weft.warp or weft.warpgroup, received {describe(group)}",
        )
    elected = builder.emit(ElectOneOp()).result
    if name == warpgroup.name:
        number = position(builder, WarpIdOp, "warp").ssa
        among = builder.emit(arith.AndIOp(number, builder.constant(i32, _WARPS - 1))).result
        first = builder.emit(arith.CmpiOp(among, builder.constant(i32, 0), "eq")).result
        elected = builder.emit(arith.AndIOp(elected, first)).result
    return Scalar(elected, types.bool_)
