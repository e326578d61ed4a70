# SPDX-License-Identifier: Apache-2.0
"""The ownership tests on an extension built with the address and undefined-behavior sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SUBSET = [
    "any",
    "callbacks",
    "dlpack",
    "error",
    "function",
    "host_array",
    "hostile",
    "object",
    "ownership",
    "threads",
    "values",
]
SECONDS = 60  # for the tests themselves; the first run builds the extension before


@pytest.mark.timeout(900)
def test_the_sanitizers_find_nothing():
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("needs another process: this one runs under the sanitizers")
    tests = [f"tests/ffi/test_{name}.py" for name in SUBSET]
    native = ("results_and_ownership", "tensor_protocols", "prepared_call")
    tests += [f"tests/native/test_{name}.py" for name in native]
    command = [sys.executable, "tools/run_sanitized.py", "-q", "-x", f"--timeout={SECONDS}", *tests]
    # The address sanitizer keeps freed memory back, so what a process grows by tells nothing there. The fake
    # driver of the tests with CUDA would have to be built again: `make sanitize` does.
    command += ["-k", "not keep_no_memory and not cuda"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=840)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert " passed" in result.stdout
