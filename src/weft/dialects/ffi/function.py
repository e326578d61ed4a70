# SPDX-License-Identifier: Apache-2.0
"""The wrapper itself: `ffi.func`, `ffi.check_count`, `ffi.return`.

In: a signature's text, the body. Out: a function of the TVM-FFI ABI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.ffi.results import check_result
from weft.dialects.ffi.types import TensorType
from weft.types.device import DEVICE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Region, SSAValue

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
