# SPDX-License-Identifier: Apache-2.0
"""The parameters of a tuned function: those of a call, those that the tuner chooses, and those of the key.

In: a host function and the names that are chosen. Out: calls bound as Python binds them; values by name, also those of
dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft import _native
from weft.arguments.constant import ConstantKind
from weft.arguments.signature import without_none
from weft.arguments.tensor_spec import TensorSpec
from weft.errors import ArgumentValueError, SignatureError, UnavailableError, brief
from weft.frontend.source import read_source
from weft.types.dims import Dim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.api import JitFunction

UNSET: Final[Any] = object()
"""The value of a parameter that the tuner chooses."""


class Parameters:
    """The parameters of one host function.

    Attributes:
        names: all of them, in the order of the `def` line.
        chosen: positions of those that the tuner chooses, in the order of the space.
    """

    def __init__(self, function: JitFunction, chosen: Sequence[str]) -> None:
        self.function = function
        self.names = parameter_names(function)
        self.chosen = tuple(self.names.index(name) for name in chosen)
        self._count = function.function.__code__.co_argcount
        self._keywords = self.names[self._count :]
        self.bind = self._make_binder(set(chosen))
        self._about: tuple[frozenset[int], Mapping[str, tuple[int, int]]] | None = None

    def call(self, values: Sequence[Any]) -> Any:
        """Calls the function with a value for each parameter."""
        arguments, keywords = self.split(values)
        return self.function(*arguments, **keywords)

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values that are passed by position, and those that must be passed by name."""
        count = self._count
        return tuple(values[:count]), dict(zip(self._keywords, values[count:], strict=True))

    def filled(self, bound: Sequence[Any], configuration: Mapping[str, Any]) -> list[Any]:
        """A call's values, with those of a configuration in their places."""
        values = list(bound)
        for place in self.chosen:
            values[place] = configuration[self.names[place]]
        return values

    @property
    def constants(self) -> frozenset[int]:
        """Positions of the compile-time parameters."""
        return self._read()[0]

    @property
    def dims(self) -> Mapping[str, tuple[int, int]]:
        """Symbolic dimension → the position and the axis of the first tensor whose annotation has it."""
        return self._read()[1]

    def _read(self) -> tuple[frozenset[int], Mapping[str, tuple[int, int]]]:
        if self._about is None:
            constants: list[int] = []
            dims: dict[str, tuple[int, int]] = {}
            for position, declared in enumerate(read_source(self.function).parameters):
                annotation, _ = without_none(declared.annotation)
                if ConstantKind.is_annotated_by(annotation):
                    constants.append(position)
                if isinstance(annotation, TensorSpec):
                    for axis, dim in enumerate(annotation.dims or ()):
                        if isinstance(dim, Dim) and dim.name is not None:
                            dims.setdefault(dim.name, (position, axis))
            self._about = frozenset(constants), dims
        return self._about

    def value(self, name: str, bound: Sequence[Any]) -> Any:
        """A parameter's value in a call, or the size of a symbolic dimension.

        Raises:
            KeyError: if it is neither, or chosen by the tuner.
        """
        if name in self.names:
            found = bound[self.names.index(name)]
            if found is not UNSET:
                return found
        elif name in self.dims:
            position, axis = self.dims[name]
            return int(shape_of(bound[position])[axis])
        raise KeyError(name)

    def known(self) -> list[str]:
        """Values that `value` accepts."""
        passed = [name for i, name in enumerate(self.names) if i not in self.chosen]
        return [*passed, *(name for name in self.dims if name not in self.names)]

    def call_with(
        self,
        asked: Callable[..., Any],
        role: str,
        bound: Sequence[Any],
        said: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls a user's function with what its parameters name.

        Args:
            asked: the function.
            role: of the function, for messages.
            bound: the tuned function's call.
            said: further values by name, which count first.
            extra: for its ``**keywords``, if it has them.
        Raises:
            SignatureError: if it names something else.
        """
        import inspect

        given: dict[str, Any] = {}
        for name, parameter in inspect.signature(asked).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given.update((k, v) for k, v in (extra or said).items() if k not in given)
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                try:
                    given[name] = said[name] if name in said else self.value(name, bound)
                except KeyError:
                    if parameter.default is parameter.empty:
                        raise self.unknown(role, name, [*said, *self.known()]) from None
        return asked(**given)

    def unknown(self, role: str, name: str, allowed: Sequence[str]) -> SignatureError:
        """The error of a name that means nothing here."""
        return SignatureError(
            "AUTOTUNE_NAME",
            f"{role} of {self.function.function.__name__} names {brief(name)}, neither a parameter nor a dimension",
            hint=f"it can name {', '.join(dict.fromkeys(allowed))}",
        )

    def _make_binder(self, chosen: set[str]) -> Callable[..., tuple[Any, ...]]:
        """As `specializations.make_binder`; tuned parameters may be left out, and are passed by name."""
        function = self.function.function
        code = function.__code__
        defaults = dict(
            zip(reversed(self.names[: self._count]), reversed(function.__defaults__ or ()))  # noqa: B905
        )
        defaults.update(function.__kwdefaults__ or {})
        namespace: dict[str, Any] = {"unset_": UNSET, "defaults_": defaults}

        def declared(names: Sequence[str]) -> list[str]:
            kept = [name for name in names if name not in chosen]
            return [f"{n}=defaults_[{n!r}]" if n in defaults else n for n in kept]

        words = declared(self.names[: code.co_posonlyargcount])
        words += ["/"] if words else []
        words += declared(self.names[code.co_posonlyargcount : self._count])
        words += ["*", *declared(self._keywords)]
        words += [f"{name}=unset_" for name in self.names if name in chosen]
        text = f"def binder({', '.join(words)}): return ({''.join(n + ', ' for n in self.names)})"
        exec(text, namespace)
        binder = namespace["binder"]
        binder.__name__ = binder.__qualname__ = function.__name__
        return binder


def parameter_names(function: JitFunction) -> tuple[str, ...]:
    """Names of a host function's parameters, in order."""
    code = function.function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def shape_of(value: object) -> tuple[int, ...]:
    """The shape of an array of any library.

    Raises:
        TypeError: if it is not an array.
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return cast("tuple[int, ...]", shape)
    adapter = _native.find_adapter(type(value))
    if adapter is not None:
        return shape_of(adapter(value))
    info = _native.tensor_info(value)
    if info is None:
        raise TypeError(f"expected a tensor, received {brief(value)}")
    return info.shape


class Key:
    """The key of a choice, beside the types of the arguments: sizes, values, or a function's result."""

    def __init__(self, said: object, parameters: Parameters) -> None:
        self._parameters = parameters
        self._function: Callable[..., Any] | None = None
        self._names: tuple[str, ...] = ()
        self._checked = False
        if callable(said):
            self._function = said
        elif isinstance(said, str):
            self._names = (said,)
        elif isinstance(said, list | tuple) and all(isinstance(n, str) for n in said):  # pyright: ignore[reportUnknownVariableType]
            self._names = tuple(cast("Sequence[str]", said))
        else:
            name = parameters.function.function.__name__
            raise SignatureError(
                "AUTOTUNE_KEY",
                f"the key of {name} is {brief(cast('object', said))}, expected names of parameters and dimensions, or "
                f"a function of them",
            )

    def values(self, bound: Sequence[Any]) -> tuple[Any, ...]:
        """The key's values in a call: hashable.

        Raises:
            SignatureError: if it names something else than parameters and dimensions.
            ArgumentValueError: if a value cannot be part of a key.
        """
        if self._function is not None:
            made = self._parameters.call_with(self._function, "the key", bound, {})
            return (_part(made, "its function", self._parameters),)
        try:
            found = [self._parameters.value(name, bound) for name in self._names]
        except KeyError as missing:
            raise self._parameters.unknown(
                "the key", missing.args[0], self._parameters.known()
            ) from None
        return tuple(
            _part(value, f"'{name}'", self._parameters)
            for name, value in zip(self._names, found, strict=True)
        )

    def named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The key's values by name."""
        names = self._names if self._function is None else ("key",)
        return dict(zip(names, values, strict=True))


def _part(value: Any, what: str, parameters: Parameters) -> Any:
    """A value as part of a key: numbers and texts as they are, tuples by item, arrays by shape."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(_part(item, what, parameters) for item in cast("Sequence[Any]", value))
    try:
        return tuple(map(int, shape_of(value)))
    except (TypeError, ValueError):
        raise ArgumentValueError(
            "AUTOTUNE_KEY",
            f"the key of {parameters.function.function.__name__}: {what} gives {brief(value)}, expected numbers, "
            f"texts, arrays or tuples of these",
        ) from None


def refuse_partial(parameters: Parameters, bound: Sequence[Any]) -> None:
    """The error of a call that passes some of the tuned parameters, not all."""
    given = [parameters.names[i] for i in parameters.chosen if bound[i] is not UNSET]
    missing = [parameters.names[i] for i in parameters.chosen if bound[i] is UNSET]
    raise UnavailableError(
        "AUTOTUNE_PARTIAL",
        f"{parameters.function.function.__name__} was called with {', '.join(given)}, without {', '.join(missing)}",
        hint="pass all parameters of the space, then nothing is tuned, or none of them",
    )
