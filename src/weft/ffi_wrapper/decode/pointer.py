# SPDX-License-Identifier: Apache-2.0
"""Decodes an address.

In: a `PointerKind`. Out: one operation that checks kind and alignment, and a tensor without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.pointer import PointerKind
from weft.dialects.ffi.arguments import DecodePointerOp
from weft.language.ir_types import ir_type_of

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_pointer(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the decoding of one address and returns it."""
    kind = argument.kind
    assert isinstance(kind, PointerKind)  # the table's row
    pointer_type = ir_type_of(kind)
    assert pointer_type is not None  # pointers are staged
    operation = DecodePointerOp(argument.position, kind.text, pointer_type)
    return [body.emit(operation, argument.name).result]
