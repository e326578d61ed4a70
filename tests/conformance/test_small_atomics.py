# SPDX-License-Identifier: Apache-2.0
"""Atomics on elements of 8 and 16 bits: threads that change adjacent elements in one word lose nothing of each other.

In: kernels whose threads all work on the elements of a few words, on several threads of the machine. Out: what NumPy
computes in any order.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define
from tests.sampling import sampled
from weft import _native

CELLS = 7  # not a whole number of words
BLOCKS, THREADS = 256, 96
SMALL = (weft.i8, weft.u8, weft.i16, weft.u16)
SMALL_FLOATS = (weft.f8e4m3, weft.f8e5m2, weft.f16, weft.bf16)
# What each operation leaves of a cell's values, whatever their order.
LEFT = {
    "add": np.add.reduce,
    "sub": np.subtract.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
KERNELS = {
    "global": """
@weft.kernel
def {kind}_kernel(values: weft.Tensor, all_cells: weft.Tensor):
    cells = all_cells[{row}]
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    weft.atomic_{kind}(cells, 1 + i % {cells}, values[i])
""",
    "shared": """
@weft.kernel
def {kind}_kernel(values: weft.Tensor, all_cells: weft.Tensor):
    cells = all_cells[{row}]
    own = weft.shared({cells}, weft.{dtype})
    first = weft.thread_idx.x
    if first < {cells}:
        own[first] = cells[1 + first]
    weft.sync_threads()
    for i in range(first, values.shape[0], weft.block_dim.x):
        weft.atomic_{kind}(own, i % {cells}, values[i])
    weft.sync_threads()
    if first < {cells}:
        cells[1 + first] = own[first]
""",
    "several": """
@weft.kernel
def {kind}_kernel(values: weft.Tensor, all_cells: weft.Tensor):
    cells = all_cells[{row}]
    own = (weft.shared(3, weft.{dtype}), weft.shared(5, weft.{dtype}), weft.shared(4, weft.{dtype}))
    i = weft.thread_idx.x
    if i == 0:
        for k in weft.static_range(12):
            own[k % 3][k // 3 if k % 3 else k // 3 % 3] = cells[k]
    weft.sync_threads()
    for k in weft.static_range(12):
        weft.atomic_{kind}(own[k % 3], k // 3 if k % 3 else k // 3 % 3, values[k, i])
    weft.sync_threads()
    if i == 0:
        for k in weft.static_range(12):
            cells[k] = own[k % 3][k // 3 if k % 3 else k // 3 % 3]
""",
}


def host_of(kinds, dtype: weft.DType, space: str, grid: int, block: int):
    """A host function that launches a kernel for each operation, which changes its own row of the cells."""
    kernels = [
        KERNELS[space].format(kind=kind, dtype=dtype, cells=CELLS, row=row)
        for row, kind in enumerate(kinds)
    ]
    launch = f"(values, cells).launch(grid={grid}, block={block})"
    lines = [f"    {kind}_kernel{launch}" for kind in kinds]
    header = "@weft.jit\ndef host(values: weft.Tensor, cells: weft.Tensor):"
    return define("\n".join([*kernels, header, *lines]))["host"]


@pytest.fixture
def three_threads():
    """Three threads of the machine work on each grid."""
    before = _native.cpu_threads()
    _native.set_cpu_threads(3)
    yield
    _native.set_cpu_threads(before)


def run(kinds, dtype: weft.DType, values: np.ndarray, start: np.ndarray, space: str):
    """Cells after each operation, which have a cell of other bits on each side."""
    cells = np.full((len(kinds), CELLS + 2), 1, start.dtype)
    cells[:, 1:-1] = start
    host = host_of(kinds, dtype, space, BLOCKS if space == "global" else 1, THREADS)
    host(Exported(values), Exported(cells))
    assert (cells[:, [0, -1]] == 1).all(), "a neighbor of the cells was changed"
    return dict(zip(kinds, cells[:, 1:-1], strict=True))


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("dtype", sampled(SMALL, 2), ids=str)
def test_integers_of_one_word_do_not_disturb_each_other(dtype, space):
    random = np.random.default_rng(5)
    limits = np.iinfo(NUMPY_TYPES[dtype])
    every = (limits.min, limits.max)
    values = random.integers(*every, BLOCKS * THREADS, NUMPY_TYPES[dtype], endpoint=True)
    start = random.integers(*every, CELLS, values.dtype, endpoint=True)
    for kind, left in run(list(LEFT), dtype, values, start, space).items():
        for cell in range(CELLS):
            expected = LEFT[kind](np.append(start[cell], values[cell::CELLS]), dtype=values.dtype)
            assert left[cell] == expected, (kind, cell)


@pytest.mark.parametrize("dtype", sampled(SMALL, 2), ids=str)
def test_constant_elements_of_shared_arrays_change_alone(dtype):
    random = np.random.default_rng(7)
    limits = np.iinfo(NUMPY_TYPES[dtype])
    every = (limits.min, limits.max)
    values = random.integers(*every, (12, 32), NUMPY_TYPES[dtype], endpoint=True)
    cells = random.integers(*every, 12, values.dtype, endpoint=True)
    values[9], cells[9] = (
        values[0],
        cells[0],
    )  # the first array has three elements, so 0 and 9 are one
    left = np.tile(cells, (len(LEFT), 1))
    host_of(LEFT, dtype, "several", 1, 32)(values, left)
    for (kind, reduce), row in zip(LEFT.items(), left, strict=True):
        expected = [reduce(np.append(cells[k], values[k]), dtype=values.dtype) for k in range(12)]
        expected[0] = expected[9] = reduce(
            np.concatenate([cells[:1], values[0], values[9]]), dtype=values.dtype
        )
        assert row.tolist() == expected, kind


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("dtype", sampled(SMALL_FLOATS, 2), ids=str)
def test_floats_of_one_word_do_not_disturb_each_other(dtype, space):
    random = np.random.default_rng(6)
    values = (random.standard_normal(BLOCKS * THREADS) * 8).astype(NUMPY_TYPES[dtype])
    start = np.zeros(CELLS, values.dtype)
    for kind, left in run(["max", "min"], dtype, values, start, space).items():
        for cell in range(CELLS):
            exact = np.append(start[cell], values[cell::CELLS]).astype(np.float32)
            assert np.float32(left[cell]) == LEFT[kind](exact), (kind, cell)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("dtype", (*SMALL, weft.f16, weft.bf16), ids=str)
def test_compare_and_swap_in_one_word_counts_every_success(dtype):
    names = define(
        f"""
        @weft.kernel
        def kernel(cells: weft.Tensor):
            i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
            cell = i % cells.shape[0]
            seen = weft.atomic_load(cells, cell)
            waiting = True
            while waiting:
                found = weft.atomic_cas(cells, cell, seen, weft.{dtype.name}(seen + 1))
                waiting = found != seen
                seen = found

        @weft.jit
        def host(cells: weft.Tensor):
            kernel(cells).launch(grid=4, block=64)
        """
    )
    cells = np.zeros(CELLS, NUMPY_TYPES[dtype])
    names["host"](Exported(cells))
    expected = [len(range(cell, 256, CELLS)) for cell in range(CELLS)]
    assert cells.astype(np.int64).tolist() == expected


@pytest.mark.parametrize("space", ["global", "shared"])
def test_bools_of_other_programs_count_by_their_truth(space):
    """A byte that is neither 0 nor 1 is true; what an atomic changes becomes 0 or 1."""
    names = define(
        f"""
        @weft.kernel
        def kernel(bytes: weft.Tensor, old: weft.Tensor, flags: weft.Tensor):
            own = weft.shared(8, weft.bool_)
            cells = own if {space == "shared"} else flags
            i = weft.thread_idx.x
            if {space == "shared"}:
                own[i] = flags[i]
            weft.sync_threads()
            if i == 0:
                old[0] = weft.atomic_and(cells, 0, True)
                old[1] = weft.atomic_and(cells, 1, False)
                old[2] = weft.atomic_or(cells, 2, False)
                old[3] = weft.atomic_xor(cells, 3, True)
                old[4] = weft.atomic_xor(cells, 4, True)
                old[5] = weft.atomic_cas(cells, 5, True, False)
                old[6] = weft.atomic_cas(cells, 6, False, True)
                old[7] = weft.atomic_exchange(cells, 7, True)
            weft.sync_threads()
            bytes[i] = cells[i]

        @weft.jit
        def host(bytes: weft.Tensor, old: weft.Tensor, flags: weft.Tensor):
            kernel(bytes, old, flags).launch(grid=1, block=8)
        """
    )
    flags = np.array([2, 2, 2, 2, 0, 2, 2, 0], np.uint8).view(np.bool_)
    left, old = np.zeros(8, np.bool_), np.zeros(8, np.bool_)
    names["host"](Exported(left), Exported(old), Exported(flags))
    assert left.tolist() == [True, False, True, False, True, False, True, True]
    assert old.tolist() == [True, True, True, True, False, True, True, False]
