# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.architecture.source_tree import PACKAGE, python_modules


def module_name(path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


WITH_EXAMPLES = [module_name(path) for path in python_modules() if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_the_module_hold(name: str):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
