# SPDX-License-Identifier: Apache-2.0
"""Signatures: the kind of each argument of a host function, and the table of kinds.

In: declared parameters and the arguments of a call or of `weft.compile`. Out: an immutable `Signature`, whose text is
in every call-time message. Declared writes of a function are for libraries that move and drop calls: torch and JAX.
"""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.arguments.base import (
    MISSING,
    ArgumentKind,
    Leaf,
    OptionalAnnotation,
    Place,
    Symbols,
    annotation_text,
    describe,
)
from weft.arguments.complex import ComplexKind
from weft.arguments.constant import ConstantKind, NoneKind
from weft.arguments.container import ContainerKind
from weft.arguments.pointer import PointerKind
from weft.arguments.registered import adapted
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import ShapeKind, SizeKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.blame import is_of_a_handler
from weft.errors import SignatureError, WeftError, brief
from weft.imports import imported
from weft.types.device import device_name
from weft.types.dtype import DType, f64, library_dtype
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.arguments.base import DeclaredParameter


_P = typing.TypeVar("_P", "Parameter", "DeclaredParameter")

ARGUMENT_KINDS: Final[tuple[type[ArgumentKind], ...]] = (
    ConstantKind,
    NoneKind,
    ScalarKind,
    ComplexKind,
    StreamKind,
    EnvironmentStreamKind,
    PointerKind,
    ShapeKind,
    SizeKind,
    TensorKind,
    ContainerKind,
)
"""Every kind, in the order tried for a value without annotation."""


_TAKE_NONE: Final = (NoneKind, StreamKind, EnvironmentStreamKind, PointerKind, ConstantKind)


class Parameter(Frozen):
    """One parameter of a compiled function.

    Attributes:
        name: its name.
        kind: of the argument.
        default: its default, or MISSING.
        keyword_only: whether it must be passed by name.
        positional_only: whether it cannot be passed by name.
    """

    name: str
    kind: ArgumentKind
    default: Any = MISSING
    keyword_only: bool = False
    positional_only: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        default = self.default
        passing = (self.keyword_only, self.positional_only)
        return (self.name, self.kind.key, type(default).__name__, repr(default), *passing)

    @property
    def text(self) -> str:
        """`alpha: f32 = 2.0`."""
        default = "" if self.default is MISSING else f" = {self.default!r}"
        return f"{self.name}: {self.kind.text}{default}"

    def __repr__(self) -> str:
        return self.text


class TensorParameter(NamedTuple):
    """A tensor parameter, or a tensor inside one, with a path such as `t[1].x` as its name."""

    name: str
    kind: TensorKind


class Signature(Frozen):
    """The name and the parameters of a compiled host function; printable, hashable, picklable.

    Attributes:
        name: of the host function.
        parameters: all of them, in `def` order, passed or not.
        device_type: DLDeviceType that the function runs on; None until `for_device` sets it.
    """

    name: str
    parameters: tuple[Parameter, ...]
    device_type: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.name, self.device_type, *(parameter.key for parameter in self.parameters))

    @property
    def passed(self) -> tuple[Parameter, ...]:
        """The parameters that a caller of the compiled function passes, in order: the ABI's arguments."""
        return tuple(parameter for parameter in self.parameters if parameter.kind.is_passed)

    @property
    def text(self) -> str:
        """The signature as the caller sees it: `add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])`."""
        return f"{self.name}({', '.join(_marked(self.passed, lambda p: p.text))})"

    @property
    def constant_positions(self) -> tuple[int, ...]:
        """Positions of the compile-time parameters among all parameters."""
        kinds = enumerate(parameter.kind for parameter in self.parameters)
        return tuple(position for position, kind in kinds if isinstance(kind, ConstantKind))

    def tensors(self) -> tuple[TensorParameter, ...]:
        """The tensors among the parameters and in their containers, in order."""
        leaves = (leaf for p in self.parameters for leaf in p.kind.leaves(p.name))
        return tuple(
            TensorParameter(path, kind) for path, kind in leaves if isinstance(kind, TensorKind)
        )

    def element_types(self) -> list[DType]:
        """The types of its numbers and tensors."""
        return _element_types(parameter.kind for parameter in self.parameters)

    def host_arguments(self) -> tuple[Leaf, ...]:
        """The run-time values that the host function takes, in order."""
        return tuple(leaf for p in self.parameters for leaf in p.kind.host_arguments(p.name))

    def for_device(self, device_type: int) -> Signature:
        """The same signature with every tensor on a DLDeviceType of `types.device`.

        Raises:
            SignatureError: if a tensor is on another; the message names it.
        """
        placed = tuple(self._placed(parameter, device_type) for parameter in self.parameters)
        return Signature(self.name, placed, device_type)

    def _placed(self, parameter: Parameter, device_type: int) -> Parameter:
        kind = _on_device(parameter.kind, device_type, Place(self.name, parameter.name))
        return parameter.replaced(kind=kind)

    def checked_for(self, name: str, parameters: Sequence[DeclaredParameter]) -> Signature:
        """This signature, if it fits the function of that name and parameters.

        Raises:
            SignatureError: if names, order, keyword-only or positional-only markers differ.
        """
        mine = [(p.name, p.keyword_only, p.positional_only) for p in self.parameters]
        theirs = [(p.name, p.keyword_only, p.positional_only) for p in parameters]
        if self.name != name or mine != theirs:
            raise SignatureError(
                "SIGNATURE_OF_ANOTHER_FUNCTION",
                f"{_header(name, parameters)} cannot be compiled for the signature {self.text}",
                hint="pass the signature of the same function",
            )
        return self

    def __repr__(self) -> str:
        return self.text


def infer_signature(
    name: str,
    parameters: Sequence[DeclaredParameter],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    is_call: bool = False,
    has_addresses: bool = False,
) -> Signature:
    """The signature, from annotations and example values together.

    Args:
        name: of the function, for messages.
        parameters: as its `def` line declares them.
        args: example values, fakes or values to compile for, by position.
        kwargs: the same by name.
        is_call: the arguments are those of a call, so each one without a default must be there;
            otherwise an annotation with dtype and shape is enough.
        has_addresses: whether calls are looked up by the alignment of their tensors, which then holds.

    Raises:
        SignatureError: if an argument is missing, unknown, unsupported, or contradicts its annotation.

    Example:
        >>> from weft.arguments.base import DeclaredParameter
        >>> infer_signature("scale", [DeclaredParameter("n")], (3,))
        scale(n: i32)
    """
    values = _bind(name, parameters, args, kwargs or {})
    symbols = Symbols(infer_kind, _is_annotation, has_addresses)
    inferred: list[tuple[DeclaredParameter, ArgumentKind]] = []
    for parameter in parameters:
        place = Place(name, parameter.name)
        value = values.get(parameter.name, parameter.default)
        if value is MISSING and (is_call or parameter.annotation is MISSING):
            raise SignatureError(
                "ARGUMENT_MISSING",
                f"{_header(name, parameters)}: missing argument '{parameter.name}'",
            )
        try:
            if value is None and parameter.default is None:
                kind: ArgumentKind = NoneKind()
            else:
                kind = infer_kind(parameter.annotation, value, place, symbols)
            inferred.append((parameter, kind))
        except WeftError as error:
            if error.code == "ANNOTATION_UNKNOWN":
                error.location = parameter.location
            raise
        except (TypeError, ValueError) as error:
            if is_of_a_handler(error):
                raise
            # The readers refused a tensor without knowing which argument it is.
            hint = imported("weft.arguments.packed").unpacked_hint(value)
            raise place.error("ARGUMENT_UNREADABLE", str(error), hint=hint) from error
    if f64 in [dtype.part for dtype in _element_types(kind for _, kind in inferred)]:
        symbols.default_float = f64
    return Signature(
        name,
        tuple(
            Parameter(
                p.name,
                kind.resolved(symbols),
                _default(p, kind),
                p.keyword_only,
                p.positional_only,
            )
            for p, kind in inferred
        ),
    )


def _element_types(kinds: Iterable[ArgumentKind]) -> list[DType]:
    leaves = (leaf.kind for kind in kinds for leaf in kind.leaves(""))
    found = (getattr(kind, "dtype", None) for kind in leaves)
    return [dtype for dtype in found if isinstance(dtype, DType)]


def _on_device(kind: ArgumentKind, device_type: int, place: Place) -> ArgumentKind:
    """The kind with all its tensors on a DLDeviceType."""
    if kind.parts:
        return kind.with_parts(
            [_on_device(part, device_type, place.inside(label)) for label, part in kind.parts]
        )
    if not isinstance(kind, TensorKind):
        return kind
    if kind.device_type not in (None, device_type):
        raise place.error(
            "TARGET_CONFLICT",
            f"the tensor is on {device_name(kind.device_type)}, the function runs on "
            f"{device_name(device_type)}",
            hint="put all tensors on the CPU, or all on one kind of device",
        )
    return kind.replaced(device_type=device_type)


def _default(parameter: DeclaredParameter, kind: ArgumentKind) -> object:
    """The default for callers of the compiled function; a None default is dropped if a value was compiled for."""
    if parameter.default is None and not isinstance(kind, _TAKE_NONE):
        return MISSING
    return parameter.default


def _header(name: str, parameters: Sequence[DeclaredParameter]) -> str:
    return f"{name}({', '.join(_marked(parameters, lambda p: p.name))})"


def _marked(parameters: Sequence[_P], text: Callable[[_P], str]) -> list[str]:
    """The texts of parameters, with the `/` and the `*` of a `def` line between them."""
    first = [text(p) for p in parameters if p.positional_only]
    last = [text(p) for p in parameters if p.keyword_only]
    either = [text(p) for p in parameters if not p.positional_only and not p.keyword_only]
    return [*first, *["/"][: len(first)], *either, *["*"][: len(last)], *last]


def _bind(
    name: str,
    parameters: Sequence[DeclaredParameter],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> dict[str, object]:
    """Values by parameter name, as Python binds them."""
    positional = [parameter.name for parameter in parameters if not parameter.keyword_only]
    header = _header(name, parameters)
    if len(args) > len(positional):
        raise SignatureError(
            "ARGUMENT_COUNT",
            f"{header}: expected at most {len(positional)} positional arguments, received {len(args)}",
        )
    values = dict(zip(positional, args, strict=False))
    known = {parameter.name: parameter for parameter in parameters}
    for keyword, value in kwargs.items():
        if keyword not in known:
            raise SignatureError("ARGUMENT_UNKNOWN", f"{header}: unknown argument '{keyword}'")
        if known[keyword].positional_only:
            raise SignatureError(
                "ARGUMENT_BY_NAME",
                f"{header}: argument '{keyword}' is positional-only, but was passed by name",
            )
        if keyword in values:
            raise SignatureError(
                "ARGUMENT_TWICE",
                f"{header}: argument '{keyword}' was passed both by position and by name",
            )
        values[keyword] = value
    return values


def infer_kind(annotation: object, value: object, place: Place, symbols: Symbols) -> ArgumentKind:
    """The kind of one argument, or of one item of a container.

    Args:
        annotation: as an object, or MISSING.
        value: an example, a stand-in, or MISSING.
        place: for messages.
        symbols: of the signature.

    Raises:
        SignatureError: if no kind fits, or annotation and value contradict each other.
    """
    annotation, is_optional = without_none(annotation)
    annotation = library_dtype(annotation) or annotation
    if value is None and is_optional:
        return NoneKind()
    value, was_adapted = adapted(value, place)
    if was_adapted and isinstance(annotation, type) and not _is_annotation(annotation):
        annotation = MISSING  # it names a registered class, whose instances are adapted
    if annotation is MISSING:
        for kind in ARGUMENT_KINDS:
            if kind.recognizes(value):
                return kind.infer(MISSING, value, place, symbols)
        raise place.error("ARGUMENT_KIND", f"weft cannot pass {describe(value)}", hint=_accepted())
    for kind in ARGUMENT_KINDS:
        if kind.is_annotated_by(annotation):
            return kind.infer(annotation, value, place, symbols)
    raise place.error(
        "ANNOTATION_UNKNOWN",
        f"it is annotated {annotation_text(annotation)}, which weft does not know",
        hint="annotate weft.Tensor[...], a dtype such as weft.f32, weft.Shape, weft.Pointer[...], weft.Stream, "
        "weft.Constexpr, tuple[...], or the class of a named tuple or frozen dataclass",
    )


def _is_annotation(annotation: object) -> bool:
    annotation, _ = without_none(annotation)
    return any(kind.is_annotated_by(annotation) for kind in ARGUMENT_KINDS)


def _accepted() -> str:
    return "pass " + "; ".join(kind.title for kind in ARGUMENT_KINDS)


def without_none(annotation: object) -> tuple[object, bool]:
    """The annotation without its `| None`, and whether it had one; of an `Annotated` weft's part."""
    if typing.get_origin(annotation) is typing.Annotated:
        plain, *said = typing.get_args(annotation)
        annotation = next((one for one in said if _is_annotation(one)), plain)
        return without_none(annotation)[0], without_none(plain)[1]
    if isinstance(annotation, OptionalAnnotation):
        return annotation.annotation, True
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        members = [m for m in typing.get_args(annotation) if m is not types.NoneType]
        if len(members) == 1:
            return without_none(members[0])[0], True
    return annotation, False


def check_effects(
    tensors: Sequence[str],
    mutated: Sequence[str],
    made: Mapping[str, object],
    maker: str,
    error: Callable[[str], Exception],
) -> None:
    """Checks the arguments ``mutates_args=`` and ``outputs=``.

    Args:
        tensors: names of the function's tensors.
        mutated: names of those that the caller passes and the function changes.
        made: name of each that the function is to make → a function that says how.
        maker: what such a function does, for messages.
        error: makes the library's exception of a message.
    """
    for what, names in (("mutates_args", mutated), ("outputs", made)):
        for name in names:
            if name not in tensors:
                raise error(
                    f"{what} has {brief(name)}, expected names of its tensors: {', '.join(tensors)}"
                )
    for name, make in made.items():
        if name in mutated:
            raise error(f"'{name}' is in mutates_args and in outputs, which are new ones")
        if not callable(make):
            raise error(f"outputs[{name!r}] is {brief(make)}, expected a function that {maker}")
