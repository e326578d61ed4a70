# SPDX-License-Identifier: Apache-2.0
"""`pytest --weft-sanitize`, in a pytest of its own: a finding reads like a failing assert, a path is refused."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import os
import numpy as np, weft

@weft.kernel
def shift_kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    a[i] = a[i + 1]

def launch(a):
    shift_kernel[1, 4](a)

def test_shift():
    launch(np.zeros(8, np.float32)[:4])

def test_environment():
    assert os.environ["WEFT_SANITIZE"] == "bounds,races,continue"
"""
EXPECTED = """
    def shift_kernel(a: weft.Tensor):
        i = weft.thread_idx.x
>       a[i] = a[i + 1]
        ^^^^
E   race: a[1] is written, and thread (0, 0, 0) reads it: nothing orders the two
E   block (0, 0, 0), thread (1, 0, 0) of shift_kernel, found 2 times
E   the other place: block (0, 0, 0), thread (0, 0, 0)
E     {file}:8, in shift_kernel
E         a[i] = a[i + 1]
E                ^^^^^^^^

{file}:8: SanitizerError
"""


def run(*arguments):
    command = [sys.executable, "-m", "pytest", "-p", "weft.sanitizer.pytest_plugin"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_finding_ends_the_test_like_an_assert(tmp_path):
    file = tmp_path / "test_shift.py"
    file.write_text(TESTS)
    done = run("--weft-sanitize=bounds,races,continue", file)
    assert EXPECTED.format(file=file) in done.stdout
    assert "E   out of bounds: a[4] is read: index 0 is 4, and a.shape[0] is 4" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_path_after_the_option_is_refused(tmp_path):
    done = run("--weft-sanitize", tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "before a path write --weft-sanitize=bounds" in done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"weft": "weft.sanitizer.pytest_plugin"}
