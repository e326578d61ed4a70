# SPDX-License-Identifier: Apache-2.0
"""Imports on demand, away from signals and forks; the compiler's modules are imported this way alone.

In: a module's name. Out: the module. A signal handler's exception would leave modules half made, and a child forked
meanwhile would wait forever for an import of a thread that it does not have.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from _thread import RLock, get_ident  # `threading` takes longer than a function in the cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weft.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_WAIT: Final = 30.0  # seconds


def imported(name: str, *, here: bool = False) -> Any:
    """The module of this name, imported on another thread, which runs no signal handlers.

    A handler's exception ends the wait, not the import; a fork waits until the import is over. A thread that is
    importing a module of weft imports this one itself: another thread might wait for that module.

    Args:
        here: import on this thread, as modules that import torch or JAX are.

    Raises:
        ImportError: if it cannot be imported.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    if _FORKS.is_importing() or sys.is_finalizing():
        return import_module(name)
    if here or _imports_weft():
        return _FORKS.wait_for(name)
    return Worker(lambda: _FORKS.wait_for(name)).result()


def _imports_weft() -> bool:
    """Whether the body of one of weft's modules is on this thread's stack."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if (
            frame.f_code.co_name == "<module>"
        ):  # its globals may lack a name, as those of `exec(code, {})` do
            if str(frame.f_globals.get("__name__")).startswith("weft."):
                return True
        frame = frame.f_back
    return False


class _Forks:
    """Forks wait while threads import; imports do not wait for one another, since Python's own locks order them."""

    def __init__(self) -> None:
        self._gate = RLock()  # held from before a fork until after it
        self._importing: set[int] = set()  # threads
        self._guards: list[Callable[[], object]] = []
        self._registered = {"logging" in sys.modules}
        os.register_at_fork(
            before=self.hold,
            # Built in: a Python function would first run the handler of a signal that came during the fork.
            after_in_parent=self._gate.release,
            after_in_child=self._gate.release,
        )

    def is_importing(self) -> bool:
        """Whether this thread is one that imports."""
        return get_ident() in self._importing

    def wait_for(self, name: str) -> Any:
        """Imports a module while no thread forks."""
        thread = get_ident()
        self._register()
        try:
            with self._gate:
                self._importing.add(thread)
            return _without_garbage(name)
        finally:
            self._importing.discard(thread)

    def _register(self) -> None:
        """Has forks wait for imports before they take the lock of `logging`, which imports need.

        The last one registered is called first.
        """
        after_logging = "logging" in sys.modules
        if after_logging not in self._registered:
            self._registered.add(after_logging)
            os.register_at_fork(before=self.hold)

    def guard(self, hold: Callable[[], object], release: Callable[[], object]) -> None:
        """Has each fork call one before and the other after it, in both processes.

        One that waits for imports has already asked for the functions of `os.register_at_fork`, and would call only the
        second of two that are registered meanwhile.
        """
        with self._gate:
            self._guards.append(hold)
            os.register_at_fork(after_in_parent=release, after_in_child=release)

    def hold(self) -> None:
        """Waits until no other thread imports, and keeps them from it until the fork is over; then holds the guards.

        Python drops a signal handler's exception around a fork, so that it must not end the wait. A thread that imports
        for longer may wait for a lock that the forking thread holds: then the fork goes on.
        """
        if self._gate._is_owned():  # type: ignore[attr-defined]
            return  # registered twice
        raised = self._wait()
        for hold in reversed(self._guards):
            try:
                hold()
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def _wait(self) -> BaseException | None:
        """Takes the gate while no other thread imports; returns the exception of a signal handler meanwhile."""
        end = time.monotonic() + _LONGEST_WAIT
        raised: BaseException | None = None
        while True:
            try:
                if not self._gate._is_owned():  # type: ignore[attr-defined]
                    self._gate.acquire()
                if self._importing <= {get_ident()} or time.monotonic() > end:
                    return raised
                self._gate.release()
                time.sleep(0.001)
            except BaseException as error:
                raised = error


_FORKS: Final = _Forks()


def guard_forks(hold: Callable[[], object], release: Callable[[], object]) -> None:
    """Has each fork call `hold` before, once no other thread imports, and `release` after it, in both processes.

    The last one registered is held first. To be called without a lock for which `hold` waits.
    """
    _FORKS.guard(hold, release)


def _without_garbage(name: str) -> Any:
    """Imports without collecting garbage meanwhile: what modules make stays (the compiler: 195 ms, or 168)."""
    pauses = gc.isenabled()
    if pauses:
        gc.disable()
    try:
        return import_module(name)
    finally:
        if pauses:
            gc.enable()
