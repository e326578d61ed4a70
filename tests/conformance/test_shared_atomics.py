# SPDX-License-Identifier: Apache-2.0
"""Atomics on shared memory: what each of them yields and leaves, thread after thread, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define
from tests.sampling import sampled
from weft.language.memory.atomics import ATOMIC_DTYPES

THREADS = 40
OPERATIONS = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "max": max,
    "min": min,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exchange": lambda old, value: value,
}
DTYPES = list(dict.fromkeys(dtype for kind in OPERATIONS for dtype in ATOMIC_DTYPES[kind]))
KERNEL = """
@weft.kernel
def {kind}_kernel(values: weft.Tensor, old: weft.Tensor, left: weft.Tensor):
    cell = weft.shared(2, weft.{dtype})
    t = weft.thread_idx.x
    cell[1] = values[0]
    weft.sync_threads()
    old[{row}, t] = weft.atomic_{kind}(cell, 1, values[t])
    weft.sync_threads()
    left[{row}] = cell[1]
"""


def values_of(dtype) -> np.ndarray:
    """One value per thread: integers of all magnitudes, bools, or small multiples of 1/4."""
    random = np.random.default_rng(3)
    numpy_type = NUMPY_TYPES[dtype]
    if dtype is weft.bool_:
        return random.random(THREADS) < 0.5
    if dtype.is_integer:
        information = np.iinfo(numpy_type)
        return random.integers(information.min, information.max, THREADS, dtype=numpy_type)
    return (random.integers(-8, 8, THREADS) / 4).astype(numpy_type)


@pytest.mark.parametrize("dtype", sampled(DTYPES, 6), ids=str)
def test_each_thread_gets_what_the_one_before_left(dtype):
    kinds = [kind for kind in OPERATIONS if dtype in ATOMIC_DTYPES[kind]]
    kernels = [KERNEL.format(kind=kind, dtype=dtype, row=row) for row, kind in enumerate(kinds)]
    launch = "(values, old, left).launch(grid=1, block=values.shape[0])"
    lines = [f"    {kind}_kernel{launch}" for kind in kinds]
    header = "@weft.jit\ndef host(values: weft.Tensor, old: weft.Tensor, left: weft.Tensor):"
    host = define("\n".join([*kernels, header, *lines]))["host"]
    values = values_of(dtype)
    old = np.zeros((len(kinds), THREADS), values.dtype)
    left = np.zeros(len(kinds), values.dtype)
    host(Exported(values), Exported(old), Exported(left))
    for row, kind in enumerate(kinds):
        cell = values[0]
        expected = np.zeros_like(values)
        with np.errstate(over="ignore"):
            for thread, value in enumerate(values):
                expected[thread] = cell
                cell = values.dtype.type(OPERATIONS[kind](cell, value))
        np.testing.assert_array_equal(old[row], expected, err_msg=kind)
        assert left[row] == cell, kind
