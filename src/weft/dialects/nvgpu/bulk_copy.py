# SPDX-License-Identifier: Apache-2.0
"""Bulk copies through TMA: `nvgpu.bulk_load` into shared memory, `nvgpu.bulk_store` out of it.

In: two tensors without gaps, how many bytes, a barrier. Out: a copy that runs beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, StartsAsync
from weft.dialects.definition import operation_definition
from weft.dialects.nvgpu.tma import check_cache
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

BULK_BYTES: Final = 16
"""Alignment of a copy's addresses and size."""


def _check(to: SSAValue, source: SSAValue, spaces: tuple[str, str]) -> None:
    kinds = cast("TensorType", to.type), cast("TensorType", source.type)
    if kinds[0].element_type != kinds[1].element_type:
        raise VerifyException(f"elements of {kinds[1]} are not those of {kinds[0]}")
    if tuple(kind.space.data for kind in kinds) != spaces:
        raise VerifyException(f"a copy from {kinds[1].space.data} to {kinds[0].space.data} memory")
    for kind in kinds:
        if (
            kind.layout.data not in ("contiguous", "inner")
            or kind.alignment_bytes.data % BULK_BYTES
        ):
            raise VerifyException(f"{kind} is not known to be contiguous, aligned to {BULK_BYTES}")


@operation_definition
class BulkLoadOp(IRDLOperation):
    """Begins to copy consecutive bytes into shared memory; their bytes come to a barrier. One thread executes it."""

    name = "nvgpu.bulk_load"

    to = operand_def(TensorType)
    source = operand_def(TensorType)
    size = operand_def(i32)
    words = operand_def(TensorType)
    index = operand_def(i32)
    cache = opt_prop_def(StringAttr)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("words", "updated", "barrier", indices="index"),
                Access("to", "written", "tile", size="size", argument=0),
                Access("source", "read", "tile", size="size"),
            ),
            is_required=True,
        ),
        StartsAsync("phase"),
        CalledAs("bulk_copy"),
    )
    assembly_format = (
        "$size `bytes` `to` $to `from` $source `for` $words `[` $index `]` (`cache` $cache^)? attr-dict `:` "
        "type($to) `,` type($source) `,` type($words)"
    )

    def __init__(
        self,
        to: SSAValue,
        source: SSAValue,
        size: SSAValue,
        barrier: tuple[SSAValue, SSAValue],
        cache: str | None = None,
    ) -> None:
        super().__init__(
            operands=[to, source, size, *barrier],
            properties={"cache": StringAttr(cache) if cache else None},
        )

    def verify_(self) -> None:
        _check(self.to, self.source, ("shared", "global"))
        check_cache(self.cache)


@operation_definition
class BulkStoreOp(IRDLOperation):
    """Begins to copy consecutive bytes out of shared memory, as its own group, which `nvgpu.tma_wait` waits for."""

    name = "nvgpu.bulk_store"

    to = operand_def(TensorType)
    source = operand_def(TensorType)
    size = operand_def(i32)
    cache = opt_prop_def(StringAttr)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("to", "written", "tile", size="size"),
                Access("source", "read", "tile", size="size", argument=1),
            )
        ),
        StartsAsync("store"),
        CalledAs("bulk_copy"),
    )
    assembly_format = (
        "$size `bytes` `to` $to `from` $source (`cache` $cache^)? attr-dict `:` "
        "type($to) `,` type($source)"
    )

    def __init__(
        self, to: SSAValue, source: SSAValue, size: SSAValue, cache: str | None = None
    ) -> None:
        super().__init__(
            operands=[to, source, size],
            properties={"cache": StringAttr(cache) if cache else None},
        )

    def verify_(self) -> None:
        _check(self.to, self.source, ("global", "shared"))
        check_cache(self.cache)
