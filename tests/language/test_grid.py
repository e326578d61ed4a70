# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a thread: an i32 each, read once per function."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.ir import Block

from tests.language.tracing import Trace
from weft.errors import NameResolutionError
from weft.language import resolve
from weft.language.memory.access import attribute
from weft.types import dtype as types

COORDINATES = ["thread_idx", "block_idx", "block_dim", "grid_dim"]


@pytest.mark.parametrize("name", COORDINATES)
@pytest.mark.parametrize("dimension", "xyz")
def test_a_coordinate_is_an_i32(name, dimension):
    trace = Trace()
    found = attribute(trace.builder, resolve(name), dimension)
    assert found.dtype is types.i32
    assert f'%{name}_{dimension} = simt.{name} "{dimension}" : i32' in trace.verify()


def test_a_coordinate_is_read_once_even_if_asked_for_in_a_branch():
    trace = Trace()
    trace.builder.emit(arith.AddiOp(*(trace.scalar(types.i32).ssa for _ in range(2))))
    branch = Block()
    with trace.builder.at(branch):
        first = attribute(trace.builder, resolve("thread_idx"), "x")
    second = attribute(trace.builder, resolve("thread_idx"), "x")
    assert first.ssa is second.ssa
    assert list(branch.ops) == []
    assert trace.names == ["simt.thread_idx", "arith.addi"]


@pytest.mark.parametrize("name", COORDINATES)
def test_another_attribute_lists_the_three(name):
    trace = Trace()
    with pytest.raises(NameResolutionError) as caught:
        attribute(trace.builder, resolve(name), "w")
    assert caught.value.message == f"weft.{name} has no attribute 'w'"
    assert (
        caught.value.hint
        == f"there are {', '.join(f'weft.{name}.{d}' for d in ('x', 'y', 'z', 'xy', 'xyz'))}"
    )
