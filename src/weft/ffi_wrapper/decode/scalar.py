# SPDX-License-Identifier: Apache-2.0
"""Decodes a number.

In: a `ScalarKind`. Out: one operation that checks kind and range, and the number. Next: stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.scalar import ScalarKind
from weft.dialects.ffi.arguments import DecodeScalarOp

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from weft.arguments.signature import Parameter
    from weft.ffi_wrapper.body import WrapperBody


def decode_scalar(
    body: WrapperBody, position: int, parameter: Parameter, scalar_type: Attribute | None
) -> SSAValue:
    """Emits the decoding of one number and returns it."""
    kind = parameter.kind
    assert isinstance(kind, ScalarKind)  # the table's row
    assert scalar_type is not None  # numbers are staged
    operation = DecodeScalarOp(position, parameter.name, kind.dtype, scalar_type)
    return body.emit(operation, parameter.name).result
