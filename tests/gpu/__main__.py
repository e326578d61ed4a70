# SPDX-License-Identifier: Apache-2.0
"""What `make gpu` and `make gpu-all` run; says why where there is no GPU.

In: `quick` or `all`, and more arguments for pytest. Out: the fuzzer's counts, pytest's report and, of all, JSON lines
of the benchmarks of launches and kernels; 0 also where there is nothing to run on.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from benchmarks.harness import ROOT
from tests.conftest import gpu_missing

WORKERS: Final = 4
# Cases of the fuzzer, after how many seconds it begins no more, and pytest's own arguments.
PARTS: Final = {
    "quick": ("0:300", "90", ["--quick", "--session-timeout=200"]),
    "all": ("0:3000", "900", []),
}
BENCHMARKS: Final = (
    "gpu_launch",
    "launch_stages",
    "gpu_kernels",
    "each_bandwidth",
    "ready_kernels",
    "model",
)


def main() -> int:
    """Run the fuzzer and the tests that need a GPU; of all also the benchmarks, also where one fails."""
    if reason := gpu_missing():
        print(f"make gpu needs an NVIDIA GPU and its driver: {reason}")
        return 0
    part, *given = (
        sys.argv[1:] if sys.argv[1:2] in (["quick"], ["all"]) else ("quick", *sys.argv[1:])
    )
    seeds, seconds, arguments = PARTS[part]
    fuzz = [sys.executable, "-m", "tools.fuzz", "--gpu", "--seeds", seeds, "--seconds", seconds]
    failed = subprocess.run(fuzz, check=False, cwd=ROOT).returncode
    if find_spec("xdist") is not None:
        arguments = [*arguments, "-n", str(WORKERS), "--maxschedchunk=8"]
    tests = ["-m", "gpu", *arguments, str(Path(__file__).parent), *given]
    failed = int(pytest.main(tests)) or failed
    for name in BENCHMARKS if part == "all" else ():
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
        failed = failed or subprocess.run(command, check=False, cwd=ROOT).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
