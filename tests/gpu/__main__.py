# SPDX-License-Identifier: Apache-2.0
"""What `make gpu` runs: the tests marked `gpu`, and benchmarks of launches and kernels; says why where there is no GPU.

In: more arguments for pytest. Out: its report and JSON lines; 0 also where there is nothing to run on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import ROOT
from tests.conftest import gpu_missing


def main() -> int:
    """Run the tests that need a GPU, and the benchmarks also where one fails."""
    if reason := gpu_missing():
        print(f"make gpu needs an NVIDIA GPU and its driver: {reason}")
        return 0
    failed = int(pytest.main(["-m", "gpu", str(Path(__file__).parent), *sys.argv[1:]]))
    for name in (
        "gpu_launch",
        "launch_stages",
        "gpu_kernels",
        "each_bandwidth",
        "ready_kernels",
    ):
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
        failed = failed or subprocess.run(command, check=False, cwd=ROOT).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
