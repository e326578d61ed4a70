# SPDX-License-Identifier: Apache-2.0
"""Checks that the sanitizer adds to a kernel: `simt.check`.

In: a condition, and values for a report. Out: nothing, or an error that names file, line, block and thread. Only passes
make it, never the front end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1, i32, i64
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft import _native
from weft.dialects.definition import operation_definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

CHECKS: Final = _native.CHECK_KINDS
"""The kinds, named as in `WEFT_CHECK_KINDS`."""
ARITHMETIC: Final = CHECKS[CHECKS.index("overflow") :]
"""Those that are about numbers."""
ACCESSES: Final = ("read", "written", "updated")


@operation_definition
class CheckOp(IRDLOperation):
    """Stops the launch with a report where `condition` is false; the location is that of the access.

    `array` is its name, empty where the source has it; `count` consecutive elements are accessed at once. The values
    are the indices and then the sizes of all dimensions. In arithmetic, `array` is a type and `access` an operator or a
    function, and the values are its operands: floats as the bits of a double.

    `ends`: the launch ends in any case. Otherwise a target may leave out the access that follows.
    """

    name = "simt.check"

    kind = prop_def(StringAttr)
    array = prop_def(StringAttr)
    access = prop_def(StringAttr)
    count = prop_def(IntegerAttr.constr(i32))
    ends = opt_prop_def(UnitAttr)
    condition = operand_def(i1)
    values = var_operand_def(i64)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "(`ends` $ends^)? $condition `,` $kind $array $access $count `values` `(` $values `)` attr-dict"

    def __init__(
        self,
        condition: SSAValue,
        kind: str,
        array: str,
        access: str,
        count: int,
        values: Sequence[SSAValue],
        *,
        ends: bool = False,
    ) -> None:
        super().__init__(
            operands=[condition, values],
            properties={
                **({"ends": UnitAttr()} if ends else {}),
                "kind": StringAttr(kind),
                "array": StringAttr(array),
                "access": StringAttr(access),
                "count": IntegerAttr(count, i32),
            },
        )

    def verify_(self) -> None:
        if self.kind.data not in CHECKS:
            raise VerifyException(f"check {self.kind.data!r} is not one of {CHECKS}")
        if self.kind.data in ARITHMETIC:
            return
        if self.access.data not in ACCESSES:
            raise VerifyException(f"access {self.access.data!r} is not one of {ACCESSES}")
        if len(self.values) % 2:
            raise VerifyException(f"{len(self.values)} values: expected indices and as many sizes")
