# SPDX-License-Identifier: Apache-2.0
"""The module printer: refusals, shared declarations, order."""

from __future__ import annotations

import pytest

from tests.codegen.kernel_runner import parse_module
from weft.backends.cpu.lowering.tables import KERNEL_ROWS
from weft.backends.cpu.stages import print_kernels
from weft.backends.cuda.target import cuda_machine
from weft.backends.host import host_machine
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import parse
from weft.codegen.tables import LIBRARY
from weft.errors import InternalCompilerError

pytestmark = pytest.mark.joined


def printer() -> ModulePrinter:
    return ModulePrinter(host_machine().target, KERNEL_ROWS, {}, LIBRARY)


def test_an_unlisted_intrinsic_is_refused_before_llvm():
    with pytest.raises(InternalCompilerError, match=r"llvm\.exp10 is not selectable on cpu"):
        printer().intrinsic("llvm.exp10", ".f32")


def test_an_operation_without_a_row_is_refused_by_name():
    text = """simt.kernel @kernel(%n : i32) {
  %a, %b = arith.addui_extended %n, %n : i32, i1
  simt.return
}"""
    with pytest.raises(
        InternalCompilerError, match=r"arith\.addui_extended cannot be compiled for cpu"
    ):
        print_kernels(parse_module(text), host_machine())


def test_equal_strings_and_declarations_are_printed_once():
    module = printer()
    assert module.string("text") == module.string("text")
    assert module.declare("printf", "i32 (ptr, ...)") == module.declare("printf", "i32 (ptr, ...)")
    assert module.text().count("declare i32 @printf(ptr, ...)") == 1
    with pytest.raises(InternalCompilerError, match="printf is declared with two types"):
        module.declare("printf", "void (ptr)")


def test_only_library_functions_that_are_used_are_printed():
    module = printer()
    module.library("tanh.f32")
    text = module.text()
    assert "@weft.tanh.f32(" in text
    assert "@weft.exp.f32(" in text  # which tanh calls
    assert "@weft.sin.f32(" not in text


@pytest.mark.parametrize("name", LIBRARY)
def test_every_library_function_is_valid_on_every_target(name: str):
    for target in (host_machine().target, cuda_machine("sm_90a").target):
        module = ModulePrinter(target, {}, {}, LIBRARY)
        module.library(name)
        parse(module.text(), name)


def test_text_that_llvm_refuses_is_reported_with_its_line():
    with pytest.raises(InternalCompilerError, match=r"(?s)LLVM refuses the kernels: .*expected"):
        parse("define i32 @f() { ret }", "kernels")
