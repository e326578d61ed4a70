# SPDX-License-Identifier: Apache-2.0
"""The IR types of weft's types.

In: a `DType`, a tensor's facts, an argument kind of a signature. Out: the xDSL attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import AnyFloat, IntegerType

from weft.arguments.pointer import PointerKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.simt.types import (
    DYNAMIC,
    FLOAT_TYPES,
    UNBOUNDED,
    StreamType,
    Swizzle,
    TensorType,
)
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

    from weft.arguments.base import ArgumentKind
    from weft.types.dtype import DType

_FLOATS: Final[dict[DType, AnyFloat]] = {
    dtype: FLOAT_TYPES[dtype.name]() for dtype in types.ALL_DTYPES if dtype.is_float
}

_TYPES: Final[dict[DType, Attribute]] = {
    dtype: _FLOATS.get(dtype) or IntegerType(int(dtype.info.mlir[1:])) for dtype in types.ALL_DTYPES
}


def ir_type(dtype: DType) -> Attribute:
    """The signless IR type of a scalar; ``bool_`` is i1, although it takes a byte in memory.

    Example:
        >>> str(ir_type(types.u16)), str(ir_type(types.bool_)), str(ir_type(types.f8e4m3))
        ('i16', 'i1', 'f8E4M3FN')
    """
    return _TYPES[dtype]


def float_type(dtype: DType) -> AnyFloat:
    """The IR type of a float type, for conversions between floats."""
    return _FLOATS[dtype]


def integer_type(bits: int) -> IntegerType:
    """A signless integer type of that many bits."""
    return IntegerType(bits)


def ir_tensor_type(
    dtype: DType,
    shape: Sequence[int],
    *,
    layout: str = "contiguous",
    space: str = "global",
    dim_bits: int = 32,
    offset_bits: int = 64,
    alignment_bytes: int | None = None,
    swizzle: Swizzle | None = None,
) -> TensorType:
    """The type of a tensor in the IR.

    Args:
        dtype: type of the elements.
        shape: dims; -1 (`dialects.simt.types.DYNAMIC`) for run-time ones.
        layout: ``contiguous``, ``inner`` or ``strided``.
        space: ``global``, ``shared`` or ``local``.
        dim_bits: width of the integers that hold run-time dims, 32 or 64.
        offset_bits: width of element offsets, 32 or 64.
        alignment_bytes: alignment of the data pointer; the element size by default.
        swizzle: the swizzle atoms of an array.
    """
    return TensorType.get(
        ir_type(dtype),
        shape,
        layout=layout,
        space=space,
        dim_bits=dim_bits,
        offset_bits=offset_bits,
        alignment_bytes=dtype.storage_bytes(1) if alignment_bytes is None else alignment_bytes,
        swizzle=swizzle,
    )


def ir_type_of(kind: ArgumentKind) -> Attribute | None:
    """The IR type of an argument of that kind; None for one that is not passed at run time.

    The wrapper checks a tensor's constant strides; kernels compute with its layout class.

    Example:
        ``ir_type_of(TensorKind(types.f32, (Dim("n"), 4)))`` is
        ``!simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 4>``.
    """
    if isinstance(kind, TensorKind):
        return ir_tensor_type(
            kind.dtype,
            [dim if isinstance(dim, int) else DYNAMIC for dim in kind.dims],
            layout=kind.layout,
            dim_bits=kind.dim_bits,
            offset_bits=kind.offset_bits,
            alignment_bytes=kind.alignment_bytes,
        )
    if isinstance(kind, PointerKind):
        return ir_tensor_type(
            kind.dtype,
            [UNBOUNDED],
            space=kind.space,
            dim_bits=64,
            alignment_bytes=kind.alignment_bytes,
        )
    if isinstance(kind, ScalarKind):
        return ir_type(kind.dtype)
    return StreamType() if isinstance(kind, StreamKind | EnvironmentStreamKind) else None
