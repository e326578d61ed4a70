# SPDX-License-Identifier: Apache-2.0
"""The other direction of completeness: what the code generator can print, some operation emits.

A row that nothing reaches is a function that users lack or code that only its tests run.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache

from tests.architecture.source_tree import PACKAGE, parsed
from tests.codegen.kernel_runner import lowered_module
from tests.codegen.test_baseline_cpu import FLOATS
from tests.conformance.harness import math_functions
from weft.backends.cpu.stages import print_kernels
from weft.backends.cuda.target import INTRINSICS as CUDA_INTRINSICS
from weft.backends.host import HOST_SYMBOLS, machine_of
from weft.backends.host import INTRINSICS as HOST_INTRINSICS
from weft.codegen.tables import LIBRARY
from weft.codegen.wrapper.function import WRAPPER
from weft.types.dtype import PACKED_DTYPES, SCALE_DTYPES

# Rooms and files that build operations. What prints them is the other side.
BUILDERS = ("language", "frontend", "passes", "ffi_wrapper.py", "dialects/builder.py")
PRINTERS = ("codegen", "backends")


def rows() -> dict[str, type]:
    """The operations that some table prints, by the names of their classes."""
    found = {*WRAPPER, *HOST_SYMBOLS}
    for backend in ("cpu", "cuda"):
        tables = importlib.import_module(f"weft.backends.{backend}.lowering.tables")
        found |= {*tables.KERNEL_ROWS, *tables.HOST_ROWS, *getattr(tables, "UNSUPPORTED", ())}
    return {operation.__name__: operation for operation in found}


def names_asked_about(tree: ast.Module) -> set[ast.AST]:
    """Nodes that only ask whether an operation is of a class: `isinstance`, patterns, annotations."""
    asked: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            asked.append(node.args[1])
        elif isinstance(node, ast.MatchClass):
            asked.append(node.cls)
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            asked.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            asked.append(node.returns)
    return {inner for node in asked for inner in ast.walk(node)}


@cache
def names_that_build() -> frozenset[str]:
    """Every name that the building rooms use as a value."""
    found = set()
    for part in BUILDERS:
        path = PACKAGE / part
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            tree = parsed(file)
            asked = names_asked_about(tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.Name | ast.Attribute) and node not in asked:
                    found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return frozenset(found)


def test_every_row_of_the_tables_is_emitted():
    assert rows().keys() - names_that_build() == set()


@cache
def library_functions_in_use() -> frozenset[str]:
    """Names of library functions in kernels of every function and float type, for a CPU without extensions."""
    lines = [f"out[i] = weft.math.{name}(x)" for name in math_functions(1)]
    lines += [f"out[i] = weft.math.{name}(x, y)" for name in math_functions(2)]
    lines += ["out[i] = x // y", "out[i] = x % y"]
    found: set[str] = set()
    for dtype in FLOATS:
        converted = [f"weft.{dtype.name}({line.removeprefix('out[i] = ')})" for line in lines]
        others = (*FLOATS, *SCALE_DTYPES, *(one for one in PACKED_DTYPES if one.is_float))
        converted += [f"weft.{dtype.name}(weft.{other.name}(x))" for other in others]
        statements = "\n".join(f"out[i] = {expression}" for expression in converted)
        text = print_kernels(lowered_module(statements, dtype), machine_of("x86-64", ""))
        found |= set(re.findall(r"^define internal .*?@weft\.([\w.]+)\(", text, re.MULTILINE))
    return frozenset(found)


def test_every_function_of_the_library_is_used_by_an_operation():
    assert set(LIBRARY) - library_functions_in_use() == set()


@cache
def words_of_printers() -> frozenset[str]:
    """Every word in quotes in the rooms that print, without the prefix of LLVM's intrinsics."""
    found: set[str] = set()
    for room in PRINTERS:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            if file.name in ("target.py", "host.py"):  # the tables themselves
                continue
            for node in ast.walk(parsed(file)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= set(re.findall(r"[\w.]+", node.value))
    return frozenset(word.removeprefix("llvm.") for word in found)


# Names of NVVM's intrinsics are put together from parts, so a word does not find them.
INTRINSICS = {name for name in HOST_INTRINSICS | CUDA_INTRINSICS if "nvvm" not in name}


def test_every_intrinsic_that_a_target_selects_is_printed():
    assert {name.removeprefix("llvm.") for name in INTRINSICS} - words_of_printers() == set()
