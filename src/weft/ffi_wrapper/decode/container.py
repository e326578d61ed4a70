# SPDX-License-Identifier: Apache-2.0
"""Decodes a container: kind, number of items, then each item as an argument of its own.

In: a `ContainerKind`. Out: one operation, and those of its items; their values in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.container import ContainerKind
from weft.dialects.ffi.arguments import DecodeArrayOp, Position
from weft.ffi_wrapper.body import Argument

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import WrapperBody


def decode_container(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the checks of one container and returns the values that it holds."""
    kind = argument.kind
    assert isinstance(kind, ContainerKind)  # the table's row
    passed = kind.passed_parts
    operation = DecodeArrayOp(argument.position, len(passed), kind.text)
    array = body.emit(operation, argument.name).result
    values: list[SSAValue] = []
    for index, (label, item) in enumerate(passed):
        position = Position(index, argument.name + label, array)
        values += body.decode(Argument(position, item))
    return values
