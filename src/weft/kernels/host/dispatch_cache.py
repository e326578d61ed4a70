# SPDX-License-Identifier: Apache-2.0
"""Dispatch cache of ``weft.kernels``: validation and kernel choice are cached by the arguments' types and shapes.

In: a function that validates its arguments and returns a `Call`. Out: one that makes it. Calls with equal keys
(`weft._native.call_key`: all but elements and addresses) skip the function from the third one on: the first sight of a
key costs nothing more, since a shape that grows never returns.
"""

from __future__ import annotations

from functools import wraps
from inspect import signature
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import _native
from weft.config import overrides
from weft.kernels.annotations import Arguments, Keywords
from weft.kernels.host.arrays import maker_of
from weft.memo import CallCache
from weft.tracebacks import leave_the_users_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import TypeVar

    from weft.api import JitFunction

    _F = TypeVar("_F", bound=Callable[..., Any])

_Step = tuple["Callable[..., Any]", tuple[int, ...]]

_MOST: Final = 1024  # cached calls of a function
_BEYOND: Final = 1 << 64


class View(NamedTuple):
    """An array that views another one.

    Attributes:
        array: the view.
        source: the viewed array: the user's, a result, or a view.
        make: makes the view of a source.
    """

    array: Any
    source: Any
    make: Callable[[Any], Any]


class Call(NamedTuple):
    """A call of a host function, with the result that the user gets.

    Attributes:
        function: the host function.
        arguments: its arguments, in order: the user's arrays, results, views, constants, and tuples of them.
        result: an array or several, each of them among the arguments.
        views: all views among the arguments and their sources.
        unread: the user's arrays that it does without.
    """

    function: JitFunction
    arguments: tuple[Any, ...]
    result: Any
    views: tuple[View, ...] = ()
    unread: tuple[Any, ...] = ()


def cached_dispatch(function: _F) -> _F:
    """Makes the `Call` that a function returns, and caches the second one with a key; any other value is the result."""
    return cached_dispatch_except()(function)


def cached_dispatch_except(*names: str) -> Callable[[_F], _F]:
    """As `cached_dispatch`; the key leaves out parameters of these names, integers below 2⁶⁴.

    Nothing may depend on them but the arguments of the `Call` that are these very objects.
    """

    def decorate(function: _F) -> _F:
        known: CallCache[_Known] = CallCache(_MOST)
        places = {name: list(signature(function).parameters).index(name) for name in names}

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            shown, others = arguments, keywords
            if places:
                shown, others, arguments, keywords = _marked(places, arguments, keywords)
            key = None if overrides() else _native.call_key(shown, others)
            found = known.find(key)
            if found is not None:
                new = found.new_arrays()
                if new is not None:
                    return found.run((*arguments, *keywords.values(), *new))
            answer = function(*arguments, **keywords)
            if not isinstance(answer, Call):
                return answer
            answer.function(*answer.arguments)
            if key is not None and known.is_second(key):
                made = known_call(answer, (*arguments, *keywords.values()))
                if made is not None:
                    known.keep(key, made)
            return answer.result

        return cast("_F", call)

    return decorate


class _Any(int):
    """An integer that is identified by object, not by value."""


def _marked(places: dict[str, int], arguments: Arguments, keywords: Keywords) -> Any:
    """Arguments and keywords for the key, and for the function."""
    shown, own = list(arguments), list(arguments)
    others, own_keywords = keywords, keywords
    for name, place in places.items():
        value = arguments[place] if place < len(arguments) else keywords.get(name)
        if type(value) is not int or not 0 <= value < _BEYOND:
            continue
        if place < len(arguments):
            shown[place], own[place] = _Any, _Any(value)
        else:
            others, own_keywords = {**others, name: _Any}, {**own_keywords, name: _Any(value)}
    return tuple(shown), others, tuple(own), own_keywords


class _Known:
    """A cached call, for arguments with the same key.

    Args:
        compiled: the compiled function.
        makers: allocators of the new arrays.
        key: of the new arrays.
        constants: other arguments of the compiled function.
        steps: make further values from those before, in order: views, and tuples.
        chosen: picks the function's arguments from the user's values, new arrays, constants and made values.
        result: picks the user's result likewise.
    """

    __slots__ = (
        "_chosen",
        "_compiled",
        "_constants",
        "_key",
        "_makers",
        "_result",
        "_steps",
        "captured",
    )

    def __init__(
        self,
        compiled: Any,
        makers: list[Callable[[], Any]],
        key: Hashable,
        constants: Sequence[Any],
        steps: Sequence[_Step],
        chosen: Callable[[Sequence[Any]], tuple[Any, ...]],
        result: Callable[[Sequence[Any]], Any],
    ) -> None:
        self._compiled, self.captured = compiled, compiled.captured
        self._makers, self._key, self._constants = makers, key, constants
        self._steps, self._chosen, self._result = steps, chosen, result

    def new_arrays(self) -> tuple[Any, ...] | None:
        """New arrays for the results, or None if their layout differs from the first call's."""
        if not self._makers:
            return ()
        made = tuple([make() for make in self._makers])
        return made if _native.call_key(made, {}) == self._key else None

    def run(self, values: Arguments) -> Any:
        """Runs it with the user's values and the new arrays, and returns the result."""
        everything = [*values, *self._constants]
        for make, places in self._steps:
            everything.append(make(*[everything[place] for place in places]))
        try:
            self._compiled(*self._chosen(everything))
        except Exception as error:
            leave_the_users_frames(error)
            raise
        return self._result(everything)


def known_call(call: Call, values: Arguments) -> _Known | None:
    """Makes the cache entry of a call.

    None where it has an array that is neither the user's nor a result, or lacks one of the user's: its elements, which
    are not in the key, were read as numbers.
    """
    result = cast("Any", call).result
    results = cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,))
    new = tuple(one for one in results if all(one is not value for value in values))
    compiled, places = call.function.compiled_for(call.arguments)
    taken = [call.arguments[place] for place in places]
    parts = _Parts((*values, *new), call.views)
    for one in taken:
        parts.add(one)
    read = (*parts.leaves, *call.unread)
    if any(_has_array(value) and not _is_among(value, read) for value in values):
        return None
    if any(_has_array(constant) for constant in parts.constants):
        return None
    chosen = [parts.place(one) for one in taken]
    # An array that is given twice is the last, `out`, in the result.
    everything = (*values, *new)
    made = itemgetter(*(max(k for k, v in enumerate(everything) if v is one) for one in results))
    makers, key = [maker_of(one) for one in new], _native.call_key(new, {})
    others = parts.constants, tuple(parts.steps), itemgetter(*chosen), made
    return _Known(compiled, makers, key, *others)


class _Parts:
    """Rebuilds arguments from values and constants, by steps for views and tuples.

    First all arguments are added, then they have places.
    """

    def __init__(self, values: Arguments, views: tuple[View, ...]) -> None:
        self.values, self.views = values, views
        self.constants, self.leaves = list[Any](), list[Any]()
        self.made, self.steps = list[Any](), list[_Step]()

    def add(self, one: Any) -> None:
        """Notes the values and constants in an argument."""
        if _is_among(one, self.values):
            self.leaves.append(one)
        elif inside := self._inside(one):
            for item in inside[1]:
                self.add(item)
        elif not _is_among(one, self.constants):
            self.constants.append(one)

    def place(self, one: Any) -> int:
        """Index of an argument among the values, the constants and the results of steps."""
        known = (*self.values, *self.constants, *self.made)
        for number, other in enumerate(known):
            if other is one:
                return number
        make, items = cast("tuple[Any, tuple[Any, ...]]", self._inside(one))
        self.steps.append((make, tuple([self.place(item) for item in items])))
        self.made.append(one)
        return len(self.values) + len(self.constants) + len(self.made) - 1

    def _inside(self, one: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """The constructor of a view, or of a tuple with arrays, and its arguments."""
        for view in self.views:
            if view.array is one:
                return view.make, (view.source,)
        if isinstance(one, tuple) and _has_array(one):
            items = cast("tuple[Any, ...]", one)
            return cast("Any", _tuple_of if type(items) is tuple else type(items)), items
        return None


def _tuple_of(*items: Any) -> tuple[Any, ...]:
    return items


def _is_among(one: Any, values: Sequence[Any]) -> bool:
    return any(value is one for value in values)


def _has_array(one: Any) -> bool:
    if isinstance(one, tuple):
        return any(map(_has_array, cast("tuple[Any, ...]", one)))
    return _native.describe(one)[0] == "tensor"
