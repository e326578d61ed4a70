# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark, one after the other, each in its own process.

In: options, passed on to each. Out: their figures; a benchmark that fails is named at the end.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness import ROOT

BENCHMARKS = (
    "compile_time",
    "codegen_quality",
    "cold_start",
    "call_overhead",
    "operator_overhead",
    "cpu_kernels",
    "cpu_math",
    "memory",
    "instructions",
    "profiler_cost",
    "sanitizer_cost",
    "gpu_launch",
    "launch_stages",
    "gpu_kernels",
    "each_bandwidth",
    "ready_kernels",
    "model",
)


def main() -> None:
    """Run all, and fail if one failed."""
    failed = [
        name
        for name in BENCHMARKS
        if subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=False, cwd=ROOT
        ).returncode
    ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
