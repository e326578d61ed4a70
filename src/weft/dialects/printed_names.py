# SPDX-License-Identifier: Apache-2.0
"""The user's names and texts in printed IR.

In: a value and the variable that it is assigned to; a text. Out: the value's name, where the IR can print it; an
attribute that it can always print.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from xdsl.ir import Attribute


_NUMBERS: Final = re.compile(r"(_\d+)+$")


def name_value(value: SSAValue[Attribute], name: str) -> None:
    """Gives a value the name of a variable.

    Constants are shared and keep none, and so does what has a letter that the IR's syntax lacks.
    """
    # A printer numbers values of one name itself; xDSL takes one number off that a name ends with, and letters that
    # its lexer does not read.
    name = _NUMBERS.sub("", name)
    if name.isascii() and SSAValue.is_valid_name(name) and not isinstance(value.owner, ConstantOp):
        value.name_hint = name


def text_attribute(text: str) -> StringAttr:
    r"""A text that a user wrote; what has no UTF-8 (half a pair, a byte of a path) and NUL as Python shows them.

    Example:
        >>> text_attribute("caf\udce9").data
        'caf\\udce9'
    """
    return StringAttr(text.encode(errors="backslashreplace").decode().replace("\0", "\\x00"))
