# SPDX-License-Identifier: Apache-2.0
"""The builder: shared operations stand once at the start of the function, and survive what is taken back."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, NameLoc, UnknownLoc, f32, i8, i32
from xdsl.ir import Block

from weft.dialects.builder import Builder, source_location
from weft.dialects.simt.threads import ThreadIdxOp
from weft.location import SourceLocation


def names(block):
    return [operation.name for operation in block.ops]


def make():
    block = Block(arg_types=[i32])
    return block, Builder(block)


def test_a_constant_is_one_operation_per_type_and_value():
    block, builder = make()
    assert builder.constant(i32, 1) is builder.constant(i32, 1)
    assert builder.constant(i32, 1) is not builder.constant(i8, 1)
    assert builder.constant(f32, 0.0) is not builder.constant(f32, -0.0)
    assert builder.constant(f32, math.nan) is builder.constant(f32, math.nan)
    assert names(block) == ["arith.constant"] * 5


def test_an_integer_constant_wraps_to_its_width():
    _, builder = make()
    assert builder.constant(i8, 255).owner.value.value.data == -1


def test_shared_operations_stand_before_all_others():
    block, builder = make()
    builder.emit(arith.AddiOp(block.args[0], block.args[0]))
    inner = Block()
    with builder.at(inner):
        builder.constant(i32, 5)
        first = builder.entry_operation(ThreadIdxOp("x"), "x", key="x")
        second = builder.entry_operation(ThreadIdxOp("x"), "x", key="x")
    assert first is second is builder.shared_operation("x")
    assert builder.shared_operation("y") is None
    assert names(block) == ["arith.constant", "simt.thread_idx", "arith.addi"]
    assert names(inner) == []
    assert first.result.name_hint == "x"


def test_without_a_key_each_operation_is_its_own():
    block, builder = make()
    builder.entry_operation(ThreadIdxOp("x"))
    builder.entry_operation(ThreadIdxOp("x"))
    assert names(block) == ["simt.thread_idx"] * 2


def test_undo_keeps_shared_operations():
    block, builder = make()
    one = builder.constant(i32, 1)
    builder.emit(arith.AddiOp(block.args[0], one))
    builder.roll_back(None)
    assert names(block) == ["arith.constant"]
    assert builder.constant(i32, 1) is one
    builder.constant(i32, 2)
    assert names(block) == ["arith.constant"] * 2


def test_taking_back_to_a_shared_operation_keeps_those_behind_it():
    block, builder = make()
    builder.constant(i32, 1)
    last = block.last_op
    two = builder.constant(i32, 2)
    builder.emit(arith.AddiOp(two, two))
    builder.roll_back(last)
    assert names(block) == ["arith.constant"] * 2


def test_taking_back_ends_behind_the_given_operation():
    block, builder = make()
    x = block.args[0]
    kept = builder.emit(arith.AddiOp(x, x))
    dropped = builder.emit(arith.MuliOp(kept.result, x))
    builder.emit(arith.SubiOp(dropped.result, x))
    builder.roll_back(kept)
    assert names(block) == ["arith.addi"]
    assert kept.result.first_use is None


def test_taking_back_in_another_block_empties_it():
    _, builder = make()
    inner = Block()
    with builder.at(inner):
        builder.emit(arith.AddiOp(builder.constant(i32, 1), builder.constant(i32, 2)))
        builder.roll_back(None)
    assert names(inner) == []


def test_each_operation_has_the_current_location():
    block, builder = make()
    x = block.args[0]
    assert builder.emit(arith.AddiOp(x, x)).location == UnknownLoc()
    call = SourceLocation("main.py", 20, 8)
    builder.location = SourceLocation("helper.py", 3, 4, caller=call)
    location = builder.emit(arith.AddiOp(x, x)).location
    assert isinstance(location, CallSiteLoc)
    assert isinstance(location.callee, FileLineColLoc)
    assert location.callee.filename.data == "helper.py"
    assert (location.callee.line.data, location.callee.column.data) == (3, 5)
    assert location.caller.line.data == 20


def test_inlined_code_carries_the_name_of_its_function():
    block, builder = make()
    call = SourceLocation("main.py", 20, 8, function="kernel")
    builder.location = SourceLocation("helper.py", 3, 4, function="square", caller=call)
    location = builder.emit(arith.AddiOp(block.args[0], block.args[0])).location
    assert isinstance(location, CallSiteLoc)
    assert isinstance(location.callee, NameLoc)
    assert location.callee.desc.data == "square"
    found = source_location(location)
    assert found is not None
    assert (found.file, found.line, found.column, found.function) == ("helper.py", 3, 4, "square")


def test_a_name_that_ir_cannot_print_is_left_out():
    block, builder = make()
    x = block.args[0]
    assert builder.emit(arith.AddiOp(x, x), "sum").result.name_hint == "sum"
    assert builder.emit(arith.AddiOp(x, x), "1 + x").result.name_hint is None
