# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds nothing in kernels of each kind, and finds what is wrong on purpose.

In: the program `sanitized`, under each tool. Out: its exit status. Skipped where compute-sanitizer is not
installed, or cannot attach to the device.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.sanitized import WRONG

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(150)]

ROOT = Path(__file__).parent.parent.parent
FOUND = 99  # the exit status that stands for a finding
# Plain, with barriers and shared memory, with shared atomics, with warp collectives, with several launches.
EXAMPLES = ("add_one", "strided_copy", "block_reduction", "tiled_matmul", "shared_histogram")
EXAMPLES += ("warp_reduction", "inclusive_scan", "game_of_life")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def sanitizer() -> str:
    """Where compute-sanitizer is."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    found = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}{os.pathsep}{toolkit}")
    if found is None:
        pytest.skip("needs compute-sanitizer")
    return found


def run(tool: str, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sanitizer(), "--tool", tool, "--error-exitcode", str(FOUND)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.gpu.sanitized", *names],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        timeout=140,
    )
    if "Device not supported" in done.stdout:
        pytest.skip("needs a device that compute-sanitizer supports")
    return done


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_found(tool: str):
    done = run(tool, *EXAMPLES)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_a_wrong_address_is_found_at_its_line_of_python():
    done = run("memcheck", WRONG)
    assert done.returncode != 0
    source = Path(__file__).parent / "sanitized.py"
    line = 1 + next(
        n for n, text in enumerate(source.read_text().splitlines()) if "* step] = 1.0" in text
    )
    assert re.search(rf"far_kernel.*sanitized\.py:{line}\b", done.stdout), done.stdout[-2000:]
