# SPDX-License-Identifier: Apache-2.0
"""Walks the list of passes: a new one in `passes/` fails here until it is listed, and tested as text."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from weft.compiler.pipeline import passes_for
from weft.config import SANITIZER_CHECKS

PASSES = passes_for(None, sanitize=",".join((*SANITIZER_CHECKS, "trace")))
WRAPPER = PASSES.pop("attach_ffi_wrapper").func

passes = pytest.mark.parametrize("name", PASSES)


def is_pass(function: object, module: str) -> bool:
    """Whether this is a public function of that Python module which changes a module of the IR."""
    if (
        not inspect.isfunction(function)
        or function.__module__ != module
        or function.__name__.startswith("_")
    ):
        return False
    signature = inspect.signature(function)
    first = next(iter(signature.parameters.values()), None)
    return (
        first is not None
        and first.annotation == "ModuleOp"
        and signature.return_annotation == "None"
    )


def test_every_pass_is_of_the_list():
    found = set()
    for path in (PACKAGE / "passes").glob("*.py"):
        module = importlib.import_module(
            f"weft.passes.{path.stem}" if path.stem != "__init__" else "weft.passes"
        )
        found |= {name for name, value in vars(module).items() if is_pass(value, module.__name__)}
    assert found == set(PASSES)


def test_the_wrapper_is_the_last_pass():
    assert list(passes_for(None))[-1] == WRAPPER.__name__
    assert WRAPPER.__module__.startswith("weft.ffi_wrapper")


@pytest.mark.joined
@passes
def test_pass_is_a_function_of_passes_and_says_what_it_does(name):
    function = getattr(PASSES[name], "func", PASSES[name])
    assert function.__module__.startswith("weft.passes.")
    assert function.__name__ == name
    assert inspect.cleandoc(function.__doc__ or "")


@pytest.mark.joined
@passes
def test_pass_has_a_test_of_its_text(name):
    path = ROOT / "tests" / "filecheck" / "passes" / f"{name}.mlir"
    assert f"// RUN: {name}\n" in path.read_text()
