# SPDX-License-Identifier: Apache-2.0
"""Code shared by the recorders of both formats, and operations for them alone.

In: values of a kernel. Out: the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.dialects.simt.profiling import RecordOp
from weft.language.memory.access import index_value, store
from weft.language.numbers.convert import convert, truth
from weft.language.operation import operation
from weft.language.threads.grid import block_idx, grid_dim
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types
from weft.types.dtype import u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.builder import Builder

_NO_OVERFLOW: Final = arith.IntegerOverflowAttr(
    (arith.IntegerOverflowFlag.NSW, arith.IntegerOverflowFlag.NUW)
)


@operation
def record(
    builder: Builder, clock: str, condition: object, tag: object, words: Tensor, place: Scalar
) -> None:
    """Writes a clock's low 32 bits above the tag into an element, if the condition holds."""
    where = index_value(builder, words, 0, place)
    builder.emit(
        RecordOp(
            clock,
            truth(builder, condition).ssa,
            convert(builder, tag, types.u32).ssa,
            words.ssa,
            where,
        )
    )


@operation
def advanced(builder: Builder, place: Scalar, words: int) -> Scalar:
    """``place + words``, known not to wrap, so that a loop's cursor becomes one pointer that moves along."""
    step = convert(builder, words, place.dtype)
    added = arith.AddiOp(place.ssa, step.ssa, overflow=_NO_OVERFLOW)
    return Scalar(builder.emit(added).result, place.dtype)


@operation
def fill(builder: Builder, words: Tensor, first: int, values: Sequence[int]) -> None:
    """Stores constants side by side; an operation, since a loop would be unrolled."""
    for number, value in enumerate(values, first):
        store(builder, words, number, value)


@operation
def is_constant(builder: Builder, value: object) -> bool:
    """Whether a value is known when compiling."""
    del builder
    return not isinstance(value, Scalar)


def packed(high: Any, low: Any) -> Any:
    """Two u32 as one u64."""
    return u64(u32(high)) << 32 | u64(u32(low))


def block_count() -> Any:
    """The blocks of the grid, u32."""
    return u32(grid_dim.x) * u32(grid_dim.y) * u32(grid_dim.z)


def block_number() -> Any:
    """This block's place in the grid, u32; x varies fastest."""
    plane = u32(block_idx.z) * u32(grid_dim.y) + u32(block_idx.y)
    return plane * u32(grid_dim.x) + u32(block_idx.x)
