# SPDX-License-Identifier: Apache-2.0
"""llvmlite's lock around every LLVM call, made safe for signals, forks and interpreter shutdown.

llvmlite takes it in Python code, and disposes of its objects wherever the last reference is dropped, even on the main
thread. In between a signal handler may run: if it compiles, it would wait for a lock that its own thread holds; if it
raises, the lock would stay held forever. So the lock is taken and released in C.
"""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llvmlite.binding import ffi

from weft import _native
from weft.imports import guard_forks

if TYPE_CHECKING:
    from collections.abc import Generator


def guard_llvm() -> None:
    """Makes llvmlite's lock safe for signals, forks and shutdown; done once per process.

    A fork waits for other threads' LLVM calls: the child would otherwise inherit LLVM's data half changed, and a lock
    held by a thread it does not have. Shutdown waits likewise, since the process then destroys what daemon threads
    still use; their next call waits forever.
    """
    ffi._lib_fn_wrapper.__call__ = _native.call_locked  # pyright: ignore[reportPrivateUsage]
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    guard_forks(held.acquire, held.release)
    atexit.register(held.acquire)


@contextmanager
def holding_llvm() -> Generator[None]:
    """Keeps other threads from using LLVM, and from forking."""
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    held.acquire()
    try:
        yield
    finally:
        held.release()


def holds_llvm() -> bool:
    """Whether this thread has the lock, so that no other can use LLVM meanwhile.

    It has it around a fork, at shutdown, and in callbacks registered with llvmlite's lock.
    """
    return ffi.lib._lock._lock._is_owned()  # pyright: ignore[reportPrivateUsage]
