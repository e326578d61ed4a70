# SPDX-License-Identifier: Apache-2.0
"""``setmaxnreg``: registers that warpgroups of different work hand to each other.

In: a constant number. Out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.nvgpu.threads import REGISTER_COUNTS, SetmaxnregOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation
def setmaxnreg(builder: Builder, count: object) -> None:
    """Gives each thread of this warpgroup `count` registers from here on, once there are so many.

    A warpgroup that copies needs few registers, one that multiplies many. Every launch begins with equal shares: with
    384 threads per block 168 each. The compiler compares `count` with the share of the kernel's block, so the block's
    size must be known: constant in every launch, or ``@weft.kernel(max_threads=384)``. All four warps of the
    warpgroup execute it together: what a GPU does with one alone is undefined. That is refused where branches on
    `warpgroup_id` or `warp_id` tell who asks, and so is more than the others gave back, which would wait forever. On
    the CPU a warpgroup's threads meet here, which orders no memory, and nothing else happens.

    Args:
        count: registers per thread: a constant, 24 to 256, a multiple of 8.

    Raises:
        TypeMismatchError: for a count that is not a constant integer.
        ValueRangeError: for another number, or more of all warpgroups together than a block has.
        UnavailableError: on a GPU before sm_90a, or where the block's size is not known.

    Example:
        ``weft.setmaxnreg(40)``, where a warpgroup only copies
    """
    found = expect_scalar(builder, count, "setmaxnreg: the number of registers")
    known = found.constant if isinstance(found, Scalar) else found
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "REGISTER_COUNT",
            f"setmaxnreg: the number of registers is {describe(found)}; expected a constant integer",
            hint="write it as a literal in each branch",
        )
    if known not in REGISTER_COUNTS:
        raise ValueRangeError(
            "REGISTER_COUNT",
            f"setmaxnreg: the number of registers is {known}; expected a multiple of 8 from 24 to 256",
        )
    builder.emit(SetmaxnregOp(known))
