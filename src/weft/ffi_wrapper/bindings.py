# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions of a wrapper.

The first mention of `n` gives it a value; every later one becomes a check against that.
In: sizes of a signature. Out: the operation that binds or checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.ffi.checks import BindDimOp, BindStrideOp, CheckDimOp, CheckStrideOp
from weft.dialects.printed_names import name_value

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.types.dims import Dim


class Bindings:
    """The symbols that have a value, by name."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, SSAValue] = {}

    def dim(self, tensor: SSAValue, index: int, size: int | Dim) -> BindDimOp | CheckDimOp:
        """What a dimension of a decoded tensor becomes.

        A dimension without a name binds too: its range and divisibility are checked.
        """
        known = size if isinstance(size, int) else self._known(size)
        if known is not None:
            return CheckDimOp(tensor, index, known)
        assert not isinstance(size, int)  # a constant is always known
        bind = BindDimOp(tensor, index, size.name or "", size.width, size.divisibility)
        self._bind(size, bind.result)
        return bind

    def stride(
        self, tensor: SSAValue, index: int, stride: int | Dim
    ) -> BindStrideOp | CheckStrideOp:
        """The same for a stride that a signature names."""
        known = stride if isinstance(stride, int) else self._known(stride)
        if known is not None:
            return CheckStrideOp(tensor, index, known)
        assert not isinstance(stride, int)  # a constant is always known
        bind = BindStrideOp(tensor, index, stride.name or "", stride.width, stride.divisibility)
        self._bind(stride, bind.result)
        return bind

    def _known(self, dim: Dim) -> SSAValue | None:
        return None if dim.name is None else self._values.get(dim.name)

    def _bind(self, dim: Dim, value: SSAValue) -> None:
        if dim.name is not None:
            name_value(value, dim.name)
            self._values[dim.name] = value
