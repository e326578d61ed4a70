# SPDX-License-Identifier: Apache-2.0
"""Views of arrays that only the functions of ``weft.kernels`` need, which rely on the host's checks.

In: a tensor of a kernel or a host function. Out: the same memory as a vector, or as one whose alignment is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32

from weft.dialects.simt.memory import ViewOp
from weft.dialects.simt.types import DYNAMIC
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.access import dim, size
from weft.language.numbers.convert import convert
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.builder import Builder


@operation(on_host=True)
def flat(builder: Builder, a: Tensor) -> Tensor:
    """All elements of a contiguous tensor as a vector, whose length is an i64."""
    assert a.type.layout.data == "contiguous"
    if a.rank == 1 and a.type.dim_bits.data == 64:
        return a
    return _view(builder, a, [a.rank - 1], [size(builder, a)], a.type.alignment_bytes.data, 64)


@operation
def aligned(builder: Builder, a: Tensor, width: int) -> Tensor:
    """A vector that the host has found to begin at a multiple of so many of its elements, and to be as long."""
    known = width * a.dtype.itemsize
    if width == 1 or a.type.alignment_bytes.data % known == 0:
        return a
    return _view(builder, a, [0], [dim(builder, a, 0)], known, a.type.dim_bits.data)


def _view(
    builder: Builder,
    a: Tensor,
    kept: Sequence[int],
    sizes: Sequence[int | Scalar],
    alignment_bytes: int,
    dim_bits: int,
) -> Tensor:
    wide = types.i32 if dim_bits == 32 else types.i64
    layout = "contiguous" if a.type.layout.data == "inner" else a.type.layout.data
    kind = ir_tensor_type(
        a.dtype,
        [one if isinstance(one, int) else DYNAMIC for one in sizes],
        layout=layout,
        space=a.type.space.data,
        dim_bits=dim_bits,
        offset_bits=a.type.offset_bits.data if dim_bits == 32 else 64,
        alignment_bytes=alignment_bytes,
    )
    staged = [convert(builder, one, wide).ssa for one in sizes if isinstance(one, Scalar)]
    starts = [builder.constant(i32, 0)] * a.rank
    made = ViewOp(a.ssa, starts, staged, kept, [1] * len(kept), kind)
    return Tensor(builder.emit(made, f"{a.name}_view").result, a.dtype, a.name)
