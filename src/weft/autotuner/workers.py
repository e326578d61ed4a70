# SPDX-License-Identifier: Apache-2.0
"""Processes that compile: each a new interpreter, which knows nothing of this one's threads, devices and locks.

In: where a function is, and signatures to compile it for. Out: which of them failed, and why; the rest is in the cache
on disk. Both sides write pickles, each after its length, to the other's pipe.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from weft.compiler.option_forms import make_options
from weft.compiler.options import GPUArch
from weft.compiler.request import requested_signature
from weft.config import environment
from weft.errors import UnavailableError
from weft.frontend.source import read_source
from weft.imports import imported
from weft.types.device import CUDA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.api import JitFunction
    from weft.autotuner.reference import Reference
    from weft.compiler.target_choice import TargetChoice

_LENGTH: Final = struct.Struct("<Q")
_PROGRAM: Final = "import sys; sys.path[:] = {}; from weft.autotuner.workers import work; work()"


class Failure(NamedTuple):
    """What compiling raised in another process.

    Attributes:
        kind: the exception's class.
        text: its message.
    """

    kind: str
    text: str

    def as_error(self) -> Exception:
        """An exception that says the same."""
        return UnavailableError("AUTOTUNE_COMPILATION", f"{self.kind}: {self.text}")


class _Task(NamedTuple):
    """The first message to a process; after this the signatures follow."""

    reference: Reference
    architecture: str


def compile_elsewhere(
    reference: Reference,
    function: JitFunction,
    examples: Mapping[int, tuple[tuple[Any, ...], dict[str, Any]]],
    target: TargetChoice,
    workers: int,
    told: Callable[[int], object],
) -> dict[int, Failure]:
    """Compiles a function for several calls in other processes; those that failed, by number.

    A process that cannot be started or ends early is not an error: what it leaves is compiled by the caller.
    """
    source = read_source(function)
    try:
        waiting = [
            (number, pickle.dumps(requested_signature(source, *call, is_call=True)))
            for number, call in examples.items()
        ]
    except (
        Exception
    ):  # a constant that no other process can have, or an argument that the compiler reports
        return {}
    is_cuda = target.backend.device_type == CUDA
    task = pickle.dumps(_Task(reference, target.architecture if is_cuda else ""))
    pool = _Pool(waiting, task, _PROGRAM.format(list(reference.path)), told)
    pool.run(min(workers, len(waiting)))
    return pool.failed


class _Pool:
    """Processes, each with a thread that hands it one signature after the other."""

    def __init__(
        self,
        waiting: Sequence[tuple[int, bytes]],
        task: bytes,
        program: str,
        told: Callable[[int], object],
    ) -> None:
        self.failed: dict[int, Failure] = {}
        self._waiting = list(reversed(waiting))
        self._task, self._program = task, program
        self._told = told
        self._done = 0
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self, count: int) -> None:
        """Starts the processes, and waits for the last answer."""
        threads: list[threading.Thread] = []
        try:
            for _ in range(count):
                # stderr is the parent's: what a user's module prints there is seen
                process = subprocess.Popen(
                    [sys.executable, "-c", self._program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment(),
                )
                self._processes.append(process)
                threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
                threads[-1].start()
        except OSError:
            pass  # fewer processes, or none: the caller compiles the rest
        try:
            for thread in threads:
                thread.join()
        finally:
            for process in self._processes:
                process.kill()
                process.communicate()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        to, from_ = process.stdin, process.stdout
        assert to is not None
        assert from_ is not None
        try:
            _send(to, self._task)
            while self._waiting:
                with self._lock:
                    if not self._waiting:
                        return
                    number, signature = self._waiting.pop()
                _send(to, signature)
                answer: Failure | None = pickle.loads(_receive(from_))
                with self._lock:
                    self._done += 1
                    if answer is not None:
                        self.failed[number] = answer
                    self._told(self._done)
        except (OSError, EOFError, ValueError):
            return  # the process ended


def work() -> None:
    """The program of a process: compiles what it is told until its pipe is closed.

    It ends at what it cannot find or read; the parent compiles that.
    """
    from_, to = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's module prints is not an answer
    task: _Task = pickle.loads(_receive(from_))
    try:
        function = task.reference.find()
        while True:
            signature = pickle.loads(_receive(from_))
            _send(to, pickle.dumps(_compile(function, signature, task.architecture)))
    except Exception:
        return


def _compile(function: Any, signature: Any, architecture: str) -> Failure | None:
    find_or_compile = imported("weft.compiler.cached").find_or_compile
    arch = (GPUArch(architecture),) if architecture else ()
    try:
        options = make_options("", arch, function.default_options)
        find_or_compile(function, (signature,), {}, options)
    except Exception as error:
        return Failure(type(error).__name__, str(error))
    return None


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data
