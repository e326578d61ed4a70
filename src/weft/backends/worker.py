# SPDX-License-Identifier: Apache-2.0
"""A call on a thread of its own, and code that no signal's exception can interrupt.

Python runs the handlers of signals on the main thread only. llvmlite's objects dispose of what they own line by line,
and an exception between two lines disposes of it twice. So LLVM runs elsewhere, and what a handler raises ends the
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
    """A call that begins now, on another thread; where no thread can be started, it has run when this returns.

    The thread is a daemon: whoever is interrupted while waiting leaves it to its end, which nobody sees. Starting and
    waiting are one call and a bare lock: a signal's exception breaks `threading.Thread.start`, and can leave the locks
    of `threading.Event` and `concurrent.futures` held.

    Args:
        call: what to call. It sees the caller's context variables, and with them what `weft.config.override` set.
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
        """What the call returned, once it has; to be asked for once.

        Raises:
            BaseException: what the call raised, or the handler of a signal that arrived meanwhile.
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
    """Calls it where no handler of a signal runs: here, or on a worker if this is the main thread.

    Also here where this thread keeps LLVM from every other, as at the interpreter's end: a worker would wait for ever.
    """
    if threading.get_ident() != threading.main_thread().ident or holds_llvm():
        return call()
    return Worker(call).result()
