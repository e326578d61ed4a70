# SPDX-License-Identifier: Apache-2.0
"""The body of a wrapper while it is written: its block, the symbols that have a value, the device.

In: operations and names. Out: the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xdsl.ir import Block, Operation, SSAValue

from weft.dialects.printed_names import name_value
from weft.ffi_wrapper.bindings import Bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.arguments.base import ArgumentKind
    from weft.dialects.ffi.arguments import Position

    Decoder = Callable[["WrapperBody", "Argument"], list[SSAValue]]

OperationT = TypeVar("OperationT", bound=Operation)


class Argument(NamedTuple):
    """What a caller passes, itself or as an item of a container: where it is found, and what it has to be."""

    position: Position
    kind: ArgumentKind

    @property
    def name(self) -> str:
        """Of the argument; the path of an item: `t[1].x`."""
        return self.position.name


class WrapperBody:
    """The body of a wrapper under construction: its builder, blocks and decoded arguments.

    Args:
        decoders: how each kind is decoded.

    Attributes:
        block: the operations so far.
        bindings: values of the symbolic dimensions that were mentioned.
        device: ordinal of the first CUDA tensor's device, or None while there is none.
        stream: the first stream that the caller passes, or None.
    """

    __slots__ = ("_decoders", "bindings", "block", "device", "stream")

    def __init__(self, decoders: Mapping[type[ArgumentKind], Decoder]) -> None:
        self._decoders = decoders
        self.block = Block()
        self.bindings = Bindings()
        self.device: SSAValue | None = None
        self.stream: SSAValue | None = None

    def decode(self, argument: Argument) -> list[SSAValue]:
        """Emits the decoding of an argument; the values that the host function takes for it, in order."""
        return self._decoders[type(argument.kind)](self, argument)

    def emit(self, operation: OperationT, name: str | None = None) -> OperationT:
        """Appends an operation; `name` becomes its result's name in printed IR."""
        self.block.add_op(operation)
        if name is not None:
            name_value(operation.results[0], name)
        return operation
