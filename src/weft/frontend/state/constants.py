# SPDX-License-Identifier: Apache-2.0
"""Compile-time values are computed by Python; its exceptions become errors with a place.

In: Python objects. Out: Python objects.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from weft.blame import is_of_a_handler
from weft.errors import CompileError, TypeMismatchError, WeftError
from weft.frontend.structure import contains_staged
from weft.language.values import RunTimeIterable, describe, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable

# pyright: reportUnknownMemberType=false
# The operator module's functions have no types.
BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "@": operator.matmul,
}
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_IN_PLACE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **BINARY,
    "+": operator.iadd,
    "*": operator.imul,
    "-": operator.isub,
    "&": operator.iand,
    "|": operator.ior,
    "^": operator.ixor,
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}


def binary(ask: Callable[..., Any], sign: str, left: Any, right: Any) -> Any:
    """``left sign right`` of two compile-time objects; tuples of staged values can be joined and repeated."""
    _check_staged(sign, left, right)
    return ask(f"operator {sign}", BINARY[sign], left, right)


def in_place(run: Callable[..., Any], sign: str, left: Any, right: Any) -> Any:
    """``left sign= right`` of a container, which changes it."""
    _check_staged(sign, left, right)
    return run(f"operator {sign}=", _IN_PLACE[sign], left, right)


def _check_staged(sign: str, left: Any, right: Any) -> None:
    if contains_staged(left) or contains_staged(right):
        if not (_is_sequence(left) or _is_sequence(right)) or sign not in "+*":
            raise TypeMismatchError(
                "OPERATOR_UNKNOWN",
                f"{kind(left)} and {kind(right)} do not support operator {sign!r} here",
                hint="compute with their items",
            )


def _is_sequence(value: object) -> bool:
    return isinstance(value, tuple | list)


def unary(ask: Callable[..., Any], sign: str, value: Any) -> Any:
    """``sign value`` of a compile-time object."""
    refuse_staged(value, f"operator {sign}")
    return ask(f"operator {sign}", _UNARY[sign], value)


def kind(value: object) -> str:
    """A value for a message: a container of staged values by its type, a function by its name."""
    if not is_staged(value) and contains_staged(value):
        return f"a {type(value).__name__} of run-time values"
    name = getattr(value, "__name__", None)
    return f"the {type(value).__name__} {name}" if isinstance(name, str) else describe(value)


def refuse_staged(value: object, what: str) -> None:
    """Raises if a value that must be known at compile time is, or contains, a staged one."""
    if contains_staged(value):
        raise TypeMismatchError(
            "NOT_CONSTANT",
            f"{what} must be known at compile time, received {kind(value)}",
            hint="use a literal, a global or a weft.Constexpr parameter",
        )


def python(what: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Runs Python at compile time; exceptions are reported as the program's errors.

    Raises:
        CompileError: if it raises.
    """
    try:
        return function(*arguments, **keywords)
    except (WeftError, RecursionError, MemoryError):
        raise
    except Exception as error:
        if is_of_a_handler(error):
            raise
        for given in (*arguments, *keywords.values()):
            if isinstance(error, TypeError) and (
                is_staged(given) or isinstance(given, RunTimeIterable)
            ):
                raise TypeMismatchError(
                    "PYTHON_RAISED",
                    f"{what} runs in Python at compile time, but {describe(given)} is known only at run time",
                    hint="loop with for, as in for i in range(n): total += a[i]; only constants have items here",
                ) from error
        raise CompileError(
            "PYTHON_RAISED",
            f"{what} raised {type(error).__name__} at compile time: {error}",
            hint="this part runs in Python at compile time",
        ) from error
