# SPDX-License-Identifier: Apache-2.0
"""Decodes a shape: kind, number of sizes, each size, in that order.

In: a `ShapeKind`. Out: one operation per promise, and the sizes that are known at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.shape import ShapeKind
from weft.dialects.ffi.arguments import DecodeShapeOp
from weft.dialects.ffi.checks import AsDimOp
from weft.language.ir_types import integer_type
from weft.types.dims import Dim

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_shape(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the checks of one shape and returns its sizes."""
    kind = argument.kind
    assert isinstance(kind, ShapeKind)  # the table's row
    shape = body.emit(DecodeShapeOp(argument.position, len(kind.dims)), argument.name).result
    for index, size in enumerate(kind.dims):
        body.emit(body.bindings.dim(shape, index, size))
    return [
        body.emit(AsDimOp(shape, index, integer_type(size.width))).result
        for index, size in enumerate(kind.dims)
        if isinstance(size, Dim)
    ]
