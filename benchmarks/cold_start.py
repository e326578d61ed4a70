# SPDX-License-Identifier: Apache-2.0
"""Time of a process before its first result: importing weft, and its kernels, with a warm cache and without one.

Whole processes are timed from outside, from their start to the line that says that the results are there; bare
interpreters, with the array library alone, and the peers run in turn with them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness import (
    PEERS_PYTHON,
    ROOT,
    Figure,
    interleave,
    medians,
    parse_arguments,
    reason_of,
    report,
)
from benchmarks.start_programs import CACHE_VARIABLES, PROGRAMS, library, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

IMPORTS = {
    "CuTe DSL": "import cutlass.cute",
    "Triton": "import triton",
    "numba-cuda": "import numba.cuda",
}
IMPORT_GOAL = 30.0
# Milliseconds: with a cache beyond Python's start and the array library's import, without one the whole process.
GOALS = {"cached/1": 40.0, "cached/20": 60.0, "uncached/1": 300.0, "lookup": 1.0}
SEVERAL = 20
COLD_REPEATS = 5
READY = b"times"


class Case(NamedTuple):
    """A program that is timed.

    Attributes:
        framework: whose.
        kernels: how many it has; 0: Python and the array library alone.
        arrays: the array library, or none.
        is_cached: whether an earlier process ran it.
    """

    framework: str
    kernels: int
    arrays: str
    is_cached: bool

    @property
    def label(self) -> str:
        """Its name."""
        return "/".join(map(str, self))


def bare_of(case: Case) -> Case:
    """Baseline of a case: the same Python and array library alone."""
    return Case("weft" if case.framework == "weft" else "peers", 0, case.arrays, True)


OURS = [Case("weft", n, arrays, True) for n in (1, SEVERAL) for arrays in ("array", "NumPy")]
PEERS = [
    Case(peer, n, "" if peer == "Triton" else "NumPy", True)
    for peer in PROGRAMS
    if peer != "weft"
    for n in (1, SEVERAL)
]
# Twenty of the peers' without a cache take half a minute.
COLD = [case._replace(is_cached=False) for case in OURS if case.arrays == "array"]
COLD += [case._replace(is_cached=False) for case in PEERS if case.kernels == 1]


def environment(case: Case, cache: Path) -> dict[str, str]:
    """As a user's, who runs from bytecode: where it is not written, every process would compile the sources."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found |= {variable: str(cache) for variable in CACHE_VARIABLES.values()}
    return found | {"WEFT_NO_CACHE": str(int(not case.is_cached))}


class Program:
    """A case's program in a folder of its own, with its cache.

    Args:
        case: what it is.
        folder: for its files.

    Attributes:
        cached_ms: of each run, the milliseconds of a kernel after the first.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.cached_ms: list[float] = []
        place = folder / case.label.replace("/", "-")
        self._cache = place / "cache"
        self._cache.mkdir(parents=True, exist_ok=True)
        file = place / "program.py"
        alone = library(case.arrays) + 'print("times 0")\n'
        file.write_text(program(*case[:3]) if case.kernels else alone)
        python = sys.executable if case.framework == "weft" else str(PEERS_PYTHON)
        self._command = [python, str(file)]

    def measure(self) -> float:
        """Milliseconds from its start to its last result.

        Raises:
            RuntimeError: if it fails; with its last line.
        """
        if not self.case.is_cached:
            shutil.rmtree(self._cache)
            self._cache.mkdir()
        start = time.perf_counter()
        with subprocess.Popen(
            self._command,
            env=environment(self.case, self._cache),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            line = next((line for line in process.stdout if line.startswith(READY)), None)
            elapsed = (time.perf_counter() - start) * 1e3
            if line is None:
                said = process.stderr.read().decode(errors="replace").strip().splitlines()
                raise RuntimeError(said[-1] if said else "no result")
        times = [float(word) for word in line.split()[1:]]
        if len(times) > 2:
            self.cached_ms.append((times[-1] - times[1]) * 1e3 / (len(times) - 2))
        return elapsed


def process_ms(*command: str) -> float:
    """Milliseconds from starting a process to its end.

    Raises:
        subprocess.CalledProcessError: if it fails.
        FileNotFoundError: if there is no such program.
    """
    found = environment(Case("weft", 0, "", True), ROOT)
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=found, capture_output=True)
    return (time.perf_counter() - start) * 1e3


def measured(
    candidates: dict[str, Callable[[], float]], repeats: int, needed: Iterable[str]
) -> dict[str, float]:
    """Medians of measurements in turn, after one of each that warms caches and shows what is not there.

    Args:
        candidates: by name.
        repeats: how many measurements of each.
        needed: those whose failure ends the run; any other is left out.
    """
    ready = dict(candidates)
    for name, candidate in candidates.items():
        try:
            candidate()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            if name in needed:
                raise
            print(f"{name}: {reason_of(error)}", file=sys.stderr)
            del ready[name]
    return medians(interleave(ready, repeats))


def imports(repeats: int) -> Iterator[Figure]:
    """What importing weft and its peers takes beyond a bare interpreter."""
    python, peers = sys.executable, str(PEERS_PYTHON)
    commands = {"python": (python, "-c", "pass"), "weft": (python, "-c", "import weft")}
    commands |= {name: (peers, "-c", statement) for name, statement in IMPORTS.items()}
    candidates = {
        name: (lambda command=command: process_ms(*command)) for name, command in commands.items()
    }
    found = measured(candidates, repeats, ("python", "weft"))
    bare = found["python"]
    for peer in IMPORTS:
        peer_value = found[peer] - bare if peer in found else None
        note = f"without the interpreter's {bare:.1f} ms; goal {IMPORT_GOAL:g} ms"
        yield Figure("cold_start/import", found["weft"] - bare, "ms", peer, peer_value, note)


def starts(repeats: int, folder: Path) -> Iterator[Figure]:
    """Process start to the results of one kernel and of several, which an earlier process compiled."""
    programs = {
        case: Program(case, folder) for case in [*OURS, *PEERS, *map(bare_of, OURS + PEERS)]
    }
    needed = [case.label for ours in OURS for case in (ours, bare_of(ours))]
    found = measured({c.label: each.measure for c, each in programs.items()}, repeats, needed)
    beyond = {
        case: found[case.label] - found[bare_of(case).label]
        for case in [*OURS, *PEERS]
        if case.label in found
    }
    for case in OURS:
        without = found[bare_of(case).label]
        goal = GOALS[f"cached/{case.kernels}"]
        note = f"beyond {without:.1f} ms of Python and {case.arrays}; goal {goal:g} ms"
        name = f"cold_start/cached/{case.kernels}/{case.arrays}"
        peers = [c for c in PEERS if c.kernels == case.kernels] if case.arrays == "NumPy" else []
        for peer in peers:
            yield Figure(name, beyond[case], "ms", peer.framework, beyond.get(peer), note)
        if not peers:
            yield Figure(name, beyond[case], "ms", note=note)
    for case in OURS:
        cached_ms = programs[case].cached_ms[1:]  # the first run filled the cache
        if cached_ms:
            note = f"one more kernel, with linking and a call; goal {GOALS['lookup']:g} ms"
            value = statistics.median(cached_ms)
            yield Figure(f"cold_start/lookup/{case.arrays}", value, "ms", note=note)


def cold_starts(repeats: int, folder: Path) -> Iterator[Figure]:
    """Process start to the results of one kernel and of several, which are compiled."""
    programs = {case: Program(case, folder) for case in COLD}
    needed = [case.label for case in COLD if case.framework == "weft"]
    found = measured({c.label: each.measure for c, each in programs.items()}, repeats, needed)
    peers = [case for case in COLD if case.framework != "weft"]
    for case in (case for case in COLD if case.framework == "weft"):
        name, value = f"cold_start/uncached/{case.kernels}", found[case.label]
        if case.kernels != 1:
            yield Figure(name, value, "ms", note="whole process")
            continue
        note = f"whole process; goal {GOALS['uncached/1']:g} ms"
        for peer in peers:
            yield Figure(name, value, "ms", peer.framework, found.get(peer.label), note)


def figures(repeats: int) -> Iterator[Figure]:
    """Import time, and process start to first results."""
    yield from imports(repeats)
    with tempfile.TemporaryDirectory() as folder:
        yield from starts(repeats, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from cold_starts(min(repeats, COLD_REPEATS), Path(folder))


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=11)
    report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
