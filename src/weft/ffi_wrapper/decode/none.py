# SPDX-License-Identifier: Apache-2.0
"""Decodes None: it is checked, and the host function does not get it.

In: a `NoneKind`. Out: one operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.ffi.arguments import DecodeNoneOp

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_none(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the check that an argument is None."""
    body.emit(DecodeNoneOp(argument.position))
    return []
