# SPDX-License-Identifier: Apache-2.0
"""Shared by every benchmark: interleaved measurements, medians, workers in processes, printing.

In: candidates, each a function that takes one measurement. Out: `Figure`s, as a table or as JSON
lines. A peer that is not installed is a line that says so, never a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# What is measured compiles; cold_start has a cache of its own.
os.environ.setdefault("WEFT_NO_CACHE", "1")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Figure:
    """One measured number, and what a peer's was in the same run.

    Attributes:
        name: what was measured; `benchmark/case`.
        value: the median, in `unit`.
        unit: `ms`, `ns`, `kB`, ...
        peer: who was measured beside it, or None.
        peer_value: the peer's median, or None if it is not installed.
        note: the goal, a version, or why there is no value.
    """

    name: str
    value: float | None
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our value over the peer's: below 1 is better than the peer, for costs."""
        if self.value is None or not self.peer_value:
            return None
        return self.value / self.peer_value

    def json(self) -> str:
        """The figure as one line of JSON."""
        return json.dumps({**asdict(self), "ratio": self.ratio})

    def row(self) -> str:
        """The figure as one line of a table."""
        value = "-" if self.value is None else f"{self.value:10.4g}"
        peer = ""
        if self.peer is not None:
            said = "not installed" if self.peer_value is None else f"{self.peer_value:.4g}"
            peer = f"{self.peer} {said}"
            peer += f" (x{self.ratio:.2f})" if self.ratio is not None else ""
        return f"{self.name:44} {value:>10} {self.unit:4} {peer:38} {self.note}".rstrip()


def interleave(
    candidates: Mapping[str, Callable[[], float]],
    repeats: int,
    failed: dict[str, str] | None = None,
) -> dict[str, list[float]]:
    """Take `repeats` measurements of each candidate, one of each in turn.

    Interleaving makes other load of the machine hit all candidates alike.

    Args:
        candidates: by name, each takes one measurement.
        repeats: how many of each.
        failed: gets the reason of a candidate that raises, which is left out from then on; without it the
            exception ends the run.

    Returns:
        The measurements by name, in the order in which they were taken; none of a candidate that failed.
    """
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name in [*samples]:
            try:
                samples[name].append(candidates[name]())
            except Exception as error:
                if failed is None:
                    raise
                failed[name] = reason_of(error)
                del samples[name]
    return samples


def reason_of(error: BaseException) -> str:
    """An exception in one line, for the note of a figure that is missing."""
    first = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {first}"


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each candidate's measurements."""
    return {name: statistics.median(values) for name, values in samples.items()}


class Missing(Exception):
    """A peer that cannot be measured here; the text says why."""


class Worker:
    """A process that compiles when told to and answers with the milliseconds it took.

    The process is `python -m <module> <case>`. It first prints one line,
    `{"version": ...}` or `{"missing": reason}`, then for each line that it reads one line `{"ms": ...}`.

    Args:
        module: a module of this package that calls `serve`.
        case: what is to be compiled.
        python: the interpreter; that of the peers for a peer.

    Raises:
        Missing: if the peer is not installed or does not start.
    """

    def __init__(self, module: str, case: str, python: Path | str = sys.executable) -> None:
        if not Path(python).exists():
            raise Missing(f"{python} does not exist: make bench installs the peers")
        self.process = subprocess.Popen(
            [str(python), "-m", module, case],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        hello = self._answer()
        if "missing" in hello:
            self.close()
            raise Missing(str(hello["missing"]))
        self.version = str(hello.get("version", ""))

    def _answer(self) -> dict[str, object]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries print, too
                return json.loads(line)
        assert self.process.stderr is not None
        last = self.process.stderr.read().strip().splitlines()[-1:]
        raise Missing(last[0] if last else f"exit status {self.process.wait()}")

    def measure(self) -> float:
        """One measurement, in milliseconds."""
        return float(str(self.ask()["ms"]))

    def ask(self) -> dict[str, object]:
        """One measurement, with whatever else the worker says about it."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("again\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why the process has ended
        return self._answer()

    def close(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait()


def serve(
    version: str,
    measured: Callable[[], dict[str, object] | None],
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """The worker's side: answer each line of standard input with one timed `measured()`."""
    print(json.dumps({"version": version}), flush=True)
    for _ in sys.stdin:
        start = clock()
        extra = measured()
        elapsed = (clock() - start) * 1e3
        print(json.dumps({"ms": elapsed, **(extra or {})}), flush=True)
    os._exit(0)  # some peers take long to unload


def parse_arguments(
    description: str, repeats: int, parts: Sequence[str] = ()
) -> argparse.Namespace:
    """The options that every benchmark has: `--json` and `--repeats`; `--part` where it has several."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--repeats", type=int, default=repeats, help="measurements of each kind")
    if parts:
        parser.add_argument(
            "--part", action="append", choices=parts, help="measure this alone, or with others"
        )
    return parser.parse_args()


def report(figures: Iterable[Figure], as_json: bool) -> None:
    """Print each figure as soon as it is there."""
    for figure in figures:
        print(figure.json() if as_json else figure.row(), flush=True)
