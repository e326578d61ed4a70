# SPDX-License-Identifier: Apache-2.0
"""Functions of `weft.kernels` whose blocks learn from each other, against NumPy: sizes, layouts, bad input."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft import kernels
from weft.kernels.algorithms import radix_sort as radix
from weft.kernels.host.arrays import describe


def is_positive(value):
    """A predicate."""
    return value > 0


@pytest.mark.parametrize("length", [0, 1, 2049, 100_003])
def test_chosen_elements_move_together_in_their_order(length):
    x = np.random.default_rng(length).integers(-2, 3, length).astype(np.int32)
    kept, count = kernels.compress(is_positive, x)
    assert np.array_equal(kept[: int(count)], x[x > 0])
    parts, count = kernels.partition(x > 0, x[::-1])
    backward = x[::-1]
    assert count == (x > 0).sum()
    assert np.array_equal(parts, np.concatenate([backward[x > 0], backward[x <= 0]]))


@pytest.mark.parametrize(
    "x",
    sampled(
        [
            np.random.default_rng(1).integers(0, 2, 70_000),
            np.zeros(70_001),
            np.arange(70_000) // 9000,
            np.arange(8191),
            np.zeros(0),
        ],
        2,
    ),
    ids=["short", "one", "long", "none repeated", "empty"],
)
def test_runs_of_equal_elements_are_encoded(x):
    x = x.astype(np.int32)
    values, lengths, count = kernels.run_length_encode(x)
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1])[: len(x)])
    assert count == len(starts)
    assert np.array_equal(values[: int(count)], x[starts])
    assert np.array_equal(lengths[: int(count)], np.diff(np.append(starts, len(x))))


@pytest.mark.parametrize("bins", [3, 20_000])
def test_integers_are_counted(bins):
    x = np.random.default_rng(2).integers(-1, 5, (3, 30_001)).astype(np.int16)
    assert np.array_equal(kernels.histogram(x, bins), np.bincount(x[x >= 0], minlength=bins)[:bins])


def test_numbers_are_counted_in_equal_bins():
    x = np.random.default_rng(3).random((40, 500)).astype(np.float32)
    x[0, :3] = np.nan, 0.25, 0.75
    for array in (x, x[:, ::-2]):
        expected = np.histogram(array.astype(np.float64), 10, (0.25, 0.75))[0]
        assert np.array_equal(kernels.histogram(array, 10, (0.25, 0.75)), expected)


def test_bad_input_is_refused_by_name():
    x, indices = np.arange(12, dtype=np.float32), np.zeros((3, 3), np.int32)
    square = x[:9].reshape(3, 3)
    for error, text, call in (
        (
            ValueError,
            r"x has shape \(3, 4\), expected a vector",
            lambda: kernels.compress(is_positive, x.reshape(3, 4)),
        ),
        (
            ValueError,
            r"condition has shape \(11,\), expected \(12,\)",
            lambda: kernels.compress(x[1:] > 0, x),
        ),
        (TypeError, "condition has elements of float32", lambda: kernels.compress(x, x)),
        (
            TypeError,
            "condition is 3, expected a mask or a function",
            lambda: kernels.partition(3, x),
        ),
        (
            ValueError,
            "out overlaps with x, expected memory of its own",
            lambda: kernels.compress(x > 0, x, out=x),
        ),
        (
            ValueError,
            "out overlaps with x, expected x itself or",
            lambda: kernels.softmax(x[1:], out=x[:-1]),
        ),
        (
            ValueError,
            "out overlaps with x, expected x itself or",
            lambda: kernels.cumsum(x[1:], out=x[:-1]),
        ),
        (TypeError, "bins of floats need a range", lambda: kernels.histogram(x, 3)),
        (ValueError, "k is 13, expected 0 to 12", lambda: kernels.top_k(x, 13)),
        (ValueError, r"values has shape \(1,\), expected \(12,\)", lambda: kernels.sort(x, x[:1])),
        (ValueError, "out overlaps with x", lambda: kernels.sort(x[1:], out=x[:-1])),
        (ValueError, "out overlaps with x", lambda: kernels.transpose(square, out=square)),
        (
            ValueError,
            "out overlaps with table",
            lambda: kernels.embedding(square, indices[0], out=square),
        ),
        (ValueError, "out overlaps with x", lambda: kernels.gather(square, indices, out=square)),
        (
            ValueError,
            "out overlaps with values",
            lambda: kernels.sparse_matvec(indices[0], indices[0, 1:], x[1:3], x, out=x[:2]),
        ),
        (TypeError, "range is 5, expected a start and an end", lambda: kernels.histogram(x, 3, 5)),
        (
            TypeError,
            "initial is 1.5, expected an integer",
            lambda: kernels.scan(x > 0, initial=1.5),
        ),
        (ValueError, "bins is 0, expected a number of bins", lambda: kernels.histogram(x, 0)),
        (
            ValueError,
            r"range is \(1, 1\), expected a start below",
            lambda: kernels.histogram(x, 3, (1, 1)),
        ),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 100), (2, 5000)], ids=str)
def test_rows_are_sorted_and_equal_elements_keep_their_order(shape):
    x = np.random.default_rng(4).integers(-9, 9, shape).astype(np.float32)
    x[0, ::50] = np.nan
    values = np.arange(x.size, dtype=np.int16).reshape(shape)
    order = np.argsort(x, axis=-1, kind="stable")
    backward = x[:, ::-1].copy()[:, ::-1]  # of any layout
    keys, moved = kernels.sort(backward, values)
    assert np.array_equal(keys, np.sort(x, axis=-1), equal_nan=True)
    assert np.array_equal(moved, np.take_along_axis(values, order, -1))
    x[0, ::50] = 0
    largest, places = kernels.top_k(x, 5)
    descending = np.argsort(-x, axis=-1, kind="stable")[:, :5]
    assert np.array_equal(places, descending)
    assert np.array_equal(largest, np.take_along_axis(x, descending, -1))


@pytest.mark.slow
def test_bytes_are_sorted_in_place_by_blocks_of_any_size(monkeypatch):
    monkeypatch.setattr(radix, "_FULL_GRID", 0)  # as if there were many tiles
    x = np.random.default_rng(5).integers(-128, 128, 12_301).astype(np.int8)
    expected = np.sort(x)
    assert kernels.sort(x, out=x) is x and np.array_equal(x, expected)
    assert kernels.sort(x[:0]).shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
@pytest.mark.parametrize("moved_bytes", [0, 4, 8])
def test_passes_of_all_tiles_are_assembled(dtype, moved_bytes):
    x = np.zeros(1 << 22, dtype)
    config = radix.sort_config(describe(x, "x"), moved_bytes, False)
    values = np.zeros(x.shape, np.int64) if moved_bytes == 8 else None
    moved = np.zeros(x.shape, np.int64) if moved_bytes else None
    for architecture in ("sm_80", "sm_90a", "sm_120"):
        options = f"--gpu-arch {architecture}"
        arguments = x, values, x.copy(), moved, 8, config
        assert weft.compile(radix.sort_long, *arguments, options=options).cubin


def few_threads_have_the_largest():
    x = np.zeros(16_384, np.float32)
    x[::256] = np.random.default_rng(6).random(64) + 1
    return x


@pytest.mark.parametrize(
    ("k", "largest", "times"),
    sampled([(60, True, 1), (70, False, 1), (300, True, 3)], 2, several=True),
)
def test_the_largest_of_long_rows_are_the_first_of_equal_ones(k, largest, times):
    few = few_threads_have_the_largest()
    mostly_nan = np.where(np.arange(16_384) % 200 == 7, few + 1, np.float32(np.nan))
    rows = np.stack([few, mostly_nan, np.arange(16_384, dtype=np.float32), np.zeros_like(few)])
    x = np.tile(rows, times)[:, times - 1 :]  # one part of a row; or several, and misaligned
    values, indices = kernels.top_k(x, k, largest)
    expected = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :k]
    assert np.array_equal(indices, expected)
    assert np.array_equal(values, np.take_along_axis(x, expected, -1), equal_nan=True)


def test_entries_of_small_types_have_as_few_bits_as_they_need():
    x = np.random.default_rng(7).integers(-5, 5, (2, 1024)).astype(np.int8)
    values, indices = kernels.top_k(x, 150)
    expected = np.argsort(-x, axis=-1, kind="stable")[:, :150]
    assert np.array_equal(indices, expected)
    assert np.array_equal(values, np.take_along_axis(x, expected, -1))


@pytest.mark.parametrize("columns", sampled([300, 3000], 2))
def test_powers_of_two_without_a_sign_are_sorted(columns):
    # Of all bits, that of NaN among them; a sign there would be an exponent's bit.
    bits = np.random.default_rng(columns).integers(0, 256, (3, columns)).astype(np.uint8)
    x = bits.view(ml_dtypes.float8_e8m0fnu)
    upward = np.argsort(bits, -1, kind="stable")
    downward = np.argsort(np.where(bits == 255, 255, 254 - bits.astype(int)), -1, kind="stable")
    for descending, order in ((False, upward), (True, downward)):
        expected = np.take_along_axis(bits, order, -1)
        assert np.array_equal(kernels.sort(x, descending=descending).view(np.uint8), expected)
        assert np.array_equal(kernels.argsort(x, descending=descending), order)
    values, places = kernels.top_k(x, 5)
    assert np.array_equal(places, downward[:, :5])
    assert np.array_equal(values.view(np.uint8), np.take_along_axis(bits, downward[:, :5], -1))


def is_less(one, other):
    return one < other


@pytest.mark.parametrize("columns", [8, 60_000])
def test_a_scan_by_a_function_of_another_type_is_refused(columns):
    with pytest.raises(weft.CompileError, match="makes bool_ of two values that are f32"):
        kernels.scan(np.ones((1, columns), np.float32), is_less)
