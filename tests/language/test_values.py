# SPDX-License-Identifier: Apache-2.0
"""Staged values: what is one, how it is described, which IR type it has."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntegerType

from tests.language.tracing import Trace
from weft.arguments.constant import ConstantKind, NoneKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.stream import StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.simt.types import StreamType
from weft.language.ir_types import integer_type, ir_tensor_type, ir_type, ir_type_of
from weft.language.values import Stream, describe, is_staged
from weft.types import dtype as types
from weft.types.dims import Dim
from weft.types.dtype import DTYPES


def test_scalars_tensors_and_streams_are_staged():
    trace = Trace()
    staged = [trace.scalar(types.f32), trace.tensor(types.f32), Stream(trace.block)]
    assert all(is_staged(value) for value in staged)
    assert not any(is_staged(value) for value in (1, 1.0, True, "a", None, (1,), types.f32))


def test_values_are_described_as_users_write_them():
    trace = Trace()
    assert describe(trace.scalar(types.u8)) == "u8"
    assert describe(trace.tensor(types.f32, (-1, 4))) == "Tensor[f32, (?, 4)]"
    assert describe(trace.tensor(types.f32, (3,))) == "Tensor[f32, (3,)]"
    assert describe(1.5) == "the constant 1.5"
    assert describe("x" * 100).endswith("...")


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        *((t, "i1" if t.is_bool else f"i{t.bits}") for t in DTYPES if not t.is_float),
        *((t, t.info.mlir) for t in DTYPES if t.is_float),
    ],
    ids=str,
)
def test_an_ir_type_has_the_width_and_no_sign(dtype, text):
    assert str(ir_type(dtype)) == text


def test_a_tensor_is_aligned_to_its_elements_unless_told():
    assert ir_tensor_type(types.f64, (4,)).alignment_bytes.data == 8
    assert ir_tensor_type(types.f64, (4,), alignment_bytes=64).alignment_bytes.data == 64


def test_integers_of_any_width_have_a_type():
    assert integer_type(128) == IntegerType(128)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            TensorKind(types.f32, (Dim("n"), 4)),
            "!simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 4>",
        ),
        (
            TensorKind(types.bool_, (Dim("n", width=64),), "strided", alignment_bytes=16),
            "!simt.tensor<i1, [?], strided, global, dims 64, offsets 64, align 16>",
        ),
        (
            TensorKind(types.i8, (), "contiguous"),
            "!simt.tensor<i8, [], contiguous, global, dims 32, offsets 32, align 1>",
        ),
        (ScalarKind(types.u16), "i16"),
    ],
)
def test_an_argument_kind_has_an_ir_type(kind, text):
    assert str(ir_type_of(kind)) == text


def test_a_stream_is_an_argument_and_constants_are_none():
    assert ir_type_of(StreamKind()) == StreamType()
    assert ir_type_of(NoneKind()) is None
    assert ir_type_of(ConstantKind(3)) is None
