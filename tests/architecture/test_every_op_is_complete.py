# SPDX-License-Identifier: Apache-2.0
"""Walks the dialects: a new operation fails here until it is documented, printed and tested."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT, parsed
from weft import language
from weft.backends.host import HOST_SYMBOLS
from weft.codegen.wrapper.function import WRAPPER
from weft.compiler.module_text import parse_module
from weft.compiler.pipeline import passes_for
from weft.dialects.definition import DependsOnWarps
from weft.dialects.ffi import FFI
from weft.dialects.flow import walk
from weft.dialects.nvgpu import NVGPU
from weft.dialects.simt import SIMT, warp
from weft.dialects.simt.grid import EachOp
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.dialects.simt.memory import GlobalScratchOp
from weft.dialects.simt.profiling import MarkOp, TirxProfilerOp, TrackProfilerOp
from weft.language.operation import Operation

OPERATIONS = [*SIMT.operations, *NVGPU.operations, *FFI.operations]
BACKENDS = ("cpu", "cuda")
# What a backend prints by a call and not by a row: whole kernels; on the CPU the end of a thread, which is the
# next turn of its loop.
BY_CALL = {"cpu": {KernelOp, ReturnOp}, "cuda": {KernelOp}}

PASS_TEXTS = ROOT / "tests" / "filecheck" / "passes"

# Operations that passes replace, so that no backend sees them.
EXPANDED = {EachOp, GlobalScratchOp, TrackProfilerOp, TirxProfilerOp, MarkOp}

operations = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


@operations
def test_operation_says_what_it_does(operation):
    assert inspect.cleandoc(vars(operation).get("__doc__") or "")


@operations
def test_operation_is_named_after_its_class(operation):
    dialect, _, name = operation.name.partition(".")
    assert dialect in ("simt", "nvgpu", "ffi")
    assert operation.__name__.removesuffix("Op").lower() == name.replace("_", "").replace(".", "")


@cache
def texts_in_tests() -> str:
    """Every test that holds IR as text: those that print it, parse it again and compare."""
    folders = ("filecheck", "dialects", "ffi_wrapper", "codegen", "backends", "frontend", "passes")
    return "\n".join(
        path.read_text()
        for folder in folders
        for suffix in ("*.mlir", "*.py")
        for path in (ROOT / "tests" / folder).rglob(suffix)
    )


@operations
def test_operation_occurs_in_a_test_of_its_text(operation):
    assert re.search(rf"\b{re.escape(operation.name)}\b", texts_in_tests())


@operations
def test_operation_of_warps_says_that_it_depends_on_them(operation):
    if operation.__module__ == warp.__name__ or "warp" in operation.name:
        assert DependsOnWarps() in operation.traits


@operations
@pytest.mark.parametrize("backend", BACKENDS)
def test_backend_prints_the_operation_or_refuses_it_by_name(operation, backend: str):
    tables = importlib.import_module(f"weft.backends.{backend}.lowering.tables")
    unsupported = getattr(tables, "UNSUPPORTED", {})
    printed = {*tables.KERNEL_ROWS, *tables.HOST_ROWS, *HOST_SYMBOLS, *WRAPPER, *BY_CALL[backend]}
    assert [operation in printed, operation in unsupported, operation in EXPANDED].count(True) == 1


@pytest.mark.parametrize(
    "operation", sorted(EXPANDED, key=lambda op: op.name), ids=lambda operation: operation.name
)
def test_what_is_expanded_is_in_a_text_of_the_passes_and_gone_after_them(operation):
    texts = (path.read_text() for path in sorted(PASS_TEXTS.glob("*.mlir")))
    modules = [parse_module(text) for text in texts if f"{operation.name} " in text]
    assert modules
    for module in modules:
        assert any(isinstance(op, operation) for op in walk(module))
        for name, change in passes_for(None).items():
            if name != "attach_ffi_wrapper":  # needs a signature
                change(module)
        assert not any(isinstance(op, operation) for op in walk(module))


def test_every_operation_that_is_written_is_in_its_dialect():
    written = {
        node.name
        for path in (PACKAGE / "dialects").rglob("*.py")
        for node in parsed(path).body
        for decorator in getattr(node, "decorator_list", [])
        if getattr(decorator, "id", "") == "operation_definition"
    }
    assert written == {operation.__name__ for operation in OPERATIONS}


@pytest.mark.parametrize("name", language.LANGUAGE)
def test_name_of_the_kernel_language_is_documented_where_it_is_written(name: str):
    found = language.resolve(name)
    assert inspect.cleandoc(found.__doc__ or "")
    if isinstance(found, Operation):
        assert found.name == name


@cache
def conformance() -> str:
    """The tests that compare values."""
    return "\n".join(path.read_text() for path in (ROOT / "tests" / "conformance").rglob("*.py"))


@pytest.mark.parametrize("name", language.LANGUAGE)
def test_name_of_the_kernel_language_occurs_in_a_conformance_test(name: str):
    assert re.search(rf"\b{name.rpartition('.')[2]}\b", conformance())
