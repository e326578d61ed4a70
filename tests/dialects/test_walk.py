# SPDX-License-Identifier: Apache-2.0
"""`walk` gives what xDSL's own gives, in its order."""

from __future__ import annotations

import pytest

from tests.codegen.kernel_runner import parse_module
from weft.dialects.flow import walk

TEXT = """
simt.kernel @kernel(%c : i1, %n : i32) {
  %zero = arith.constant 0 : i32
  %r = scf.if %c -> (i32) {
    scf.if %c {
      %a = arith.addi %n, %n : i32
      scf.yield
    } else {
      %b = arith.muli %n, %n : i32
      scf.yield
    }
    scf.yield %n : i32
  } else {
    scf.yield %zero : i32
  }
  simt.return
}
"""


@pytest.mark.parametrize("of", ["operation", "block"])
def test_operations_come_in_the_order_of_the_text(of):
    module = parse_module(TEXT)
    root = module if of == "operation" else module.body.block
    assert list(walk(root)) == list(root.walk())
    assert len(list(walk(root))) >= 11
