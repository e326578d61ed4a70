# SPDX-License-Identifier: Apache-2.0
"""Barriers in shared memory that count arrivals and bytes of copies: mbarriers.

In: arrays of 64-bit words, one per barrier, and an index. Out: a barrier completes a phase when all arrivals and
bytes of the phase have come; phases have the parities 0, 1, 0, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, i1, i32
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, Synchronizes
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1  # that a phase waits for


@operation_definition
class MbarrierInitOp(IRDLOperation):
    """One thread initializes the arrays' barriers, each array's with one number of arrivals; then the block waits.

    In a kernel with clusters, the cluster waits.
    """

    name = "nvgpu.mbarrier_init"

    words = var_operand_def(TensorType)
    arrivals = prop_def(DenseArrayBase.constr(i32))

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), CalledAs("mbarrier"))
    assembly_format = "$words `:` type($words) `arrivals` $arrivals attr-dict"

    def __init__(self, words: Sequence[SSAValue], arrivals: Sequence[int]) -> None:
        super().__init__(
            operands=[words], properties={"arrivals": DenseArrayBase.from_list(i32, arrivals)}
        )

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
class MbarrierArriveOp(IRDLOperation):
    """This thread arrives, once; before that, the phase waits for `expect_bytes` more."""

    name = "nvgpu.mbarrier_arrive"

    words = operand_def(TensorType)
    index = operand_def(i32)
    expect_bytes = opt_operand_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "updated", "barrier", indices="index"),), is_required=True),
        CalledAs("Mbarrier.arrive"),
    )
    assembly_format = "$words `[` $index `]` (`expect` $expect_bytes^)? attr-dict `:` type($words)"

    def __init__(self, words: SSAValue, index: SSAValue, expect_bytes: SSAValue | None) -> None:
        super().__init__(operands=[words, index, expect_bytes])


@operation_definition
class MbarrierReleaseOp(IRDLOperation):
    """After a barrier of the warp, one lane arrives for all of them: in the blocks of these ranks, or in its own."""

    name = "nvgpu.mbarrier_release"

    words = operand_def(TensorType)
    index = operand_def(i32)
    ranks = var_operand_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("words", "updated", "barrier", indices="index"),), is_required=True),
        CalledAs("Mbarrier.release"),
    )
    assembly_format = "$words `[` $index `]` (`ranks` $ranks^)? attr-dict `:` type($words)"

    def __init__(self, words: SSAValue, index: SSAValue, ranks: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[words, index, ranks])


@operation_definition
class MbarrierWaitOp(IRDLOperation):
    """Waits until the phase of this parity is complete: until the barrier's current phase has the other parity."""

    name = "nvgpu.mbarrier_wait"

    words = operand_def(TensorType)
    index = operand_def(i32)
    parity = operand_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "read", "barrier", indices="index"),), is_required=True),
        Synchronizes("barrier"),
        CalledAs("Mbarrier.wait"),
    )
    assembly_format = "$words `[` $index `]` `parity` $parity attr-dict `:` type($words)"

    def __init__(self, words: SSAValue, index: SSAValue, parity: SSAValue) -> None:
        super().__init__(operands=[words, index, parity])


@operation_definition
class MbarrierTryWaitOp(IRDLOperation):
    """Whether the phase of this parity is complete, after a short time at most."""

    name = "nvgpu.mbarrier_try_wait"

    words = operand_def(TensorType)
    index = operand_def(i32)
    parity = operand_def(i32)
    result = result_def(i1)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("words", "read", "barrier", indices="index"),), is_required=True),
        Synchronizes("barrier"),
        CalledAs("Mbarrier.try_wait"),
    )
    assembly_format = (
        "$words `[` $index `]` `parity` $parity attr-dict `:` type($words) `->` type($result)"
    )

    def __init__(self, words: SSAValue, index: SSAValue, parity: SSAValue) -> None:
        super().__init__(operands=[words, index, parity], result_types=[i1])
