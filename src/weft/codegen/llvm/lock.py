# SPDX-License-Identifier: Apache-2.0
"""llvmlite's one lock, which every call of LLVM takes: safe with signals, forks and the interpreter's end.

llvmlite takes it in a method in Python. A signal's exception between the method's lines leaves the lock held for ever,
and every other thread waits for ever. Next: optimize.
"""

from __future__ import annotations

import atexit
import os
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from llvmlite.binding import ffi

if TYPE_CHECKING:
    from collections.abc import Callable

_LLVMLiteLock: Final = type(ffi.lib._lock)  # pyright: ignore[reportPrivateUsage]


class DirectLock(_LLVMLiteLock):
    """llvmlite's lock, where `with` finds the methods of the lock itself: nothing can come between."""

    @property
    def __enter__(self) -> Callable[[], Any]:
        return self._lock.__enter__ if not self._cblist else self._as_llvmlite("__enter__")

    @property
    def __exit__(self) -> Callable[..., Any]:  # noqa: PLE0302  the lock's own method takes the parameters
        return self._lock.__exit__ if not self._cblist else self._as_llvmlite("__exit__")

    def _as_llvmlite(self, name: str) -> Callable[..., Any]:
        """llvmlite's own method, which calls what others have registered with it."""
        return MethodType(getattr(_LLVMLiteLock, name), self)


def guard_llvm() -> None:
    """Makes llvmlite's lock safe with signals, forks and the end; done once per process.

    A fork waits for the call of LLVM that another thread is in: the child would find LLVM's data half changed, and the
    lock held by a thread that it does not have. The interpreter's end waits likewise, since the process then destroys
    what daemon threads would still use; their next call waits for ever.
    """
    lock = ffi.lib._lock  # pyright: ignore[reportPrivateUsage]
    lock.__class__ = DirectLock
    held = lock._lock  # pyright: ignore[reportPrivateUsage]
    os.register_at_fork(
        before=held.acquire, after_in_parent=held.release, after_in_child=held.release
    )
    atexit.register(held.acquire)
