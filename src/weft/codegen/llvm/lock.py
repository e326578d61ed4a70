# SPDX-License-Identifier: Apache-2.0
"""llvmlite's one lock, which every call of LLVM takes: safe with signals, forks and the interpreter's end.

llvmlite takes it in lines of Python, and disposes of its objects wherever the last reference goes, on the main thread
too. Between two lines a signal's handler may run: one that compiles would wait for a lock that its own thread holds,
and one that raises would leave it held for ever. So the lock is taken and given back in C.
"""

from __future__ import annotations

import atexit
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llvmlite.binding import ffi

from weft import _native

if TYPE_CHECKING:
    from collections.abc import Generator


def guard_llvm() -> None:
    """Makes llvmlite's lock safe with signals, forks and the end; done once per process.

    A fork waits for the call of LLVM that another thread is in: the child would find LLVM's data half changed, and the
    lock held by a thread that it does not have. The interpreter's end waits likewise, since the process then destroys
    what daemon threads would still use; their next call waits for ever.
    """
    ffi._lib_fn_wrapper.__call__ = _native.call_locked  # pyright: ignore[reportPrivateUsage]
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    os.register_at_fork(
        before=held.acquire, after_in_parent=held.release, after_in_child=held.release
    )
    atexit.register(held.acquire)


@contextmanager
def holding_llvm() -> Generator[None]:
    """Keeps LLVM from other threads, and these from forking."""
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    held.acquire()
    try:
        yield
    finally:
        held.release()


def holds_llvm() -> bool:
    """Whether this thread has the lock, so that no other can use LLVM before it goes on.

    It has around a fork, at the interpreter's end, and in what others have registered with llvmlite's lock.
    """
    return ffi.lib._lock._lock._is_owned()  # pyright: ignore[reportPrivateUsage]
