# SPDX-License-Identifier: Apache-2.0
"""Local arrays belong to one thread; atomics return the old value and lose no update.

In: kernels with local arrays and atomics. Out: what sequential Python computes.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import INTEGERS, NUMPY_TYPES, WIDE_FLOATS, define, run_threads
from tests.conformance.model import wrap
from tests.sampling import sampled

WORDS = [dtype for dtype in INTEGERS if dtype.bits >= 32]


@pytest.mark.parametrize(
    "dtype", sampled(INTEGERS + WIDE_FLOATS + (weft.f16, weft.bf16, weft.bool_), 3), ids=str
)
def test_local_array_of_each_type(dtype):
    source = (np.arange(8 * 5) % 2).astype(NUMPY_TYPES[dtype]).reshape(5, 8)
    target = np.zeros_like(source)
    run_threads(
        f"""
        window = weft.local(8, weft.{dtype})
        for k in range(8):
            window[k] = source[i, k]
        for k in range(8):
            target[i, k] = window[7 - k]
        """,
        5,
        {"source": source, "target": target},
    )
    np.testing.assert_array_equal(target, source[:, ::-1])


def test_local_array_of_two_dimensions():
    out = np.zeros((40, 6), np.int32)
    run_threads(
        """
        table = weft.local((2, 3), weft.i32)
        for row in weft.static_range(2):
            for column in weft.static_range(3):
                table[row, column] = 100 * i + 10 * row + column
        for k in range(6):
            out[i, k] = table[k // 3, k % 3]
        """,
        40,
        {"out": out},
    )
    row, k = np.mgrid[0:40, 0:6]
    np.testing.assert_array_equal(out, 100 * row + 10 * (k // 3) + k % 3)


def test_local_array_indexed_by_data_sorts():
    random = np.random.default_rng(3)
    rows = random.integers(-100, 100, (50, 12)).astype(np.int32)
    expected = np.sort(rows, axis=1)
    run_threads(
        """
        values = weft.local(12, weft.i32)
        for k in range(12):
            values[k] = rows[i, k]
        for k in range(1, 12):
            value = values[k]
            j = k
            while j > 0 and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
        for k in range(12):
            rows[i, k] = values[k]
        """,
        50,
        {"rows": rows},
    )
    np.testing.assert_array_equal(rows, expected)


def test_local_array_of_a_helper_is_its_own():
    out = np.zeros(10, np.int32)
    run_threads(
        """
        def squares(n):
            array = weft.local(4, weft.i32)
            for k in range(4):
                array[k] = (n + k) * (n + k)
            return array

        first, second = squares(i), squares(i + 1)
        out[i] = second[2] - first[2]
        """,
        10,
        {"out": out},
    )
    assert out.tolist() == [(k + 3) ** 2 - (k + 2) ** 2 for k in range(10)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("n, weft.i32", "n|constant|compile"),
        ("-1, weft.i32", "-1"),
        ("4", "dtype"),
        ("4, 'f32'", "f32"),
        ("1 << 30, weft.f64", "bytes|1073741824"),
    ],
)
def test_wrong_local_array_is_an_error(arguments, words):
    with pytest.raises(weft.WeftError, match=words):
        run_threads(f"n = i + 1\nx = weft.local({arguments})", 1, {"out": np.zeros(1, np.int32)})


@pytest.mark.parametrize("dtype", [*WORDS, *WIDE_FLOATS], ids=str)
def test_atomic_add_loses_nothing(dtype):
    totals = np.zeros(3, NUMPY_TYPES[dtype])
    run_threads("weft.atomic_add(totals, i % 3, i)", 100, {"totals": totals}) if dtype in (
        weft.i32,
        weft.i64,
        weft.f64,
    ) else run_threads(f"weft.atomic_add(totals, i % 3, weft.{dtype}(i))", 100, {"totals": totals})
    assert totals.tolist() == [sum(range(start, 100, 3)) for start in range(3)]


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_atomics_return_the_old_value(dtype):
    cells = np.array([5, 5, 5, 5, 6, 6, 6, 5], NUMPY_TYPES[dtype])
    old = np.zeros(8, NUMPY_TYPES[dtype])
    run_threads(
        """
        old[0] = weft.atomic_add(cells, 0, 3)
        old[1] = weft.atomic_sub(cells, 1, 3)
        old[2] = weft.atomic_max(cells, 2, 9)
        old[3] = weft.atomic_min(cells, 3, 2)
        old[4] = weft.atomic_and(cells, 4, 12)
        old[5] = weft.atomic_or(cells, 5, 9)
        old[6] = weft.atomic_xor(cells, 6, 3)
        old[7] = weft.atomic_exchange(cells, 7, 42)
        """,
        1,
        {"cells": cells, "old": old},
    )
    assert old.tolist() == [5, 5, 5, 5, 6, 6, 6, 5]
    assert cells.tolist() == [8, 2, 9, 2, 4, 15, 5, 42]


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_atomic_add_wraps_and_max_sees_the_sign(dtype):
    cells = np.array([dtype.maximum, dtype.minimum, dtype.maximum], NUMPY_TYPES[dtype])
    run_threads(
        f"""
        weft.atomic_add(cells, 0, 2)
        weft.atomic_max(cells, 1, 7)
        weft.atomic_min(cells, 2, weft.{dtype}({dtype.minimum}))
        """,
        1,
        {"cells": cells},
    )
    assert cells.tolist() == [
        wrap(dtype.maximum + 2, dtype),
        max(dtype.minimum, 7),
        dtype.minimum,
    ]


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_compare_and_swap_writes_only_on_equality(dtype):
    cells, old = np.array([5, 6], NUMPY_TYPES[dtype]), np.zeros(2, NUMPY_TYPES[dtype])
    run_threads(
        """
        old[0] = weft.atomic_cas(cells, 0, 5, 50)
        old[1] = weft.atomic_cas(cells, 1, 5, 50)
        """,
        1,
        {"cells": cells, "old": old},
    )
    assert cells.tolist() == [50, 6]
    assert old.tolist() == [5, 6]


def test_loop_over_compare_and_swap_makes_any_atomic():
    cells = np.ones(1, np.int32)
    run_threads(
        """
        while True:
            seen = weft.atomic_load(cells, 0)
            wanted = seen * (i + 2) % 1009
            if weft.atomic_cas(cells, 0, seen, wanted) == seen:
                break
        """,
        50,
        {"cells": cells},
    )
    expected = 1  # in whichever order the threads come
    for k in range(50):
        expected = expected * (k + 2) % 1009
    assert cells[0] == expected


def test_atomic_on_several_dimensions_and_strides():
    base = np.zeros((4, 6), np.int32)
    run_threads("weft.atomic_add(cells, (i % 4, (i // 4) % 3), 1)", 120, {"cells": base[::-1, ::2]})
    np.testing.assert_array_equal(base[:, ::2], np.full((4, 3), 10))
    assert not base[:, 1::2].any()


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
@pytest.mark.parametrize("scope", ["block", "device", "system"])
def test_atomic_takes_every_order_and_scope(order, scope):
    cells = np.zeros(1, np.int32)
    run_threads(
        f"weft.atomic_add(cells, 0, 1, order='{order}', scope='{scope}')", 10, {"cells": cells}
    )
    assert cells[0] == 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("weft.atomic_add(cells, 0, 1, order='strong')", "strong"),
        ("weft.atomic_add(cells, 0, 1, scope='world')", "world"),
        ("weft.atomic_add(cells, 0, 1.5)", "1.5"),
        ("weft.atomic_add(cells, (0, 0), 1)", "rank 1"),
        ("weft.atomic_add(i, 0, 1)", "tensor|Tensor"),
        ("weft.atomic_add(cells, 0)", "value"),
        ("weft.atomic_and(reals, 0, 1)", "f32"),
    ],
)
def test_wrong_atomic_is_an_error(call, words):
    arrays = {"cells": np.zeros(1, np.int32), "reals": np.zeros(1, np.float32)}
    with pytest.raises(weft.WeftError, match=words):
        run_threads(call, 1, arrays)


TABLES = """
@weft.kernel
def kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    a[i] = TABLE[i] + (100.0 if MASK[i & 1, 0] else 0.0)
    weft.sync_threads()
    a[i] += TABLE[(i + 1) % 8]

@weft.jit
def compiled(a: weft.Tensor[weft.f32, ("n",)]):
    kernel(a).launch(grid=1, block=8)
"""


def test_a_captured_array_is_a_table_of_the_code():
    table, mask = np.arange(16, dtype=np.float32)[::2], np.array([[True, False], [False, True]])
    names = define(TABLES, TABLE=table, MASK=mask)
    for first in (0, 50):
        table[0] = first  # a direct call notices it
        a = np.zeros(8, np.float32)
        names["kernel"][1, 8](a)
        assert (a == table + np.roll(table, -1) + [100, 0] * 4).all()


def test_the_sanitizer_knows_the_size_of_a_table():
    table, mask = np.arange(8, dtype=np.float32), np.ones((2, 2), bool)
    names = define(TABLES, TABLE=table, MASK=mask)
    with (
        weft.sanitize(),
        pytest.raises(weft.WeftError, match=r"TABLE\[8\] is read.*shape\[0\] is 8"),
    ):
        names["kernel"][1, 9](np.zeros(9, np.float32))


def test_rows_of_a_table_have_items():
    table = np.arange(12, dtype=np.float32).reshape(4, 3) ** 2
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, b: weft.Tensor):
            i = weft.thread_idx.x
            row = TABLE[i]
            x, y, z = TABLE[3 - i]
            total = x + 10 * y + 100 * z
            for n, value in enumerate(row):
                total += value * n
            for j in range(row.shape[0]):
                total += row[j]
            for one, other in zip(row, TABLE[0]):
                total += max(one, other)
            a[i] = total * len(row) + row.ndim
            plane = CUBE[i % 2]
            b[i] = plane[i % 3][1] + plane[2, i] + plane[0][i]
        """,
        TABLE=table,
        CUBE=cube,
    )
    a, b = np.zeros(4, np.float32), np.zeros(4, np.int32)
    names["kernel"][1, 4](a, b)
    for i in range(4):
        row, plane = table[i], cube[i % 2]
        total = table[3 - i] @ [1, 10, 100] + row @ [0, 1, 2] + row.sum()
        assert a[i] == (total + np.maximum(row, table[0]).sum()) * 3 + 1
        assert b[i] == plane[i % 3][1] + plane[2, i] + plane[0][i]


def test_a_tuple_of_numbers_is_indexed():
    names = define(
        """
        @weft.kernel
        def kernel(x: weft.Tensor, a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
            i = weft.thread_idx.x
            found = tuple(2 * x[j] for j in range(4))
            a[i] = found[3 - i] + (0.5, 2, SCALE, x[1])[i] + [1, 2, 3, 4][weft.i64(i)]
            b[i] = (5, 7, -1, 1 << 40)[i] + (True, False, True, False)[weft.u8(i)]
            c[i] = (-(1 << 31), 1 << 31, 0, 1)[i]
        """,
        SCALE=np.float32(8),
    )
    x, a = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    b, c = np.zeros((2, 4), np.int64)
    names["kernel"][1, 4](x, a, b, c)
    assert (a == [7.5, 8, 13, 5]).all()
    assert (b == [6, 7, 0, 1 << 40]).all()
    assert (c == [-(1 << 31), 1 << 31, 0, 1]).all()


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_of_a_tuple_fails_an_assertion(index):
    @weft.kernel
    def kernel(a: weft.Tensor, index: weft.i32):
        a[0] = (0.5, 2.0, a[0])[index]

    with pytest.raises(AssertionError, match="an index of 3 numbers is 0 to 2"):
        kernel[1, 1](np.zeros(1, np.float32), index)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64], ids=str
)
def test_a_table_has_elements_of_any_type(dtype):
    table = np.array([0, 1, 0, 1, 1, 0, 0, 1], dtype)
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor):
            a[weft.thread_idx.x] = TABLE[weft.thread_idx.x]
        """,
        TABLE=table,
    )
    a = np.zeros(8, dtype)
    names["kernel"][1, 8](a)
    assert (a == table).all()


def test_a_table_is_global_memory_of_a_gpus_module():
    table, mask = np.arange(8, dtype=np.float32), np.array([[True, False], [False, True]])
    names = define(TABLES, TABLE=table, MASK=mask)
    ptx = str(weft.compile(names["compiled"], options="--gpu-arch sm_90 --keep-ptx").ptx)
    assert ".global .align 16 .b8 table" in ptx and ".local" not in ptx
