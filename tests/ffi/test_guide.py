# SPDX-License-Identifier: Apache-2.0
"""What docs/ffi.md shows of C++ is a file that is built, and what it does with it in Python is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.ffi.building import FOLDER, build
from weft import ffi

PAGE = (Path(__file__).parents[2] / "docs" / "ffi.md").read_text()
MARKED = re.compile(
    r"<!-- not run: needs the library above; tests/ffi/test_guide.py .*?-->\n```python\n(.*?)```",
    re.S,
)


def test_the_c_plus_plus_of_the_page_is_the_file_that_is_built():
    (shown,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.S)
    assert (FOLDER / "guide.cpp").read_text().endswith("\n" + shown)


@pytest.mark.slow
@pytest.mark.usefixtures("no_guide_function")
def test_the_python_of_the_page_runs_with_it(tmp_path, monkeypatch):
    shutil.copy(build("guide.cpp"), tmp_path / "guide.so")
    monkeypatch.chdir(tmp_path)
    (block,) = MARKED.findall(PAGE)
    program = tmp_path / "program.py"
    program.write_text(block)
    exec(compile(block, str(program), "exec"), {"ffi": ffi, "np": np, "weft": weft})


@pytest.fixture
def no_guide_function():
    yield
    if "guide.add_one" in ffi.list_global():
        ffi.remove_global("guide.add_one")
