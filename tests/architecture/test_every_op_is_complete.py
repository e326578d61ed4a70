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
from weft.dialects.access import Requires
from weft.dialects.definition import DependsOnWarps
from weft.dialects.ffi import FFI
from weft.dialects.flow import walk
from weft.dialects.nvgpu import NVGPU
from weft.dialects.simt import SIMT
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.dialects.simt.memory import GlobalScratchOp
from weft.dialects.simt.profiling import MarkOp, TirxProfilerOp, TrackProfilerOp
from weft.dialects.simt.threads import EachOp
from weft.language.operation import Operation
from weft.types.capabilities import FEATURES

OPERATIONS = [*SIMT.operations, *NVGPU.operations, *FFI.operations]
BACKENDS = ("cpu", "cuda")
# What a backend prints by a call and not by a row: whole kernels; on the CPU the end of a thread, which is the
# next turn of its loop.
BY_CALL = {"cpu": {KernelOp, ReturnOp}, "cuda": {KernelOp}}

PASS_TEXTS = ROOT / "tests" / "filecheck" / "passes"

# Operations that passes replace, so that no backend sees them.
EXPANDED = {EachOp, GlobalScratchOp, TrackProfilerOp, TirxProfilerOp, MarkOp}


def test_every_operation_says_what_it_does():
    documented = {op for op in OPERATIONS if inspect.cleandoc(vars(op).get("__doc__") or "")}
    assert [op.name for op in OPERATIONS if op not in documented] == []


def test_every_operation_is_named_after_its_class():
    names = {op: op.name.partition(".")[2].replace("_", "").replace(".", "") for op in OPERATIONS}
    wrong = [op for op, name in names.items() if op.__name__.removesuffix("Op").lower() != name]
    assert [op.name for op in wrong] == []
    assert {op.name.partition(".")[0] for op in OPERATIONS} == {"simt", "nvgpu", "ffi"}


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


def test_every_operation_occurs_in_a_test_of_its_text():
    written = set(re.findall(r"[\w.]+", texts_in_tests()))
    assert [op.name for op in OPERATIONS if op.name not in written] == []


def test_operations_of_warps_say_that_they_depend_on_them():
    of_warps = [op for op in OPERATIONS if re.search("warp|lane|shuffle|vote|match", op.name)]
    assert [op.name for op in of_warps if DependsOnWarps() not in op.traits] == []


def test_operations_require_features_that_there_are():
    needed = {op.name: op.get_trait(Requires) for op in OPERATIONS}
    required = {name: one.feature for name, one in needed.items() if one is not None}
    assert required["nvgpu.tma_load"] == "tma"
    assert {name: feature for name, feature in required.items() if feature not in FEATURES} == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_prints_each_operation_or_refuses_it(backend: str):
    tables = importlib.import_module(f"weft.backends.{backend}.lowering.tables")
    unsupported = getattr(tables, "UNSUPPORTED", {})
    printed = {*tables.KERNEL_ROWS, *tables.HOST_ROWS, *HOST_SYMBOLS, *WRAPPER, *BY_CALL[backend]}
    places = {op: [op in kind for kind in (printed, unsupported, EXPANDED)] for op in OPERATIONS}
    assert [op.name for op, found in places.items() if found.count(True) != 1] == []


@pytest.mark.parametrize(
    "operation", sorted(EXPANDED, key=lambda op: op.name), ids=lambda operation: operation.name
)
def test_expanded_operations_are_gone_after_the_passes(operation):
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


def test_every_operation_of_the_language_has_its_name():
    found = {name: language.resolve(name) for name in language.LANGUAGE}
    operations = {name: one for name, one in found.items() if isinstance(one, Operation)}
    assert [name for name, one in operations.items() if one.name != name] == []


def test_every_name_of_the_language_occurs_in_a_conformance_test():
    """Conformance tests compare values."""
    texts = (path.read_text() for path in (ROOT / "tests" / "conformance").rglob("*.py"))
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    assert [name for name in language.LANGUAGE if name.rpartition(".")[2] not in words] == []
