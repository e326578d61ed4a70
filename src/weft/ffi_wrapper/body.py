# SPDX-License-Identifier: Apache-2.0
"""The body of a wrapper while it is written: its block, the symbols that have a value, the device.

In: operations and names. Out: the block. Next: bindings.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

from weft.ffi_wrapper.bindings import Bindings

OperationT = TypeVar("OperationT", bound=Operation)


class WrapperBody:
    """What the files of this room add to.

    Attributes:
        block: the operations so far.
        bindings: values of the symbolic dimensions that were mentioned.
        device: ordinal of the first CUDA tensor's device, or None while there is none.
        stream: the first stream that the caller passes, or None.
    """

    __slots__ = ("bindings", "block", "device", "stream")

    def __init__(self) -> None:
        self.block = Block()
        self.bindings = Bindings()
        self.device: SSAValue | None = None
        self.stream: SSAValue | None = None

    def emit(self, operation: OperationT, name: str | None = None) -> OperationT:
        """Appends an operation; `name` becomes its result's name in printed IR."""
        self.block.add_op(operation)
        if name is not None and SSAValue.is_valid_name(name):
            operation.results[0].name_hint = name
        return operation
