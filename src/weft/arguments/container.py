# SPDX-License-Identifier: Apache-2.0
"""The argument kind of containers: tuples, named tuples and frozen dataclasses, nested to any depth.

In: `tuple[...]` or a class as an annotation, a tuple, list or instance as an example. Out: `ContainerKind`: a
class and the kind of each item. Compile-time fields belong to the kind and are not passed.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, cast

from weft.arguments.base import (
    MISSING,
    ArgumentKind,
    annotation_text,
    describe,
    items_of,
)
from weft.arguments.constant import ConstantKind
from weft.arguments.records import is_dataclass, is_record, make, record_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.arguments.base import Leaf, Place, Symbols


class ContainerKind(ArgumentKind):
    """A tuple of arguments, or an object with named ones.

    Attributes:
        type: `tuple`, a named tuple's class or a frozen dataclass; the traced function sees an instance.
        names: of the fields; empty for a tuple.
        items: the kind of each item; a `ConstantKind` among them is not passed.
    """

    title = "tuples, named tuples and frozen dataclasses of these"

    type: type
    names: tuple[str, ...]
    items: tuple[ArgumentKind, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        where = (self.type.__module__, self.type.__qualname__)
        return ("ContainerKind", *where, self.names, *(item.key for item in self.items))

    @property
    def is_staged(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether anything in it is a run-time value."""
        return any(item.is_staged for item in self.items)

    @property
    def text(self) -> str:
        """`tuple[f32, i32]`, or `Point(x: f32, tile=4)`, where `tile` is a compile-time field."""
        if not self.names:
            items = ", ".join(item.text for item in self.items)
            return f"tuple[{items or '()'}]"
        parts = [
            f"{name}={item.value!r}" if isinstance(item, ConstantKind) else f"{name}: {item.text}"
            for name, item in zip(self.names, self.items, strict=True)
        ]
        return f"{self.type.__name__}({', '.join(parts)})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The path suffix of each item: `[0]`, or `.x`."""
        if self.names:
            return tuple(f".{name}" for name in self.names)
        return tuple(f"[{index}]" for index in range(len(self.items)))

    @property
    def parts(self) -> tuple[tuple[str, ArgumentKind], ...]:
        return tuple(zip(self.labels, self.items, strict=True))

    @property
    def passed_parts(self) -> tuple[tuple[str, ArgumentKind], ...]:
        """The parts that a caller passes, in order."""
        return tuple((label, item) for label, item in self.parts if item.is_passed)

    def with_parts(self, kinds: Sequence[ArgumentKind]) -> ContainerKind:
        return ContainerKind(self.type, self.names, tuple(kinds))

    def host_arguments(self, path: str) -> Iterator[Leaf]:
        for label, item in self.parts:
            yield from item.host_arguments(path + label)

    def make(self, values: Sequence[Any]) -> Any:
        """An instance that holds these values."""
        return make(self.type, self.names, tuple(values))

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return (
            annotation is tuple
            or typing.get_origin(annotation) is tuple
            or is_record(annotation)
            or (isinstance(annotation, type) and is_dataclass(annotation, frozen=False))
        )

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return isinstance(value, tuple | list) or _has_fields(type(value))

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> ContainerKind:
        wanted = annotation if isinstance(annotation, type) and annotation is not tuple else None
        if wanted is not None or (value is not MISSING and _has_fields(type(value))):
            return _infer_record(wanted or type(value), value, place, symbols)
        return _infer_tuple(annotation, value, place, symbols)

    def resolved(self, symbols: Symbols) -> ContainerKind:
        return self.with_parts([item.resolved(symbols) for item in self.items])


def _has_fields(kind: type) -> bool:
    return is_record(kind) or is_dataclass(kind, frozen=False)


def _infer_tuple(
    annotation: object, value: object, place: Place, symbols: Symbols
) -> ContainerKind:
    values = None if value is MISSING else items_of(value)
    if value is not MISSING and values is None:
        raise _not_container(annotation, value, place)
    said = tuple(MISSING if one is Any else one for one in typing.get_args(annotation))
    if said and said[-1] is ...:
        said = None if values is None else said[:1] * len(values)
    elif annotation is MISSING or annotation is tuple:
        said = None if values is None else (MISSING,) * len(values)
    if said is None:
        raise place.error(
            "ARGUMENT_MISSING",
            f"no value was given, and {annotation_text(annotation)} does not name its items",
            hint="give an example, or annotate tuple[...] with the kind of each item",
        )
    if any(ConstantKind.is_annotated_by(of) for of in said):
        raise place.error(
            "CONSTANT_IN_TUPLE",
            f"it is annotated {annotation_text(annotation)}; a compile-time item needs a name",
            hint="use a named tuple or a frozen dataclass, or make it a parameter of the function",
        )
    given = (MISSING,) * len(said) if values is None else values
    if len(given) != len(said):
        raise place.value_error(
            "ARGUMENT_CONFLICT",
            f"it has {len(given)} {'item' if len(given) == 1 else 'items'}, but it is annotated "
            f"{annotation_text(annotation)}",
        )
    items = [
        _infer_item(of, item, place.inside(f"[{index}]"), symbols)
        for index, (of, item) in enumerate(zip(said, given, strict=True))
    ]
    return ContainerKind(tuple, (), tuple(items))


def _infer_record(kind: type, value: object, place: Place, symbols: Symbols) -> ContainerKind:
    if not is_record(kind):
        raise place.error(
            "DATACLASS_NOT_FROZEN",
            f"dataclass {kind.__qualname__} is not frozen",
            hint="write @dataclass(frozen=True): compiled code must not see it change",
        )
    record = record_of(kind)
    given = _field_values(kind, record.names, record.constants, value, place)
    items: list[ArgumentKind] = []
    for name, said, item in zip(record.names, record.annotations, given, strict=True):
        within = place.inside(f".{name}")
        # A class may be shared with code that does not use weft: unknown annotations are ignored.
        means_something = said is not MISSING and symbols.is_annotation(said)
        items.append(_infer_item(said if means_something else MISSING, item, within, symbols))
    return ContainerKind(kind, record.names, tuple(items))


def _field_values(
    kind: type, names: tuple[str, ...], constants: tuple[str, ...], value: object, place: Place
) -> tuple[Any, ...]:
    """The value of each field; without constants, a tuple of the passed ones will do."""
    if value is MISSING:
        return (MISSING,) * len(names)
    if isinstance(value, kind):
        return tuple(getattr(value, name, MISSING) for name in names)
    values = items_of(value)
    if values is None or constants or len(values) != len(names) or _has_fields(type(value)):
        raise _not_container(kind, value, place)
    return values


def _infer_item(annotation: object, value: object, place: Place, symbols: Symbols) -> ArgumentKind:
    if value is MISSING and annotation is MISSING:
        raise place.error("ARGUMENT_MISSING", "no value was given, and it has no annotation")
    kind = symbols.infer(annotation, value, place)
    if not kind.is_passed and not isinstance(kind, ConstantKind):
        raise place.error(
            "ARGUMENT_IN_CONTAINER",
            f"{kind.text} cannot be an item of a container",
            hint="make it a parameter of the function",
        )
    return kind


def _not_container(annotation: object, value: object, place: Place) -> Exception:
    return place.error(
        "ARGUMENT_NOT_CONTAINER",
        f"it is annotated {annotation_text(cast('Any', annotation))}, received {describe(value)}",
    )
