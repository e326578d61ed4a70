# SPDX-License-Identifier: Apache-2.0
"""LLVM through llvmlite: compiling over and over keeps nothing."""

from __future__ import annotations

import gc
from pathlib import Path

from weft.backends.host import host_machine
from weft.codegen.llvm.optimize import emit_object, link_text, parse, run_pipeline

KERNEL = """
define float @scaled{0}(ptr %values, i64 %i) {{
  %at = getelementptr float, ptr %values, i64 %i
  %value = load float, ptr %at
  %scaled = fmul float %value, {0}.0
  ret float %scaled
}}
"""
HOST = """
declare float @scaled{0}(ptr, i64)
define float @first{0}(ptr %values) {{
  %value = call float @scaled{0}(ptr %values, i64 0)
  ret float %value
}}
"""


def compile_number(number: int) -> bytes:
    machine = host_machine().machine
    module = parse(KERNEL.format(number), "kernel")
    run_pipeline(module, machine, 2, vectorize=True)
    link_text(module, HOST.format(number), "host")
    return emit_object(module, machine)


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_text_is_linked_into_a_module_of_its_own_context():
    found = compile_number(7)
    assert b"scaled7" in found and b"first7" in found


def test_compiling_again_and_again_takes_no_more_memory():
    for number in range(10):
        compile_number(number)
    gc.collect()
    before = resident_pages()
    for number in range(10, 60):
        compile_number(number)
    gc.collect()
    # A pass manager that is never freed costs 20 pages each time.
    assert resident_pages() - before < 5 * 50
