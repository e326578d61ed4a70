# SPDX-License-Identifier: Apache-2.0
"""Operators on objects of a user's classes, such as a frozen dataclass of staged values with `__add__`.

In: an operator and its operands. Out: what the class's method returns, inlined; `NONE` where no class has one.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.frontend.expressions.staging import holds_kernel_object
from weft.language.values import is_staged

if TYPE_CHECKING:
    from weft.frontend.context import Frame

NONE: Final = NotImplemented
"""What stands for "no method": Python's own value, which a method may return too."""

_BINARY: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and",
    "|": "or",
    "^": "xor",
    "@": "matmul",
}
_UNARY: Final = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}
# Operator → its method, and the method of the other operand that Python asks next.
_COMPARISONS: Final = {
    "==": ("__eq__", "__eq__"),
    "!=": ("__ne__", "__ne__"),
    "<": ("__lt__", "__gt__"),
    "<=": ("__le__", "__ge__"),
    ">": ("__gt__", "__lt__"),
    ">=": ("__ge__", "__le__"),
}


def binary(frame: Frame, sign: str, left: Any, right: Any, *, in_place: bool = False) -> Any:
    """``left sign right`` by a method of either operand's class."""
    name = _BINARY[sign]
    found: Any = NONE
    if in_place:
        found = call(frame, left, f"__i{name}__", right)
    if found is NONE:
        found = call(frame, left, f"__{name}__", right)
    return call(frame, right, f"__r{name}__", left) if found is NONE else found


def unary(frame: Frame, sign: str, value: Any) -> Any:
    """``sign value`` by a method of the value's class."""
    return call(frame, value, _UNARY[sign])


def compare(frame: Frame, sign: str, left: Any, right: Any) -> Any:
    """``left sign right`` by a method of either operand's class."""
    first, second = _COMPARISONS[sign]
    found = call(frame, left, first, right)
    return call(frame, right, second, left) if found is NONE else found


def call(frame: Frame, owner: Any, name: str, *arguments: Any) -> Any:
    """``owner.name(*arguments)``, inlined where the class is the user's and a value is staged."""
    function = find(owner, name)
    if function is None or not holds_kernel_object((owner, *arguments)):
        return NONE
    return frame.inline(function, (owner, *arguments), {})


def find(owner: Any, name: str) -> FunctionType | None:
    """The method of that name, if the object's class has one that is written in Python."""
    if is_staged(owner) or isinstance(owner, type):
        return None
    function = inspect.getattr_static(cast("Any", type(owner)), name, None)
    # What `dataclass` generates has no text; the front end knows what it means.
    if not isinstance(function, FunctionType) or function.__code__.co_filename == "<string>":
        return None
    return function
