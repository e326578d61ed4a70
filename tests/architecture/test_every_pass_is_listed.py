# SPDX-License-Identifier: Apache-2.0
"""Walks the list of passes: a new file in `passes/` fails here until it is listed, and tested as text."""

from __future__ import annotations

import inspect

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from weft.compiler.pipeline import PASSES

passes = pytest.mark.parametrize("each", PASSES, ids=lambda each: each.__name__)


def test_every_file_is_a_pass_of_the_list_and_every_pass_a_file():
    files = {path.stem for path in (PACKAGE / "passes").glob("*.py")} - {"__init__"}
    names = [each.__name__ for each in PASSES]
    assert files == set(names)
    assert len(names) == len(set(names))


@passes
def test_pass_is_named_after_its_file_and_says_what_it_does(each):
    assert each.__module__ == f"weft.passes.{each.__name__}"
    assert inspect.cleandoc(each.__doc__ or "")


@passes
def test_pass_has_a_test_of_its_text(each):
    path = ROOT / "tests" / "filecheck" / "passes" / f"{each.__name__}.mlir"
    assert f"// RUN: {each.__name__}\n" in path.read_text()
