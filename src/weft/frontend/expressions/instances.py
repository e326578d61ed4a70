# SPDX-License-Identifier: Apache-2.0
"""Instances of users' classes made by tracing: their ``__init__`` may take run-time values and use the language.

In: a class and its arguments. Out: the instance, which traced code may change where it was made; `NONE` for a class
that Python makes instances of.
"""

from __future__ import annotations

import dataclasses
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_dataclass
from weft.errors import TypeMismatchError
from weft.frontend.expressions.staging import needs_tracing
from weft.frontend.source.text import is_generated
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_plain_object
from weft.frontend.structure import contains_staged

if TYPE_CHECKING:
    from weft.frontend.context import Frame

NONE: Final = NotImplemented


def make(frame: Frame, kind: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """``kind(*arguments, **keywords)``, with its ``__init__`` inlined; `NONE` if it is not of this sort."""
    if not isinstance(kind, type) or type(kind).__call__ is not type.__call__:
        return NONE
    if kind.__new__ is not object.__new__ or is_dataclass(kind, frozen=True):
        return NONE
    start = inspect.getattr_static(kind, "__init__")
    if not isinstance(start, FunctionType):
        return NONE
    after = inspect.getattr_static(kind, "__post_init__", None)
    run = after if is_generated(start) else start
    is_traced = contains_staged(arguments) or contains_staged(keywords)
    if not is_traced and not (
        isinstance(run, FunctionType) and needs_tracing(run, kind, arguments, keywords)
    ):
        return NONE
    made = constants.python(f"{kind.__name__}()", object.__new__, kind)
    if not is_plain_object(made):
        return NONE
    frame.state.note(made)
    if is_generated(start):
        return _filled(frame, made, start, after, arguments, keywords)
    if frame.inline(start, [made, *arguments], keywords) is not None:
        raise TypeMismatchError(
            "CALL_ARGUMENTS", f"{kind.__name__}.__init__() should return None, as Python demands"
        )
    return made


def base_methods(frame: Frame) -> Any:
    """The value of ``super()`` in a method being inlined; `NONE` outside of one."""
    cell, parameters = frame.source.closure.get("__class__"), frame.source.tree.args
    first = next(iter([*parameters.posonlyargs, *parameters.args]), None)
    if cell is None or first is None or frame.scope.parent is not None:
        return NONE
    return constants.python("super()", super, cell.cell_contents, frame.scope.lookup(first.arg))


def _filled(
    frame: Frame,
    made: Any,
    start: FunctionType,
    after: Any,
    arguments: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """An instance of a dataclass, with its fields as its generated ``__init__`` assigns them."""
    kind = cast("Any", type(made))
    signature = inspect.signature(start)
    try:
        given = signature.bind(made, *arguments, **keywords).arguments
    except TypeError as error:
        raise TypeMismatchError("CALL_ARGUMENTS", f"{kind.__name__}(): {error}") from None
    handed: list[Any] = []
    for field in kind.__dataclass_fields__.values():
        if field.init and field.name in given:
            value = given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = frame.state.run(f"{field.name}=", field.default_factory)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        else:
            continue
        if field._field_type.name == "_FIELD":
            vars(made)[field.name] = value
        elif field._field_type.name == "_FIELD_INITVAR":
            handed.append(value)
    if isinstance(after, FunctionType):
        frame.inline(after, [made, *handed], {})
    return made
