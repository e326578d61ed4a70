# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of one ``@weft.jit`` function, found again by the types of the arguments.

In: a call's arguments. Out: the result of the function compiled for these types; compiling is somebody else's,
handed in as a callable. No argument's value is in the key, except a ``Constexpr``'s.
"""

from __future__ import annotations

import keyword
import os
import threading
import unicodedata
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from weft import _native
from weft.blame import is_of_a_handler
from weft.errors import SignatureError, UnavailableError

_STARRED: Final = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS
_MOST_TURNS: Final = 2
_Compiled = TypeVar("_Compiled")

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence


class Captured(Protocol):
    """A global or closure constant that a compilation read."""

    def is_current(self) -> bool:
        """Whether the name still means what it meant."""
        ...


class Compiled(Protocol):
    """What compiling yields, as far as this file needs it."""

    captured: Sequence[Captured]
    constant_positions: tuple[int, ...]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the function on its runtime arguments."""
        ...


class _CompilingHere(threading.local):
    """What the running thread compiles, from the outside in."""

    turns: tuple[_CompileLock, ...] = ()


_HERE: Final = _CompilingHere()


class _CompileLock:
    """Whose turn it is to compile one thing: one thread's at a time, so that it is compiled once.

    A thread that compiles something already does not wait for its turn, and compiles this once more. It may have come
    from a property that is read at compile time, and the thread whose turn it is may wait for it in just such a way.
    For the same reason a thread has several turns of one thing: a signal's handler, a finalizer or a property may
    call the very function that is being compiled.

    Args:
        name: the function's, for the error of one that needs itself to be compiled.
    """

    __slots__ = ("_locks", "_name")

    def __init__(self, name: str) -> None:
        # By process: a fork keeps what another thread had locked, and not the thread.
        self._locks: dict[int, threading.Lock] = {}
        self._name = name

    def take(self, compile_it: Callable[[], _Compiled]) -> _Compiled:
        """Calls it when its turn has come.

        Raises:
            UnavailableError: if this thread is in it too deep.
        """
        outer = _HERE.turns
        if outer.count(self) == _MOST_TURNS:
            raise UnavailableError(
                "COMPILING_NEEDS_ITSELF",
                f"{self._name} was called by what its own compilation runs",
                hint="a property, a helper or a hook that runs while a function is compiled cannot call it",
            )
        if outer:
            return self._count(outer, compile_it)
        # A lock's own `with` leaves no moment in which a signal's exception finds it taken and not yet guarded.
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            return self._count(outer, compile_it)

    def _count(
        self, outer: tuple[_CompileLock, ...], compile_it: Callable[[], _Compiled]
    ) -> _Compiled:
        try:
            _HERE.turns = (*outer, self)
            return compile_it()
        finally:
            _HERE.turns = outer


class _Specialization:
    """One key's compiled function, and the turn of whoever compiles it."""

    __slots__ = ("compiled", "turn")

    def __init__(self, name: str) -> None:
        self.turn = _CompileLock(name)
        self.compiled: Compiled | None = None


class Specializations:
    """Looks up, and compiles on a miss. Thread-safe: two threads with one new key compile it once.

    Args:
        function: the user's Python function, for its parameters and defaults.
        compile_for: called with all arguments of a call, in the order of the parameters.
    """

    __slots__ = (
        "_bind",
        "_by_key",
        "_compile",
        "_constants",
        "_count",
        "_first_turn",
        "_keyword_only",
        "_name",
    )

    def __init__(
        self, function: Callable[..., Any], compile_for: Callable[[tuple[Any, ...]], Compiled]
    ) -> None:
        code = function.__code__
        if code.co_flags & _STARRED:
            compile_for(())  # refuses it, and names the parameter and its line
        self._name = function.__name__
        self._count = code.co_argcount + code.co_kwonlyargcount
        self._keyword_only = code.co_varnames[code.co_argcount : self._count]
        self._bind = make_binder(function)
        self._compile = compile_for
        self._first_turn = _CompileLock(self._name)
        self._by_key: dict[Hashable, _Specialization] = {}
        # Positions of the Constexpr parameters. The annotations decide, which only compiling reads.
        self._constants: tuple[int, ...] | None = None

    def call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Runs the function compiled for these arguments' types; compiles it if there is none.

        Raises:
            TypeError: in Python's words, for a count or keyword that does not fit.
        """
        # With keyword-only parameters the right count says nothing: one may have come by position.
        if keywords or self._keyword_only or len(arguments) != self._count:
            arguments = self._bind(*arguments, **keywords)
        constants = self._constants
        if constants is None:
            constants = self._first(arguments)
        key: Hashable
        if constants:
            chosen: list[object] = [arguments[i] for i in constants]
            values = tuple(_native.constant_key(value) for value in chosen)
            runtime = tuple(a for i, a in enumerate(arguments) if i not in constants)
            key = (self._type_key(runtime, arguments), self._checked(values))
        else:
            runtime = arguments
            key = self._type_key(runtime, arguments)
        entry = self._by_key.get(key)
        compiled = None if entry is None else entry.compiled
        if compiled is None or not _is_current(compiled):
            compiled = self._compile_once(key, arguments)
        if self._keyword_only:
            return self._call_with_keywords(compiled, arguments, constants)
        return compiled(*runtime)

    def _call_with_keywords(
        self, compiled: Compiled, arguments: tuple[Any, ...], constants: tuple[int, ...]
    ) -> Any:
        split = self._count - len(self._keyword_only)
        positional = (a for i, a in enumerate(arguments[:split]) if i not in constants)
        named = zip(self._keyword_only, range(split, self._count), strict=True)
        keywords = {name: arguments[i] for name, i in named if i not in constants}
        return compiled(*positional, **keywords)

    def _first(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        """Compiles for the first call, to learn which parameters are constants."""
        return self._first_turn.take(lambda: self._find_constants(arguments))

    def _find_constants(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        if self._constants is not None:
            return self._constants
        compiled = self._compile(arguments)
        constants = compiled.constant_positions
        runtime = tuple(a for i, a in enumerate(arguments) if i not in constants)
        types = self._type_key(runtime, arguments)
        values = self._checked(tuple(_native.constant_key(arguments[i]) for i in constants))
        entry = _Specialization(self._name)
        entry.compiled = compiled
        self._by_key[(types, values) if constants else types] = entry
        self._constants = constants
        return constants

    def _type_key(self, runtime: tuple[Any, ...], arguments: tuple[Any, ...]) -> Hashable:
        try:
            key = _native.argument_key(runtime)
        except (TypeError, ValueError, RecursionError) as error:
            if is_of_a_handler(error):
                raise
            # The compiler says it better: it knows the parameter's name and what is accepted.
            self._compile(arguments)
            raise SignatureError(
                "ARGUMENT_ONLY_EXAMPLE",
                f"{self._name}: {error}",
                hint="weft.fake_tensor(...) and its like have no memory; give them to weft.compile",
            ) from None
        # A tuple holds values of compile-time fields, too.
        return key if isinstance(key, bytes) else self._checked(key)

    def _checked(self, values: tuple[Any, ...]) -> Hashable:
        try:
            hash(values)
        except TypeError as error:
            raise SignatureError(
                "CONSTANT_NOT_HASHABLE",
                f"a Constexpr argument is part of the key of what was compiled: {error}",
                hint="pass a hashable value, such as a tuple instead of a list",
            ) from None
        return values

    def _compile_once(self, key: Hashable, arguments: tuple[Any, ...]) -> Compiled:
        # One step of a dictionary each, here and below: the table needs no lock.
        entry = self._by_key.setdefault(key, _Specialization(self._name))
        return entry.turn.take(lambda: self._compile_entry(key, entry, arguments))

    def _compile_entry(
        self, key: Hashable, entry: _Specialization, arguments: tuple[Any, ...]
    ) -> Compiled:
        if entry.compiled is None or not _is_current(entry.compiled):
            try:
                entry.compiled = self._compile(arguments)
            except BaseException:
                self._forget(key, entry)
                raise
        return entry.compiled

    def _forget(self, key: Hashable, entry: _Specialization) -> None:
        """Drops what could not be compiled, and the constants that its key holds."""
        if entry.compiled is None and self._by_key.get(key) is entry:
            self._by_key.pop(key, None)


def _is_current(compiled: Compiled) -> bool:
    return all(item.is_current() for item in compiled.captured)


def make_binder(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters and defaults that returns its arguments as a tuple.

    Python itself then binds keywords and words the errors, with the function's real name.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :]
    parameters = list(positional)
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if keyword_only:
        parameters += ["*", *keyword_only]
    text = f"def binder({', '.join(parameters)}): return ({''.join(n + ', ' for n in names)})"
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    binder = namespace["binder"]
    binder.__name__ = binder.__qualname__ = function.__name__
    binder.__defaults__ = function.__defaults__
    binder.__kwdefaults__ = function.__kwdefaults__
    return binder


def identifier(name: str) -> str:
    """A function's name as a `def` can have it, as Python reads it: a lambda's and a keyword are none."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "function"
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
