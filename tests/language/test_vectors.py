# SPDX-License-Identifier: Apache-2.0
"""Vectors: what is checked when compiling, and what is left to a check in the kernel."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory.vectors import load_vector, store_vector
from weft.language.numbers.operators import binary
from weft.types import dtype as types


def loaded(trace, index=0, count=4, shape=(-1,), dtype=types.f32, **facts):
    facts.setdefault("alignment_bytes", 16)
    return load_vector.emit(trace.builder, trace.tensor(dtype, shape, **facts), index, count)


def test_a_vector_is_one_load_with_a_tuple_of_scalars():
    trace = Trace()
    elements = loaded(trace)
    assert [element.dtype for element in elements] == [types.f32] * 4
    assert trace.names == ["simt.load_vector"]
    trace.verify()


def test_an_index_known_as_a_multiple_is_not_checked_again():
    trace = Trace()
    index = trace.scalar(types.i32)
    loaded(trace, binary(trace.builder, "*", index, 4))
    shifted = binary(trace.builder, "+", binary(trace.builder, "*", index, 8), 12)
    loaded(trace, shifted)
    assert "simt.assert" not in trace.names


@pytest.mark.parametrize("shape", [(-1,), (-1, 6), (-1, -1)], ids=str)
def test_an_unknown_alignment_is_checked_in_the_kernel(shape):
    trace = Trace()
    index = (trace.scalar(types.i32),) * len(shape)
    loaded(trace, index, count=2, shape=shape)
    assert trace.names.count("simt.assert") == (2 if shape == (-1, -1) else 1)
    trace.verify()


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        ({"count": 3}, ValueRangeError, "VECTOR_COUNT"),
        ({"count": True}, ValueRangeError, "VECTOR_COUNT"),
        ({"count": 16}, ValueRangeError, "VECTOR_COUNT"),
        ({"count": 8}, TypeMismatchError, "VECTOR_ALIGNMENT"),
        ({"alignment_bytes": 8}, TypeMismatchError, "VECTOR_ALIGNMENT"),
        ({"index": 2}, ValueRangeError, "VECTOR_INDEX"),
        ({"index": (0, 0), "shape": (4, 6)}, ValueRangeError, "VECTOR_INDEX"),
        ({"index": (0, 0)}, TypeMismatchError, "INDEX_COUNT"),
        ({"layout": "strided"}, TypeMismatchError, "VECTOR_LAYOUT"),
        ({"index": (), "shape": ()}, TypeMismatchError, "VECTOR_LAYOUT"),
    ],
    ids=str,
)
def test_what_is_known_to_be_wrong_is_refused(arguments, error, code):
    with pytest.raises(error) as caught:
        loaded(Trace(), **arguments)
    assert caught.value.code == code


def test_the_hint_says_how_to_declare_the_alignment():
    with pytest.raises(TypeMismatchError, match="aligned to 4") as caught:
        loaded(Trace(), alignment_bytes=4)
    assert caught.value.hint == "annotate it weft.fake_tensor(weft.f32, shape, alignment_bytes=16)"


def test_stored_values_convert_where_nothing_is_lost():
    trace = Trace()
    tensor = trace.tensor(types.f32, name="out", alignment_bytes=16)
    store_vector.emit(trace.builder, tensor, 0, (1, 2.5, trace.scalar(types.f16), 0))
    assert trace.names[-1] == "simt.store_vector"
    trace.verify()
    with pytest.raises(TypeMismatchError, match="store_vector: value 1: out holds f32"):
        store_vector.emit(trace.builder, tensor, 0, (0.0, trace.scalar(types.f64)))
    with pytest.raises(
        TypeMismatchError, match="values must be a tuple of numbers, received the constant 3"
    ):
        store_vector.emit(trace.builder, tensor, 0, 3)
    with pytest.raises(TypeMismatchError, match="the first argument must be a tensor"):
        store_vector.emit(trace.builder, 3, 0, (1, 2))
