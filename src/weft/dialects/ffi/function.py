# SPDX-License-Identifier: Apache-2.0
"""The wrapper: `ffi.func`, `ffi.decode_…` for its arguments, the stream and the device of a call, `ffi.return`.

In: a signature's text, the body, a traced result. Out: a function of the TVM-FFI ABI; a result is a tree of numbers,
arguments, tuples and None: `weft.result` on the host function, and the property of `ffi.return`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import (
    BaseOperation,
    fixed_result,
    flag,
    integer,
    operands,
    operation_definition,
    opt_operand,
    opt_string,
    result,
    results,
    single_block,
    string,
    symbol,
)
from weft.dialects.simt.types import StreamType
from weft.dialects.simt.types import TensorType as KernelTensorType
from weft.types.device import DEVICE_TYPES
from weft.types.dtype import ALL_DTYPES, DType, dtype_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue
    from xdsl.irdl import OptOperand

    from weft.dialects.definition import (
        Body,
        Flag,
        Integer,
        Operands,
        OptString,
        Result,
        Results,
        String,
        Symbol,
    )


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.tensor`: a tensor argument; checks establish the rest one by one."""

    name = "ffi.tensor"


@irdl_attr_definition
class ArrayType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.array`: an argument that is a sequence of others."""

    name = "ffi.array"


RESULT_ATTRIBUTE: Final = "weft.result"
"""Attribute of the host's `func.func` that describes its result."""


def scalar_result(index: int, dtype: DType) -> DictionaryAttr:
    """The host function's result number `index`, a number of that type."""
    return DictionaryAttr({"value": IntegerAttr(index, i64), "dtype": StringAttr(dtype.name)})


def argument_result(name: str) -> DictionaryAttr:
    """The argument of that name, as passed."""
    return DictionaryAttr({"argument": StringAttr(name)})


def chosen_result(
    numbers: Mapping[str, int], index: int, *, may_be_new: bool = False
) -> DictionaryAttr:
    """One of several arguments, as passed: the one whose number is the host function's result number `index`.

    With `may_be_new` a negative number is that of a tensor that the call has made.
    """
    arguments = {name: IntegerAttr(number, i32) for name, number in numbers.items()}
    entries: dict[str, Attribute] = {
        "arguments": DictionaryAttr(arguments),
        "value": IntegerAttr(index, i64),
    }
    return DictionaryAttr(entries | ({"new": UnitAttr()} if may_be_new else {}))


def is_tensor(result: DictionaryAttr) -> bool:
    """Whether a result is a tensor, an argument or a new one."""
    return "argument" in result.data or "arguments" in result.data


def argument_numbers(result: DictionaryAttr) -> dict[str, int]:
    """The arguments that a result may be, with their numbers; a single one has none that matters."""
    single, several = result.data.get("argument"), result.data.get("arguments")
    if isinstance(several, DictionaryAttr):
        entries = cast("Mapping[str, IntegerAttr]", several.data)
        return {name: number.value.data for name, number in entries.items()}
    return {single.data: 0} if isinstance(single, StringAttr) else {}


def tuple_result(items: Sequence[Attribute]) -> ArrayAttr[Any]:
    """A tuple of results."""
    return ArrayAttr(items)


def tuple_items(result: Attribute | None) -> tuple[Attribute, ...] | None:
    """The items of a tuple of results, or None if it is not a tuple."""
    if isinstance(result, ArrayAttr):
        return cast("ArrayAttr[Attribute]", result).data
    return None


def none_result() -> UnitAttr:
    """None, the result of a host function that returns nothing."""
    return UnitAttr()


def check_result(result: Attribute) -> None:
    """Checks that an attribute is a tree of the five above.

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
        if set(entries) - {"new"} in ({"argument"}, {"arguments", "value"}, {"value", "dtype"}):
            return
    elif isinstance(result, UnitAttr):
        return
    raise VerifyException(f"not a description of a result: {result}")


ENTRY_PREFIX: Final = "__tvm_ffi_"
"""The prefix of a host function's name in its wrapper's symbol."""


@operation_definition
class FuncOp(BaseOperation):
    """A function with the ABI of `TVMFFISafeCallType`: 0 is success, -1 an error that is set.

    `signature` begins every message, `target` is the kind of device it runs on.
    """

    name = "ffi.func"

    sym_name: String = string()
    signature: String = string()
    target: String = string()
    body: Body = single_block()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name `of` $signature `on` $target attr-dict-with-keyword $body"

    def verify_(self) -> None:
        if self.target.data not in DEVICE_TYPES:
            raise VerifyException(f"target {self.target.data!r} is not one of {list(DEVICE_TYPES)}")
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("the function ends with ffi.return")


class InFunctionOp(BaseOperation):
    """An operation in the body of an `ffi.func`."""

    traits = traits_def(HasParent(FuncOp))


@operation_definition
class CheckCountOp(InFunctionOp):
    """The number of passed arguments is right."""

    name = "ffi.check_count"

    count: Integer = integer(i64)
    assembly_format = "$count attr-dict"


@operation_definition
class ReturnOp(IRDLOperation):
    """Success: stores the value described by `result`, made from the host function's results and from arguments."""

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


_DTYPE_NAMES: Final = frozenset(dtype.name for dtype in ALL_DTYPES)


class DecodeOp(InFunctionOp):
    """Reads one argument: its position in the call, or `within` an array, and its name.

    The name of an item is its path: `t[1].x`.
    """

    position: Integer = integer(i64)
    argument: String = string()
    within: OptOperand = opt_operand(ArrayType)

    assembly_format = "$position $argument (`in` $within^)? attr-dict"

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

    result = fixed_result(TensorType())


@operation_definition
class DecodeShapeOp(DecodeOp):
    """The argument is `rank` integers, given as a shape, an array or a list. It has dims but no memory."""

    name = "ffi.decode_shape"

    rank: Integer = integer(i64)
    result = fixed_result(TensorType())
    assembly_format = "$position $argument (`in` $within^)? `rank` $rank attr-dict"


@operation_definition
class DecodeSizeOp(DecodeOp):
    """The argument is an integer that is a dimension of its own, with the number 0."""

    name = "ffi.decode_size"

    result = fixed_result(TensorType())


@operation_definition
class DecodeScalarOp(DecodeOp):
    """The argument is a number that fits `dtype`."""

    name = "ffi.decode_scalar"

    dtype: String = string()
    result: Result[Attribute] = result()
    assembly_format = "$position $argument (`in` $within^)? `as` $dtype attr-dict `:` type($result)"

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

    text: String = string()
    result: Result[KernelTensorType] = result(KernelTensorType)
    assembly_format = "$position $argument (`in` $within^)? `of` $text attr-dict `:` type($result)"


@operation_definition
class DecodeStreamOp(DecodeOp):
    """The argument is a stream: a handle, an integer or None."""

    name = "ffi.decode_stream"

    result = fixed_result(StreamType())


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

    size: Integer = integer(i64)
    text: OptString = opt_string()
    result = fixed_result(ArrayType())
    assembly_format = "$position $argument (`in` $within^)? `size` $size (`of` $text^)? attr-dict"


@operation_definition
class EnvironmentStreamOp(InFunctionOp):
    """The current stream of the caller's library, for the call's device."""

    name = "ffi.environment_stream"

    device: OptOperand = opt_operand(i32)
    result = fixed_result(StreamType())
    assembly_format = "(`of` $device^)? attr-dict"


@operation_definition
class DeviceGuardOp(InFunctionOp):
    """Calls the host function with the kernels loaded and the device current, and restores the caller's.

    Without `device` the stream's or the caller's current device is used. Changes are undone on every path, before the
    host function's return code is examined. On the CPU it is only the call. With `scratch` the host function may
    take scratch memory, which is given back first, and with `tensors` make tensors, which are there until the end.
    """

    name = "ffi.device_guard"

    callee: Symbol = symbol()
    args: Operands = operands()
    device: OptOperand = opt_operand(i32)
    stream: OptOperand = opt_operand(StreamType)
    values: Results[Attribute] = results()
    scratch: Flag = flag(default=False)
    tensors: Flag = flag(default=False)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$callee `(` ($args^ `:` type($args))? `)` (`device` $device^)? (`stream` $stream^)? attr-dict "
        "(`->` type($values)^)?"
    )
