# SPDX-License-Identifier: Apache-2.0
"""Compares many seeds in several processes, which are started again where one ends early.

In: seeds, families, a number of processes. Out: counts, and the texts of differences.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BATCH = 25  # cases of a process
ROOT = Path(__file__).parent.parent.parent.parent
EXPECTED = ("same", "refused", "not specified", "not emulated")


@dataclass
class Found:
    """What came of all.

    Attributes:
        counts: of (family, kind).
        differences: their texts.
        unfinished: seeds that the time did not suffice for.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    unfinished: int = 0

    def add(self, seed: int, kind: str, text: str, family: str) -> None:
        self.counts[family, kind] += 1
        if not kind.startswith(EXPECTED):
            self.differences.append(text or f"seed {seed} ({family}): {kind}")
            print(self.differences[-1], flush=True)

    def summary(self) -> str:
        """A line for each family, and the whole."""
        families: dict[str, Counter[str]] = {}
        for (family, kind), count in self.counts.items():
            families.setdefault(family, Counter())[kind] += count
        lines = [f"{name}: {dict(kinds.most_common())}" for name, kinds in sorted(families.items())]
        total: Counter[str] = Counter()
        for kinds in families.values():
            total.update(kinds)
        left = f"; {self.unfinished} not run, for lack of time" if self.unfinished else ""
        return "\n".join(
            [*lines, f"{sum(total.values())} cases: {dict(total.most_common())}{left}"]
        )


def compare_all(
    seeds: Iterable[int],
    *,
    how: str = "gpu",
    families: str = "-",
    jobs: int = 4,
    case_seconds: float = 120,
    seconds: float = float("inf"),
) -> Found:
    """Compares seeds, `jobs` processes at a time.

    Args:
        seeds: of the cases.
        how: `gpu` or `emulator`.
        families: names with commas between, or `-` for all.
        jobs: processes.
        case_seconds: after which a case counts as hanging.
        seconds: after which no further batch begins.
    """
    listed = list(seeds)
    batches: queue.Queue[list[int]] = queue.Queue()
    for first in range(0, len(listed), BATCH):
        batches.put(listed[first : first + BATCH])
    found, lock, end = Found(), threading.Lock(), time.monotonic() + seconds

    def work() -> None:
        while True:
            try:
                batch = batches.get_nowait()
            except queue.Empty:
                return
            while batch:
                if time.monotonic() > end:
                    with lock:
                        found.unfinished += len(batch)
                    break
                batch = _run_batch(batch, how, families, case_seconds, found, lock)

    threads = [threading.Thread(target=work) for _ in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _run_batch(
    batch: Sequence[int],
    how: str,
    families: str,
    case_seconds: float,
    found: Found,
    lock: Any,
) -> list[int]:
    """Runs a process over a batch; returns what is left after the case that ended it."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz.gpu.worker", how, families, *map(str, batch)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        lines = _lines(process.stdout)
        current, rest = None, list(batch)
        while True:
            try:
                line = lines.get(timeout=case_seconds)
            except queue.Empty:
                process.kill()
                process.wait()
                line = None
            if line is None:
                break
            told = json.loads(line) if line.startswith("[") else []
            if len(told) == 1:
                current = told[0]
            elif len(told) == 4:
                with lock:
                    found.add(*told)
                rest.remove(told[0])
                current = None
        code = process.wait()
        if current is not None or (code != 0 and len(rest) == len(batch)):
            errors.seek(0)
            seed = rest[0] if current is None else current
            kind = "hangs or takes too long" if code == -9 else f"ends its process ({code})"
            text = f"seed {seed}: {kind}\n{errors.read()[-3000:]}"
            with lock:
                found.add(seed, kind, text, "?")
            rest.remove(seed)
    return rest if code else []


def _lines(stream: TextIO) -> queue.Queue[str | None]:
    """Lines as they come, then None."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in stream:
            found.put(line)
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found
