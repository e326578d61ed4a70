# SPDX-License-Identifier: Apache-2.0
"""Classes with named fields: named tuples and frozen dataclasses, and their compile-time fields.

In: a class. Out: `Record`: its fields in order with their annotations. The marshaller asks here when it first
meets an instance.
"""

from __future__ import annotations

import functools
import sys
import typing
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import MISSING
from weft.arguments.constant import ConstantKind
from weft.errors import SignatureError
from weft.types.dtype import library_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


COMPLEX_PARTS: Final = ("real", "imag")
"""The passed attributes of complex numbers, of Python and of NumPy."""


class Record:
    """The fields of a class, in the order of passing.

    Attributes:
        names: of all fields.
        annotations: the annotation of each field, or MISSING.
    """

    def __init__(self, names: tuple[str, ...], annotations: Mapping[str, object]) -> None:
        self.names = names
        said = [annotations.get(name, MISSING) for name in names]
        self.annotations = tuple(library_dtype(one) or one for one in said)

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of the fields annotated `weft.Constexpr`, which are not passed."""
        pairs = zip(self.names, self.annotations, strict=True)
        return tuple(name for name, said in pairs if ConstantKind.is_annotated_by(said))


def is_complex_number(kind: type) -> bool:
    """Whether a class is one of complex numbers, of Python or of NumPy; imports nothing."""
    numpy = sys.modules.get("numpy")
    return issubclass(kind, complex) or (
        numpy is not None and issubclass(kind, numpy.complexfloating)
    )


def is_record(kind: object) -> bool:
    """Whether a class is a named tuple or a frozen dataclass."""
    return isinstance(kind, type) and (is_named_tuple(kind) or is_dataclass(kind, frozen=True))


def is_named_tuple(kind: type) -> bool:
    """Whether a class comes from `typing.NamedTuple` or `collections.namedtuple`."""
    fields: object = getattr(cast("Any", kind), "_fields", None)
    return issubclass(kind, tuple) and isinstance(fields, tuple)


def is_dataclass(kind: type, *, frozen: bool) -> bool:
    """Whether a class is a dataclass with this value of `frozen`."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen) is frozen


def record_of(kind: type) -> Record:
    """The fields of a named tuple's or a frozen dataclass's class.

    Raises:
        SignatureError: if a textual annotation cannot be resolved.
    """
    names: tuple[str, ...]
    if is_named_tuple(kind):
        names = kind._fields  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    else:
        from dataclasses import fields  # imported already, to define the class

        names = tuple(field.name for field in fields(kind))  # pyright: ignore[reportArgumentType]
    return Record(names, _annotations(kind))  # pyright: ignore[reportUnknownArgumentType]


def _annotations(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        module = getattr(sys.modules.get(kind.__module__), "__name__", kind.__module__)
        raise SignatureError(
            "ANNOTATION_UNKNOWN",
            f"the annotations of class {kind.__qualname__} cannot be resolved: {error}",
            hint=f"their names must exist in {module} at run time",
        ) from None


def make(kind: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """An instance with these fields; runs no code of the class.

    The fields may hold traced values, which `__post_init__` could not examine.
    """
    if issubclass(kind, tuple):
        return cast("Any", tuple).__new__(kind, values)
    made: Any = cast("Any", object).__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def restorer(kind: type, fields: Mapping[str, Any]) -> Callable[[tuple[Any, ...]], Any]:
    """Makes an instance from fields that a compiled function returned, as `make` does.

    Args:
        kind: the class.
        fields: by name, in order; a value for compile-time fields, MISSING for returned ones.
    """
    names, values = tuple(fields), tuple(fields.values())
    return functools.partial(_restored, kind, names, values)


def restored_parts(make: Any) -> tuple[type, dict[str, Any]]:
    """Arguments of `restorer`: the class and its fields."""
    kind, names, known = make.args
    return kind, dict(zip(names, known, strict=True))


def _restored(
    kind: type, names: tuple[str, ...], known: tuple[Any, ...], returned: tuple[Any, ...]
) -> Any:
    rest = iter(returned)
    values = tuple(next(rest) if value is MISSING else value for value in known)
    return make(kind, names, values)


def passed_fields(kind: type) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names of a record's passed and compile-time fields; None for other classes.

    The marshaller calls this when it first meets an instance of a class.
    """
    if is_complex_number(kind):
        return COMPLEX_PARTS, ()
    if not is_record(kind):
        return None
    record = record_of(kind)
    constants = record.constants
    return tuple(name for name in record.names if name not in constants), constants
