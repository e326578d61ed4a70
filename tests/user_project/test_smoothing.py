# SPDX-License-Identifier: Apache-2.0
"""The program of a user that type checkers look at in `make check` runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


def test_program_runs(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(Path(__file__).with_name("smoothing.py")), run_name="__main__")
    refused, hint, *shown = capsys.readouterr().out.splitlines()
    assert "smoothed.shape[0] is 4, expected 8 to match signal.shape[0]" in refused
    assert "both are named n" in hint
    assert shown == ["[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0]", "['smooth_kernel']", "True"]
