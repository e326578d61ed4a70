# SPDX-License-Identifier: Apache-2.0
"""Time from a Python function to native code: add_one against the peers, then each example.

Warm is the median of later compilations in one process; first is that of the first compilation in fresh
processes, imports not counted. Every compiler has a process of its own and they take turns.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import (
    PEERS_PYTHON,
    Figure,
    Missing,
    Worker,
    interleave,
    medians,
    parse_arguments,
    report,
)
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = "benchmarks.weft_compile"
PEERS = {
    "CuTe DSL": "benchmarks.peers.cutedsl",
    "Triton": "benchmarks.peers.triton_kernel",
    "NVRTC": "benchmarks.peers.nvrtc",
    "numba-cuda": "benchmarks.peers.numba_cuda",
}
GOALS = {"warm": 25.0, "first": 90.0}
HOPPER_GOALS = {"hopper_gemm": 200.0, "attention": 400.0}  # to a cubin
FIRSTS = 5


def start_all(missing: dict[str, str]) -> dict[str, Worker]:
    """A fresh process for weft and for each peer; `missing` gets the reasons of those without one."""
    places: dict[str, tuple[str, str, Path | str]] = {
        "weft": (OURS, "cubin:add_one", sys.executable),
        **{name: (module, "add_one", PEERS_PYTHON) for name, module in PEERS.items()},
    }
    workers: dict[str, Worker] = {}
    for name, (module, case, python) in places.items():
        if name in missing:
            continue
        try:
            workers[name] = Worker(module, case, python)
        except Missing as reason:
            missing[name] = str(reason)
    return workers


def against_peers(repeats: int) -> Iterator[Figure]:
    """add_one to a cubin with its wrapper, first in process and warm, beside each peer.

    Raises:
        Missing: if weft itself cannot be measured.
    """
    missing: dict[str, str] = {}
    first: dict[str, list[float]] = {}
    warm: dict[str, float] = {}
    versions: dict[str, str] = {}
    for process in range(FIRSTS):
        workers = start_all(missing)
        if "weft" in missing:
            raise Missing(missing["weft"])
        for name, worker in workers.items():
            first.setdefault(name, []).append(worker.measure())
            versions[name] = worker.version
        if process == FIRSTS - 1:
            for worker in workers.values():
                worker.measure()
            measures = {name: worker.measure for name, worker in workers.items()}
            warm = medians(interleave(measures, repeats))
        for worker in workers.values():
            worker.close()
    for kind, values in (("warm", warm), ("first", medians(first))):
        for peer in PEERS:
            note = missing.get(peer) or f"{versions[peer]}; goal {GOALS[kind]:g} ms"
            name = f"compile_time/add_one/cubin/{kind}"
            yield Figure(name, values["weft"], "ms", peer, values.get(peer), note)


def stages(repeats: int) -> Iterator[Figure]:
    """Where the time of a warm compilation of add_one goes, for both targets."""
    for target in ("cubin", "cpu"):
        worker = Worker(OURS, f"{target}:add_one")
        worker.measure()
        times: dict[str, list[float]] = {}
        for _ in range(repeats):
            for stage, milliseconds in dict(worker.ask()["stages"]).items():  # type: ignore[arg-type]
                times.setdefault(stage, []).append(milliseconds)
        worker.close()
        for stage, values in times.items():
            name = f"compile_time/add_one/{target}/stage/{stage}"
            yield Figure(name, statistics.median(values), "ms", note="stages may overlap")


def examples(repeats: int) -> Iterator[Figure]:
    """Each example to a cubin and to the CPU, warm."""
    for example in (*EXAMPLES, *HOPPER_EXAMPLES):
        try:
            workers = {
                target: Worker(OURS, f"{target}:{example.name}") for target in ("cubin", "cpu")
            }
            for worker in workers.values():
                worker.measure()
        except Missing as reason:
            yield Figure(f"compile_time/{example.name}", None, "ms", note=str(reason))
            continue
        measures = {target: worker.measure for target, worker in workers.items()}
        for target, median in medians(interleave(measures, repeats)).items():
            goal = HOPPER_GOALS.get(example.name) if target == "cubin" else None
            note = f"goal {goal:g} ms" if goal else ""
            yield Figure(f"compile_time/{example.name}/{target}/warm", median, "ms", note=note)
        for worker in workers.values():
            worker.close()


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=15)
    report(against_peers(arguments.repeats), arguments.json)
    report(stages(arguments.repeats), arguments.json)
    report(examples(min(arguments.repeats, 7)), arguments.json)


if __name__ == "__main__":
    main()
