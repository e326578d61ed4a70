# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of costs in docs/profiling.md.

`python -m docs.generate_profiling` compiles the kernels of `benchmarks.profiler_cost`, counts their instructions and
keeps the counts in docs/profiler_cost.json; where there is a GPU, it measures there and keeps the times, too.
In: that record. Out: the section of the page; tests/docs compares.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "profiling.md"
RECORD = Path(__file__).parent / "profiler_cost.json"
BEGIN, END = (
    "## Cost\n",
    "freely: with fewer, no more threads would fit a multiprocessor.\n",
)
MODES = ("track", "track, ring", "wide", "tirx", "tirx with fences")
TITLES = (
    "| | `Profiler` | ring | wide | `CudaProfiler` | TIRx's scheme |\n|---|---|---|---|---|---|\n"
)
CODE = {
    "straight": "straight code",
    "loop known": "loop, trip count known",
    "loop unknown": "loop, trip count not known",
}
GPU = {
    "a block alone": ("cycles, one block", 1),
    "a full GPU": ("cycles, a full GPU", 1),
    "inflation": ("inflation of the GEMM", 3),
}
PRODUCT = "registers, pipelined GEMM"


def section(record: dict[str, Any]) -> str:
    """Returns the page's section on costs."""
    code, gpu = record["code"], record["gpu"]
    counts = "".join(_row(CODE[case], code["figures"][case], 2) for case in CODE)
    times = "".join(_row(*(GPU[case][0], gpu["figures"][case], GPU[case][1])) for case in GPU)
    added = {mode: f"{value:.0f}" for mode, value in code["figures"][PRODUCT].items()}
    track, ring, wide, tirx, peer = (added[mode] for mode in MODES)
    return f"""{BEGIN}
`python -m benchmarks.profiler_cost`, for {code["architecture"]} with ptxas {code["ptxas"]}: SASS instructions per record (TIRx's
scheme is its strided records with a fence each, written in weft; its fence waits for memory):

{TITLES}{counts}
On an {gpu["device"]}, by the same program ({gpu["note"] or "ptxas " + gpu["ptxas"]}):
the cycles that a record adds to an iteration of a loop, and the slowdown of a software-pipelined 1024 x 1024 GEMM,
whose warps fetch, multiply and write at the same time:

{TITLES}{times}
Two records with nothing between them are {gpu["record_ns"]:.0f} ns apart. To that GEMM `Profiler` adds {track} registers, as a ring {ring}, wide {wide};
`CudaProfiler` adds {tirx}, TIRx's scheme {peer}. In a small kernel `Profiler` takes more, up to 30 in all, since ptxas uses registers
below 32 {END}"""


def _row(title: str, figures: dict[str, float], digits: int) -> str:
    return f"| {title} | " + " | ".join(f"{figures[mode]:.{digits}f}" for mode in MODES) + " |\n"


def page(record: dict[str, Any]) -> str:
    """Returns the page as it should be."""
    head, rest = PAGE.read_text().split(BEGIN)
    _, tail = rest.split(END)
    return head + section(record) + tail


def ptxas_version() -> str:
    """Returns the version of the ptxas that compiles here."""
    from weft.backends.cuda.assemblers import ptxas_path

    path = ptxas_path()
    assert path is not None
    reported = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", reported)
    assert found is not None
    return found[1]


def counted() -> dict[str, Any]:
    """Compiles every mode in every case, and counts."""
    from benchmarks.profiler_cost import ARCHITECTURE, code_figures

    figures = _tabulated((figure.name, figure.value) for figure in code_figures())
    kept = {case: figures[case] for case in (*CODE, PRODUCT)}
    return {"architecture": ARCHITECTURE, "ptxas": ptxas_version(), "figures": kept}


def measured() -> dict[str, Any] | None:
    """Measures on a GPU; None without one."""
    from benchmarks.profiler_gpu import gpu_figures
    from weft import driver

    found = [(figure.name.replace("/gpu", ""), figure.value) for figure in gpu_figures(7)]
    figures = _tabulated((name, value) for name, value in found if name.count("/") == 2)
    if not figures:
        return None
    return {
        "device": driver.device_properties(0).name,
        "ptxas": ptxas_version(),
        "note": "",
        "record_ns": dict(found)["profiler_cost/record"],
        "figures": figures,
    }


def _tabulated(figures: Any) -> dict[str, dict[str, float]]:
    """Groups values by the second part of their name, the case, and the third, the mode."""
    found: dict[str, dict[str, float]] = {}
    for name, value in figures:
        _, case, mode = name.split("/")
        found.setdefault(case, {})[mode] = round(value, 3)
    return found


def main() -> None:
    """Counts and measures what can be here, and writes the record and the page."""
    record = json.loads(RECORD.read_text())
    record = {"code": counted(), "gpu": measured() or record["gpu"]}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))


if __name__ == "__main__":
    main()
