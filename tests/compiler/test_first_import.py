# SPDX-License-Identifier: Apache-2.0
"""The compiler is first imported away from signals and forks; tests/stress comes at many more moments."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT
from tests.sampling import sampled

# What runs during a compilation, or before one.
ROOMS = ("api.py", "compiler", "backends", "frontend", "passes", "codegen", "autotuner")


def run(name: str, iterations: int, cache: str = "") -> Any:
    command = [sys.executable, "-m", "tests.compiler.first_import_program", name, str(iterations)]
    # An unknown WEFT_ name is compared with the known ones, which imports a module of Python.
    environment = {one: value for one, value in os.environ.items() if "WEFT_TEST" not in one}
    environment["WEFT_NO_CACHE"] = str(int(not cache))
    if cache:
        environment["WEFT_CACHE_DIR"] = cache
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def check_listed(found: Any) -> None:
    assert {*found["unguarded"]} <= {"tvm_ffi"}  # looked for, not imported


def test_no_import_runs_where_handlers_run_or_forks_do_not_wait():
    found = run("listed", 1)
    check_listed(found)
    assert len(found["names"]) > 300


def test_neither_is_one_that_a_function_found_in_the_cache_needs(tmp_path: Path):
    cold = run("listed", 1, str(tmp_path))
    warm = run("listed", 1, str(tmp_path))
    check_listed(warm)
    assert 0 < len(warm["names"]) < len(cold["names"])


@pytest.mark.parametrize("name", sampled(["signaled", "forked"], 2))
def test_signals_and_forks_at_any_import_let_all_processes_compile(name: str):
    assert run(name, 3) == {}


@pytest.mark.slow
def test_a_fork_during_a_cache_lookup_lets_every_process_compile(
    tmp_path: Path,
):
    run("listed", 1, str(tmp_path))
    assert run("forked", 3, str(tmp_path)) == {}


def imports_inside_functions(path: Path) -> list[str]:
    functions = (
        each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef)
    )
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.module}"
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft.")
        if node.module != "weft.imports"
    ]


def test_what_compiles_imports_on_demand_through_one_function():
    found = [
        line
        for room in ROOMS
        for path in [ROOT / "src/weft" / room]
        for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))
        for line in imports_inside_functions(file)
    ]
    assert found == []


# Packages whose names are imported on first use.
LAZY = (
    "__init__",
    "driver/__init__",
    "ffi/__init__",
    "ffi/object",
    "kernels/__init__",
    "language/__init__",
)
LAZY += ("primitives/__init__", "profiler/__init__")


@pytest.mark.parametrize("module", LAZY)
def test_names_of_a_package_are_imported_through_one_function(module: str):
    path = ROOT / "src/weft" / f"{module}.py"
    assert imports_inside_functions(path) == []
    assert "import_module" not in path.read_text()


def test_a_module_that_is_being_imported_imports_on_its_own_thread(tmp_path: Path):
    (tmp_path / "program.py").write_text(
        "import sys, threading, types\n"
        "import weft.imports\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'weft.profiler': print(threading.get_ident() == main)\n"
        "main = threading.get_ident()\n"
        "sys.meta_path.insert(0, Finder())\n"
        "text = compile('import weft; weft.profiler', 'body', 'exec')\n"
        "exec(text, {'__name__': sys.argv[1]})\n"
    )
    said = [
        subprocess.run(
            [sys.executable, tmp_path / "program.py", name], capture_output=True, text=True
        ).stdout
        for name in ("weft.half", "users")
    ]
    assert said == ["True\n", "False\n"]


def test_a_program_whose_globals_have_no_name_compiles():
    source = "import weft.imports\nweft.imports.imported('weft.compiler')\nprint('compiled')"
    command = [sys.executable, "-c", f"exec(compile({source!r}, 'nameless', 'exec'), {{}})"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "compiled\n", done.stderr
