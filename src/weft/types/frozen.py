# SPDX-License-Identifier: Apache-2.0
"""Immutable records like frozen dataclasses, without the 15 ms of importing `dataclasses`.

In: the annotations of a class. Out: its constructor; comparison by `key`, copies and pickles by field.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


class _Record(type):
    """Makes the annotations of a class its slots, and what they are set to their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Record:
        said: dict[str, str] = body.get("__annotations__", {})
        fields = tuple(field for field, kind in said.items() if not kind.startswith("ClassVar"))
        defaults = {field: body.pop(field) for field in fields if field in body}
        made: Any = super().__new__(cls, name, bases, {**body, "__slots__": fields})
        made._fields = (*getattr(made, "_fields", ()), *fields)
        made._defaults = {**getattr(made, "_defaults", {}), **defaults}
        made._setters = tuple(getattr(made, field).__set__ for field in made._fields)
        return made


@dataclass_transform(frozen_default=True)
class Frozen(metaclass=_Record):
    """An immutable record; the annotations of a subclass are its fields, in order.

    Example:
        >>> class Size(Frozen):
        ...     width: int
        ...     height: int = 1
        >>> Size(3), Size(3) == Size(3, height=1)
        (Size(width=3), True)
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _setters: ClassVar[tuple[Any, ...]]

    def __init__(self, *values: Any, **named: Any) -> None:
        defaults, rest = self._defaults, self._fields[len(values) :]
        try:
            values += tuple([named.pop(f) if f in named else defaults[f] for f in rest])
        except KeyError as missing:
            raise TypeError(f"{type(self).__name__}: no {missing.args[0]}") from None
        if named or len(values) > len(self._fields):
            raise TypeError(f"{type(self).__name__} has {', '.join(self._fields)}, and no more")
        for set_field, value in zip(self._setters, values, strict=True):
            set_field(self, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """For what follows from other fields."""

    def replaced(self, **fields: Any) -> Self:
        """The same record with other values for some fields."""
        return type(self)(*(fields.get(name, getattr(self, name)) for name in self._fields))

    @property
    def key(self) -> tuple[Any, ...]:
        """The key by which records are equal; hashable, and free of addresses."""
        return (type(self).__name__, *(getattr(self, name) for name in self._fields))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in self._fields}
        missing = object()
        shown = (
            f"{name}={value!r}"
            for name, value in given.items()
            if value != self._defaults.get(name, missing)
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (type(self), tuple(getattr(self, name) for name in self._fields))
