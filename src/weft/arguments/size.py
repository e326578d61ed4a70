# SPDX-License-Identifier: Apache-2.0
"""The argument kind of sizes: an int that can share a symbol with the shapes of tensors.

In: `weft.sym(...)` as an annotation or stand-in, an int as an example. Out: `SizeKind`. Compiled code sees an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.base import MISSING, ArgumentKind, Leaf, describe
from weft.arguments.scalar import ScalarKind, numpy_scalar_dtype
from weft.types.dims import Dim
from weft.types.dtype import i32, i64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.arguments.base import Place, Symbols


class SizeKind(ArgumentKind):
    """A size of at least 0 that is passed as a number.

    Attributes:
        dim: its symbol, or the number that it must be.
    """

    title = "an int, for a parameter annotated weft.sym"

    dim: int | Dim

    @property
    def text(self) -> str:
        if isinstance(self.dim, int) or self.dim.text.startswith("sym("):
            return f"{self.dim if isinstance(self.dim, int) else self.dim.text}"
        return f"sym({self.dim.text})"

    @property
    def is_staged(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether it is known only at run time."""
        return isinstance(self.dim, Dim)

    def host_arguments(self, path: str) -> Iterator[Leaf]:
        if isinstance(self.dim, Dim):
            yield Leaf(path, ScalarKind(i32 if self.dim.width == 32 else i64))

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return isinstance(annotation, Dim)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return isinstance(value, Dim)

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> SizeKind:
        declared = annotation if isinstance(annotation, Dim) else value
        assert isinstance(declared, Dim)  # one of the two
        if value is MISSING or isinstance(value, Dim):
            if isinstance(value, Dim) and value != declared:
                raise place.value_error(
                    "ARGUMENT_CONFLICT", f"it is {value!r}, but it is annotated {declared!r}"
                )
            symbols.declare(declared, place)
            return cls(declared)
        dtype = numpy_scalar_dtype(value)
        is_int = isinstance(value, int) if dtype is None else dtype.is_integer
        if not is_int or isinstance(value, bool):
            raise place.error(
                "ARGUMENT_NOT_SIZE", f"it is annotated {declared!r}, received {describe(value)}"
            )
        size = int(value)  # pyright: ignore[reportArgumentType]
        if not 0 <= size < 1 << 63:
            raise place.value_error(
                "ARGUMENT_OUT_OF_RANGE", f"it is {size}, expected a size of at least 0"
            )
        return cls(symbols.observe(declared, size, place.name, place))

    def resolved(self, symbols: Symbols) -> SizeKind:
        return SizeKind(symbols.resolve(self.dim) if isinstance(self.dim, Dim) else self.dim)
