# SPDX-License-Identifier: Apache-2.0
"""Common parts of argument kinds: the base class, symbolic dimensions, places named in messages.

Out: `ArgumentKind`, `DeclaredParameter`, `Place`, `Symbols`, `describe`.
"""

from __future__ import annotations

import math
import sys
import types
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, NoReturn, cast

from weft.errors import ArgumentValueError, SignatureError
from weft.types.dims import Dim
from weft.types.dtype import f32
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weft.location import SourceLocation


class _Missing:
    """The type of `MISSING`, which stands for an annotation, default or value that was not given."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"  # pickles and copies as the one object


MISSING: Final = _Missing()

_LARGEST_32_BIT: Final = (1 << 31) - 1


class DeclaredParameter(Frozen):
    """A parameter as declared on the function's `def` line.

    Attributes:
        name: its name.
        annotation: the annotation as an object, never as text; or MISSING.
        default: its default, or MISSING.
        keyword_only: whether it stands after `*`.
        positional_only: whether it stands before `/`.
        location: its place in the source, or None; ignored by comparison.
    """

    name: str
    annotation: object = MISSING
    default: object = MISSING
    keyword_only: bool = False
    positional_only: bool = False
    location: SourceLocation | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return super().key[:-1]


class Place(NamedTuple):
    """The argument being examined: how every message begins."""

    function: str
    name: str

    def __str__(self) -> str:
        return f"{self.function}: argument '{self.name}'"

    def inside(self, label: str) -> Place:
        """The place of an item: `label` is `[1]` or `.x`."""
        return Place(self.function, self.name + label)

    def error(self, code: str, message: str, hint: str = "") -> SignatureError:
        """The error to raise for a wrong kind: `add_one: argument 'b': ...`."""
        return SignatureError(code, f"{self}: {message}", hint=hint)

    def value_error(self, code: str, message: str, hint: str = "") -> ArgumentValueError:
        """The error to raise where the kind is right and the dtype, size or range is not."""
        return ArgumentValueError(code, f"{self}: {message}", hint=hint)


class Leaf(NamedTuple):
    """A value that is not a container, with its path from the parameter: `t[1].x`."""

    path: str
    kind: ArgumentKind


class ArgumentKind(Frozen):
    """The kind of one argument of a compiled function. Subclasses, one per file, are listed in ARGUMENT_KINDS.

    Attributes:
        title: the accepted values, for lists in messages.
        is_passed: whether callers of the compiled function pass it.
        is_staged: whether the host function gets it as a run-time value.
    """

    title: ClassVar[str]
    is_passed: ClassVar[bool] = True
    is_staged: ClassVar[bool] = True

    @property
    def text(self) -> str:
        """The kind as printed after `name:` in a signature."""
        raise TypeError(f"{type(self).__name__} has no text")

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        """Whether this annotation asks for this kind."""
        return False

    @classmethod
    def recognizes(cls, value: object) -> bool:
        """Whether a value whose parameter has no annotation is of this kind."""
        return False

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> ArgumentKind:
        """The kind from annotation and value; one of them may be MISSING.

        Raises:
            SignatureError: if they contradict each other; the message names both.
        """
        raise TypeError(f"{cls.__name__} cannot be inferred")

    @property
    def parts(self) -> tuple[tuple[str, ArgumentKind], ...]:
        """Items of a container: the label of each item in a path, and its kind."""
        return ()

    def with_parts(self, kinds: Sequence[ArgumentKind]) -> ArgumentKind:
        """The same container with other kinds; the kind itself if it holds nothing."""
        return self

    def leaves(self, path: str) -> Iterator[Leaf]:
        """Its leaves in order: itself if it is not a container."""
        if not self.parts:
            yield Leaf(path, self)
        for label, part in self.parts:
            yield from part.leaves(path + label)

    def host_arguments(self, path: str) -> Iterator[Leaf]:
        """Its run-time values in the host function, in order, each of a kind with an IR type."""
        if self.is_staged:
            yield Leaf(path, self)

    def resolved(self, symbols: Symbols) -> ArgumentKind:
        """The same kind, once everything is known about the symbolic dimensions."""
        return self

    def __repr__(self) -> str:
        return self.text


class OptionalAnnotation(Frozen):
    """`annotation | None`: the argument may be None, decided at compile time."""

    annotation: object

    def __repr__(self) -> str:
        return f"{annotation_text(self.annotation)} | None"


class Annotation(Frozen):
    """An annotation, as users write it; `| None` makes it optional."""

    def __or__(self, other: object) -> OptionalAnnotation:
        if other is None or other is types.NoneType:
            return OptionalAnnotation(self)
        return NotImplemented

    __ror__ = __or__

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        # typing.Optional[...] accepts callables only.
        raise TypeError(f"{self!r} annotates a parameter; it cannot be called")


def annotation_text(annotation: object) -> str:
    """An annotation as users write it.

    Example:
        >>> annotation_text(int), annotation_text(None)
        ('int', 'None')
    """
    if isinstance(annotation, type):
        return annotation.__name__
    return str(annotation) if not isinstance(annotation, str) else repr(annotation)


def items_of(value: object) -> tuple[Any, ...] | None:
    """The items of a tuple or list, or None for anything else."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, tuple | list) else None


def is_c_pointer(value: object) -> bool:
    """Whether a value is a `ctypes.c_void_p`, without importing ctypes, which takes 1 ms."""
    ctypes = sys.modules.get("ctypes")
    return ctypes is not None and isinstance(value, ctypes.c_void_p)


def describe(value: object) -> str:
    """A received value in words: its Python type, and the value if short.

    Example:
        >>> describe("abc"), describe(None), describe(3)
        ("a Python str 'abc'", 'None', 'a Python int 3')
    """
    if value is None:
        return "None"
    kind = type(value)
    if kind.__module__ != "builtins":
        return f"an object of type {kind.__module__}.{kind.__qualname__}"
    if kind in (bool, int, float, complex, str, bytes):
        text = repr(value)
        return f"a Python {kind.__name__} {text if len(text) <= 40 else text[:37] + '...'}"
    return f"a Python {kind.__name__}"


class Symbols:
    """The symbolic dimensions of a signature being inferred: one set of facts per name.

    It also infers the kinds of a container's items.

    Args:
        infer: the kind of an argument, from annotation, value and place.
        is_annotation: whether some kind knows an annotation.
        has_addresses: whether the examples' addresses are aligned as those of all calls.

    Attributes:
        has_addresses: as given.
        default_float: the type of Python floats where nothing else determines it.
    """

    def __init__(
        self,
        infer: Callable[[object, object, Place, Symbols], ArgumentKind],
        is_annotation: Callable[[object], bool],
        has_addresses: bool = False,
    ) -> None:
        # Passed in, so that the kinds do not import the table that lists them.
        self._infer = infer
        self.is_annotation = is_annotation
        self.has_addresses = has_addresses
        self.default_float = f32
        self._facts: dict[str, tuple[Dim, str]] = {}
        self._observed: dict[str, tuple[int, str]] = {}
        self._fixed: dict[str, int] = {}
        self._divisors: dict[str, int] = {}

    def is_refused_by_the_call(self, number: int) -> bool:
        """Whether an annotated number of a wrong value compiles, so that the first call's error is the later ones'."""
        return self.has_addresses and -(1 << 63) <= number < 1 << 64

    def infer(self, annotation: object, value: object, place: Place) -> ArgumentKind:
        """The kind of an item of a container."""
        return self._infer(annotation, value, place, self)

    def declare(self, dim: Dim, place: Place) -> None:
        """Records one mention; a plain name takes the facts of another mention.

        Raises:
            SignatureError: if two mentions of a name give different facts.
        """
        if dim.name is None:
            return
        earlier, where = self._facts.get(dim.name, (Dim(dim.name), ""))
        plain = Dim(dim.name)
        if earlier == plain:
            self._facts[dim.name] = (dim, str(place))
        elif dim not in (plain, earlier):
            raise place.error(
                "DIM_FACTS_DIFFER", f"declared {dim.text} here and {earlier.text} in {where}"
            )

    def observe(self, dim: Dim, value: int, what: str, place: Place) -> Dim:
        """Records the example's size where `dim` is mentioned.

        Args:
            dim: the symbol.
            value: the example's size, or its stride.
            what: its name in messages: ``b.shape[0]``.
            place: for messages.

        Returns:
            The dimension, widened if it is independent and the size needs 64 bits.

        Raises:
            ArgumentValueError: if the size is not divisible as declared, or an earlier example differs.
        """
        self.declare(dim, place)
        if value % dim.divisibility:
            raise place.value_error(
                "DIM_NOT_DIVISIBLE",
                f"{what} is {value}, expected a multiple of {dim.divisibility}",
            )
        wide = not -_LARGEST_32_BIT - 1 <= value <= _LARGEST_32_BIT
        if dim.name is None:
            return dim.widened() if wide else dim
        earlier, where = self._observed.setdefault(dim.name, (value, what))
        if earlier != value:
            raise place.value_error(
                "DIM_SIZES_DIFFER",
                f"{what} is {value}, expected {earlier} to match {where}",
                hint=f"both are named {dim.name}; use two names if they may differ",
            )
        if wide:
            facts, place_text = self._facts[dim.name]
            self._facts[dim.name] = (facts.widened(), place_text)
        return dim

    def fix(self, dim: Dim, value: int, what: str, place: Place) -> None:
        """Makes a symbol a constant: a fake tensor gives a size where the annotation names a symbol."""
        self.observe(dim, value, what, place)
        if dim.name is not None:
            self._fixed[dim.name] = value

    def divided(self, dim: Dim, divisor: int) -> Dim:
        """The dimension as a multiple of a number that its tensor's type needs, not the user's word."""
        if dim.name is not None:
            self._divisors[dim.name] = math.lcm(self._divisors.get(dim.name, 1), divisor)
            return dim
        return dim.replaced(divisibility=math.lcm(dim.divisibility, divisor))

    def resolve(self, dim: Dim) -> Dim | int:
        """The dimension with everything known about its name.

        Raises:
            ArgumentValueError: if an earlier example contradicts a divisibility declared later.
        """
        if dim.name is None or dim.name not in self._facts:
            return dim
        facts, where = self._facts[dim.name]
        if dim.name in self._observed:
            value, what = self._observed[dim.name]
            if value % facts.divisibility:
                raise ArgumentValueError(
                    "DIM_NOT_DIVISIBLE",
                    f"{where}: {what} is {value}, expected a multiple of {facts.divisibility}",
                )
        divisor = self._divisors.get(dim.name, 1)
        if facts.divisibility % divisor:
            facts = facts.replaced(divisibility=math.lcm(facts.divisibility, divisor))
        return self._fixed.get(dim.name, facts)
