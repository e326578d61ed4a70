# SPDX-License-Identifier: Apache-2.0
"""Promises about a tensor: `ffi.check`, `ffi.bind_dim`, `ffi.check_dim`, the same for strides, layout, device.

In: a decoded tensor. Out: the tensor for the host function; symbols with their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import (
    fixed_result,
    integer,
    operand,
    operation_definition,
    opt_integer,
    opt_operand,
    opt_string,
    result,
    string,
)
from weft.dialects.ffi.function import (
    DecodeShapeOp,
    DecodeSizeOp,
    DecodeTensorOp,
    InFunctionOp,
    TensorType,
)
from weft.dialects.simt.types import TensorType as KernelTensorType
from weft.types.dims import CONTIGUOUS, INNER, MAX_RANK

if TYPE_CHECKING:
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Integer, OptInteger, OptString, Result, String

TENSOR_CHECKS: Final = ("data", "rank", "dtype", "device_type", "alignment")
"""The properties that `ffi.check` can check."""


class _TensorOp(InFunctionOp):
    """An operation on a decoded tensor, or on the dims of a shape."""

    tensor: Operand = operand(TensorType)

    @property
    def decoded(self) -> DecodeTensorOp | DecodeShapeOp | DecodeSizeOp:
        """The operation that decoded the tensor."""
        owner = self.tensor.owner
        if not isinstance(owner, DecodeTensorOp | DecodeShapeOp | DecodeSizeOp):
            raise VerifyException(f"{self.name} needs the result of ffi.decode_tensor")
        return owner

    def verify_(self) -> None:
        self.decoded  # noqa: B018  raises


@operation_definition
class CheckOp(_TensorOp):
    """A property of a tensor has the value compiled for.

    `data`: not null if there are elements; `rank`; `dtype`; `device_type` (DLDeviceType); `alignment`
    of the first element's address in bytes.
    """

    name = "ffi.check"

    what: String = string()
    number: OptInteger = opt_integer(i64, default=None)
    text: OptString = opt_string(default=None)
    assembly_format = "$tensor $what (`is` $number^)? (`named` $text^)? attr-dict"

    def verify_(self) -> None:
        super().verify_()
        expectations = {"data": (False, False), "dtype": (False, True)}
        if self.what.data not in TENSOR_CHECKS:
            raise VerifyException(f"{self.what.data!r} is not one of {TENSOR_CHECKS}")
        if (self.number is not None, self.text is not None) != expectations.get(
            self.what.data, (True, False)
        ):
            raise VerifyException(f"ffi.check {self.what.data}: wrong kind of expectation")


class _DimensionOp(_TensorOp):
    """A check of one dimension, or of its stride."""

    dimension: Integer = integer(i64)

    @property
    def index(self) -> int:
        """The dimension's number."""
        return self.dimension.value.data

    @property
    def named_index(self) -> int:
        """The dimension's number for messages; -1 for an argument that is a size itself."""
        return -1 if isinstance(self.decoded, DecodeSizeOp) else self.index

    def verify_(self) -> None:
        super().verify_()
        if not 0 <= self.index < MAX_RANK:
            raise VerifyException(f"{self.name}: no dimension {self.index}")


class _BindOp(_DimensionOp):
    """The first mention of a symbol: yields its value, after checking the symbol's constraints."""

    symbol: String = string()
    width: Integer = integer(i64)
    divisibility: Integer = integer(i64)
    result = fixed_result(i64)
    assembly_format = (
        "$tensor `[` $dimension `]` $symbol `width` $width `divisibility` $divisibility attr-dict"
    )

    def _source(self, noun: str) -> str:
        name = self.decoded.argument.data
        if isinstance(self.decoded, DecodeSizeOp):
            return name
        is_shape = isinstance(self.decoded, DecodeShapeOp)
        return f"{name}[{self.index}]" if is_shape else f"{name}.{noun}[{self.index}]"


class _MatchOp(_DimensionOp):
    """A later mention of a symbol, or a constant: checks equality."""

    expected: OptOperand = opt_operand(i64)
    size: OptInteger = opt_integer(i64)
    assembly_format = "$tensor `[` $dimension `]` (`equals` $expected^)? (`is` $size^)? attr-dict"

    @property
    def bound(self) -> BindDimOp | BindStrideOp | None:
        """The first mention, or None for a constant."""
        owner = None if self.expected is None else self.expected.owner
        return owner if isinstance(owner, BindDimOp | BindStrideOp) else None

    def verify_(self) -> None:
        super().verify_()
        if (self.bound is None) == (self.size is None):
            raise VerifyException(f"{self.name} compares with a bound symbol or with a constant")


@operation_definition
class BindDimOp(_BindOp):
    """A dimension gives its symbol a value; it is not negative and has `width` bits."""

    name = "ffi.bind_dim"

    @property
    def source(self) -> str:
        """Name in messages about a later mention: `a.shape[0]`."""
        return self._source("shape")


@operation_definition
class CheckDimOp(_MatchOp):
    """A dimension has the value of a symbol, or a constant one."""

    name = "ffi.check_dim"


@operation_definition
class BindStrideOp(_BindOp):
    """A stride gives its symbol a value, unless it reaches no element (a dim of 1, no elements)."""

    name = "ffi.bind_stride"

    @property
    def source(self) -> str:
        """Name in messages about a later mention: `a.strides[0]`."""
        return self._source("strides")


@operation_definition
class CheckStrideOp(_MatchOp):
    """A stride has the value of a symbol, or a constant one, unless it reaches no element."""

    name = "ffi.check_stride"


@operation_definition
class CheckLayoutOp(_TensorOp):
    """The strides are those of a layout class; null strides mean contiguous.

    Strides that reach no element are ignored. `text` is the argument's type in the message.
    """

    name = "ffi.check_layout"

    layout: String = string()
    text: String = string()
    assembly_format = "$tensor $layout `of` $text attr-dict"

    def verify_(self) -> None:
        super().verify_()
        if self.layout.data not in (CONTIGUOUS, INNER):
            raise VerifyException(f"layout {self.layout.data!r} promises nothing")


@operation_definition
class BindDeviceOp(_TensorOp):
    """The call's device: that of its first CUDA tensor."""

    name = "ffi.bind_device"

    result = fixed_result(i32)
    assembly_format = "$tensor attr-dict"


@operation_definition
class CheckDeviceOp(_TensorOp):
    """The tensor is on the call's device, or on the signature's."""

    name = "ffi.check_device"

    device: OptOperand = opt_operand(i32)
    ordinal: OptInteger = opt_integer(i64)
    assembly_format = "$tensor (`equals` $device^)? (`is` $ordinal^)? attr-dict"

    def verify_(self) -> None:
        super().verify_()
        if (self.device is None) == (self.ordinal is None):
            raise VerifyException("ffi.check_device compares with a device or with an ordinal")


@operation_definition
class AsTensorOp(_TensorOp):
    """The checked tensor for the host function: pointer (with byte_offset), dims, strides."""

    name = "ffi.as_tensor"

    result: Result[KernelTensorType] = result(KernelTensorType)
    assembly_format = "$tensor attr-dict `:` type($result)"


@operation_definition
class AsDimOp(_DimensionOp):
    """A checked dimension as an integer of the host function."""

    name = "ffi.as_dim"

    result: Result[IntegerType] = result(IntegerType)
    assembly_format = "$tensor `[` $dimension `]` attr-dict `:` type($result)"
