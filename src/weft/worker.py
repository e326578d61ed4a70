# SPDX-License-Identifier: Apache-2.0
"""A call on another thread, where Python runs no signal handler.

In: a function. Out: its result or its error, for the thread that waits.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar

from weft.blame import is_of_a_handler

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


class Worker(Generic[_Result]):
    """A call that begins now, on another thread; if no thread can be started, it runs before this returns.

    The thread is a daemon: if waiting is interrupted, it finishes unobserved. Starting and
    waiting are one call and a bare lock: a signal's exception breaks `threading.Thread.start`, and can leave the locks
    of `threading.Event` and `concurrent.futures` held.

    Args:
        call: sees the caller's context variables, including those set by `weft.config.override`.
    """

    _result: _Result

    def __init__(self, call: Callable[[], _Result]) -> None:
        context = copy_context()
        self._call = lambda: context.run(call)
        self._error: BaseException | None = None
        self._done = allocate_lock()
        self._done.acquire()
        try:
            start_new_thread(self._run, ())
        except RuntimeError as error:
            if is_of_a_handler(error):
                raise
            self._run()  # "can't start new thread": a limit of the process, the user, or a container

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._done.release()

    def result(self) -> _Result:
        """Waits for the call and returns its result; to be called once.

        Raises:
            BaseException: of the call, or of a signal handler that ran meanwhile.
        """
        self._done.acquire()
        error = self._error
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del (
                self._error,
                error,
            )  # the error holds this frame, and this frame would hold the error
