# SPDX-License-Identifier: Apache-2.0
"""The user's names in printed IR.

In: a value and the variable that it is assigned to. Out: the value's name, where the IR can print it. Next: loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.arith import ConstantOp
from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from xdsl.ir import Attribute


def name_value(value: SSAValue[Attribute], name: str) -> None:
    """Gives a value the name of a variable.

    Constants are shared and keep none, and so does what has a letter that the IR's syntax lacks.
    """
    if SSAValue.is_valid_name(name) and not isinstance(value.owner, ConstantOp):
        value.name_hint = name
