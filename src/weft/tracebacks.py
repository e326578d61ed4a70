# SPDX-License-Identifier: Apache-2.0
"""Tracebacks of errors in users' programs: the user's frames, and at most one weft frame.

In: an exception on its way out of a function that users call. Out: the same, without weft's frames; a defect of weft
keeps them, and `WEFT_FULL_TRACEBACKS` keeps all. pytest hides the remaining one.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from weft.config import config
from weft.dynamo import left_to_python
from weft.errors import CudaError, InternalCompilerError, WeftError, is_of, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__tracebackhide__ = True

_P = ParamSpec("_P")
_R = TypeVar("_R")
# Exceptions for users. Any other exception out of weft's own code is a defect, and keeps its frames.
_EXPECTED: Final = (WeftError, CudaError, TypeError, ValueError, AssertionError)
# Packages whose frames stand between weft's.
_OURS: Final = ("weft", "xdsl", "llvmlite", "contextlib", "threading")


def leave_the_users_frames(error: Exception) -> None:
    """Removes weft's frames from an exception that is raised again, and from its causes.

    The user's exception in handling stays its context; weft's does not.
    """
    trace = error.__traceback__
    if isinstance(error, InternalCompilerError) or config.full_tracebacks:
        return
    if not isinstance(error, _EXPECTED) and _ends_in_weft(trace):
        return
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = without_frames(one.__traceback__, *_OURS)
        if not one.__suppress_context__:
            one.__context__ = _of_the_user(one.__context__)
        one = one.__cause__


def one_frame(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a decorator for a function that users call.

    Args:
        name: in Python's own errors about its arguments.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        function.__qualname__ = name

        @wraps(function)
        def called(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            try:
                return function(*arguments, **keywords)
            except Exception as error:
                leave_the_users_frames(error)
                raise

        return left_to_python(called)

    return decorate


def named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a decorator as `one_frame`, for a function that leaves the users' frames itself: it stays a plain one."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        function.__qualname__ = name
        return left_to_python(function)

    return decorate


def _ends_in_weft(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_of(trace, "weft")


def _of_the_user(error: BaseException | None) -> BaseException | None:
    """The nearest exception being handled by the user, not by weft."""
    while (
        error is not None and error.__traceback__ is not None and is_of(error.__traceback__, "weft")
    ):
        error = error.__context__
    return error
