# SPDX-License-Identifier: Apache-2.0
"""The argument kinds `Constexpr`, a value that is fixed when the function is compiled, and `None`.

In: `weft.Constexpr` or `weft.Constexpr[int]` as an annotation, and the value; None as an example or annotation. Out:
`ConstantKind`, which is part of the key and is not passed to the compiled function; `NoneKind`: a function compiled
with None accepts only None there.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from weft import _native
from weft.arguments.base import MISSING, Annotation, ArgumentKind, annotation_text, describe

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols


class ConstantAnnotation(Annotation):
    """`Constexpr[int]`: compile-time values of one type."""

    type: object

    def __repr__(self) -> str:
        return f"Constexpr[{annotation_text(self.type)}]"


class Constexpr:
    """Annotation of a compile-time parameter: `weft.Constexpr`, or `weft.Constexpr[int]` with a type.

    Pass the value to `weft.compile` or to a direct call. Each value is compiled separately; the compiled function no
    longer takes it. It must be hashable.

    Example:
        >>> weft.Constexpr[int]
        Constexpr[int]
    """

    def __class_getitem__(cls, type: object) -> ConstantAnnotation:
        return ConstantAnnotation(type)


class ConstantKind(ArgumentKind):
    """A compile-time value.

    Attributes:
        value: the value itself.
    """

    title = "any hashable value, for a parameter annotated weft.Constexpr"
    is_passed = False
    is_staged = False

    value: Any

    @property
    def key(self) -> tuple[Any, ...]:
        """As for every kind, but 1, 1.0 and True differ, and so do 0.0 and -0.0."""
        return ("ConstantKind", _native.constant_key(self.value))

    @property
    def text(self) -> str:
        return f"Constexpr[{self.value!r}]"

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is Constexpr or isinstance(annotation, ConstantAnnotation)

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> ConstantKind:
        if value is MISSING:
            raise place.error(
                "CONSTANT_MISSING",
                f"a value of {annotation_text(annotation)} is needed to compile",
            )
        expected = annotation.type if isinstance(annotation, ConstantAnnotation) else object
        if expected is Any:
            expected = object
        if isinstance(expected, type) and not isinstance(value, expected):
            raise place.error(
                "CONSTANT_TYPE",
                f"expected {annotation_text(annotation)}, received {describe(value)}",
            )
        try:
            hash(value)
        except TypeError:
            raise place.error(
                "CONSTANT_NOT_HASHABLE",
                f"a compile-time value must be hashable, received {describe(value)}",
                hint="pass a tuple instead of a list, or a frozen dataclass",
            ) from None
        return cls(value)


class NoneKind(ArgumentKind):
    """None: passed by the caller, seen by the traced function as Python's None."""

    title = "None"
    is_staged = False

    @property
    def text(self) -> str:
        return "None"

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is None or annotation is types.NoneType

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return value is None

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> NoneKind:
        if value is not None and value is not MISSING:
            raise place.error("ARGUMENT_NOT_NONE", f"expected None, received {describe(value)}")
        return cls()
