# SPDX-License-Identifier: Apache-2.0
"""The body of a wrapper under construction: its block, bound symbols, device and stream.

In: operations and names. Out: the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from xdsl.ir import Block, Operation, SSAValue

from weft.dialects.ffi.checks import BindDimOp, BindStrideOp, CheckDimOp, CheckStrideOp
from weft.dialects.printed_names import name_value

if TYPE_CHECKING:
    from weft.types.dims import Dim

OperationT = TypeVar("OperationT", bound=Operation)


class WrapperBody:
    """The body of a wrapper under construction: its block, and the facts known so far.

    Attributes:
        block: the operations so far.
        device: ordinal of the first tensor's device, or None while there is none.
        stream: the first stream that the caller passes, or None.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.device: SSAValue | None = None
        self.stream: SSAValue | None = None
        self._symbols: dict[str, SSAValue] = {}

    def emit(self, operation: OperationT, name: str | None = None) -> OperationT:
        """Appends an operation; `name` becomes its result's name in printed IR."""
        self.block.add_op(operation)
        if name is not None:
            name_value(operation.results[0], name)
        return operation

    def emit_dim(self, tensor: SSAValue, index: int, size: int | Dim) -> None:
        """Checks a dimension of a decoded tensor or shape; the first mention of a symbol gives it a value.

        A nameless dimension is checked for range and divisibility.
        """
        self._bind_or_check(BindDimOp, CheckDimOp, tensor, index, size)

    def emit_stride(self, tensor: SSAValue, index: int, stride: int | Dim) -> None:
        """The same for a stride named in a signature."""
        self._bind_or_check(BindStrideOp, CheckStrideOp, tensor, index, stride)

    def _bind_or_check(
        self,
        bind: type[BindDimOp | BindStrideOp],
        check: type[CheckDimOp | CheckStrideOp],
        tensor: SSAValue,
        index: int,
        size: int | Dim,
    ) -> None:
        known = size if isinstance(size, int) else self._symbols.get(size.name or "")
        if known is not None:
            self.emit(check(tensor, index, known))
            return
        assert not isinstance(size, int)  # a constant is always known
        bound = bind(tensor, index, size.name or "", size.width, size.divisibility)
        self.emit(bound, size.name)
        if size.name is not None:
            self._symbols[size.name] = bound.result
