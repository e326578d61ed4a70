# SPDX-License-Identifier: Apache-2.0
"""A module's text is what xDSL writes, also of arithmetic, which weft writes by itself, with flags and attributes."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith

from weft.compiler.module_text import module_text, parse_module
from weft.dialects.flow import walk

pytestmark = pytest.mark.joined

BEGIN = """
  %a = arith.constant 1 : i32
  %b = arith.constant 1 : i64
  %t = arith.constant true
  %x = arith.constant 1.0 : f32
"""


def written(*lines: str) -> str:
    """The text of a module with these lines, the same as xDSL's."""
    module = parse_module("\n".join(("builtin.module {", BEGIN, *lines, "}")))
    found = module_text(module)
    assert found == str(module)
    return found


@pytest.mark.parametrize(
    "line",
    [
        *(f"arith.{name} %a, %a : i32" for name in ("addi", "subi", "muli", "shli", "andi")),
        *(f"arith.{name} %b, %b : i64" for name in ("ori", "xori", "shrui", "shrsi", "divui")),
        *(f"arith.{name} %a, %a : i32" for name in ("maxsi", "minui", "floordivsi", "remsi")),
        *(f"arith.{name} %x, %x : f32" for name in ("addf", "subf", "mulf", "divf", "maximumf")),
        "arith.andi %t, %t : i1",
        "arith.addi %a, %a overflow<nsw> : i32",
        "arith.muli %a, %a overflow<nsw,nuw> : i32",
        "arith.mulf %x, %x fastmath<contract> : f32",
        'arith.addi %a, %a {note = "x"} : i32',
        'arith.addi %a, %a overflow<nsw> {note = "x"} : i32',
    ],
)
def test_arithmetic_is_written_as_xdsl_writes_it(line: str):
    assert f"%v = {line}\n" in written(f"%v = {line}")


def test_types_take_turns_and_results_of_one_name_have_numbers():
    lines = ["%v = arith.addi %a, %a : i32", "%w = arith.addi %b, %b : i64"]
    module = parse_module("\n".join(("builtin.module {", BEGIN, *lines, "}")))
    for op in walk(module):
        if isinstance(op, arith.AddiOp):
            op.result.name_hint = "a"
    found = module_text(module)
    assert found == str(module)
    assert "%a_1 = arith.addi %a, %a : i32" in found
    assert "%a_2 = arith.addi %b, %b : i64" in found
