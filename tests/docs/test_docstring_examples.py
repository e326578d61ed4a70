# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings give what they say.

Those of the reference are left to `test_reference_examples`, which runs each by itself.
"""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source_tree import PACKAGE, parsed, python_modules
from tests.docs.code_blocks import marks_of
from tests.docs.reference_examples import entries, example, surroundings
from weft.language.operation import Operation

if TYPE_CHECKING:
    from pathlib import Path


def has_examples(path: Path) -> bool:
    """Whether a docstring of the file's own functions and classes has an example."""
    if ">>> " not in path.read_text():  # each worker of a run asks this of every file
        return False
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    nodes = (node for node in ast.walk(parsed(path)) if isinstance(node, documented))
    return any(">>> " in (ast.get_docstring(node) or "") for node in nodes)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


WITH_EXAMPLES = [
    pytest.param(module_name(path), marks=marks_of(path.read_text()), id=module_name(path))
    for path in python_modules()
    if has_examples(path)
]


@functools.cache
def run_elsewhere() -> set[str]:
    """The sessions of the reference, as doctest reads them."""
    parser = doctest.DocTestParser()
    texts = (example(name, value) for name, value in entries().items())
    return {code_of(parser.get_examples(text)) for text in texts}


def code_of(examples: list[doctest.Example]) -> str:
    return "".join(one.source + one.want for one in examples)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_the_module_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # some write files
    module = importlib.import_module(name)
    found = doctest.DocTestFinder().find(module, extraglobs=surroundings())
    found = [test for test in found if test.examples]
    # Doctest finds no operations, each of which is an entry of the reference.
    assert found or any(isinstance(one, Operation) for one in vars(module).values())
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in found:
        if code_of(test.examples) not in run_elsewhere():
            runner.run(test)
    assert runner.failures == 0
