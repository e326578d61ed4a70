# SPDX-License-Identifier: Apache-2.0
"""Reading arguments: `ffi.decode_tensor`, `ffi.decode_scalar`, `ffi.decode_stream`, `ffi.decode_none`.

In: a position and a name. Out: the value, once its kind is known to be right. Next: checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import irdl_op_definition, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from weft.dialects.cuda.types import StreamType
from weft.dialects.ffi.function import I64Attr, InFunctionOp
from weft.dialects.ffi.types import TensorType
from weft.types.dtype import DTYPES, DType, dtype_named

if TYPE_CHECKING:
    from xdsl.ir import Attribute

_DTYPE_NAMES: Final = frozenset(dtype.name for dtype in DTYPES)


class _DecodeOp(InFunctionOp):
    """What reads one argument: its position in the call and its name."""

    position = prop_def(I64Attr)
    argument = prop_def(StringAttr)

    @property
    def place(self) -> str:
        """How messages call the argument: `argument #1 'b'`."""
        return f"argument #{self.position.value.data} '{self.argument.data}'"


def _position_and_name(position: int, argument: str) -> dict[str, Attribute | None]:
    return {"position": IntegerAttr(position, i64), "argument": StringAttr(argument)}


@irdl_op_definition
class DecodeTensorOp(_DecodeOp):
    """The argument is a tensor, given as an object or as a `DLTensor*`. Nothing else is checked."""

    name = "ffi.decode_tensor"

    result = result_def(TensorType)
    assembly_format = "$position $argument attr-dict"

    def __init__(self, position: int, argument: str) -> None:
        super().__init__(
            properties=_position_and_name(position, argument), result_types=[TensorType()]
        )


@irdl_op_definition
class DecodeScalarOp(_DecodeOp):
    """The argument is a number that `dtype` holds."""

    name = "ffi.decode_scalar"

    dtype = prop_def(StringAttr)
    result = result_def()
    assembly_format = "$position $argument `as` $dtype attr-dict `:` type($result)"

    def __init__(self, position: int, argument: str, dtype: DType, result_type: Attribute) -> None:
        super().__init__(
            properties={
                **_position_and_name(position, argument),
                "dtype": StringAttr(dtype.name),
            },
            result_types=[result_type],
        )

    @property
    def element(self) -> DType:
        """The number's type; the IR type does not say whether an integer is signed."""
        return dtype_named(self.dtype.data)

    def verify_(self) -> None:
        if self.dtype.data not in _DTYPE_NAMES:
            raise VerifyException(f"no element type {self.dtype.data!r}")


@irdl_op_definition
class DecodeStreamOp(_DecodeOp):
    """The argument is a stream: a handle, an integer or None."""

    name = "ffi.decode_stream"

    result = result_def(StreamType)
    assembly_format = "$position $argument attr-dict"

    def __init__(self, position: int, argument: str) -> None:
        super().__init__(
            properties=_position_and_name(position, argument), result_types=[StreamType()]
        )


@irdl_op_definition
class DecodeNoneOp(_DecodeOp):
    """The argument is None."""

    name = "ffi.decode_none"

    assembly_format = "$position $argument attr-dict"

    def __init__(self, position: int, argument: str) -> None:
        super().__init__(properties=_position_and_name(position, argument))
