# SPDX-License-Identifier: Apache-2.0
"""Barriers in shared memory that count arrivals and bytes of copies: mbarriers.

In: arrays of 64-bit words, one per barrier, and an index. Out: a barrier completes a phase when all arrivals and
bytes of the phase have come; phases have the parities 0, 1, 0, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import (
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, Requires, Synchronizes
from weft.dialects.definition import (
    BaseOperation,
    DependsOnWarps,
    fixed_result,
    integers,
    operand,
    operands,
    operation_definition,
    opt_operand,
)
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Integers, Operands

MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1  # that a phase waits for


@operation_definition
class MbarrierInitOp(BaseOperation):
    """One thread initializes the arrays' barriers, each array's with one number of arrivals; then the block waits.

    In a kernel with clusters, the cluster waits.
    """

    name = "nvgpu.mbarrier_init"

    words: Operands = operands(TensorType)
    arrivals: Integers = integers(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        CalledAs("mbarrier"),
        Requires("mbarrier", "mbarrier"),
    )
    assembly_format = "$words `:` type($words) `arrivals` $arrivals attr-dict"

    @property
    def counts(self) -> tuple[int, ...]:
        """Arrivals of a phase, for each array."""
        return tuple(int(count) for count in self.arrivals.get_values())

    def verify_(self) -> None:
        if len(self.counts) != len(self.words):
            raise VerifyException(
                f"{len(self.counts)} numbers of arrivals for {len(self.words)} arrays"
            )
        if any(not 1 <= count <= MOST_ARRIVALS for count in self.counts):
            raise VerifyException(f"arrivals are 1 to {MOST_ARRIVALS}")


@operation_definition
class MbarrierArriveOp(BaseOperation):
    """This thread arrives, once; before that, the phase waits for `expect_bytes` more."""

    name = "nvgpu.mbarrier_arrive"

    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    expect_bytes: OptOperand = opt_operand(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "updated", "barrier", indices="index"),), is_required=True),
        CalledAs("Mbarrier.arrive"),
        Requires("mbarrier", "mbarrier"),
    )
    assembly_format = "$words `[` $index `]` (`expect` $expect_bytes^)? attr-dict `:` type($words)"


@operation_definition
class MbarrierReleaseOp(BaseOperation):
    """After a barrier of the warp, one lane arrives for all of them: in the blocks of these ranks, or in its own."""

    name = "nvgpu.mbarrier_release"

    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    ranks: Operands = operands(i32, default=())

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("words", "updated", "barrier", indices="index"),), is_required=True),
        CalledAs("Mbarrier.release"),
        Requires("mbarrier", "mbarrier"),
    )
    assembly_format = "$words `[` $index `]` (`ranks` $ranks^)? attr-dict `:` type($words)"


@operation_definition
class MbarrierWaitOp(BaseOperation):
    """Waits until the phase of this parity is complete: until the barrier's current phase has the other parity."""

    name = "nvgpu.mbarrier_wait"

    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    parity: Operand = operand(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "read", "barrier", indices="index"),), is_required=True),
        Synchronizes("barrier"),
        CalledAs("Mbarrier.wait"),
        Requires("mbarrier", "mbarrier"),
    )
    assembly_format = "$words `[` $index `]` `parity` $parity attr-dict `:` type($words)"


@operation_definition
class MbarrierTryWaitOp(BaseOperation):
    """Whether the phase of this parity is complete, after a short time at most."""

    name = "nvgpu.mbarrier_try_wait"

    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    parity: Operand = operand(i32)
    result = fixed_result(i1)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "read", "barrier", indices="index"),), is_required=True),
        Synchronizes("barrier"),
        CalledAs("Mbarrier.try_wait"),
        Requires("mbarrier", "mbarrier"),
    )
    assembly_format = (
        "$words `[` $index `]` `parity` $parity attr-dict `:` type($words) `->` type($result)"
    )
