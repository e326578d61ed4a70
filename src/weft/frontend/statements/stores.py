# SPDX-License-Identifier: Apache-2.0
"""Assignments to elements of tensors, items of lists and dicts, and attributes of objects.

In: the target, what it is a part of, and the value. Out: operations, or a change of compile-time state.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any, cast

from weft.errors import TypeMismatchError, UnsupportedSyntaxError
from weft.frontend.events import tell_value
from weft.frontend.expressions.attributes import refuse_elements
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_plain_object
from weft.frontend.state.slots import Slot
from weft.frontend.structure import contains_staged
from weft.language.memory import access
from weft.language.values import Tensor

if TYPE_CHECKING:
    from weft.frontend.context import Frame


def store_item(frame: Frame, target: ast.Subscript, owner: Any, index: Any, value: Any) -> None:
    """``owner[index] = value``.

    Raises:
        TypeMismatchError: if `owner` has no items to assign, or the index of a container is known only at run time.
        UnsupportedSyntaxError: if the container must not change here.
    """
    if isinstance(owner, Tensor):
        refuse_elements(frame, owner)
        access.store(frame.mark(target), owner, index, value)
        return
    if not isinstance(owner, list | dict):
        raise TypeMismatchError(
            "TARGET",
            f"items of {constants.kind(owner)} cannot be assigned",
            hint="elements of tensors and of weft.local arrays can",
        )
    items: Any = cast("Any", owner)
    if contains_staged(index):
        raise TypeMismatchError(
            "NOT_CONSTANT",
            f"an index of a {type(items).__name__} must be known at compile time, "
            f"received {constants.kind(index)}",
            hint="keep the values in a weft.local array, or unroll with weft.static_range",
        )
    tell_value(frame, "assigned", target, ast.unparse(target), value)
    slot = _slot_of(items, index)
    if slot is not None:
        frame.state.assign(slot, value)
        return
    if type(cast("Any", owner)) is not list or isinstance(index, slice):
        frame.state.change(items, "an assignment")
    constants.python("the assignment", items.__setitem__, index, value)


def store_attribute(frame: Frame, target: ast.Attribute, owner: Any, value: Any) -> None:
    """``owner.name = value``.

    Raises:
        UnsupportedSyntaxError: unless `owner` is a plain object that may change here.
    """
    name = frame.source.mangled(target.attr)
    described = inspect.getattr_static(cast("Any", type(owner)), name, None)
    if not is_plain_object(owner) or hasattr(described, "__set__"):
        raise UnsupportedSyntaxError(
            "TARGET",
            f"attribute {name!r} of {constants.kind(owner)} cannot be assigned in compiled code",
            hint="plain attributes of objects made in compiled code can; or use variables",
        )
    tell_value(frame, "assigned", target, ast.unparse(target), value)
    frame.state.assign(Slot(owner, name), value)


def _slot_of(owner: Any, index: Any) -> Slot | None:
    """The item that an index or a key names; None if there is no such item, or several."""
    if type(owner) is dict:
        return Slot(owner, index) if index in owner else None
    if type(owner) is not list or not isinstance(index, int):
        return None
    count = len(cast("Any", owner))
    return Slot(owner, index % count) if -count <= index < count else None
