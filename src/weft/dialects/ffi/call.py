# SPDX-License-Identifier: Apache-2.0
"""The call: `ffi.environment_stream`, `ffi.device_guard`.

In: decoded arguments. Out: the host function's results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import SymbolRefAttr, UnitAttr, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from weft.dialects.definition import operation_definition
from weft.dialects.ffi.function import InFunctionOp
from weft.dialects.simt.types import StreamType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue


@operation_definition
class EnvironmentStreamOp(InFunctionOp):
    """The current stream of the caller's library, for the call's device."""

    name = "ffi.environment_stream"

    device = opt_operand_def(i32)
    result = result_def(StreamType)
    assembly_format = "(`of` $device^)? attr-dict"

    def __init__(self, device: SSAValue | None) -> None:
        super().__init__(operands=[device], result_types=[StreamType()])


@operation_definition
class DeviceGuardOp(InFunctionOp):
    """Calls the host function with the kernels loaded and the device current, and restores the caller's.

    Without `device` the stream's or the caller's current device is used. Changes are undone on every path, before the
    host function's return code is examined. On the CPU it is only the call. With `scratch` the host function may
    take scratch memory, which is given back first.
    """

    name = "ffi.device_guard"

    callee = prop_def(SymbolRefAttr)
    scratch = opt_prop_def(UnitAttr)
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
        *,
        has_scratch: bool = False,
    ) -> None:
        super().__init__(
            operands=[args, device, stream],
            properties={
                "callee": SymbolRefAttr(callee),
                "scratch": UnitAttr() if has_scratch else None,
            },
            result_types=[result_types],
        )
