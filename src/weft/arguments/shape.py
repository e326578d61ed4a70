# SPDX-License-Identifier: Apache-2.0
"""The argument kinds of sizes and shapes: ints that can share symbols with the shapes of tensors.

In: `weft.sym(...)` or `weft.Shape[...]` as an annotation or stand-in, an int or a tuple of ints as an example. Out:
`SizeKind` and `ShapeKind`. Compiled code sees integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.arguments.base import (
    MISSING,
    Annotation,
    ArgumentKind,
    Leaf,
    annotation_text,
    describe,
    items_of,
)
from weft.arguments.scalar import ScalarKind, numpy_scalar_dtype
from weft.arguments.tensor_spec import check_dims, dims_text
from weft.types.dims import Dim
from weft.types.dtype import i32, i64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.arguments.base import Place, Symbols


class ShapeSpec(Annotation):
    """The value of `weft.Shape[...]`.

    Attributes:
        dims: one entry per dimension: an int, or a `Dim`.
    """

    dims: tuple[int | Dim, ...]

    def __repr__(self) -> str:
        return f"Shape[{dims_text(self.dims)}]"


class Shape:
    """Annotation of a parameter that is a tuple of sizes: `Shape`, or `Shape["n", 4]`.

    Each entry is an int, which the size must equal; a name or a `weft.sym(...)`, which shares its value with every
    other mention in the function, tensors included; or None for any size. `Shape` alone takes its rank from the
    example. Callers pass a tuple or list of ints, or an FFI shape. The function sees a tuple: constants for ints, i32
    for the rest, i64 for 64-bit symbols.

    Example:
        >>> weft.Shape["n", 4]
        Shape[(n, 4)]
    """

    def __class_getitem__(cls, dims: object) -> ShapeSpec:
        entries = items_of(dims)
        return ShapeSpec(check_dims((dims,) if entries is None else entries, "Shape"))


class ShapeKind(ArgumentKind):
    """A tuple of non-negative sizes.

    Attributes:
        dims: one entry per dimension: an int, or a `Dim` known at run time.
    """

    title = "a tuple of sizes, for a parameter annotated weft.Shape"

    dims: tuple[int | Dim, ...]

    @property
    def text(self) -> str:
        return f"Shape[{dims_text(self.dims)}]"

    @property
    def is_staged(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether any size is known only at run time."""
        return any(isinstance(dim, Dim) for dim in self.dims)

    def host_arguments(self, path: str) -> Iterator[Leaf]:
        for index, dim in enumerate(self.dims):
            if isinstance(dim, Dim):
                yield Leaf(f"{path}[{index}]", ScalarKind(i32 if dim.width == 32 else i64))

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is Shape or isinstance(annotation, ShapeSpec)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return value is Shape or isinstance(value, ShapeSpec)

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> ShapeKind:
        declared = annotation.dims if isinstance(annotation, ShapeSpec) else None
        if isinstance(value, ShapeSpec):
            given = _declared(value.dims, place, symbols)
            if declared is not None and declared != given:
                raise _conflict(annotation, value, place)
            return cls(given)
        if value is MISSING or value is Shape:
            if declared is None:
                raise place.error(
                    "ARGUMENT_MISSING",
                    "no value was given, and Shape has no rank",
                    hint='give a tuple of ints, or annotate weft.Shape["n", "m"]',
                )
            return cls(_declared(declared, place, symbols))
        sizes = _sizes(annotation, value, place)
        dims = declared if declared is not None else tuple(Dim(None) for _ in sizes)
        if len(dims) != len(sizes):
            raise _conflict(annotation, value, place)
        pairs = enumerate(zip(dims, sizes, strict=True))
        return cls(tuple(_observed(d, size, i, place, symbols) for i, (d, size) in pairs))

    def resolved(self, symbols: Symbols) -> ShapeKind:
        return ShapeKind(
            tuple(symbols.resolve(dim) if isinstance(dim, Dim) else dim for dim in self.dims)
        )


def _declared(dims: tuple[int | Dim, ...], place: Place, symbols: Symbols) -> tuple[int | Dim, ...]:
    for dim in dims:
        if isinstance(dim, Dim):
            symbols.declare(dim, place)
    return dims


def _sizes(annotation: object, value: object, place: Place) -> tuple[int, ...]:
    items: tuple[Any, ...] | None = items_of(value)
    if items is None:
        said = "weft.Shape" if annotation is MISSING else annotation_text(annotation)
        raise place.error(
            "ARGUMENT_NOT_SHAPE", f"it is annotated {said}, received {describe(value)}"
        )
    for index, item in enumerate(items):
        dtype = numpy_scalar_dtype(item)
        is_int = isinstance(item, int) if dtype is None else dtype.is_integer
        if not is_int or isinstance(item, bool):
            raise place.inside(f"[{index}]").error(
                "ARGUMENT_NOT_SHAPE", f"expected an int, received {describe(item)}"
            )
    return tuple(int(item) for item in items)


def _observed(dim: int | Dim, size: int, index: int, place: Place, symbols: Symbols) -> int | Dim:
    what = f"{place.name}[{index}]"
    if size < 0 and isinstance(dim, Dim) and symbols.is_refused_by_the_call(size):
        symbols.declare(dim, place)
        return dim
    if not 0 <= size < 1 << 63:
        raise place.value_error(
            "ARGUMENT_OUT_OF_RANGE", f"shape[{index}] is {size}, expected a size of at least 0"
        )
    if isinstance(dim, Dim):
        return symbols.observe(dim, size, what, place)
    if dim != size:
        raise place.value_error("ARGUMENT_CONFLICT", f"shape[{index}] is {size}, expected {dim}")
    return dim


def _conflict(annotation: object, value: object, place: Place) -> Exception:
    received = repr(value) if isinstance(value, ShapeSpec) else f"{value}"
    return place.value_error(
        "ARGUMENT_CONFLICT", f"it is {received}, but it is annotated {annotation_text(annotation)}"
    )


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
        if (size < 0 or size % declared.divisibility) and symbols.is_refused_by_the_call(size):
            symbols.declare(declared, place)
            return cls(declared)
        if not 0 <= size < 1 << 63:
            raise place.value_error(
                "ARGUMENT_OUT_OF_RANGE", f"it is {size}, expected a size of at least 0"
            )
        return cls(symbols.observe(declared, size, place.name, place))

    def resolved(self, symbols: Symbols) -> SizeKind:
        return SizeKind(symbols.resolve(self.dim) if isinstance(self.dim, Dim) else self.dim)
