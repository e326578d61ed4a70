# SPDX-License-Identifier: Apache-2.0
"""Decodes a stream; the first one of a function is the stream that its launches use.

In: a `StreamKind`. Out: one operation, and the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.ffi.arguments import DecodeStreamOp

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_stream(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the decoding of one stream and returns it."""
    stream = body.emit(DecodeStreamOp(argument.position), argument.name).result
    if body.stream is None:
        body.stream = stream
    return [stream]
