# SPDX-License-Identifier: Apache-2.0
"""Measures `weft.kernels` on this machine's GPU and writes docs/performance.md: `make performance`.

In: kinds of rows of `ready_kernels`, or none for all. Out: a record, the page and its pictures, in docs/ or another
folder. A kind that is not measured keeps its record if it is of the same machine and versions; else it is dropped.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import weft
from benchmarks.gpu_kernels import Stopwatch
from benchmarks.ready_kernels import Measured, ceilings_of, figure, measured_kind, missing, parser
from docs import generate_performance
from weft.driver.device import device_properties

PACKAGES = ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x")


def machine() -> dict[str, str]:
    """The GPU, its driver, and the versions of what is measured."""
    import torch

    properties = device_properties(0)
    known = Path("/proc/driver/nvidia/version")
    found = re.search(r"\s(\d+\.[\d.]+)\s", known.read_text()) if known.exists() else None
    versions = {
        "GPU": f"{properties.name}, {torch.cuda.get_device_properties(0).multi_processor_count} multiprocessors",
        "driver": found[1] if found else "unknown",
        "CUDA of torch": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "Python": platform.python_version(),
        "weft": weft.__version__,
    }
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new record, with the kinds of the old one that it lacks, if these are of the same machine and versions."""
    kept = old["kinds"] if old.get("machine") == new["machine"] else {}
    return {"machine": new["machine"], "kinds": {**kept, **new["kinds"]}}


def measure(kinds: list[str], repeats: int, driver: str = "libcuda.so.1") -> dict[str, Any]:
    """The record of these kinds; prints each row when it is measured."""
    import torch

    watch, record = Stopwatch(driver), {"machine": machine(), "kinds": {}}
    for kind in kinds:
        ceilings, rows = ceilings_of(torch, watch), list[Measured]()
        print(kind, {name: round(value) for name, value in ceilings.items()}, flush=True)
        for one in measured_kind(torch, kind, watch, repeats):
            rows.append(one)
            print(figure(one, ceilings).row(), flush=True)
        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        rows_of_kind = [asdict(one) for one in rows]
        record["kinds"][kind] = {"when": when, "ceilings": ceilings, "rows": rows_of_kind}
    return record


def main() -> None:
    """Write the record, the page and the pictures; the message of the exit says why nothing was measured."""
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, default=generate_performance.FOLDER)
    arguments = options.parse_args()
    if reason := missing():
        sys.exit(f"performance {reason}")
    path = arguments.folder / generate_performance.RECORD
    old = json.loads(path.read_text()) if path.exists() else {}
    record = merged(old, measure(arguments.kinds, arguments.repeats))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(generate_performance.text_of(record))
    generate_performance.write(arguments.folder)


if __name__ == "__main__":
    main()
