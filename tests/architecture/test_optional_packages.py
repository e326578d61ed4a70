# SPDX-License-Identifier: Apache-2.0
"""The tests can be collected where the optional packages are not installed: `make test` without TORCH=1 and JAX=1."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.source_tree import ROOT

COLLECT = """
import importlib.machinery, sys, pytest
find = importlib.machinery.PathFinder.find_spec
absent = ("torch", "jax", "jaxlib", "triton", "cupy", "transformers")
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else find(name, path, target)
importlib.machinery.PathFinder.find_spec = find_spec
sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:benchmark", "-p", "no:xdist", "tests"]))
"""


@pytest.mark.slow
def test_every_test_is_collected_without_torch_and_jax():
    done = subprocess.run([sys.executable, "-c", COLLECT], capture_output=True, text=True, cwd=ROOT)
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert (done.returncode, errors) == (0, []), done.stdout[-4000:]
