# SPDX-License-Identifier: Apache-2.0
"""Output, checks and promises inside a kernel: `simt.printf`, `simt.assert`, `simt.assume`.

In: a C format string with its arguments, a condition with its text. Out: text on the process's standard
output; an error that names file, line, block and thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr, i1
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect

from weft.dialects.builder import text_attribute
from weft.dialects.definition import operation_definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue


@operation_definition
class PrintfOp(IRDLOperation):
    """C's printf; arguments are i32, i64 and f64 only, as a variadic C call would pass them."""

    name = "simt.printf"

    text = prop_def(StringAttr)
    args = var_operand_def()

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$text (`(` $args^ `:` type($args) `)`)? attr-dict"

    def __init__(self, text: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[args], properties={"text": text_attribute(text)})


@operation_definition
class AssertOp(IRDLOperation):
    """Stops the launch with an error where `condition` is false; the location is the assert's."""

    name = "simt.assert"

    condition = operand_def(i1)
    text = prop_def(StringAttr)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $text attr-dict"

    def __init__(self, condition: SSAValue, text: str) -> None:
        super().__init__(operands=[condition], properties={"text": text_attribute(text)})


@operation_definition
class AssumeOp(IRDLOperation):
    """Promises that `condition` holds here: on a GPU code is made for that case alone, the CPU checks it."""

    name = "simt.assume"

    condition = operand_def(i1)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition attr-dict"

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition])
