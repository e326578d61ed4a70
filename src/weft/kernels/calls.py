# SPDX-License-Identifier: Apache-2.0
"""Calls that cost as little as one of weft's own: what a function of ``weft.kernels`` decides it decides once.

In: a function that checks its arguments and answers with a `Call`. Out: one that makes it. Calls that differ only in
elements and addresses, as `weft._native.call_key` says, are made again without asking the function.
"""

from __future__ import annotations

from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import _native
from weft.config import overridden
from weft.kernels.arrays import maker_of
from weft.tracebacks import leave_the_users_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import TypeVar

    from weft.api import JitFunction

    _F = TypeVar("_F", bound=Callable[..., Any])

_MOST: Final = 1024  # calls that a function remembers


class Call(NamedTuple):
    """What a call comes to.

    Attributes:
        function: the host function.
        arguments: its arguments, in order: the user's arrays, results, constants.
        result: what the user gets: an array or several, each of them among the arguments.
    """

    function: JitFunction
    arguments: tuple[Any, ...]
    result: Any


def remembered(function: _F) -> _F:
    """Makes the `Call` that a function answers with, and remembers it; another answer is the result."""
    known: dict[Hashable, _Known] = {}

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        key = None if overridden("sanitize") else _native.call_key(arguments, keywords)
        found = known.get(key)
        if found is not None and found.is_current():
            new = found.new_arrays()
            if new is not None:
                return found.run((*arguments, *keywords.values(), *new))
        answer = function(*arguments, **keywords)
        if not isinstance(answer, Call):
            return answer
        answer.function(*answer.arguments)
        made = None if key is None else known_call(answer, (*arguments, *keywords.values()))
        if made is not None:
            if len(known) >= _MOST:
                known.clear()
            known[key] = made
        return answer.result

    return cast("_F", call)


class _Known:
    """A call that has been made, for arguments with the same key.

    Args:
        compiled: the compiled function.
        makers: of the new arrays.
        key: of the new arrays.
        constants: other arguments of the compiled function.
        chosen: of the user's values, the new arrays and the constants, those that the function gets.
        result: likewise, what the user gets.
    """

    __slots__ = ("_captured", "_chosen", "_compiled", "_constants", "_key", "_makers", "_result")

    def __init__(
        self,
        compiled: Any,
        makers: list[Callable[[], Any]],
        key: Hashable,
        constants: list[Any],
        chosen: Callable[[tuple[Any, ...]], tuple[Any, ...]],
        result: Callable[[tuple[Any, ...]], Any],
    ) -> None:
        self._compiled, self._captured = compiled, compiled.captured
        self._makers, self._key, self._constants = makers, key, constants
        self._chosen, self._result = chosen, result

    def is_current(self) -> bool:
        """Whether what the code has read from the user's names is still there."""
        return not self._captured or all(item.is_current() for item in self._captured)

    def new_arrays(self) -> tuple[Any, ...] | None:
        """New arrays for the results, or None if they do not lie as those of the first call did."""
        if not self._makers:
            return ()
        made = tuple([make() for make in self._makers])
        return made if _native.call_key(made, {}) == self._key else None

    def run(self, values: tuple[Any, ...]) -> Any:
        """Runs it with the user's values and the new arrays; its result."""
        values = (*values, *self._constants)
        try:
            self._compiled(*self._chosen(values))
        except Exception as error:
            leave_the_users_frames(error)
            raise
        return self._result(values)


def known_call(call: Call, values: tuple[Any, ...]) -> _Known | None:
    """What is remembered of a call.

    None where it has an array that is neither the user's nor a result, or where the user gave one that it has not: its
    elements, which are not in the key, were read as numbers.
    """
    result = cast("Any", call).result
    results = cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,))
    new = tuple(one for one in results if all(one is not value for value in values))
    everything, constants = (*values, *new), list[Any]()
    compiled, places = call.function.compiled_for(call.arguments)
    chosen: list[int] = []
    taken = [call.arguments[place] for place in places]
    if any(_has_array(value) and _place(value, taken) is None for value in values):
        return None
    for one in taken:
        place = _place(one, everything)
        if place is None:
            if _has_array(one):
                return None
            place = len(everything) + len(constants)
            constants.append(one)
        chosen.append(place)
    # An array that is given twice is the last, `out`, in the result.
    made = itemgetter(*(max(k for k, v in enumerate(everything) if v is one) for one in results))
    makers, key = [maker_of(one) for one in new], _native.call_key(new, {})
    return _Known(compiled, makers, key, constants, itemgetter(*chosen), made)


def _place(one: Any, values: Sequence[Any]) -> int | None:
    return next((k for k, value in enumerate(values) if value is one), None)


def _has_array(one: Any) -> bool:
    if isinstance(one, tuple):
        return any(map(_has_array, cast("tuple[Any, ...]", one)))
    return _native.describe(one)[0] == "tensor"
