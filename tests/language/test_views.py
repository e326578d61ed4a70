# SPDX-License-Identifier: Apache-2.0
"""Views: which brackets ask for one, and what is known of its shape, layout and alignment."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.dialects.simt.memory import LoadOp, ViewOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory.access import attribute
from weft.language.memory.views import is_part, subscript
from weft.language.values import Scalar, Tensor, shape_text
from weft.types import dtype as types

pytestmark = pytest.mark.joined

WHOLE = slice(None)


def viewed(indices, shape=(8, 6, 4), dtype=types.f32, **facts):
    trace = Trace()
    found = subscript(trace.builder, trace.tensor(dtype, shape, **facts), indices)
    trace.verify()
    return found


def test_an_integer_for_every_dimension_is_an_element():
    trace = Trace()
    found = subscript(trace.builder, trace.tensor(types.f32, (-1, 4)), (0, 1))
    assert isinstance(found, Scalar)
    assert isinstance(found.ssa.owner, LoadOp)


@pytest.mark.parametrize(
    ("indices", "shape", "layout"),
    [
        (2, "(6, 4)", "contiguous"),
        ((2, 3), "(4,)", "contiguous"),
        ((WHOLE, 3), "(8, 4)", "inner"),
        ((WHOLE, WHOLE, 3), "(8, 6)", "strided"),
        ((2, WHOLE, 3), "(6,)", "strided"),
        (slice(1, 5), "(4, 6, 4)", "contiguous"),
        (slice(None, None, 2), "(4, 6, 4)", "inner"),
        ((..., slice(1, 3)), "(8, 6, 2)", "inner"),
        ((..., slice(None, None, -1)), "(8, 6, 4)", "strided"),
        ((2, slice(1, 4)), "(3, 4)", "contiguous"),
        ((2, 3, slice(-2, None)), "(2,)", "contiguous"),
        ((2, 3, slice(3, 1)), "(0,)", "contiguous"),
        ((0, 0, 0, ...), "()", "contiguous"),
        ((slice(-3, 100, 2), ..., 0), "(2, 6)", "strided"),
    ],
    ids=str,
)
def test_shape_and_layout_of_a_view_are_known_where_they_can_be(indices, shape, layout):
    found = viewed(indices)
    assert isinstance(found, Tensor)
    assert shape_text(found) == shape
    assert found.type.layout.data == layout


def test_a_view_of_everything_is_the_tensor_itself():
    trace = Trace()
    tensor = trace.tensor(types.f32, (-1, 4))
    for indices in (..., WHOLE, (WHOLE, WHOLE), (slice(0, None), ...), ()):
        if indices == (slice(0, None), ...):
            continue
        assert subscript(trace.builder, tensor, indices) is tensor


def test_a_strided_tensor_has_strided_views():
    assert viewed(0, layout="strided").type.layout.data == "strided"
    assert viewed(0, layout="inner").type.layout.data == "inner"
    assert viewed((0, 0), layout="inner").type.layout.data == "contiguous"


@pytest.mark.parametrize(
    ("indices", "alignment"),
    [(1, 16), ((0, 1), 16), ((0, 0, slice(1, 3)), 4), ((0, 0, slice(2, 4)), 8), (WHOLE, 16)],
    ids=str,
)
def test_alignment_of_a_view_is_what_its_offset_leaves(indices, alignment):
    assert viewed(indices, alignment_bytes=16).type.alignment_bytes.data == alignment


def test_a_run_time_row_of_whole_vectors_stays_aligned():
    trace = Trace()
    tensor = trace.tensor(types.f32, (-1, 4), alignment_bytes=16)
    row = subscript(trace.builder, tensor, trace.scalar(types.i32))
    assert row.type.alignment_bytes.data == 16
    odd = trace.tensor(types.f32, (-1, 5), alignment_bytes=16)
    assert subscript(trace.builder, odd, trace.scalar(types.i32)).type.alignment_bytes.data == 4


def test_a_size_known_at_run_time_is_not_asked_of_the_view_again():
    trace = Trace()
    part = subscript(trace.builder, trace.tensor(types.f32), slice(0, trace.scalar(types.i32)))
    (size,) = attribute(trace.builder, part, "shape")
    assert isinstance(part.ssa.owner, ViewOp)
    assert size.ssa is part.ssa.owner.sizes[0]
    assert size.dtype is types.i32


def test_a_view_is_named_after_what_was_written():
    trace = Trace()
    index = trace.scalar(types.i32)
    index.ssa.name_hint = "i"
    tensor = trace.tensor(types.f32, (-1, 4), name="image")
    assert subscript(trace.builder, tensor, (index, slice(1, None))).name == "image[i, 1:]"
    assert subscript(trace.builder, tensor, (..., 0)).name == "image[..., 0]"


def test_brackets_ask_for_a_view_by_what_they_hold():
    tensor = Trace().tensor(types.f32, (-1, 4))
    assert [is_part(tensor, i) for i in (0, (0, 0), (0, WHOLE), ..., (0, 0, 0))] == [
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("indices", "error", "code"),
    [
        ((..., ...), TypeMismatchError, "INDEX_COUNT"),
        ((0, WHOLE, WHOLE, WHOLE), TypeMismatchError, "INDEX_COUNT"),
        (slice(0, 4, 0), ValueRangeError, "VIEW_STEP"),
        (slice(0.5, 4), TypeMismatchError, "INDEX_TYPE"),
        (slice("a", 4), TypeMismatchError, "INDEX_TYPE"),
        (8, ValueRangeError, "INDEX_OUT_OF_RANGE"),
        (-1, ValueRangeError, "INDEX_NEGATIVE"),
    ],
    ids=str,
)
def test_wrong_parts_are_refused(indices, error, code):
    with pytest.raises(error) as caught:
        viewed(indices)
    assert caught.value.code == code
