# SPDX-License-Identifier: Apache-2.0
"""inline_ptx: results by type, operands checked, places counted."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.target import inline_ptx
from weft.types import dtype as types


def test_results_are_as_many_and_of_the_types_that_were_asked_for():
    trace = Trace()
    x = trace.scalar(types.u32)
    assert inline_ptx.emit(trace.builder, "nanosleep.u32 $0;", x) is None
    one = inline_ptx.emit(trace.builder, "brev.b32 $0, $1;", x, result=types.u32)
    assert one.dtype is types.u32
    pair = inline_ptx.emit(
        trace.builder,
        "mov.b64 {$0, $1}, $2;",
        trace.scalar(types.i64),
        result=(types.u32, types.f32),
    )
    assert [part.dtype for part in pair] == [types.u32, types.f32]
    assert trace.names == ["nvgpu.inline_ptx"] * 3
    trace.verify()


def test_constants_and_tensors_are_operands():
    trace = Trace()
    inline_ptx.emit(trace.builder, "st.global.f32 [$0], $1; // $$", trace.tensor(types.f32), 1.0)
    trace.verify()


@pytest.mark.parametrize(
    ("arguments", "result", "error", "code"),
    [
        ((3,), None, TypeMismatchError, "PTX_TEXT"),
        (("// a \0 trap;",), None, ValueRangeError, "PTX_TEXT"),
        (("mov.b32 $0, $1;", 1), "u32", TypeMismatchError, "PTX_RESULT"),
        (("mov.b32 $0, $1;", 1), types.u8, TypeMismatchError, "PTX_TYPE"),
        (("mov.b32 $0, $1;", True), types.u32, TypeMismatchError, "PTX_TYPE"),
        (("mov.b32 $0, $1;", "x"), types.u32, TypeMismatchError, "PTX_TYPE"),
        (("mov.b32 $0, $2;", 1), types.u32, ValueRangeError, "PTX_PLACE"),
        (("mov.b32 %r, $;", 1), None, ValueRangeError, "PTX_PLACE"),
        (("mov.b32 $$0, $1;", 1), types.u32, ValueRangeError, "PTX_PLACE"),
    ],
    ids=str,
)
def test_wrong_uses_are_refused(arguments, result, error, code):
    with pytest.raises(error) as caught:
        inline_ptx.emit(Trace().builder, *arguments, result=result)
    assert caught.value.code == code


def test_an_array_of_the_threads_own_has_no_address():
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="has no address"):
        inline_ptx.emit(trace.builder, "// $0", trace.tensor(types.f32, (4,), space="local"))
