# SPDX-License-Identifier: Apache-2.0
"""Every public name exists, is typed in the stub, and is documented in docs/reference."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import weft
from tests.architecture.source_tree import PACKAGE, ROOT
from weft import language

STUB = PACKAGE / "__init__.pyi"
REFERENCE = ROOT / "docs" / "reference"
LIBRARY = ("warp", "block", "kernels")
NAMES = [name for name in weft.__all__ if name != "__version__"]


def test_every_public_name_resolves():
    assert [name for name in NAMES if getattr(weft, name, None) is None] == []


def stub_names() -> set[str]:
    names: set[str] = set()
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_":
            names.add(node.name)
    return names


def test_type_checkers_see_the_names_that_python_sees():
    assert stub_names() == {*weft.__all__, *weft._NAMESPACES}


def test_dir_shows_what_is_public_and_nothing_of_the_module_itself():
    shown = {name for name in dir(weft) if not name.startswith("__")}
    assert shown == {*NAMES, *weft._NAMESPACES}


def test_the_rooms_that_are_public_need_no_import_of_their_own():
    program = "import weft; print(weft.ffi.Dict, weft.driver.load_binary, weft.config.override)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def documented() -> set[str]:
    text = "\n".join(page.read_text() for page in REFERENCE.rglob("*.md"))
    return set(re.findall(r"^#+ `weft\.([\w.]+)", text, re.MULTILINE))


def test_every_public_name_is_documented():
    spaces = {*language.NAMESPACES, *weft._MODULES}
    assert {name for name in NAMES if name not in spaces} - documented() == set()


def in_modules() -> set[str]:
    """The names of the modules that are public as they are; docs/driver.md has those of the driver."""
    modules = {
        name: getattr(weft, name)
        for name in (*weft._MODULES, "ffi", "hf", "jax", "nn", "testing", "torch", *LIBRARY)
    }
    modules["random.philox"] = weft.random.philox
    return {f"{name}.{each}" for name, module in modules.items() for each in module.__all__}


def test_every_name_of_a_public_module_is_documented():
    assert in_modules() - documented() == set()


def test_every_name_of_the_kernel_language_is_documented():
    assert set(language.LANGUAGE) - documented() == set()


def test_no_name_is_documented_that_does_not_exist():
    assert documented() - set(NAMES) - set(language.LANGUAGE) - in_modules() == set()
