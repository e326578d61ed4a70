# SPDX-License-Identifier: Apache-2.0
"""Bit casts: between types of one width, nothing else."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError
from weft.language.numbers.convert import bitcast
from weft.types import dtype as types


def test_integers_of_one_width_share_their_bits():
    trace = Trace()
    value = trace.scalar(types.i16)
    found = bitcast.emit(trace.builder, value, types.u16)
    assert found.ssa is value.ssa
    assert found.dtype is types.u16


def test_a_float_is_cast_by_an_operation():
    trace = Trace()
    found = bitcast.emit(trace.builder, trace.scalar(types.f16), types.bf16)
    assert found.dtype is types.bf16
    assert trace.names == ["arith.bitcast"]
    trace.verify()


def test_a_constant_has_the_type_that_it_has_alone():
    assert bitcast.emit(Trace().builder, 1.0, types.u32).dtype is types.u32
    with pytest.raises(TypeMismatchError, match="f32 has 32 bits and u64 has 64"):
        bitcast.emit(Trace().builder, 1.0, types.u64)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (types.f32, types.u16, "f32 has 32 bits and u16 has 16"),
        (types.bool_, types.u8, "a bool_ has no bits of its own"),
        (types.u8, types.bool_, "a bool_ has no bits of its own"),
        (types.f32, "u32", "must be an element type, received the str 'u32'"),
    ],
    ids=str,
)
def test_other_casts_are_refused(source, target, words):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        bitcast.emit(trace.builder, trace.scalar(source), target)
    assert caught.value.code == "BITCAST_TYPE"
    assert words in caught.value.message
