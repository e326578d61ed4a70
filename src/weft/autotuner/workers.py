# SPDX-License-Identifier: Apache-2.0
"""Compiles the configurations of a space, in several processes if that is faster.

In: a call's values for each configuration. Out: a compiled function for each, or the error. Each process is a new
interpreter, which knows nothing of this one's threads, devices and locks; both sides write pickles, each after its
length, to the other's pipe. It finds the function by a `Reference`: a module to import, or a script to load, and a name
in it; there is none for what only this process has: functions inside functions, of notebooks, and of scripts that do
their work while they are loaded. Other processes hand their results on through the cache on disk; what they have
compiled is found there.
"""

from __future__ import annotations

import ast
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from weft import _native
from weft.blame import is_of_a_handler
from weft.compiler.cached import find_or_compile
from weft.compiler.call_plan import requested_signature
from weft.compiler.options import GPUArch, make_options
from weft.config import config, environment
from weft.errors import UnavailableError
from weft.frontend.source import read_source
from weft.imports import imported
from weft.types.device import CUDA

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from weft.api import JitFunction
    from weft.autotuner.parameters import Parameters
    from weft.autotuner.space import Configuration
    from weft.compiler.target_choice import TargetChoice


_LENGTH: Final = struct.Struct("<Q")
_PROGRAM: Final = "import sys; sys.path[:] = {}; from weft.autotuner.workers import work; work()"


class Failure(NamedTuple):
    """Error of a compilation in another process.

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
    report: Callable[[int], object],
) -> dict[int, Failure]:
    """Compiles a function for several calls in other processes; those that failed, by number.

    A process that cannot be started or ends early is not an error: the caller compiles the rest.
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
    pool = _Pool(waiting, task, _PROGRAM.format(list(reference.path)), report)
    pool.run(min(workers, len(waiting)))
    return pool.failed


class _Pool:
    """Processes, each with a thread that hands it one signature after the other."""

    def __init__(
        self,
        waiting: Sequence[tuple[int, bytes]],
        task: bytes,
        program: str,
        report: Callable[[int], object],
    ) -> None:
        self.failed: dict[int, Failure] = {}
        self._waiting = list(reversed(waiting))
        self._task, self._program = task, program
        self._report = report
        self._done = 0
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self, count: int) -> None:
        """Starts the processes, and waits for the last answer."""
        threads: list[threading.Thread] = []
        try:
            for _ in range(count):
                # stderr is the parent's: output of a user's module there is visible
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
                    self._report(self._done)
        except (OSError, EOFError, ValueError):
            return  # the process ended


def work() -> None:
    """The program of a process: compiles tasks until its pipe is closed.

    It ends at a task that it cannot find or read; the parent compiles that.
    """
    from_, to = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a user's module is not an answer
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


_LOADED_AS = "__mp_main__"  # as multiprocessing calls it, so that a guarded script does not run


class Reference(NamedTuple):
    """Place of a function.

    Attributes:
        module: to import; for a script an empty string.
        script: its path, or an empty string.
        name: in the module, with dots in classes.
        path: of modules, as in this process.
    """

    module: str
    script: str
    name: str
    path: tuple[str, ...]

    def find(self) -> Any:
        """The function, in any process.

        Raises:
            ImportError, AttributeError: if it is not there.
        """
        sys.path[:] = [*self.path, *(entry for entry in sys.path if entry not in self.path)]
        if self.script:
            import runpy

            names = runpy.run_path(self.script, run_name=_LOADED_AS)
            first, _, rest = self.name.partition(".")
            return _inside(names[first], rest)
        return _inside(import_module(self.module), self.name)


def reference_to(function: JitFunction) -> Reference | None:
    """Place where other processes find a function; None if they do not."""
    plain = function.function
    module, name, script = plain.__module__, plain.__qualname__, ""
    if "<" in name or module not in sys.modules:
        return None
    try:
        found = _inside(sys.modules[module], name)
    except AttributeError:
        return None
    if found is not function:
        return None
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        file = Path(getattr(sys.modules[module], "__file__", None) or "").absolute()
        if not file.is_file() or not _is_guarded(file):
            return None
        module, script = (spec.name, "") if spec is not None else ("", str(file))
    return Reference(module, script, name, tuple(str(Path(entry).absolute()) for entry in sys.path))


def _inside(owner: Any, name: str) -> Any:
    """Resolve a dotted name, without the tuner around it."""
    for part in filter(None, name.split(".")):
        owner = vars(owner)[part] if isinstance(owner, type) else getattr(owner, part)
    return getattr(owner, "tuned_function", owner)


def _is_guarded(file: Path) -> bool:
    """Whether a script does its work under ``if __name__ == "__main__":``, so that loading it does not."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)


# Starting processes takes about as long, so what takes less is compiled here.
_WORTH_SECONDS: Final = 1.0
_MOST_WORKERS: Final = 32

Built = Any
"""A compiled function, or the exception that compiling raised."""


def compile_all(
    parameters: Parameters,
    bound: Sequence[Any],
    configurations: Sequence[Configuration],
    target: TargetChoice,
    workers: int | None,
    report: Callable[[int, int], object],
) -> list[Built]:
    """A compiled function or an exception for each configuration, in order.

    Args:
        parameters: of the function.
        bound: the call's values; those of the configurations are filled in.
        configurations: to compile.
        target: where the call runs.
        workers: processes beside this one; None: as many as CPUs, if it is worth it.
        report: called with the number of finished compilations, and of all.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, configuration in enumerate(configurations):
        groups.setdefault(_kind(parameters, configuration), []).append(number)
    waiting = [numbers[0] for numbers in groups.values()]
    values = {n: parameters.filled(bound, configurations[n]) for n in waiting}
    made: dict[int, Built] = {}
    failed: Mapping[int, Failure] = {}
    # The first also loads the compiler, so the second says how long the rest takes.
    for done, number in enumerate(waiting[: 0 if workers else 2]):
        report(done, len(waiting))
        began = time.perf_counter()
        made[number] = _compile_here(parameters, values[number])
        took = time.perf_counter() - began
        if workers is None and done and took * (len(waiting) - 2) > _WORTH_SECONDS:
            workers = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    rest_of_them = [number for number in waiting if number not in made]
    if workers and workers > 1 and len(rest_of_them) > 1 and _is_handed_on(parameters):
        reference = reference_to(parameters.function)
        if reference is not None:
            examples = {n: parameters.split(values[n]) for n in rest_of_them}
            failed = compile_elsewhere(
                reference,
                parameters.function,
                examples,
                target,
                workers,
                lambda done: report(len(made) + done, len(waiting)),
            )
    for number in rest_of_them:
        if number in failed:
            made[number] = failed[number].as_error()
        else:
            report(len(made), len(waiting))
            made[number] = _compile_here(parameters, values[number])
    return [made[groups[_kind(parameters, each)][0]] for each in configurations]


def _kind(parameters: Parameters, configuration: Configuration) -> Hashable:
    """Equal for configurations that one compiled function serves: those that differ in numbers of a launch."""
    constants = {parameters.names[position] for position in parameters.constants}
    return tuple(
        _native.constant_key(value) if name in constants else _native.argument_key((value,))
        for name, value in configuration.items()
    )


def _compile_here(parameters: Parameters, values: Sequence[Any]) -> Built:
    function = parameters.function
    options = make_options(defaults=function.default_options)
    try:
        return find_or_compile(function, *parameters.split(values), options, (), True)
    except Exception as error:
        if is_of_a_handler(error):
            raise
        return error


def _is_handed_on(parameters: Parameters) -> bool:
    """Whether the cache carries what another process compiles."""
    options = make_options(defaults=parameters.function.default_options)
    return not (options.no_cache or config.no_cache or config.log or options.keep)
