# SPDX-License-Identifier: Apache-2.0
"""Variables that begin as literals are wide: f32 for smaller floats, i32 for smaller integers.

In: sums and joins over every narrow type. Out: their types, and the sums that NumPy has in f32 or i32.
"""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import weft
from tests.conformance.harness import (
    EIGHT_BIT_FLOATS,
    NARROW_FLOATS,
    NUMPY_TYPES,
    define,
    run_threads,
)
from tests.sampling import sampled

NARROW_INTEGERS = (weft.i8, weft.i16, weft.u8, weft.u16)
FLOATS = NARROW_FLOATS + EIGHT_BIT_FLOATS
NARROW = NARROW_INTEGERS + FLOATS
# The sum of two does not fit the type, or is rounded in it.
LARGE = {
    **{weft.i8: 101, weft.u8: 201, weft.i16: 30_001, weft.u16: 60_001},
    **{
        dtype: min((1 << dtype.info.format.precision) - 1, int(dtype.info.format.largest))
        for dtype in FLOATS
    },
}
WIDE = (weft.i32, weft.u32, weft.i64, weft.u64, weft.f32, weft.f64)


def wide(dtype: weft.DType) -> weft.DType:
    """Convert a literal to a narrow type."""
    return weft.f32 if dtype.is_float else weft.i32


def zero(dtype: weft.DType) -> str:
    """A literal of the type's kind."""
    return "0.0" if dtype.is_float else "0"


def run(body: str, dtype: weft.DType, values: list[float]) -> np.ndarray:
    """What statements leave in `out`, of the wide type, for elements `a` of the narrow one; `S` is its literal."""
    a = np.array(values).astype(NUMPY_TYPES[dtype])
    out = np.zeros(8, NUMPY_TYPES[wide(dtype)])
    body = re.sub(r"\bS\b", zero(dtype), body)
    run_threads(body, 1, {"a": a, "out": out}, WIDE=wide(dtype), NARROW=dtype)
    return out


FORMS = {
    "for": """
        s = S
        for j in range(len(a)):
            s += a[j]
        """,
    "assignment": """
        s = S
        for j in range(len(a)):
            s = s + a[j]
        """,
    "an-int-literal": """
        s = 0
        for j in range(len(a)):
            s = a[j] + s
        """,
    "while": """
        s, j = S, weft.i32(0)
        while j < len(a):
            s += a[j]
            j += 1
        """,
    "nested": """
        s = S
        for k in range(4):
            for j in range(k, len(a), 4):
                s = s + a[j]
        """,
    "nested-with-own-start": """
        s = S
        for k in range(4):
            t = S
            for j in range(k, len(a), 4):
                t += a[j]
            s += t
        """,
    "a-tuple": """
        pair = (S, 0)
        for j in range(len(a)):
            pair = (pair[0] + a[j], pair[1] + 1)
        s = pair[0]
        """,
    "a-list": """
        sums = [S, S]
        for j in range(0, len(a), 2):
            sums = [sums[k] + a[j + k] for k in (0, 1)]
        s = sums[0] + sums[1]
        """,
    "guarded": """
        s = S
        for j in range(len(a)):
            if a[j] > 0:
                s += a[j]
        """,
    "left-early": """
        s, j = S, 0
        while True:
            s += a[j]
            j += 1
            if j == len(a):
                break
        """,
    "first-assigned-in-the-loop": """
        t = S
        for j in range(len(a)):
            t = t + a[j]
            if j == len(a) - 1:
                s = t
                break
        else:
            s = 0
        """,
    "returned": """
        s = total(a)
        """,
    "unrolled": """
        s = S
        for j in weft.static_range(32):
            s += a[j]
        """,
    "unrolled-assignment": """
        pair = S, S
        for j in weft.static_range(16):
            pair = pair[0] + a[2 * j], pair[1] + a[2 * j + 1]
        s = pair[0] + pair[1]
        """,
    "unrolled-while": """
        s, j = S, 0
        while j < 5:
            s = s + a[j]
            j += 1
        for j in range(5, len(a)):
            s = s + a[j]
        """,
    "sum-of-a-list": """
        s = sum([a[j] for j in range(32)])
        """,
    "sum-of-a-generator": """
        s = sum((a[j] for j in range(32)), S)
        """,
    "items-of-a-list": """
        sums = [S, S]
        for j in weft.static_range(32):
            sums[j % 2] += a[j]
        s = sums[0] + sums[1]
        """,
}


@pytest.mark.parametrize("dtype", sampled(NARROW, 6), ids=str)
def test_sum_from_a_literal_is_wide(dtype):
    helper = define(
        f"""
        def total(a):
            s = {zero(dtype)}
            for j in range(len(a)):
                s += a[j]
                if j == len(a) - 1:
                    return s
            return {zero(dtype)}
        """
    )
    bodies = [
        "total = TOTAL\n"
        + re.sub(r"\bS\b", zero(dtype), textwrap.dedent(form).strip())
        + f"\nweft.static_assert(s.dtype is WIDE)\nout[{number}] = s"
        for number, form in enumerate(FORMS.values())
    ]
    a = np.full(32, LARGE[dtype]).astype(NUMPY_TYPES[dtype])
    out = np.zeros(len(FORMS), NUMPY_TYPES[wide(dtype)])
    run_threads(bodies, 1, {"a": a, "out": out}, WIDE=wide(dtype), TOTAL=helper["total"])
    assert a.astype(out.dtype).sum() == 32 * LARGE[dtype]
    sums = dict(zip(FORMS, out.tolist(), strict=True))
    assert {form: found for form, found in sums.items() if found != 32 * LARGE[dtype]} == {}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sum_is_stored_in_the_narrow_type(dtype):
    # Sums of one element of each size: a float rounds once, an integer wraps once.
    a = np.full(300, 3).astype(NUMPY_TYPES[dtype])
    out = np.zeros(2, a.dtype)
    run_threads(
        f"""
        s = {zero(dtype)}
        for j in range(len(a)):
            s += a[j]
        out[0] = s
        weft.volatile_store(out, 1, s)
        """,
        1,
        {"a": a, "out": out},
    )
    if dtype.is_float:
        most = dtype.info.format.largest if dtype.info.format.saturates else np.inf
        expected = np.array(min(900.0, most), np.float32).astype(a.dtype)
    else:
        expected = np.array(900, np.int32).astype(a.dtype)
    assert out.astype(np.float64).tolist() == [float(expected)] * 2


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_branches_join_in_the_wide_type(dtype):
    got = run(
        """
        x = S
        if a[0] > 0:
            x = a[1]
        weft.static_assert(x.dtype is WIDE)
        if a[0] > 0:
            y = a[2]
        elif a[0] > 1:
            y = S
        else:
            y = a[1]
        weft.static_assert(y.dtype is WIDE)
        match a[0]:
            case 1:
                z = 0
            case _:
                z = a[1]
        weft.static_assert(z.dtype is WIDE)
        out[0], out[1], out[2] = x, y, z
        x = S
        for j in range(3):
            x += a[j]
        if a[0] > 0:
            x = a[2]
        weft.static_assert(x.dtype is WIDE)
        out[3] = x
        """,
        dtype,
        [1, 2, 3],
    )
    assert got[:4].tolist() == [2, 3, 0, 3]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_returned_literal_is_wide(dtype):
    names = define(
        """
        def first(a, n):
            if n > 1:
                return a[0], 1
            return 0, 2
        """
    )
    a, out = np.ones(1).astype(NUMPY_TYPES[dtype]), np.zeros(2, NUMPY_TYPES[wide(dtype)])
    run_threads(
        """
        x, y = first(a, i + 2)
        weft.static_assert(x.dtype is WIDE)
        out[0], out[1] = x, WIDE(y)
        """,
        1,
        {"a": a, "out": out},
        WIDE=wide(dtype),
        first=names["first"],
    )
    assert out.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_variable_with_a_narrow_type_keeps_it(dtype):
    run(
        """
        s = NARROW(0)
        for j in range(len(a)):
            s = NARROW(s + a[j])
            if j == 2:
                s = S
        weft.static_assert(s.dtype is NARROW)
        t: NARROW = S
        u = a[0]
        if a[1] > 0:
            t = a[1]
            u = S
        weft.static_assert(t.dtype is NARROW)
        weft.static_assert(u.dtype is NARROW)
        """,
        dtype,
        [1, 2, 3],
    )


@pytest.mark.parametrize("dtype", (*NARROW_INTEGERS, *NARROW_FLOATS), ids=str)
def test_literal_in_an_expression_takes_the_type_of_the_other(dtype):
    run(
        """
        x = a[0] if a[1] > 0 else S
        weft.static_assert(x.dtype is NARROW)
        weft.static_assert((S + a[0]).dtype is NARROW)
        weft.static_assert(max(a[0], S).dtype is NARROW)
        weft.static_assert(weft.where(a[0] > 0, a[0], S).dtype is NARROW)
        weft.static_assert((a[0] and S).dtype is NARROW)
        weft.static_assert(sum([a[0], a[1]], a[2]).dtype is NARROW)
        """,
        dtype,
        [1, 2, 3],
    )


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_literal_takes_any_wider_type(dtype):
    a = np.full(10, 7, NUMPY_TYPES[dtype])
    out = np.zeros(1, a.dtype)
    run_threads(
        f"""
        s = {zero(dtype)}
        for j in range(len(a)):
            s += a[j]
        weft.static_assert(s.dtype is a.dtype)
        if a[0] > 0:
            t = 0
        else:
            t = a[0]
        weft.static_assert(t.dtype is a.dtype)
        out[0] = s
        """,
        1,
        {"a": a, "out": out},
    )
    assert out[0] == 70


def test_sum_of_bools_is_i32_and_an_int_does_not_join_a_bool():
    flags, out = np.array([True, False, True]), np.zeros(1, np.int32)
    run_threads(
        """
        s = 0
        for j in range(3):
            s += flags[j]
        out[0] = s
        """,
        1,
        {"flags": flags, "out": out},
    )
    assert out[0] == 2
    with pytest.raises(weft.CompileError, match="TYPE_JOIN"):
        run_threads(
            """
            s = 0
            if i > 0:
                s = flags[0]
            out[0] = s
            """,
            1,
            {"flags": flags, "out": out},
        )


@pytest.mark.parametrize(
    ("first", "last"),
    [("weft.u8(0)", "s * 31 + i"), ("weft.f16(0)", "s + weft.f32(i)"), ("a[0]", "wide")],
)
def test_narrow_variable_does_not_silently_become_wide(first, last):
    a = np.zeros(3, np.float16)
    with pytest.raises(weft.CompileError, match="TYPE_LOOP"):
        run_threads(
            f"""
            s, wide = {first}, 0.0
            for j in range(len(a)):
                wide += a[j]
                s = {last}
            a[0] = weft.f16(s)
            """,
            1,
            {"a": a},
        )


def test_many_ones_are_counted_exactly():
    # 2048 in f16, 256 in bf16 and 128 in u8 would be all that the narrow types count.
    for dtype, count in (
        (np.float16, 131_072),
        (NUMPY_TYPES[weft.bf16], 131_072),
        (np.uint8, 3_200),
    ):
        row = np.ones(count, dtype)
        total = np.zeros(1, np.float32 if count > 10_000 else np.int32)
        run_threads(
            f"""
            s = {"0.0" if count > 10_000 else "0"}
            for j in range(len(row)):
                s += row[j]
            total[0] = s
            """,
            1,
            {"row": row, "total": total},
        )
        assert total[0] == count
