# SPDX-License-Identifier: Apache-2.0
"""The promotion rules, against a table written out by hand and against what the types can hold."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError
from weft.language.numbers.convert import (
    arithmetic_dtype,
    common_dtype,
    float_dtype,
    holds,
    index_dtype,
    quotient_dtype,
)
from weft.types.dtype import DTYPES, dtype_named

pytestmark = pytest.mark.joined

# Row: left operand. Columns: the same types, in the order of the rows. "-": an error.
TABLE = """
bool_   i32 i32 i32 i32 i64 i32 i32 i64 -   f16 bf16 f32 f64 f32 f32
i8      i32 i8  i16 i32 i64 i16 i32 i64 -   f16 bf16 f32 f64 f32 f32
i16     i32 i16 i16 i32 i64 i16 i32 i64 -   f16 bf16 f32 f64 f32 f32
i32     i32 i32 i32 i32 i64 i32 i32 i64 -   f16 bf16 f32 f64 f32 f32
i64     i64 i64 i64 i64 i64 i64 i64 i64 -   f16 bf16 f32 f64 f32 f32
u8      i32 i16 i16 i32 i64 u8  u16 u32 u64 f16 bf16 f32 f64 f32 f32
u16     i32 i32 i32 i32 i64 u16 u16 u32 u64 f16 bf16 f32 f64 f32 f32
u32     i64 i64 i64 i64 i64 u32 u32 u32 u64 f16 bf16 f32 f64 f32 f32
u64     -   -   -   -   -   u64 u64 u64 u64 f16 bf16 f32 f64 f32 f32
f16     f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32  f32 f64 f32 f32
bf16    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 f32 f32
f32     f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32  f32 f64 f32 f32
f64     f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64  f64 f64 f64 f64
f8e4m3  f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32  f32 f64 f32 f32
f8e5m2  f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32  f32 f64 f32 f32
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
ORDER = [row[0] for row in ROWS]
PAIRS = [
    (row[0], right, result) for row in ROWS for right, result in zip(ORDER, row[1:], strict=True)
]


def test_the_table_has_every_pair_of_types():
    assert len(ORDER) == len(DTYPES)
    assert {name for name, _, _ in PAIRS} == {dtype.name for dtype in DTYPES}
    assert len(PAIRS) == len(DTYPES) ** 2


@pytest.mark.parametrize(("left", "right", "result"), PAIRS)
def test_two_types_meet_as_the_table_says(left, right, result):
    left, right = dtype_named(left), dtype_named(right)
    if result == "-":
        with pytest.raises(TypeMismatchError, match="has no common type"):
            common_dtype(left, right)
    else:
        assert common_dtype(left, right).name == result


def test_two_integers_meet_in_the_smallest_type_that_holds_both():
    integers = [dtype for dtype in DTYPES if dtype.is_integer]
    for left in integers:
        for right in integers:
            low, high = min(left.minimum, right.minimum), max(left.maximum, right.maximum)
            wide = [t for t in integers if t.minimum <= low and t.maximum >= high]
            if left.kind != right.kind:
                wide = [t for t in wide if t.is_signed]
            if wide:
                assert common_dtype(left, right) is min(wide, key=lambda t: t.bits)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_weak_int_takes_the_type_of_the_other_operand(dtype):
    assert common_dtype(dtype, 1) is arithmetic_dtype(dtype)
    assert common_dtype(True, dtype) is arithmetic_dtype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_weak_float_is_f32_beside_an_integer(dtype):
    expected = arithmetic_dtype(dtype) if dtype.is_float else dtype_named("f32")
    assert common_dtype(dtype, 0.5) is expected
    assert common_dtype(0.5, dtype) is expected


def test_two_constants_meet_in_their_default_types():
    assert common_dtype(1, 2).name == "i32"
    assert common_dtype(1, 1 << 40).name == "i64"
    assert common_dtype(1, 0.5).name == "f32"
    assert common_dtype(True, False).name == "i32"


@pytest.mark.parametrize("left", [d for d in DTYPES if d.is_integer or d.is_bool], ids=str)
@pytest.mark.parametrize("right", [d for d in DTYPES if d.is_integer or d.is_bool], ids=str)
def test_a_quotient_of_integers_is_f32_or_f64(left, right):
    assert quotient_dtype(left, right).bits == (64 if 64 in (left.bits, right.bits) else 32)
    assert quotient_dtype(left, 2).bits == (64 if left.bits == 64 else 32)
    assert quotient_dtype(2, left).bits == (64 if left.bits == 64 else 32)


def test_a_quotient_with_a_float_is_that_float():
    assert quotient_dtype(dtype_named("i64"), dtype_named("f16")).name == "f16"
    assert quotient_dtype(dtype_named("i64"), 2.0).name == "f32"
    assert quotient_dtype(dtype_named("f64"), 3).name == "f64"
    assert quotient_dtype(1, 2).name == "f32"


def test_the_error_for_u64_with_a_signed_type_says_how_to_convert():
    with pytest.raises(TypeMismatchError) as caught:
        common_dtype(dtype_named("i64"), dtype_named("u64"))
    assert caught.value.code == "TYPE_MIXED_SIGN"
    assert caught.value.hint == "convert one operand: weft.u64(x) or weft.i64(x)"


def test_a_non_number_is_refused():
    trace = Trace()
    tensor = trace.tensor(dtype_named("f32"))
    with pytest.raises(TypeMismatchError, match=r"received the str 'a'"):
        common_dtype("a", 1)
    with pytest.raises(TypeMismatchError) as caught:
        common_dtype(tensor, 1)
    assert "received Tensor[f32, (?,)]" in str(caught.value)
    assert caught.value.hint == "read an element: tensor[index]"


def exact_range(dtype):
    """The integers up to which a type is exact; for floats 2**significand."""
    limit = 1 << dtype.info.format.precision
    return -limit, limit


@pytest.mark.parametrize("wide", DTYPES, ids=str)
@pytest.mark.parametrize("narrow", [d for d in DTYPES if not d.is_float], ids=str)
def test_a_type_holds_another_if_each_of_its_integers_is_exact(wide, narrow):
    low, high = exact_range(wide) if wide.is_float else (wide.minimum, wide.maximum)
    exact = low <= narrow.minimum and narrow.maximum <= high
    if wide.is_bool:
        exact = narrow.is_bool
    assert holds(wide, narrow) is exact


def test_the_floats_that_hold_another_float():
    floats = [dtype for dtype in DTYPES if dtype.is_float]
    held = {(wide.name, narrow.name) for wide in floats for narrow in floats if holds(wide, narrow)}
    assert held == {
        *((dtype.name, dtype.name) for dtype in floats),
        *(
            (wide, narrow)
            for wide in ("f16", "bf16", "f32", "f64")
            for narrow in (dtype.name for dtype in floats if dtype.is_float8)
        ),
        *((wide, narrow) for wide in ("f32", "f64") for narrow in ("f16", "bf16")),
        ("f64", "f32"),
    }


def test_a_float_needs_a_conversion_to_an_integer():
    assert not holds(dtype_named("i64"), dtype_named("f16"))


@pytest.mark.parametrize(
    ("dtype", "index"),
    [
        *((name, "i32") for name in ("i8", "i16", "u8", "u16", "i32")),
        *((name, "i64") for name in ("u32", "i64", "u64")),
        *((dtype.name, None) for dtype in DTYPES if dtype.is_float or dtype.is_bool),
    ],
)
def test_indices_are_i32_or_i64(dtype, index):
    found = index_dtype(dtype_named(dtype))
    assert (found and found.name) == index


def test_an_integer_enters_float_arithmetic_as_f32_or_f64():
    assert float_dtype(dtype_named("u32")).name == "f32"
    assert float_dtype(dtype_named("i8"), dtype_named("u64")).name == "f64"
