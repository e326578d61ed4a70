# SPDX-License-Identifier: Apache-2.0
"""The argument kind of complex numbers: two floats, their parts.

In: `weft.c64`, `weft.c128` or `complex` as an annotation, a complex number of Python or NumPy. Out: `ComplexKind`;
never the value itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.arguments.base import MISSING, annotation_text, describe
from weft.arguments.container import ContainerKind
from weft.arguments.records import COMPLEX_PARTS
from weft.arguments.scalar import PythonFloatKind, ScalarKind, numpy_scalar_dtype
from weft.types.dtype import DType, c64, c128, f32, f64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.arguments.base import ArgumentKind, Place, Symbols

_PARTS: Final = {c64: f32, c128: f64}


class ComplexKind(ContainerKind):
    """A complex number passed at each call, as a pair of floats; a new value never recompiles."""

    title = "a complex number"

    @property
    def key(self) -> tuple[Any, ...]:
        return ("ComplexKind", *(item.key for item in self.items))

    @property
    def text(self) -> str:
        return c128.name if self.items[0].text == f64.name else c64.name

    def with_parts(self, kinds: Sequence[ArgumentKind]) -> ComplexKind:
        return ComplexKind(complex, COMPLEX_PARTS, tuple(kinds))

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is complex or (isinstance(annotation, DType) and annotation.is_complex)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        own = numpy_scalar_dtype(value)
        return isinstance(value, complex) or (own is not None and own.is_complex)

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> ComplexKind:
        if value is not MISSING and not cls.recognizes(value):
            raise place.error(
                "ARGUMENT_NOT_SCALAR",
                f"it is annotated {annotation_text(annotation)}, received {describe(value)}",
                hint="pass a complex number: complex(x)",
            )
        own = numpy_scalar_dtype(value)
        asked = annotation if isinstance(annotation, DType) else own
        if asked is None:
            part: ScalarKind = PythonFloatKind(f32)
        else:
            part = ScalarKind(_PARTS[asked])
        return cls(complex, COMPLEX_PARTS, (part, part))
