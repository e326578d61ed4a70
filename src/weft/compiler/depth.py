# SPDX-License-Identifier: Apache-2.0
"""Recursion depth for deeply nested programs, such as a generated `elif` chain of a thousand branches.

Out: a context with a recursion limit as high as the thread's stack allows. The limit is the interpreter's, so it is
raised once for all running compilations, and restored after the last.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

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
    """Raises the recursion limit to what the thread's stack allows while a function is compiled."""
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
