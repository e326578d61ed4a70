# SPDX-License-Identifier: Apache-2.0
"""The wrapper itself: `ffi.func`, `ffi.check_count`, `ffi.return`; the dialect's types; the result of a host function.

In: a signature's text, the body, a traced result. Out: a function of the TVM-FFI ABI; a result is a tree of numbers,
arguments, tuples and None: `weft.result` on the host function, and the property of `ffi.return`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

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
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.types.device import DEVICE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, Region, SSAValue

    from weft.types.dtype import DType


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


def chosen_result(numbers: Mapping[str, int], index: int) -> DictionaryAttr:
    """One of several arguments, as passed: the one whose number is the host function's result number `index`."""
    arguments = {name: IntegerAttr(number, i32) for name, number in numbers.items()}
    return DictionaryAttr(
        {"arguments": DictionaryAttr(arguments), "value": IntegerAttr(index, i64)}
    )


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
        if set(entries) in ({"argument"}, {"arguments", "value"}, {"value", "dtype"}):
            return
    elif isinstance(result, UnitAttr):
        return
    raise VerifyException(f"not a description of a result: {result}")


ENTRY_PREFIX: Final = "__tvm_ffi_"
"""The prefix of a host function's name in its wrapper's symbol."""

I64Attr: Final = IntegerAttr.constr(i64)


@operation_definition
class FuncOp(IRDLOperation):
    """A function with the ABI of `TVMFFISafeCallType`: 0 is success, -1 an error that is set.

    `signature` begins every message, `target` is the kind of device it runs on.
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
            raise VerifyException(f"target {self.target.data!r} is not one of {list(DEVICE_TYPES)}")
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("the function ends with ffi.return")


class InFunctionOp(IRDLOperation):
    """An operation in the body of an `ffi.func`."""

    traits = traits_def(HasParent(FuncOp))


@operation_definition
class CheckCountOp(InFunctionOp):
    """The number of passed arguments is right."""

    name = "ffi.check_count"

    count = prop_def(I64Attr)
    assembly_format = "$count attr-dict"

    def __init__(self, count: int) -> None:
        super().__init__(properties={"count": IntegerAttr(count, i64)})


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
