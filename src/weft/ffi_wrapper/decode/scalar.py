# SPDX-License-Identifier: Apache-2.0
"""Decodes a number.

In: a `ScalarKind`. Out: one operation that checks kind and range, and the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.scalar import ScalarKind
from weft.dialects.ffi.arguments import DecodeScalarOp
from weft.language.ir_types import ir_type

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_scalar(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the decoding of one number and returns it."""
    kind = argument.kind
    assert isinstance(kind, ScalarKind)  # the table's row
    operation = DecodeScalarOp(argument.position, kind.dtype, ir_type(kind.dtype))
    return [body.emit(operation, argument.name).result]
