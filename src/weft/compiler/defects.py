# SPDX-License-Identifier: Apache-2.0
"""Defects of weft, in any stage, as one kind of error; recursion depth for deeply nested programs.

In: the stages of the main path, in `with` blocks. Out: `InternalCompilerError` with the stage, the function's place and
how to report it, for exceptions that are neither weft's own nor the user's, such as lists that were meant as tensors. A
context with a recursion limit as high as the thread's stack allows, for a generated `elif` chain of a thousand
branches. The limit is the interpreter's, so it is raised once for all running compilations, and restored after the
last.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import MISSING
from weft.blame import is_the_users, limit_reached
from weft.config import EnvironmentVariableError
from weft.errors import (
    REPORT_HINT,
    CompileError,
    InternalCompilerError,
    SignatureError,
    UnavailableError,
    WeftError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from weft.frontend.source import FunctionSource
    from weft.location import SourceLocation


# Not defects: a missing library, an environment variable's value, lack of memory.
_NOT_OURS: Final = (WeftError, EnvironmentVariableError, ImportError, MemoryError)


@contextlib.contextmanager
def reported(stage: str, source: FunctionSource) -> Generator[None]:
    """Reports exceptions that escape the `with` block; those of the user's code pass unchanged.

    Args:
        stage: in words, such as ``"the wrapper"``.
        source: the function being compiled; errors without a better place use its first line.
    Raises:
        CompileError: for programs nested too deeply.
        UnavailableError: for a limit of the process.
        InternalCompilerError: for any other exception that is not weft's own.
    """
    try:
        yield
    except _NOT_OURS as error:
        if isinstance(error, WeftError):
            _show_text(error.location, source)
        raise
    except RecursionError as error:
        raise CompileError(
            "TOO_DEEP",
            f"{stage} of '{source.name}' is nested too deeply for the compiler",
            hint="nest tuples and expressions less deeply",
            location=source.locate(source.tree),
        ) from error
    except Exception as error:
        if is_the_users(error):
            raise
        limit = limit_reached(error)
        if limit:
            raise UnavailableError(
                "LIMIT_REACHED",
                f"{stage} of '{source.name}' stopped at a limit of this process: {limit}",
                hint="raise the limit, or free resources of the process, then compile again",
            ) from error
        raise InternalCompilerError(
            "INTERNAL",
            f"{stage} of '{source.name}' failed with {type(error).__name__}: {error}",
            hint=REPORT_HINT,
            location=source.locate(source.tree),
        ) from error


def _show_text(place: SourceLocation | None, source: FunctionSource) -> None:
    """Gives places that were found in the IR the text as it was when the function was decorated."""
    while place is not None:
        if place.lines is None:
            place.lines = source.texts.of(place.file, source.globals).lines
        place = place.caller


# Errors about a tuple where a tensor would work.
_CODES: Final = ("TARGET", "INDEX_STAGED", "UNKNOWN_ATTRIBUTE", "KERNEL_ARGUMENT")


@contextlib.contextmanager
def explained(
    source: FunctionSource, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Generator[None]:
    """Explains failures in the `with` block caused by a list of numbers for a parameter without annotation.

    Raises:
        SignatureError: that names the argument, instead of an error about a tuple.
    """
    try:
        yield
    except CompileError as error:
        if error.code not in _CODES or "tuple" not in error.message:
            raise
        names = [p.name for p in source.parameters]
        given = {**dict(zip(names, arguments, strict=False)), **keywords}
        bare = [p.name for p in source.parameters if p.annotation is MISSING]
        lists = [name for name in bare if _holds_numbers(given.get(name))]
        if not lists:
            raise
        raise SignatureError(
            "ARGUMENT_LIST",
            f"{source.name}: argument '{lists[0]}': it is a list, which is a tuple in compiled code, but "
            f"is used as a tensor: {error.message}",
            hint=f"pass an array, such as numpy.asarray({lists[0]})",
        ) from error


def _holds_numbers(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return all(isinstance(item, int | float) or _holds_numbers(item) for item in items)


_MOST_FRAMES: Final = 10_000
# Of the C stack, with every second Python frame called from C.
_BYTES_PER_FRAME: Final = 700
_DEFAULT_STACK_BYTES: Final = 8 << 20


class _Limit:
    """The interpreter's recursion limit while functions are compiled.

    Attributes:
        lock: held while it changes; reentrant, since a signal handler may compile during a change.
        users: running compilations.
        before, set_to: the limit found and set.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Resets it in a newly forked process, where nothing compiles."""
        self.lock = threading.RLock()
        self.users = self.before = self.set_to = 0

    def enter(self, frames: int) -> None:
        with self.lock:
            limit = sys.getrecursionlimit()
            if self.users == 0 and limit != self.set_to:
                self.before = limit
            self.users += 1
            if frames > limit:
                self.set_to = frames
                sys.setrecursionlimit(frames)

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            # A limit set by others meanwhile stays.
            if self.users == 0:
                if sys.getrecursionlimit() == self.set_to:
                    sys.setrecursionlimit(self.before)
                self.set_to = 0


_LIMIT: Final = _Limit()
os.register_at_fork(after_in_child=_LIMIT.forget)


@contextmanager
def deep_recursion() -> Generator[None]:
    """Raises the recursion limit to the most that the thread's stack allows, while a function is compiled."""
    _LIMIT.enter(min(_MOST_FRAMES, _stack_bytes() // _BYTES_PER_FRAME))
    try:
        yield
    finally:
        _LIMIT.leave()


def _stack_bytes() -> int:
    if threading.current_thread() is not threading.main_thread() and threading.stack_size():
        return threading.stack_size()
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft if soft > 0 else _DEFAULT_STACK_BYTES
