# SPDX-License-Identifier: Apache-2.0
"""Values of names in annotations kept as text, taken from the enclosing functions and classes.

In: a function as it is decorated. Out: name → value. Under ``from __future__ import annotations`` a function does not
hold what its annotations name, and the enclosing function's variables are gone when it is compiled.
"""

from __future__ import annotations
import __future__

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_TEXT_FLAG: Final = __future__.annotations.compiler_flag


def enclosing_names(function: FunctionType) -> dict[FunctionType, dict[str, Any]]:
    """The names of a function's annotations, and of the helpers in its closure, that enclosing scopes hold now.

    The calling frames include those scopes, since they run the decorator.
    """
    found: dict[FunctionType, dict[str, Any]] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if one in found or "." not in one.__qualname__:
            continue
        found[one] = _found_in(list(_scopes(one)), _names(one))
        waiting += _helpers(one)
    return {one: names for one, names in found.items() if names}


def _names(function: FunctionType) -> set[str]:
    # Python 3.14 evaluates other annotations when asked for them, in their scope.
    if not function.__code__.co_flags & _TEXT_FLAG and sys.version_info >= (3, 14):
        return set()
    names: set[str] = set()
    for text in function.__annotations__.values():
        if isinstance(text, str):
            try:
                names.update(compile(text, "<annotation>", "eval").co_names)
            except (SyntaxError, ValueError):
                continue  # told when the parameters are read
    return names


def _scopes(function: FunctionType) -> Iterator[FrameType]:
    """The frames of the classes and functions around a function, from the innermost out."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        around = frame.f_code.co_qualname
        if frame.f_globals is function.__globals__ and _encloses(frame.f_code, around, function):
            yield frame
        frame = frame.f_back


def _encloses(code: CodeType, around: str, function: FunctionType) -> bool:
    name = function.__qualname__
    return (
        name.startswith((f"{around}.<locals>.", f"{around}."))
        and code.co_filename == function.__code__.co_filename
    )


def _found_in(scopes: list[FrameType], names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for frame in reversed(scopes) if names else ():
        own = frame.f_locals
        found |= {name: own[name] for name in names if name in own}
    return found


def _helpers(function: FunctionType) -> list[FunctionType]:
    helpers: list[FunctionType] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        if isinstance(value, FunctionType):
            helpers.append(value)
    return helpers
