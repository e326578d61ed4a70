# SPDX-License-Identifier: Apache-2.0
"""Volatile accesses: what they emit, and what they refuse."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.types import dtype as types

CALLS = {"volatile_load": (), "volatile_store": (1,)}
by_name = pytest.mark.parametrize("name", CALLS)


def access(name, trace, tensor, index):
    return resolve(name).emit(trace.builder, tensor, index, *CALLS[name])


@by_name
def test_the_operation_is_marked(name):
    trace = Trace()
    access(name, trace, trace.tensor(types.i32), 0)
    assert f"simt.{name.removeprefix('volatile_')} volatile " in trace.verify()


@by_name
def test_an_element_instead_of_a_tensor_shows_how_to_call(name):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        access(name, trace, trace.scalar(types.i32), 0)
    assert caught.value.code == "VOLATILE_TENSOR"
    assert caught.value.message.startswith(f"{name}: the first argument must be a tensor, received")
    assert caught.value.hint.startswith(f"write {name}(tensor, index, ...)")


@by_name
def test_indices_are_checked(name):
    trace = Trace()
    with pytest.raises(ValueRangeError, match="index 0 of a is 4"):
        access(name, trace, trace.tensor(types.i32, (4,)), 4)
    with pytest.raises(TypeMismatchError, match="a has rank 2"):
        access(name, trace, trace.tensor(types.i32, (2, 2)), 1)
