# SPDX-License-Identifier: Apache-2.0
"""What a process pays before its first result: importing weft, and the first call on the CPU target.

Whole processes are timed from outside, a bare interpreter beside them in the same rounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from benchmarks.harness import (
    PEERS_PYTHON,
    ROOT,
    Figure,
    interleave,
    medians,
    parse_arguments,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IMPORTS = {
    "CuTe DSL": "import cutlass.cute",
    "Triton": "import triton",
    "numba-cuda": "import numba.cuda",
}
GOALS = {"import weft": 30.0, "first result": 350.0, "first result, cached": 40.0}


def environment(cache: str = "") -> dict[str, str]:
    """As a user's, who runs from bytecode: where it is not written, every process would compile the sources.

    Args:
        cache: the folder of weft's cache; none if it is empty.
    """
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return found | {"WEFT_NO_CACHE": str(int(not cache)), "WEFT_CACHE_DIR": cache}


def process_ms(*command: str, cache: str = "") -> float:
    """Milliseconds from starting a process to its end.

    Raises:
        subprocess.CalledProcessError: if it fails.
    """
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=environment(cache), capture_output=True)
    return (time.perf_counter() - start) * 1e3


def runs(*command: str) -> bool:
    """Whether the command exists and ends well."""
    try:
        done = subprocess.run(
            command, check=False, cwd=ROOT, env=environment(), capture_output=True
        )
        return done.returncode == 0
    except FileNotFoundError:
        return False


def candidates(cache: str) -> dict[str, Callable[[], float]]:
    """The processes that are timed, by name.

    Args:
        cache: a folder for the cache of those that have one.
    """
    python, peers = sys.executable, str(PEERS_PYTHON)
    commands = {
        "python": (python, "-c", "pass"),
        "import weft": (python, "-c", "import weft"),
        "first result": (python, "-m", "benchmarks.first_result"),
        **{name: (peers, "-c", statement) for name, statement in IMPORTS.items()},
    }
    cached = (python, "-m", "benchmarks.first_result")
    process_ms(*cached, cache=cache)  # fills it
    return {
        "first result, cached": lambda: process_ms(*cached, cache=cache),
    } | {
        name: (lambda command=command: process_ms(*command))
        for name, command in commands.items()
        if runs(*command)  # also warms the page cache
    }


def figures(rounds: int) -> Iterator[Figure]:
    """Import time, and process start to first result."""
    with tempfile.TemporaryDirectory() as cache:
        found = medians(interleave(candidates(cache), rounds))
    bare = found["python"]
    imported = found["import weft"] - bare
    for peer in IMPORTS:
        peer_value = found[peer] - bare if peer in found else None
        note = f"without the interpreter's {bare:.1f} ms; goal {GOALS['import weft']:g} ms"
        yield Figure("cold_start/import", imported, "ms", peer, peer_value, note)
    note = f"beyond the interpreter's {bare:.1f} ms, no NumPy; goal {GOALS['first result, cached']:g} ms"
    cached = found["first result, cached"] - bare
    yield Figure("cold_start/first_result/cached", cached, "ms", note=note)
    note = f"whole process, no NumPy, no cache; goal {GOALS['first result']:g} ms"
    yield Figure("cold_start/first_result/cpu", found["first result"], "ms", note=note)


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", rounds=11)
    report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
