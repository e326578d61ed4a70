# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.sparse_matvec` against NumPy in f64: rows of any length; indices out of range; bad input."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.linalg import spmv

RANDOM = np.random.default_rng(4)
COUNTS = RANDOM.integers(0, 10, 77)
INDPTR = np.concatenate([[0], np.cumsum(COUNTS)])
INDICES = RANDOM.integers(0, 50, INDPTR[-1])
VALUES, X = RANDOM.standard_normal(INDPTR[-1]), RANDOM.standard_normal(100)[::2]


def test_rows_of_any_length():
    expected = np.bincount(np.repeat(np.arange(77), COUNTS), VALUES * X[INDICES], 77)
    assert np.allclose(kernels.sparse_matvec(INDPTR, INDICES, VALUES, X), expected)
    assert np.allclose(kernels.sparse_matvec(INDPTR.astype("u8"), INDICES, VALUES, X), expected)


def test_it_assembles_for_a_gpu():
    indices = weft.fake_tensor(weft.i64, ("k",))
    vector = weft.fake_tensor(weft.f32, ("k",))
    arguments = indices, indices, vector, vector, vector, 8
    assert weft.compile(spmv._sparse_matvec, *arguments, options="--gpu-arch sm_90a").cubin


@pytest.mark.parametrize(("place", "wrong"), [(0, -1), (3, 50), (9, 1 << 40)])
def test_indices_out_of_range(place, wrong):
    indices = np.where(np.arange(len(INDICES)) == place, wrong, INDICES)
    with pytest.raises(AssertionError, match="an index of sparse_matvec is out of range"):
        kernels.sparse_matvec(INDPTR, indices, VALUES, X)


@pytest.mark.parametrize(
    ("place", "wrong"), [(0, -1), (77, INDPTR[-1] + 1), (5, INDPTR[4] - 1), (40, 1 << 40)]
)
def test_indptr_out_of_range(place, wrong):
    indptr = INDPTR.copy()
    indptr[place] = wrong
    with pytest.raises(AssertionError, match="indptr of sparse_matvec is out of range"):
        kernels.sparse_matvec(indptr, INDICES, VALUES, X)


def test_bad_input_is_refused_by_name():
    row, floats = np.arange(3), np.ones(3)
    for error, text, call in (
        (
            TypeError,
            "indices has elements of float64, expected integers",
            (row, floats, floats, floats),
        ),
        (
            TypeError,
            "values has elements of float32, expected float64",
            (row, row, floats.astype("f"), floats),
        ),
        (
            ValueError,
            r"values has shape \(2,\), expected \(3,\) as indices",
            (row, row, floats[:2], floats),
        ),
        (ValueError, r"x has shape \(1, 3\), expected a vector", (row, row, floats, floats[None])),
        (ValueError, r"indptr has shape \(0,\), expected", (row[:0], row, floats, floats)),
    ):
        with pytest.raises(error, match=text):
            kernels.sparse_matvec(*call)
