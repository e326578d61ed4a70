# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no linter knows: sizes, licenses, unfinished work."""

from __future__ import annotations

import ast
import re
import subprocess

from tests.architecture.source_tree import PACKAGE, ROOT, name, native_files, parsed, python_modules

MODULE_LINES = 900
FUNCTION_LINES = 120
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|for now|placeholder|not implemented yet)\b", re.I)
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_module_is_longer_than_900_lines():
    files = [*python_modules(), *native_files()]
    lengths = {name(path): len(path.read_text().splitlines()) for path in files}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_function_is_longer_than_120_lines():
    lengths = {
        f"{name(path)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in python_modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, FUNCTION)
    }
    assert {place: lines for place, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_every_module_says_what_it_knows():
    assert [name(path) for path in python_modules() if not ast.get_docstring(parsed(path))] == []


# Files whose formats have no comments, that are compared to the byte, or that are prose.
WITHOUT_LICENSE = {".md", ".mlir", ".txt", ".png", ".json", ".svg"}


def test_every_source_file_begins_with_its_license():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    files = [ROOT / line for line in listed.stdout.splitlines()] or list(python_modules())
    missing = [
        name(path)
        for path in files
        if path.is_file()
        and path.stat().st_size
        and path.suffix not in WITHOUT_LICENSE
        and path.name != "LICENSE"
        and "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]
    ]
    assert missing == []


def test_nothing_is_left_unfinished():
    places = [
        f"{name(path)}:{number}"
        for path in [*python_modules(), *native_files()]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line) or "raise NotImplementedError" in line
    ]
    assert places == []


def swallowed(tree: ast.AST) -> list[int]:
    """Lines of handlers that catch everything and do nothing."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type
        everything = caught is None or (
            isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"}
        )
        if everything and all(isinstance(line, ast.Pass | ast.Continue) for line in node.body):
            lines.append(node.lineno)
    return lines


def test_no_exception_is_swallowed():
    places = [
        f"{name(path)}:{line}" for path in python_modules() for line in swallowed(parsed(path))
    ]
    assert places == []


def test_no_module_keeps_a_global_statement():
    places = [
        f"{name(path)}:{node.lineno}"
        for path in python_modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Global)
    ]
    assert places == []


def test_every_native_source_is_built_or_is_a_test():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    sources = [name(path) for path in native_files() if path.suffix == ".cpp"]
    assert [source for source in sources if source not in cmake] == []


def test_kernels_precede_the_functions_that_launch_them():
    """Kernels and host functions precede the public functions, whose decorator registers or dispatches them."""
    places: list[str] = []
    for path in python_modules():
        if "kernels" not in path.parts:
            continue
        public: list[str] = []
        for node in parsed(path).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            text = " ".join(map(ast.unparse, node.decorator_list))
            if "cached_dispatch" in text or "differentiable" in text:
                public.append(node.name)
            elif public and ("weft.kernel" in text or "weft.jit" in text):
                places.append(f"{name(path)}:{node.lineno} {node.name} stands after {public[0]}")
    assert places == []


# Names that work in kernels alone.
IN_KERNELS = re.compile(
    r"\bweft\.(thread_idx|block_idx|lane_id|warp_id|cluster_rank|shared|sync_\w+|shfl_\w+|ballot|"
    r"load_vector|store_vector|assume_aligned|atomic_\w+|mbarrier|st_async|bulk_copy|elect_one|"
    r"warpgroup_id|(?:warp|block|tma|mma|wgmma|cp_async)\.\w+)\b"
)


def test_functions_that_kernels_call_are_marked():
    found: list[str] = []
    for path in python_modules():
        if PACKAGE / "kernels" not in path.parents:
            continue
        kernels = set(re.findall(r"= weft\.kernel(?:\([^\n]*\))?\((\w+)\)", path.read_text()))
        found += [
            f"{name(path)}: {node.name}"
            for node in parsed(path).body
            if isinstance(node, FUNCTION) and not node.decorator_list and node.name not in kernels
            if any(IN_KERNELS.search(ast.unparse(one)) for one in node.body)
        ]
    assert found == []
