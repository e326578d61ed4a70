# SPDX-License-Identifier: Apache-2.0
"""Walks the list of passes: a new file in `passes/` fails here until it is listed, and tested as text."""

from __future__ import annotations

import inspect

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from weft.compiler.pipeline import passes_for
from weft.config import SANITIZER_CHECKS

PASSES = passes_for(None, sanitize=",".join((*SANITIZER_CHECKS, "trace")))
WRAPPER = PASSES.pop("attach_ffi_wrapper").func

passes = pytest.mark.parametrize("name", PASSES)


def test_every_file_is_a_pass_of_the_list_and_every_pass_a_file():
    files = {path.stem for path in (PACKAGE / "passes").glob("*.py")} - {"__init__"}
    assert files == set(PASSES)


def test_the_wrapper_is_the_last_pass():
    assert list(passes_for(None))[-1] == WRAPPER.__name__
    assert WRAPPER.__module__.startswith("weft.ffi_wrapper.")


@passes
def test_pass_is_named_after_its_file_and_says_what_it_does(name):
    function = getattr(PASSES[name], "func", PASSES[name])
    assert function.__module__ == f"weft.passes.{name}"
    assert inspect.cleandoc(function.__doc__ or "")


@passes
def test_pass_has_a_test_of_its_text(name):
    path = ROOT / "tests" / "filecheck" / "passes" / f"{name}.mlir"
    assert f"// RUN: {name}\n" in path.read_text()
