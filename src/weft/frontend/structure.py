# SPDX-License-Identifier: Apache-2.0
"""Containers that hold staged values: tuples, named tuples, lists, dicts, frozen dataclasses.

In: a value. Out: its leaves, and how to rebuild the container around others.
"""

from __future__ import annotations

import gc
import itertools
from collections import deque
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.arguments.records import is_dataclass, make
from weft.blame import HEAP_TYPE, is_of_weft
from weft.language.values import Fragment, Scalar, Staged, Stream, Tensor, TensorMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xdsl.ir import SSAValue

_STAGED: Final = (Scalar, Tensor, TensorMap, Fragment, Stream)
PLAIN: Final = frozenset((int, float, bool, str, bytes, type(None), *_STAGED))
"""Classes of values that hold no others and have built-in operators."""
# Classes by which Python passes items on; their contents are found through references.
_EMPTY: Final[dict[str, Any]] = {}
_VIEWS: Final[tuple[type[Any], ...]] = (type(_EMPTY.values()), type(_EMPTY.items()), deque)
_PASSING: Final[frozenset[type[Any]]] = frozenset(
    (
        *(zip, enumerate, reversed, itertools.chain, itertools.islice, itertools.cycle),
        *(type(iter(())), type(iter([*_EMPTY])), type(reversed([*_EMPTY]))),
        *(type(iter(_EMPTY.values())), type(iter(_EMPTY.items()))),
    )
)


class Deferred:
    """The front end's own lazy iterator, whose items may be staged."""

    __slots__ = ()


class Shape(NamedTuple):
    """A container's structure: two values with equal structure have the same shape.

    Attributes:
        kind: the container's class.
        labels: field names or keys, or the number of items.
        children: one shape per item; None for a leaf.
    """

    kind: type
    labels: tuple[Any, ...]
    children: tuple[Shape | None, ...]


def children(value: object) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Labels and items of a container; None for a leaf."""
    kind = type(value)
    if kind in PLAIN:
        return None
    if isinstance(value, tuple | list):
        items = list(cast("list[Any]", value))
        return (len(items),), items
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return tuple(table), list(table.values())
    if is_dataclass(kind, frozen=True):
        names = tuple(cast("Any", kind).__dataclass_fields__)
        return names, [getattr(value, name) for name in names]
    return None


def flatten(value: object) -> tuple[Shape | None, list[Any]]:
    """The shape of a value and its leaves; None if it is a leaf itself."""
    leaves: list[Any] = []
    return _shape_of(value, leaves), leaves


def _shape_of(value: object, leaves: list[Any]) -> Shape | None:
    found = children(value)
    if found is None:
        leaves.append(value)
        return None
    labels, items = found
    return Shape(type(value), labels, tuple(_shape_of(item, leaves) for item in items))


def rebuild(shape: Shape | None, leaves: Iterator[Any]) -> Any:
    """The container of that shape around the next leaves."""
    if shape is None:
        return next(leaves)
    items = [rebuild(child, leaves) for child in shape.children]
    kind = shape.kind
    if issubclass(kind, list):
        return items
    if issubclass(kind, dict):
        return dict(zip(shape.labels, items, strict=True))
    return make(kind, shape.labels, tuple(items))


def with_values(value: object, arguments: Iterator[SSAValue]) -> Any:
    """The same with the next arguments instead of its scalars, tensors and fragments."""
    shape, leaves = flatten(value)
    return rebuild(shape, (_with_value(leaf, arguments) for leaf in leaves))


def _with_value(leaf: Any, arguments: Iterator[SSAValue]) -> Any:
    if isinstance(leaf, Scalar):
        return Scalar(next(arguments), leaf.dtype)
    if isinstance(leaf, Fragment):
        return Fragment(next(arguments), leaf.dtype)
    return Tensor(next(arguments), leaf.dtype, leaf.name) if isinstance(leaf, Tensor) else leaf


def contains_staged(value: object) -> bool:
    """Whether a value, or something inside it, is known only at run time."""
    if type(value) in PLAIN:
        return isinstance(value, Staged)
    found = children(value)
    items = passed_on(value) if found is None else found[1]
    return isinstance(value, Deferred) or any(contains_staged(item) for item in items)


def slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots of a user's class and its bases, by name."""
    # The members of a class in C may be read-only, and its state more than these.
    return _members(base for base in kind.__mro__ if "__slots__" in vars(base))


def _members(bases: Iterable[type]) -> dict[str, MemberDescriptorType]:
    found: dict[str, MemberDescriptorType] = {}
    for base in bases:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType):
                found.setdefault(name, slot)
    return found


def attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """An instance's own attributes, in its dict and slots."""
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        yield from cast("dict[str, Any]", own).items()
    bases: tuple[type, ...] = type(value).__mro__
    for name, slot in _members(base for base in bases if base.__flags__ & HEAP_TYPE).items():
        try:
            yield name, slot.__get__(value)
        except AttributeError:
            continue  # it is not assigned


def staged_attribute(value: object, depth: int = 4) -> str | None:
    """The path of an attribute known only at run time, such as `.x` or `.origin.x`; None for an object without one.

    Args:
        value: an object.
        depth: how many objects in each other are looked into.
    """
    is_ours = is_of_weft(type(value)) and not hasattr(value, "__dict__")
    if not depth or is_ours or isinstance(value, type | ModuleType | FunctionType):
        return None
    for name, item in attributes_of(value):
        if contains_staged(item):
            return f".{name}"
        inner = staged_attribute(item, depth - 1)
        if inner is not None:
            return f".{name}{inner}"
    return None


def passed_on(value: Any) -> Iterable[Any]:
    """The source of a Python iterator, or of a dict view."""
    if type(value) in _PASSING:
        return gc.get_referents(value)
    return cast("Iterable[Any]", value) if isinstance(value, _VIEWS) else ()


def same_constant(left: object, right: object) -> bool:
    """Whether two compile-time values are the same: 1, 1.0 and True differ, NaN equals itself."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    try:
        return bool(left == right)
    except Exception:  # a user's __eq__ may raise; then they count as different
        return False
