# SPDX-License-Identifier: Apache-2.0
"""The errors that the README shows are the ones that users get."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import weft
from examples.add_one import add_one, fake_arguments

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SHOW = """\
import weft


@weft.kernel
def show_kernel(a: weft.Tensor):
    # A comment, so that the line is the one of the README.
    print(a[0])


@weft.jit
def show(a: weft.Tensor):
    show_kernel(a).launch(grid=1, block=1)
"""


def test_error_while_compiling_is_the_one_of_the_readme(tmp_path: Path):
    path = tmp_path / "show.py"
    path.write_text(SHOW)
    specification = importlib.util.spec_from_file_location("show", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    with pytest.raises(weft.UnsupportedSyntaxError) as raised:
        module.show(np.zeros(1, np.float32))
    text = f"{type(raised.value).__name__}: {raised.value}".replace(str(path), "show.py")
    assert f"```text\n{text}\n```" in README


def test_error_while_calling_is_the_one_of_the_readme():
    compiled = weft.compile(add_one, *fake_arguments(), options="--target cpu")
    with pytest.raises(ValueError) as raised:
        compiled(np.zeros(10, np.float32), np.zeros(12, np.float32))
    assert f"```text\nValueError: {raised.value}\n```" in README
