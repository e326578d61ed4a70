# SPDX-License-Identifier: Apache-2.0
"""Room for programs that are nested deeply: an `elif` chain of a thousand branches, as generated code has them.

Out: a context in which Python recurses further than by default, as far as the thread's stack goes. The
limit is the interpreter's own, so it is set once for all functions that are being compiled, and given back after the
last.
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
# Of C's stack, where every second frame of Python's is called from C.
_BYTES_PER_FRAME: Final = 700
_DEFAULT_STACK_BYTES: Final = 8 << 20


class _Limit:
    """The interpreter's limit of recursion while functions are compiled.

    Attributes:
        lock: held while it changes; reentrant, as a signal's handler may compile in the midst of a change.
        users: how many compilations go on.
        before, set_to: the limit as it was found, and as it was set.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a process that has just been forked, where nobody compiles."""
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
            # Whoever set another limit meanwhile keeps it.
            if self.users == 0:
                if sys.getrecursionlimit() == self.set_to:
                    sys.setrecursionlimit(self.before)
                self.set_to = 0


_LIMIT: Final = _Limit()
os.register_at_fork(after_in_child=_LIMIT.forget)


@contextmanager
def deep_recursion() -> Generator[None]:
    """Lets Python recurse as far as the thread's stack goes while a function is compiled."""
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
