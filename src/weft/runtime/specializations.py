# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of one ``@weft.jit`` function, found again by the types of the arguments.

In: a call's arguments. Out: the result of the function compiled for these types; the compiler is passed in as a
callable. Of argument values only ``Constexpr``s are in the key.
"""

from __future__ import annotations

import _thread
import os
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from weft import _native
from weft.blame import is_of_a_handler
from weft.config import overrides_variable
from weft.errors import SignatureError, UnavailableError
from weft.memo import CallCache

_STARRED: Final = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS
_MOST_TURNS: Final = 2
_Compiled = TypeVar("_Compiled")

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from weft.runtime.compiled_function import Captured


class Compiled(Protocol):
    """A compiled function, as far as this file needs it."""

    plan: _native.CallPlan
    captured: Sequence[Captured]
    constant_positions: tuple[int, ...]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the function on its runtime arguments."""
        ...


class _CompilingHere(_thread._local):  # pyright: ignore[reportPrivateUsage]  threading takes 1 ms
    """The compilations of the running thread, outermost first."""

    turns: tuple[_CompileLock, ...] = ()


_HERE: Final = _CompilingHere()


class _CompileLock:
    """The lock for compiling one thing: one thread at a time, so that it is compiled once.

    A thread that is already compiling something does not wait, and compiles this once more: it may come from a property
    read at compile time, and the lock's holder may be waiting for it in the same way. For the same reason a thread may
    hold the lock several times: a signal handler, a finalizer or a property may call the very function being compiled.

    Args:
        name: the function's, for the error when it needs itself to be compiled.
    """

    def __init__(self, name: str) -> None:
        # Per process: a fork keeps another thread's lock, but not the thread.
        self._locks: dict[int, _thread.LockType] = {}
        self._name = name

    def take(self, compile_it: Callable[[], _Compiled]) -> _Compiled:
        """Calls it with the lock held.

        Raises:
            UnavailableError: if this thread holds it too often.
        """
        outer = _HERE.turns
        if outer.count(self) == _MOST_TURNS:
            raise UnavailableError(
                "COMPILING_NEEDS_ITSELF",
                f"{self._name} was called by code that its own compilation runs",
                hint="properties, helpers and hooks that run while a function is compiled cannot call it",
            )
        if outer:
            return self._count(outer, compile_it)
        # With a lock's own `with`, no signal's exception can find it taken but unguarded.
        with self._locks.setdefault(os.getpid(), _thread.allocate_lock()):
            return self._count(outer, compile_it)

    def _count(
        self, outer: tuple[_CompileLock, ...], compile_it: Callable[[], _Compiled]
    ) -> _Compiled:
        try:
            _HERE.turns = (*outer, self)
            return compile_it()
        finally:
            _HERE.turns = outer


class Specializations(_native.CallTable):
    """Looks up, and compiles on a miss. Thread-safe: two threads with one new key compile it once.

    The native table keeps the function found for a call, and makes the next such call without this file.

    Args:
        function: the user's Python function, for its parameters and defaults.
        compile_for: called with all arguments of a call, in the order of the parameters.

    Attributes:
        code: of the function, when this was made; after a change in place its parameters may be others.
    """

    def __init__(
        self, function: Callable[..., Any], compile_for: Callable[[tuple[Any, ...]], Compiled]
    ) -> None:
        super().__init__(function, overrides_variable)
        self.code = code = function.__code__
        if code.co_flags & _STARRED:
            compile_for(())  # raises an error with the parameter and its line
        self._name = function.__name__
        self._count = code.co_argcount + code.co_kwonlyargcount
        self._keyword_only = code.co_varnames[code.co_argcount : self._count]
        self._function: Any = function
        self._bind: Any = make_binder(function)
        self._compile = compile_for
        self._first_turn = _CompileLock(self._name)
        self._by_key: CallCache[Compiled] = CallCache()
        self._locks: dict[Hashable, _CompileLock] = {}  # of keys without an entry
        # Positions of the Constexpr parameters, known after compiling has read the annotations.
        self._constants: tuple[int, ...] | None = None

    def compiled(self) -> list[Compiled]:
        """All specializations so far, the newest last."""
        return self._by_key.entries()

    def call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Runs the function compiled for these arguments' types; compiles it if needed.

        Raises:
            TypeError: in Python's words, for a wrong count or keyword.
        """
        # With keyword-only parameters a matching count proves nothing: one may be positional.
        if keywords or self._keyword_only or len(arguments) != self._count:
            arguments = self._bound(arguments, keywords)
        compiled, runtime, constants = self._find(arguments)
        if self._keyword_only:
            return self._call_with_keywords(compiled, arguments, constants)
        return compiled(*runtime)

    def find_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Compiled:
        """The compiled function that a call runs; compiles it if needed, and does not run it."""
        return self.find(self._bound(arguments, keywords))[0]

    def _bound(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments, in the order of the parameters."""
        function, bind = self._function, self._bind
        if bind.__defaults__ is not function.__defaults__:
            bind.__defaults__ = function.__defaults__
        if bind.__kwdefaults__ is not function.__kwdefaults__:
            bind.__kwdefaults__ = function.__kwdefaults__
        return bind(*arguments, **keywords)

    def find(self, arguments: tuple[Any, ...]) -> tuple[Compiled, tuple[int, ...]]:
        """The compiled function that a call with all of these arguments runs, and the positions of those it gets."""
        compiled, _, constants = self._find(arguments)
        return compiled, tuple(i for i in range(self._count) if i not in constants)

    def _find(
        self, arguments: tuple[Any, ...]
    ) -> tuple[Compiled, tuple[Any, ...], tuple[int, ...]]:
        """The compiled function of a call, the arguments that it gets, and the positions of the others."""
        constants = self._constants
        if constants is None:
            constants = self._first(arguments)
        runtime, key = self._key(arguments, constants)
        compiled = self._by_key.find(key)
        if compiled is None:
            compiled = self._compile_once(key, arguments)
        guards = guards_of(compiled)
        if guards is not NotImplemented:
            self.remember(arguments, constants, compiled, guards)
        return compiled, runtime, constants

    def _key(
        self, arguments: tuple[Any, ...], constants: tuple[int, ...]
    ) -> tuple[tuple[Any, ...], Hashable]:
        """The arguments that are not constants, and the key of all."""
        if not constants:
            return arguments, self._type_key(arguments, arguments)
        chosen: list[object] = [arguments[i] for i in constants]
        values = tuple([_native.constant_key(value) for value in chosen])
        runtime = tuple([a for i, a in enumerate(arguments) if i not in constants])
        return runtime, (self._type_key(runtime, arguments), self._checked(values))

    def _call_with_keywords(
        self, compiled: Compiled, arguments: tuple[Any, ...], constants: tuple[int, ...]
    ) -> Any:
        split = self._count - len(self._keyword_only)
        positional = (a for i, a in enumerate(arguments[:split]) if i not in constants)
        named = zip(self._keyword_only, range(split, self._count), strict=True)
        keywords = {name: arguments[i] for name, i in named if i not in constants}
        return compiled(*positional, **keywords)

    def _first(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        """Compiles for the first call, which shows the constant parameters."""
        return self._first_turn.take(lambda: self._find_constants(arguments))

    def _find_constants(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        if self._constants is not None:
            return self._constants
        compiled = self._compile(arguments)
        constants = compiled.constant_positions
        self._by_key.keep(self._key(arguments, constants)[1], compiled)
        self._constants = constants
        return constants

    def _type_key(self, runtime: tuple[Any, ...], arguments: tuple[Any, ...]) -> Hashable:
        try:
            key = _native.argument_key(runtime)
        except (TypeError, ValueError, RecursionError) as error:
            if is_of_a_handler(error):
                raise
            # The compiler's error is better: it has the parameter's name and the accepted kinds.
            self._compile(arguments)
            raise SignatureError(
                "ARGUMENT_ONLY_EXAMPLE",
                f"{self._name}: {error}",
                hint="stand-ins such as weft.fake_tensor(...) have no memory; give them to weft.compile",
            ) from None
        # Tuples also hold values of compile-time fields.
        return key if isinstance(key, bytes) else self._checked(key)

    def _checked(self, values: tuple[Any, ...]) -> Hashable:
        try:
            hash(values)
        except TypeError as error:
            raise SignatureError(
                "CONSTANT_NOT_HASHABLE",
                f"a Constexpr argument must be hashable: {error}",
                hint="pass a hashable value, such as a tuple instead of a list",
            ) from None
        return values

    def _compile_once(self, key: Hashable, arguments: tuple[Any, ...]) -> Compiled:
        # Single dictionary operations, so the table needs no lock. After a failure the key keeps its lock: threads may
        # wait for it, and later ones must too.
        lock = self._locks.setdefault(key, _CompileLock(self._name))
        compiled = lock.take(lambda: self._compile_entry(key, arguments))
        self._locks.pop(key, None)
        return compiled

    def _compile_entry(self, key: Hashable, arguments: tuple[Any, ...]) -> Compiled:
        compiled = self._by_key.find(key)
        if compiled is None:
            compiled = self._compile(arguments)
            self._by_key.keep(key, compiled)
        return compiled


def guards_of(compiled: Compiled) -> Any:
    """All that a compiled function has captured as `Guards`, None for nothing; NotImplemented if contents count."""
    captured = compiled.captured
    if not captured:
        return None
    return getattr(captured[0], "guards", NotImplemented) if len(captured) == 1 else NotImplemented


def make_binder(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters and defaults, returning its arguments as a tuple.

    Python itself then binds keywords and raises errors with the function's real name.
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
    """A function's name, if `def` can use it: not that of a lambda, nor a keyword."""
    import keyword
    import unicodedata

    if not name.isidentifier() or keyword.iskeyword(name):
        return "function"
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
