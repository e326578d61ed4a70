# SPDX-License-Identifier: Apache-2.0
"""Registers that warpgroups hand to each other: `nvgpu.setmaxnreg`.

In: a number of registers. Out: nothing.
"""

from __future__ import annotations

from typing import Final

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.irdl import IRDLOperation, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import CalledAs
from weft.dialects.definition import operation_definition

REGISTER_COUNTS: Final = range(24, 257, 8)
"""Registers per thread, by PTX's `setmaxnreg`."""


@operation_definition
class SetmaxnregOp(IRDLOperation):
    """Each thread of the warpgroup has `count` registers from here on, and waits until there are so many.

    All its warps execute it. A register file has as many as the launch gave each thread; some warpgroups ask for fewer
    so that others can have more.
    """

    name = "nvgpu.setmaxnreg"

    count = prop_def(IntegerAttr.constr(i32))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), CalledAs("setmaxnreg"))
    assembly_format = "$count attr-dict"

    def __init__(self, count: int) -> None:
        super().__init__(properties={"count": IntegerAttr(count, i32)})

    def verify_(self) -> None:
        if self.count.value.data not in REGISTER_COUNTS:
            raise VerifyException(
                f"{self.count.value.data} registers; expected a multiple of 8 from 24 to 256"
            )
