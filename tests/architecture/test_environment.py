# SPDX-License-Identifier: Apache-2.0
"""Only `config.py` reads the environment, and only the main thread of a program sets it."""

from __future__ import annotations

import ast
import re

from tests.architecture.source_tree import name, native_files, parsed, python_modules

READERS = {"environ", "environb", "getenv", "getenvb", "putenv"}


def environment_reads(tree: ast.AST) -> list[int]:
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READERS:
            lines.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            lines += [node.lineno for alias in node.names if alias.name in READERS]
    return lines


def test_only_config_reads_the_environment_in_python():
    reads = {
        f"{name(path)}:{line}"
        for path in python_modules()
        if path.name != "config.py"
        for line in environment_reads(parsed(path))
    }
    assert reads == set()


def test_native_code_does_not_read_the_environment():
    """But for an exported library, whose program may have no Python to read it."""
    reads = [name(path) for path in native_files() if re.search(r"\bgetenv\b", path.read_text())]
    assert reads == ["native/exported/open.cpp"]


def test_the_test_finds_what_it_looks_for():
    assert environment_reads(ast.parse("import os\nos.environ['A']")) == [2]
    assert environment_reads(ast.parse("from os import getenv")) == [1]
