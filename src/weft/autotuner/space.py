# SPDX-License-Identifier: Apache-2.0
"""The configurations among which the tuner chooses, and their values as JSON.

In: ``{"tile": [16, 32], "threads": [128, 256]}``, or a list of such choices. Out: a `Space`, in the order of the lists.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from weft.cache.digest import blake2b
from weft.errors import ArgumentValueError, SignatureError, brief
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
