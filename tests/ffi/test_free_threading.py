# SPDX-License-Identifier: Apache-2.0
"""A free-threaded interpreter runs weft with its lock on, and says so when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

from tests.ffi.building import run_python

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_free_threading = pytest.mark.skipif(
    not FREE_THREADED, reason="needs another build of Python, a free-threaded one"
)


def test_the_lock_is_held_while_weft_is_loaded():
    printed = run_python(
        "import sys\n"
        "from weft import ffi\n"
        "assert ffi.Any([1, 'two']).take() == (1, 'two')\n"
        "print(getattr(sys, '_is_gil_enabled', lambda: True)())\n"
    )
    assert printed == "True\n"


@needs_free_threading
def test_the_lock_is_off_until_weft_is_imported():
    program = "import sys, weft; print(sys._is_gil_enabled()); import weft.ffi.any; print(sys._is_gil_enabled())"
    assert run_python(program) == "False\nTrue\n"


@needs_free_threading
def test_an_interpreter_that_may_not_turn_its_lock_on_is_refused():
    result = subprocess.run(
        [sys.executable, "-c", "import weft.ffi.any"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON_GIL": "0"},
        timeout=60,
    )
    assert result.returncode == 1
    assert "ImportError: weft._native needs the interpreter's lock" in result.stderr
