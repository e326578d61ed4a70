# SPDX-License-Identifier: Apache-2.0
"""Programmatic dependent launches on the CPU: which launches of a host function overlap.

In: simt.launch_ex in a host function, and the kernels. Out: bits of enum weft_launch_overlap (native/cpu/overlap.h);
kernels without `grid_dependency_wait` where no launch of theirs overlaps with another, since they need no coroutines.

A launch overlaps with the next one in its block if that one is programmatic, on the same stream, and only operations
without effects are between them. Launches under the sanitizer do not, nor those with global scratch, which is given
back when they return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.traits import Pure

from weft.backends.cpu.lowering.affine import is_pure
from weft.backends.cpu.lowering.check import launch_checks
from weft.codegen.operations.launch import kernels_of, launched_kernel, scratch_bytes
from weft.dialects.flow import walk
from weft.dialects.nvgpu.threads import GridDependencyWaitOp
from weft.dialects.simt.kernel import LaunchExOp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

# enum weft_launch_overlap
_HELD: Final = 1024
_FOLLOWS: Final = 2048
_WAITS: Final = 4096


def overlap_bits(op: LaunchExOp) -> int:
    """The bits of enum weft_launch_overlap for a launch."""
    held = _HELD if _is_held(op) else 0
    if not _follows(op):
        return held
    waits = any(isinstance(inner, GridDependencyWaitOp) for inner in walk(launched_kernel(op)[1]))
    return held | _FOLLOWS | (_WAITS if waits else 0)


def drop_dependencies(module: ModuleOp) -> None:
    """Erases waits in kernels whose launches all begin after the one before has ended."""
    launches = [op for op in walk(module) if isinstance(op, LaunchExOp)]
    waiting = {launched_kernel(op)[1] for op in launches if _follows(op)}
    for kernel in kernels_of(module):
        if kernel in waiting:
            continue
        for op in list(walk(kernel)):
            if isinstance(op, GridDependencyWaitOp):
                op.detach()
                op.erase()


def _is_held(op: LaunchExOp) -> bool:
    """Whether the next launch may begin before this one has run."""
    following = op.next_op
    while following is not None and not isinstance(following, LaunchExOp):
        if not _is_without_effect(following):
            return False
        following = following.next_op
    return (
        following is not None
        and following.is_programmatic
        and following.stream is op.stream
        and _may_overlap(op)
        and _may_overlap(following)
    )


def _is_without_effect(op: Operation) -> bool:
    """Whether a launch before the operation may as well run after it."""
    return is_pure(op) or isinstance(op, arith.ConstantOp) or op.has_trait(Pure)


def _follows(op: LaunchExOp) -> bool:
    """Whether a launch may begin before the one before it has run."""
    before = op.prev_op
    while before is not None and not isinstance(before, LaunchExOp):
        before = before.prev_op
    return before is not None and op.is_programmatic and _is_held(before)


def _may_overlap(op: LaunchExOp) -> bool:
    kernel = launched_kernel(op)[1]
    return not scratch_bytes(kernel) and not launch_checks(kernel, has_scratch=True)
