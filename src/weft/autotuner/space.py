# SPDX-License-Identifier: Apache-2.0
"""The configurations among which the tuner chooses, their values as JSON, and a digest of the function's program.

In: ``{"tile": [16, 32], "threads": [128, 256]}``, or a list of such choices; a host function. Out: a `Space`, in the
order of the lists; a digest of the function's text and that of the kernels, helpers and constants that it names, which
comments, blank lines, decorators and other functions do not change, equal for every version of Python.
"""

from __future__ import annotations

import io
import itertools
import json
import sys
import tokenize
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.blame import top_package
from weft.cache.entry import blake2b
from weft.errors import ArgumentValueError, SignatureError, WeftError, brief
from weft.frontend.source import plain_function, read_source
from weft.language.functions import KernelFunction, StagedFunction
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.api import JitFunction


Configuration = Mapping[str, Any]
"""Parameter → value."""

_PLAIN: Final = (bool, int, float, str, type(None))
_MOST: Final = 100_000


def as_json(value: object) -> Any:
    """A value as JSON: numbers, texts and tuples of these as they are, anything else by its name or its text.

    Raises:
        ArgumentValueError: if another process would have another text for it.
    Example:
        >>> as_json((128, "row", weft.f16))
        [128, 'row', 'weft.f16']
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, DType):
        return f"weft.{value.name}"
    if isinstance(value, list | tuple):
        return [as_json(item) for item in cast("Sequence[Any]", value)]
    name = getattr(value, "__qualname__", None)
    text = f"{getattr(value, '__module__', '')}.{name}" if isinstance(name, str) else repr(value)
    if " at 0x" in text:
        raise ArgumentValueError(
            "AUTOTUNE_VALUE",
            f"{brief(value)} has no text of its own by which another process could know it",
            hint="give its class a __repr__, or name the choice by a number or a text",
        )
    return text


def json_text(value: object) -> str:
    """JSON without spaces, the keys in order: equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class Space:
    """The configurations of one tuned function.

    Attributes:
        names: of the parameters that are chosen.
        configurations: every choice, in order; the first is what runs without a measurement.
        digest: of all of them, by which kept results are known to be of this space.
    """

    def __init__(self, said: object, function: str, parameters: Sequence[str]) -> None:
        self._function = function
        self.configurations: tuple[Configuration, ...] = tuple(_distinct(self._all(said)))
        self.names: tuple[str, ...] = tuple(self.configurations[0])
        for name in self.names:
            if name not in parameters:
                raise SignatureError(
                    "AUTOTUNE_NAME",
                    f"the space of {function} names {brief(name)}, which is not one of its parameters",
                    hint=f"its parameters are {', '.join(parameters)}",
                )
        for chosen in self.configurations:
            for name, value in chosen.items():
                self._check_hashable(name, value)
        everything = [self.as_json(chosen) for chosen in self.configurations]
        self.digest = blake2b(json_text(everything).encode(), digest_size=8).hexdigest()

    def as_json(self, configuration: Configuration) -> dict[str, Any]:
        """A configuration as JSON."""
        return {name: as_json(configuration[name]) for name in self.names}

    def find(self, said: object) -> Configuration | None:
        """The configuration that has this JSON; None if none has."""
        wanted = json_text(said)
        for chosen in self.configurations:
            if json_text(self.as_json(chosen)) == wanted:
                return chosen
        return None

    def _all(self, said: object) -> Iterable[Configuration]:
        if isinstance(said, Mapping):
            return self._product(cast("Mapping[Any, Any]", said))
        items = cast("Sequence[Any]", said if isinstance(said, list | tuple) else ())
        if not items:
            expected = "a dictionary of parameter → values, or a list of configurations"
            raise self._error(expected, cast("object", said))
        first = items[0]
        for item in items:
            if not isinstance(item, Mapping) or not item:
                raise self._error("a dictionary for each configuration", cast("object", item))
            if set(cast("Mapping[str, Any]", item)) != set(first):
                raise ArgumentValueError(
                    "AUTOTUNE_SPACE",
                    f"the space of {self._function}: {brief(cast('object', item))} has other parameters than "
                    f"{brief(first)}",
                    hint="each configuration gives a value to the same parameters",
                )
        return [{name: item[name] for name in first} for item in items]

    def _product(self, said: Mapping[Any, Any]) -> Iterable[Configuration]:
        if not said:
            raise self._error("at least one parameter", dict(said))
        count = 1
        for name, values in said.items():
            if not isinstance(values, list | tuple | range):
                raise self._error(f"a list of values for {brief(name)}", values)
            if not values:
                raise self._error(f"at least one value for {brief(name)}", values)  # pyright: ignore[reportUnknownArgumentType]
            count *= len(values)  # pyright: ignore[reportUnknownArgumentType]
        if count > _MOST:
            raise self._error(f"at most {_MOST} configurations", count)
        return [dict(zip(said, each, strict=True)) for each in itertools.product(*said.values())]

    def _check_hashable(self, name: str, value: object) -> None:
        try:
            hash(value)
        except TypeError:
            raise ArgumentValueError(
                "AUTOTUNE_SPACE",
                f"the space of {self._function}: a value of '{name}' is {brief(value)}, which is not hashable",
                hint="write a tuple instead of a list",
            ) from None

    def _error(self, expected: str, received: object) -> ArgumentValueError:
        return ArgumentValueError(
            "AUTOTUNE_SPACE",
            f"the space of {self._function}: expected {expected}, received {brief(received)}",
            hint='write space={"tile": [16, 32], "threads": [128, 256]}',
        )


def _distinct(configurations: Iterable[Configuration]) -> Iterable[Configuration]:
    """Each configuration once; 1, 1.0 and True differ."""
    seen: set[str] = set()
    for chosen in configurations:
        text = json_text([[str(name), as_json(value)] for name, value in chosen.items()])
        if text not in seen:
            seen.add(text)
            yield chosen


_CONSTANTS: Final = (bool, int, float, str, tuple, DType, type(None))
_BOUNDS: Final = ("max_threads", "min_blocks", "max_registers", "cluster", "fp_contract", "math")


def source_digest(function: JitFunction) -> str:
    """The digest of a host function's program."""
    lines: dict[str, str] = {}
    _add(function, lines)
    lines["options"] = repr(function.default_options)
    text = "\0".join(f"{name}\0{lines[name]}" for name in sorted(lines))
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _add(function: Any, lines: dict[str, str]) -> None:
    plain = plain_function(function)
    if plain is None:
        return
    name = plain.__qualname__
    if name in lines:
        return
    bounds = ""
    if isinstance(function, KernelFunction):
        bounds = repr([getattr(function, bound) for bound in _BOUNDS])
    lines[name] = bounds  # before its names: functions may name each other
    try:
        source = read_source(function)
    except (WeftError, OSError):
        lines[name] += plain.__code__.co_code.hex()
    else:
        first = getattr(source.tree, "lineno", 1) + source.line_offset
        last = (source.tree.end_lineno or 1) + source.line_offset
        lines[name] += without_comments("".join(source.lines[first - 1 : last]))
    for read, value in _reached(plain):
        value = getattr(value, "tuned_function", value)
        if isinstance(value, StagedFunction) or (
            isinstance(value, FunctionType) and not _is_a_library(value.__module__)
        ):
            _add(value, lines)
        elif isinstance(value, _CONSTANTS):
            lines[f"{name} {read}"] = _text(cast("object", value))


def _text(constant: object) -> str:
    try:
        return repr(as_json(constant))
    except ArgumentValueError:  # a tuple of objects without texts
        return type(constant).__name__


def _reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Current values of a function's names, attributes of modules too."""
    names = _names(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    for name in names:
        value = function.__globals__.get(name)
        if value is not None:
            yield name, value
        if isinstance(value, ModuleType) and not _is_a_library(value.__name__):
            yield from ((f"{name}.{n}", vars(value)[n]) for n in names if n in vars(value))


def _names(code: CodeType) -> list[str]:
    inner = (n for c in code.co_consts if isinstance(c, CodeType) for n in _names(c))
    return sorted({*code.co_names, *inner})


def _is_a_library(module: object) -> bool:
    """Whether a module's functions are not the program's own: they are compiled by name."""
    top = top_package(module)
    return top in ("weft", "numpy", "torch") or top in sys.stdlib_module_names


def without_comments(text: str) -> str:
    r"""A function's text without comments, blank lines and spaces that end a line.

    Example:
        >>> without_comments("def f(a):  # why\n\n    return a\n")
        'def f(a):\n    return a'
    """
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, IndentationError):
        pass  # a part of an expression; its comments count
    return "\n".join(line.rstrip() for line in lines if line.strip())
