# SPDX-License-Identifier: Apache-2.0
"""The `ffi` dialect: the function with the TVM-FFI ABI, written as the contract that it checks.

In: a signature, one operation per promise. Out: `FFI`, which a context loads. Every check that fails sets the
error and ends the function; codegen expands the operations when it prints LLVM text. Next: context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from weft.dialects.cuda.types import MAX_RANK, StreamType
from weft.dialects.cuda.types import TensorType as KernelTensorType
from weft.types.device import DEVICE_TYPES
from weft.types.dtype import DTYPES, DType, dtype_named
from weft.types.layout import CONTIGUOUS, INNER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Region, SSAValue

ENTRY_PREFIX: Final = "__tvm_ffi_"
"""What stands before a host function's name in its wrapper's symbol."""

I64Attr: Final = IntegerAttr.constr(i64)

RESULT_ATTRIBUTE: Final = "weft.result"
"""Attribute of the host's `func.func` that says what the function returns; see `scalar_result`."""

TENSOR_CHECKS: Final = ("data", "rank", "dtype", "device_type", "alignment")
"""What `ffi.check` can look at."""

_DTYPE_NAMES: Final = frozenset(dtype.name for dtype in DTYPES)


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.tensor`: an argument that is a tensor; what else it is, checks say one by one."""

    name = "ffi.tensor"


# ---- what a host function returns: a tree of these


def scalar_result(index: int, dtype: DType) -> DictionaryAttr:
    """The host function's result number `index`, a number of that type."""
    return DictionaryAttr({"value": IntegerAttr(index, i64), "dtype": StringAttr(dtype.name)})


def argument_result(name: str) -> DictionaryAttr:
    """The argument of that name, as it was passed."""
    return DictionaryAttr({"argument": StringAttr(name)})


def tuple_result(items: Sequence[Attribute]) -> ArrayAttr[Any]:
    """A tuple of results."""
    return ArrayAttr(items)


def tuple_items(result: Attribute | None) -> tuple[Attribute, ...] | None:
    """The items of a tuple of results, or None for what is no tuple."""
    if isinstance(result, ArrayAttr):
        return cast("ArrayAttr[Attribute]", result).data
    return None


def none_result() -> UnitAttr:
    """None; what a host function returns that returns nothing."""
    return UnitAttr()


def check_result(result: Attribute) -> None:
    """Checks that an attribute is a tree of the four above.

    Raises:
        VerifyException: if it is not.
    """
    items = tuple_items(result)
    if items is not None:
        for item in items:
            check_result(item)
        return
    if isinstance(result, DictionaryAttr):
        entries = result.data
        if set(entries) == {"argument"} or set(entries) == {"value", "dtype"}:
            return
    elif isinstance(result, UnitAttr):
        return
    raise VerifyException(f"no description of a result: {result}")


# ---- the function


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function with the ABI of `TVMFFISafeCallType`: 0 is success, -1 an error that is set.

    `signature` is the text that stands in front of every message, `target` the kind of device it runs on.
    """

    name = "ffi.func"

    sym_name = prop_def(StringAttr)
    signature = prop_def(StringAttr)
    target = prop_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name `of` $signature `on` $target attr-dict-with-keyword $body"

    def __init__(self, name: str, signature: str, target: str, body: Region) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "signature": StringAttr(signature),
                "target": StringAttr(target),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        if self.target.data not in DEVICE_TYPES:
            raise VerifyException(f"target {self.target.data!r} is none of {list(DEVICE_TYPES)}")
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("the function ends with ffi.return")


class _InFunc(IRDLOperation):
    """An operation that stands in the body of an `ffi.func`."""

    traits = traits_def(HasParent(FuncOp))


@irdl_op_definition
class CheckCountOp(_InFunc):
    """As many arguments were passed as the function takes."""

    name = "ffi.check_count"

    count = prop_def(I64Attr)
    assembly_format = "$count attr-dict"

    def __init__(self, count: int) -> None:
        super().__init__(properties={"count": IntegerAttr(count, i64)})


# ---- arguments


class _DecodeOp(_InFunc):
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


# ---- promises about a tensor


class _TensorOp(_InFunc):
    """An operation on a tensor that was decoded."""

    tensor = operand_def(TensorType)

    @property
    def decoded(self) -> DecodeTensorOp:
        """Where the tensor comes from."""
        owner = self.tensor.owner
        if not isinstance(owner, DecodeTensorOp):
            raise VerifyException(f"{self.name} needs the result of ffi.decode_tensor")
        return owner

    def verify_(self) -> None:
        self.decoded  # noqa: B018  raises


@irdl_op_definition
class CheckOp(_TensorOp):
    """One property of a tensor is what it was compiled for.

    `data`: not null where there are elements; `rank`; `dtype`; `device_type` (DLDeviceType); `alignment`
    of the first element's address in bytes.
    """

    name = "ffi.check"

    what = prop_def(StringAttr)
    number = opt_prop_def(I64Attr)
    text = opt_prop_def(StringAttr)
    assembly_format = "$tensor $what (`is` $number^)? (`named` $text^)? attr-dict"

    def __init__(self, tensor: SSAValue, what: str, expected: int | str | None = None) -> None:
        properties: dict[str, Attribute | None] = {"what": StringAttr(what)}
        if isinstance(expected, int):
            properties["number"] = IntegerAttr(expected, i64)
        elif expected is not None:
            properties["text"] = StringAttr(expected)
        super().__init__(operands=[tensor], properties=properties)

    def verify_(self) -> None:
        super().verify_()
        expectations = {"data": (False, False), "dtype": (False, True)}
        if self.what.data not in TENSOR_CHECKS:
            raise VerifyException(f"{self.what.data!r} is none of {TENSOR_CHECKS}")
        if (self.number is not None, self.text is not None) != expectations.get(
            self.what.data, (True, False)
        ):
            raise VerifyException(f"ffi.check {self.what.data}: wrong kind of expectation")


class _DimensionOp(_TensorOp):
    """What looks at one dimension, or at its stride."""

    tensor = operand_def(TensorType)
    dimension = prop_def(I64Attr)

    @property
    def index(self) -> int:
        """The dimension's number."""
        return self.dimension.value.data

    def verify_(self) -> None:
        super().verify_()
        if not 0 <= self.index < MAX_RANK:
            raise VerifyException(f"{self.name}: no dimension {self.index}")


class _BindOp(_DimensionOp):
    """The first mention of a symbol: yields its value, after checking what the symbol promises."""

    symbol = prop_def(StringAttr)
    width = prop_def(I64Attr)
    divisibility = prop_def(I64Attr)
    result = result_def(i64)
    assembly_format = (
        "$tensor `[` $dimension `]` $symbol `width` $width `divisibility` $divisibility attr-dict"
    )

    def __init__(
        self, tensor: SSAValue, dimension: int, symbol: str, width: int, divisibility: int
    ) -> None:
        super().__init__(
            operands=[tensor],
            properties={
                "dimension": IntegerAttr(dimension, i64),
                "symbol": StringAttr(symbol),
                "width": IntegerAttr(width, i64),
                "divisibility": IntegerAttr(divisibility, i64),
            },
            result_types=[i64],
        )

    def _source(self, noun: str) -> str:
        return f"{self.decoded.argument.data}.{noun}[{self.index}]"


class _MatchOp(_DimensionOp):
    """A later mention of a symbol, or a constant: the value is that one."""

    tensor = operand_def(TensorType)
    expected = opt_operand_def(i64)
    size = opt_prop_def(I64Attr)
    assembly_format = "$tensor `[` $dimension `]` (`equals` $expected^)? (`is` $size^)? attr-dict"

    def __init__(self, tensor: SSAValue, dimension: int, expected: SSAValue | int) -> None:
        constant = IntegerAttr(expected, i64) if isinstance(expected, int) else None
        super().__init__(
            operands=[tensor, None if isinstance(expected, int) else expected],
            properties={"dimension": IntegerAttr(dimension, i64), "size": constant},
        )

    @property
    def bound(self) -> BindDimOp | BindStrideOp | None:
        """The first mention, or None for a constant."""
        owner = None if self.expected is None else self.expected.owner
        return owner if isinstance(owner, BindDimOp | BindStrideOp) else None

    def verify_(self) -> None:
        super().verify_()
        if (self.bound is None) == (self.size is None):
            raise VerifyException(f"{self.name} compares with a bound symbol or with a constant")


@irdl_op_definition
class BindDimOp(_BindOp):
    """A dimension gives its symbol a value; it is not negative and has `width` bits."""

    name = "ffi.bind_dim"

    @property
    def source(self) -> str:
        """How messages about a later mention refer to it: `a.shape[0]`."""
        return self._source("shape")


@irdl_op_definition
class CheckDimOp(_MatchOp):
    """A dimension has the value of a symbol, or a constant one."""

    name = "ffi.check_dim"


@irdl_op_definition
class BindStrideOp(_BindOp):
    """A stride gives its symbol a value, unless no element is reached by it (a dim of 1, no elements)."""

    name = "ffi.bind_stride"

    @property
    def source(self) -> str:
        """How messages about a later mention refer to it: `a.strides[0]`."""
        return self._source("strides")


@irdl_op_definition
class CheckStrideOp(_MatchOp):
    """A stride has the value of a symbol, or a constant one, unless no element is reached by it."""

    name = "ffi.check_stride"


@irdl_op_definition
class CheckLayoutOp(_TensorOp):
    """The strides are those of a layout class; null strides mean contiguous.

    Strides by which no element is reached are not looked at. `text` is the argument's type as the message
    writes it.
    """

    name = "ffi.check_layout"

    layout = prop_def(StringAttr)
    text = prop_def(StringAttr)
    assembly_format = "$tensor $layout `of` $text attr-dict"

    def __init__(self, tensor: SSAValue, layout: str, text: str) -> None:
        super().__init__(
            operands=[tensor],
            properties={"layout": StringAttr(layout), "text": StringAttr(text)},
        )

    def verify_(self) -> None:
        super().verify_()
        if self.layout.data not in (CONTIGUOUS, INNER):
            raise VerifyException(f"layout {self.layout.data!r} promises nothing")


@irdl_op_definition
class BindDeviceOp(_TensorOp):
    """The device that the call runs on: that of its first CUDA tensor."""

    name = "ffi.bind_device"

    result = result_def(i32)
    assembly_format = "$tensor attr-dict"

    def __init__(self, tensor: SSAValue) -> None:
        super().__init__(operands=[tensor], result_types=[i32])


@irdl_op_definition
class CheckDeviceOp(_TensorOp):
    """The tensor is on the call's device, or on the one that the signature names."""

    name = "ffi.check_device"

    tensor = operand_def(TensorType)
    device = opt_operand_def(i32)
    ordinal = opt_prop_def(I64Attr)
    assembly_format = "$tensor (`equals` $device^)? (`is` $ordinal^)? attr-dict"

    def __init__(self, tensor: SSAValue, device: SSAValue | int) -> None:
        constant = IntegerAttr(device, i64) if isinstance(device, int) else None
        super().__init__(
            operands=[tensor, None if isinstance(device, int) else device],
            properties={"ordinal": constant},
        )

    def verify_(self) -> None:
        super().verify_()
        if (self.device is None) == (self.ordinal is None):
            raise VerifyException("ffi.check_device compares with a device or with an ordinal")


@irdl_op_definition
class AsTensorOp(_TensorOp):
    """The tensor as the host function takes it, after its checks: pointer (with byte_offset), dims, strides."""

    name = "ffi.as_tensor"

    result = result_def(KernelTensorType)
    assembly_format = "$tensor attr-dict `:` type($result)"

    def __init__(self, tensor: SSAValue, tensor_type: Attribute) -> None:
        super().__init__(operands=[tensor], result_types=[tensor_type])


# ---- the call


@irdl_op_definition
class EnvironmentStreamOp(_InFunc):
    """The stream that the caller's library works on, for the call's device."""

    name = "ffi.environment_stream"

    device = opt_operand_def(i32)
    result = result_def(StreamType)
    assembly_format = "(`of` $device^)? attr-dict"

    def __init__(self, device: SSAValue | None) -> None:
        super().__init__(operands=[device], result_types=[StreamType()])


@irdl_op_definition
class DeviceGuardOp(_InFunc):
    """Calls the host function with the kernels loaded and the device current, and restores the caller's.

    Without `device` the stream's or the caller's current device is used. What was changed is restored on
    every path, before the host function's return code is looked at. On the CPU it is the call alone.
    """

    name = "ffi.device_guard"

    callee = prop_def(SymbolRefAttr)
    args = var_operand_def()
    device = opt_operand_def(i32)
    stream = opt_operand_def(StreamType)
    values = var_result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$callee `(` ($args^ `:` type($args))? `)` (`device` $device^)? (`stream` $stream^)? attr-dict "
        "(`->` type($values)^)?"
    )

    def __init__(
        self,
        callee: str,
        args: Sequence[SSAValue],
        device: SSAValue | None,
        stream: SSAValue | None,
        result_types: Sequence[Attribute],
    ) -> None:
        super().__init__(
            operands=[args, device, stream],
            properties={"callee": SymbolRefAttr(callee)},
            result_types=[result_types],
        )


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Success: stores what `result` describes, made of the host function's results and of arguments."""

    name = "ffi.return"

    values = var_operand_def()
    tensors = var_operand_def(TensorType)
    result = opt_prop_def()

    traits = traits_def(IsTerminator(), HasParent(FuncOp))
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "(`values` $values^ `:` type($values))? (`tensors` $tensors^)? (`as` $result^)? attr-dict"
    )

    def __init__(
        self,
        values: Sequence[SSAValue] = (),
        tensors: Sequence[SSAValue] = (),
        result: Attribute | None = None,
    ) -> None:
        super().__init__(operands=[values, tensors], properties={"result": result})

    def verify_(self) -> None:
        if self.result is not None:
            check_result(self.result)


FFI: Final = Dialect(
    "ffi",
    [
        FuncOp,
        CheckCountOp,
        DecodeTensorOp,
        DecodeScalarOp,
        DecodeStreamOp,
        DecodeNoneOp,
        CheckOp,
        BindDimOp,
        CheckDimOp,
        BindStrideOp,
        CheckStrideOp,
        CheckLayoutOp,
        BindDeviceOp,
        CheckDeviceOp,
        AsTensorOp,
        EnvironmentStreamOp,
        DeviceGuardOp,
        ReturnOp,
    ],
    [TensorType],
)
