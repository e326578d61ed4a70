# SPDX-License-Identifier: Apache-2.0
"""A call on another thread, and code that no signal's exception can interrupt.

Python runs signal handlers only on the main thread. llvmlite's objects dispose of what they own line by line,
and an exception between two lines disposes of it twice. So LLVM runs elsewhere, and a handler's exception ends the
wait for it.
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar

from weft.blame import is_of_a_handler
from weft.codegen.llvm.lock import holds_llvm

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
        self._done = threading.Lock()
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


def away_from_signals(call: Callable[[], _Result]) -> _Result:
    """Calls it on a thread without signal handlers: this one, or a worker if this is the main thread.

    Also on this thread if it holds LLVM's lock, as at interpreter shutdown: a worker would wait forever.
    """
    if threading.get_ident() != threading.main_thread().ident or holds_llvm():
        return call()
    return Worker(call).result()
