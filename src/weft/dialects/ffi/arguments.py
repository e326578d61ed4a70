# SPDX-License-Identifier: Apache-2.0
"""Reading arguments: `ffi.decode_tensor`, `ffi.decode_scalar`, `ffi.decode_array` and one per other kind.

In: a position, among the arguments or in an array argument, and a name. Out: the value, its kind checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import opt_operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.ffi.function import ArrayType, I64Attr, InFunctionOp, TensorType
from weft.dialects.simt.types import StreamType
from weft.dialects.simt.types import TensorType as KernelTensorType
from weft.types.dtype import DTYPES, PACKED_DTYPES, DType, dtype_named

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

_DTYPE_NAMES: Final = frozenset(dtype.name for dtype in (*DTYPES, *PACKED_DTYPES))


class DecodeOp(InFunctionOp):
    """Reads one argument: its position in the call, or `within` an array, and its name.

    The name of an item is its path: `t[1].x`.
    """

    within = opt_operand_def(ArrayType)
    position = prop_def(I64Attr)
    argument = prop_def(StringAttr)

    assembly_format = "$position $argument (`in` $within^)? attr-dict"

    def __init__(
        self, position: Position, *results: Attribute, **properties: Attribute | None
    ) -> None:
        super().__init__(
            operands=[position.within],
            properties={
                "position": IntegerAttr(position.number, i64),
                "argument": StringAttr(position.name),
                **properties,
            },
            result_types=results,
        )

    @property
    def argument_position(self) -> int:
        """The position in the call of this argument, or of the one that contains it."""
        operation: DecodeOp = self
        while operation.within is not None:
            owner = operation.within.owner
            if not isinstance(owner, DecodeArrayOp):
                raise VerifyException(f"{self.name}: items are those of an ffi.decode_array")
            operation = owner
        return operation.position.value.data

    @property
    def place(self) -> str:
        """The argument's name in messages: `argument #1 'b'`."""
        return f"argument #{self.argument_position} '{self.argument.data}'"

    def verify_(self) -> None:
        self.argument_position  # noqa: B018  raises


class Position(NamedTuple):
    """The place of an argument.

    Attributes:
        number: among the arguments of the call, or among the items of an array.
        name: of the argument; the path of an item.
        within: the array, or None.
    """

    number: int
    name: str
    within: SSAValue | None = None


@operation_definition
class DecodeTensorOp(DecodeOp):
    """The argument is a tensor, given as an object or as a `DLTensor*`. Nothing else is checked."""

    name = "ffi.decode_tensor"

    result = result_def(TensorType)

    def __init__(self, position: Position) -> None:
        super().__init__(position, TensorType())


@operation_definition
class DecodeShapeOp(DecodeOp):
    """The argument is `rank` integers, given as a shape, an array or a list. It has dims but no memory."""

    name = "ffi.decode_shape"

    rank = prop_def(I64Attr)
    result = result_def(TensorType)
    assembly_format = "$position $argument (`in` $within^)? `rank` $rank attr-dict"

    def __init__(self, position: Position, rank: int) -> None:
        super().__init__(position, TensorType(), rank=IntegerAttr(rank, i64))


@operation_definition
class DecodeSizeOp(DecodeOp):
    """The argument is an integer that is a dimension of its own, with the number 0."""

    name = "ffi.decode_size"

    result = result_def(TensorType)

    def __init__(self, position: Position) -> None:
        super().__init__(position, TensorType())


@operation_definition
class DecodeScalarOp(DecodeOp):
    """The argument is a number that fits `dtype`."""

    name = "ffi.decode_scalar"

    dtype = prop_def(StringAttr)
    result = result_def()
    assembly_format = "$position $argument (`in` $within^)? `as` $dtype attr-dict `:` type($result)"

    def __init__(self, position: Position, dtype: DType, result_type: Attribute) -> None:
        super().__init__(position, result_type, dtype=StringAttr(dtype.name))

    @property
    def element(self) -> DType:
        """The number's type; the IR type has no sign."""
        return dtype_named(self.dtype.data)

    def verify_(self) -> None:
        super().verify_()
        if self.dtype.data not in _DTYPE_NAMES:
            raise VerifyException(f"no element type {self.dtype.data!r}")


@operation_definition
class DecodePointerOp(DecodeOp):
    """The argument is an address, an integer or None, divisible by the type's alignment."""

    name = "ffi.decode_pointer"

    text = prop_def(StringAttr)
    result = result_def(KernelTensorType)
    assembly_format = "$position $argument (`in` $within^)? `of` $text attr-dict `:` type($result)"

    def __init__(self, position: Position, text: str, tensor_type: Attribute) -> None:
        super().__init__(position, tensor_type, text=StringAttr(text))


@operation_definition
class DecodeStreamOp(DecodeOp):
    """The argument is a stream: a handle, an integer or None."""

    name = "ffi.decode_stream"

    result = result_def(StreamType)

    def __init__(self, position: Position) -> None:
        super().__init__(position, StreamType())


@operation_definition
class DecodeNoneOp(DecodeOp):
    """The argument is None."""

    name = "ffi.decode_none"


@operation_definition
class DecodeArrayOp(DecodeOp):
    """The argument is an array or a list of `size` items, which other operations decode.

    `text` is the container's type in messages.
    """

    name = "ffi.decode_array"

    size = prop_def(I64Attr)
    text = opt_prop_def(StringAttr)
    result = result_def(ArrayType)
    assembly_format = "$position $argument (`in` $within^)? `size` $size (`of` $text^)? attr-dict"

    def __init__(self, position: Position, size: int, text: str) -> None:
        super().__init__(position, ArrayType(), size=IntegerAttr(size, i64), text=StringAttr(text))
