# SPDX-License-Identifier: Apache-2.0
"""`weft.driver` has every public name of its modules, and opens nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weft.driver
from tests.architecture.source_tree import run_python

FOLDER = Path(weft.driver.__file__).parent


def test_names_are_found_and_each_is_declared_for_type_checkers():
    tree = ast.parse((FOLDER / "__init__.py").read_text())
    declared = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = set(weft.driver._MODULE_OF)
    assert names == declared - {"annotations", None}
    for name in names:
        assert getattr(weft.driver, name).__doc__, name
    assert names <= set(dir(weft.driver))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        weft.driver.nothing  # noqa: B018


def test_no_name_hides_a_module():
    assert not set(weft.driver._MODULE_OF) & {path.stem for path in FOLDER.glob("*.py")}


def test_importing_all_of_it_opens_no_driver_and_no_array_library():
    code = (
        "import sys, weft.driver\n"
        "for name in weft.driver._MODULE_OF: getattr(weft.driver, name)\n"
        "print(weft.driver.driver_is_open(), 'libcuda' in open('/proc/self/maps').read())\n"
        "foreign = ('numpy', 'torch', 'tvm_ffi', 'dataclasses', 'inspect', 'xdsl')\n"
        "print(*(name for name in foreign if name in sys.modules))"
    )
    assert run_python(code).split() == ["False", "False"]
