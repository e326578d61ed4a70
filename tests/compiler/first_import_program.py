# SPDX-License-Identifier: Apache-2.0
"""Signals and forks while the compiler is first imported: ``python -m tests.compiler.first_import_program <name> <n>``.

Each trial is a child in which nothing of the compiler is imported yet; n trials are distributed over its modules.
Prints what went wrong, as JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

import numpy as np

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 60
COMPILER = ("weft", "xdsl", "llvmlite")


@weft.kernel
def scale_kernel(a: weft.Tensor, factor: weft.Constexpr[float]):
    i = weft.thread_idx.x
    if i < a.shape[0]:
        a[i] = a[i] * factor


@weft.jit
def scale(a: weft.Tensor, factor: weft.Constexpr[float]):
    scale_kernel(a, factor).launch(grid=1, block=32)


FAKE = weft.fake_tensor(weft.f32, ("n",))
COMPILE = weft.compile


def check(factor: float) -> None:
    a = np.ones(32, np.float32)
    scale(a, factor)
    assert (a == np.float32(factor)).all(), a
    assert COMPILE(scale, FAKE, factor, options="--gpu-arch sm_90a").ptx


class Finder:
    """Finds nothing: tells where each module is imported, and calls `then` before one of the compiler's."""

    def __init__(self, number: int = -1, then: Callable[[], object] = bool) -> None:
        self.number, self.then = number, then
        self.names: list[str] = []
        self.unguarded: list[str] = []

    def find_spec(self, name: str, *_: object) -> None:
        frame = inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__") != "weft.imports":
            frame = frame.f_back
        if frame is None or threading.current_thread() is threading.main_thread():
            self.unguarded.append(name)
        if name.partition(".")[0] not in COMPILER:
            return
        self.names.append(name)
        if len(self.names) - 1 == self.number:
            self.then()


def in_child(call: Callable[[], str]) -> str:
    """What went wrong in a child that calls it; nothing if it ended well, in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(LIMIT)
            os.write(writer, call().encode())
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc()[-2000:].encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    status = os.waitpid(child, 0)[1]
    return text if status == 0 or text else f"status {status}"


def listed() -> str:
    finder = Finder()
    sys.meta_path.insert(0, finder)
    check(2.0)
    return json.dumps([finder.names, finder.unguarded])


def interrupted(begin: Callable[[], object]) -> str:
    """A handler raises at a moment of the first compilation; the next ones work, here and on another thread."""

    class Interrupt(BaseException):
        pass

    def strike(*_: object) -> NoReturn:
        raise Interrupt

    signal.signal(signal.SIGUSR1, strike)
    signal.signal(signal.SIGALRM, strike)
    signal.alarm(0)
    try:
        try:
            begin()
            check(2.0)
            time.sleep(1)
            return "the exception of the handler was lost"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT)
    except Interrupt:
        pass
    check(2.0)
    check(3.0)
    thread = threading.Thread(target=check, args=(4.0,), daemon=True)
    thread.start()
    thread.join(LIMIT - 20)
    return "another thread waits forever" if thread.is_alive() else ""


def signaled(number: int) -> str:
    """The signal comes before a certain module is imported."""

    def strike():
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.01)

    finder = Finder(number, strike)
    return interrupted(lambda: sys.meta_path.insert(0, finder))


def timed(number: int) -> str:
    """The signal comes after a certain time."""
    return interrupted(lambda: signal.setitimer(signal.ITIMER_REAL, 0.001 * (number + 1)))


def forked(number: int) -> str:
    """The main thread forks while another one imports; the child, and this process, compile."""
    reached = threading.Event()

    def wait():
        reached.set()
        time.sleep(0.1)

    sys.meta_path.insert(0, Finder(number, wait))
    thread = threading.Thread(target=check, args=(2.0,))
    thread.start()
    assert reached.wait(LIMIT)

    def compile_it() -> str:
        check(2.0)
        check(3.0)
        return ""

    wrong = in_child(compile_it)
    thread.join()
    check(4.0)
    return wrong


def main(name: str, iterations: int) -> object:
    names, unguarded = json.loads(in_child(listed))
    if name == "listed":
        return {"names": names, "unguarded": unguarded}
    call = {"signaled": signaled, "timed": timed, "forked": forked}[name]
    wrong: dict[str, str] = {}
    for number in range(0, len(names), max(1, len(names) // iterations)):
        if text := in_child(lambda number=number: call(number)):
            wrong[names[number]] = text
    return wrong


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
