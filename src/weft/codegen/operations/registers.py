# SPDX-License-Identifier: Apache-2.0
"""Registers that a launch gives each thread, and those that warpgroups then request.

In: a kernel with `nvgpu.setmaxnreg`. Out: each thread's share at first, where the requests can be met.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, scf

from weft.dialects.builder import constant_integer, source_location
from weft.dialects.flow import walk
from weft.dialects.nvgpu.threads import SetmaxnregOp, WarpgroupIdOp
from weft.dialects.simt.threads import WarpIdOp
from weft.errors import UnavailableError, ValueRangeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, SSAValue

    from weft.dialects.simt.kernel import KernelOp

_FILE: Final = 65536  # registers of a multiprocessor
_UNIT: Final = 8
_MOST: Final = 255
_WARP: Final = 32  # threads
_WARPGROUP: Final = 4  # warps
# The numbers of `arith.cmpi` of non-negative integers → the comparison.
_COMPARISONS: Final = {
    0: int.__eq__,
    1: int.__ne__,
    **dict.fromkeys((2, 6), int.__lt__),
    **dict.fromkeys((3, 7), int.__le__),
    **dict.fromkeys((4, 8), int.__gt__),
    **dict.fromkeys((5, 9), int.__ge__),
}


def register_share(kernel: KernelOp) -> int | None:
    """Registers of each thread at the launch of a kernel that hands them around; None for any other kernel.

    Raises:
        UnavailableError: if the size of its blocks is not known.
        ValueRangeError: if it asks for more and never for fewer, or its warps together for more than there are.
    """
    found = [op for op in walk(kernel) if isinstance(op, SetmaxnregOp)]
    if not found:
        return None
    threads = kernel.max_threads if kernel.block_size is None else prod(kernel.block_size)
    if threads is None:
        raise UnavailableError(
            "REGISTER_SHARE",
            f"setmaxnreg: the threads of a block of '{kernel.sym_name.data}' are known only at the launch, and so is "
            "their share of registers",
            hint="write @weft.kernel(max_threads=...), or launch it with a constant block everywhere",
            location=source_location(found[0].location),
        )
    blocks = kernel.min_blocks or 1
    share = kernel.max_registers or min(_FILE // (threads * blocks), _MOST)
    share -= share % _UNIT
    counts = [op.count.value.data for op in found]
    if max(counts) > share and min(counts) >= share:
        raise ValueRangeError(
            "REGISTER_SHARE",
            f"setmaxnreg({max(counts)}): each of {threads} threads has {share} registers at first, and no warpgroup of "
            f"'{kernel.sym_name.data}' gives some back, so that it would wait forever",
            hint="lower another warpgroup first, such as weft.setmaxnreg(40) where it only copies",
            location=source_location(found[counts.index(max(counts))].location),
        )
    _check_sum(kernel, threads // _WARP, share, found)
    return share


def _check_sum(kernel: KernelOp, warps: int, share: int, requests: Sequence[SetmaxnregOp]) -> None:
    """Checks that the registers of all warps exist, where branches on a warp's number alone decide who asks."""
    counts, met = [share] * warps, set[SetmaxnregOp]()
    before: list[SetmaxnregOp] = []
    for warp in range(warps):
        passed: list[SetmaxnregOp] = []
        _pass(kernel.body.block, warp, passed)
        if warp % _WARPGROUP and passed != before:
            _refuse_parts(warp, before, passed)
        before = passed
        met.update(passed)
        if passed:
            counts[warp] = passed[-1].count.value.data
    if not met.issuperset(requests) or sum(counts) <= warps * share:
        return
    groups = counts[::_WARPGROUP]
    raised = next(op for op in requests if op.count.value.data == max(counts))
    raise ValueRangeError(
        "REGISTER_SHARE",
        f"setmaxnreg({max(counts)}): the warpgroups of '{kernel.sym_name.data}' ask for {', '.join(map(str, groups))} "
        f"registers of each thread, {sum(groups)} together; a block of {warps * _WARP} threads has {share} for each, "
        f"{len(groups) * share} together, so that they would wait forever",
        hint="ask for fewer where most are asked for, or hand on more",
        location=source_location(raised.location),
    )


def _refuse_parts(
    warp: int, before: Sequence[SetmaxnregOp], passed: Sequence[SetmaxnregOp]
) -> None:
    """A warp and the one before it, of one warpgroup, come to different requests."""
    other = next(op for op in (*passed, *before) if op not in before or op not in passed)
    does, lacks = (warp, warp - 1) if other in passed else (warp - 1, warp)
    raise ValueRangeError(
        "REGISTER_SHARE",
        f"setmaxnreg({other.count.value.data}): warp {does} executes it and warp {lacks} of the same warpgroup does "
        "not; all four execute it together",
        hint="branch on weft.warpgroup_id()",
        location=source_location(other.location),
    )


def _pass(block: Block, warp: int, passed: list[SetmaxnregOp]) -> None:
    """Collects the requests that a warp comes to, through branches on its number alone."""
    for op in block.ops:
        if isinstance(op, SetmaxnregOp):
            passed.append(op)
        elif isinstance(op, scf.IfOp):
            taken = _value(op.cond, warp)
            if taken is not None:
                region = op.true_region if taken else op.false_region
                for inner in region.blocks:
                    _pass(inner, warp, passed)


def _value(value: SSAValue, warp: int) -> int | None:
    """An integer that a warp's number determines."""
    known, owner = constant_integer(value), value.owner
    if known is not None:
        return known
    if isinstance(owner, WarpIdOp):
        return warp
    if isinstance(owner, WarpgroupIdOp):
        return warp // _WARPGROUP
    if isinstance(owner, arith.CmpiOp):
        left, right = _value(owner.lhs, warp), _value(owner.rhs, warp)
        if left is not None and right is not None:
            return int(_COMPARISONS[owner.predicate.value.data](left, right))
    return None
