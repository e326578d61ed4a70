# SPDX-License-Identifier: Apache-2.0
"""The user's names and texts in printed IR.

In: a value and the variable it is assigned to; a text. Out: the value's name, if the IR can print it; a printable
attribute.
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

    Constants are shared and get none, as do names with letters that the IR's syntax lacks.
    """
    # The printer numbers equal names itself; xDSL strips a trailing number, and letters that its lexer does not read.
    name = _NUMBERS.sub("", name)
    if name.isascii() and SSAValue.is_valid_name(name) and not isinstance(value.owner, ConstantOp):
        value.name_hint = name


def text_attribute(text: str) -> StringAttr:
    r"""A user's text; code points without UTF-8 (lone surrogates) and NUL as Python shows them.

    Example:
        >>> text_attribute("caf\udce9").data
        'caf\\udce9'
    """
    return StringAttr(text.encode(errors="backslashreplace").decode().replace("\0", "\\x00"))
