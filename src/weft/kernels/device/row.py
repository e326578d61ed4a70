# SPDX-License-Identifier: Apache-2.0
"""The rows of an array of any rank, for kernels that give each a warp or a block.

In: an array and a row's number. Out: the row, a view; its threads, and vector loads and stores of `width` elements.
"""

from __future__ import annotations

from typing import Final

import weft
from weft.kernels.annotations import Array, ElementType, Function, Int, Number, Numbers, Shape

SHORT: Final = 1024
"""Elements of the longest row that a warp takes."""
ROWS: Final = 4
"""That a block takes of short ones, a warp each."""


@weft.device
def aligned(vector: weft.Tensor, width: weft.Constexpr[int]) -> weft.Tensor:
    """A vector that the host has found to begin at a multiple of that many of its elements; traced in kernels."""
    return weft.assume_aligned(vector, width * vector.dtype.itemsize)


@weft.device
def index_of(number: Int, sizes: Shape) -> Shape:
    """The indices of an element of an array with these sizes, from its number; traced in kernels."""
    index = ()
    for size in reversed(sizes[1:]):
        index = (number % size, *index)
        number //= size
    return (number, *index) if sizes else ()


@weft.device
def row_of(a: weft.Tensor, number: Int, width: weft.Constexpr[int] = 1) -> weft.Tensor:
    """The row of that number, the last dimension of an array; traced in kernels.

    Args:
        a: an array.
        number: of the row.
        width: each row begins at a multiple of that many elements' size, and has a multiple of that many.
    """
    return aligned(a if a.ndim == 1 else a[index_of(number, a.shape[:-1])], width)


def row_count(shape: Shape) -> Int:
    """Number of rows of an array, an i64; traced in host functions."""
    count = weft.i64(1)
    for size in shape[:-1]:
        count *= size
    return count


def sum_type(dtype: ElementType) -> ElementType:
    """The type in which elements are added: f32 for floats up to it, and 64-bit integers."""
    if dtype.is_float:
        return weft.f64 if dtype is weft.f64 else weft.f32
    return weft.u64 if dtype.kind == "uint" else weft.i64


def result_name(dtype: ElementType, type_name: str) -> Array:
    """The element type of a sum and its name: a float's own, and 64-bit integers, as in NumPy and torch."""
    if dtype.is_float:
        return dtype, type_name
    return (weft.u64, "uint64") if dtype.kind == "uint" else (weft.i64, "int64")


def threads_for(columns: int, items: int) -> int:
    """Threads for a row, a power of two, with about that many elements each."""
    threads = weft.WARP_SIZE
    while threads < weft.MAX_THREADS and threads * items < columns:
        threads *= 2
    return threads


def grid_of(shape: Shape, threads: Int) -> Shape:
    """Blocks for the rows of an array: short rows share one. Traced in host functions."""
    rows = row_count(shape)
    return weft.ceil_div(rows, ROWS) if threads == weft.WARP_SIZE else rows


def block_of(threads: Int) -> Shape:
    """The shape of a block whose rows have that many threads."""
    return (threads, ROWS) if threads == weft.WARP_SIZE else threads


@weft.device
def row_number(threads: weft.Constexpr[int]) -> Int:
    """The number of this thread's row, which may be beyond the last one; traced in kernels."""
    return (
        weft.block_idx.x * ROWS + weft.thread_idx.y
        if threads == weft.WARP_SIZE
        else weft.block_idx.x
    )


@weft.device
def reduced_row(value: Number, function: Function, threads: weft.Constexpr[int]) -> Number:
    """Reduces the values of a row's threads by a function."""
    return (
        weft.block.reduce(value, function)
        if threads > weft.WARP_SIZE
        else weft.warp.reduce(value, function)
    )


@weft.device
def places(items: weft.Constexpr[int], threads: Int, width: weft.Constexpr[int]) -> Numbers:
    """Computes the offsets of a thread's accesses to its row, coalesced over the threads."""
    return [(weft.thread_idx.x + k * threads) * width for k in range(items // width)]


@weft.device
def elements(row: weft.Tensor, place: Int, width: weft.Constexpr[int]) -> Numbers:
    """Loads `width` consecutive elements (unchecked)."""
    if width == 1:
        return [row[place]]
    most = min(width, weft.VECTOR_BYTES // row.dtype.itemsize)
    parts = [weft.load_vector(row, place + k, most) for k in range(0, width, most)]
    return [value for part in parts for value in part]


@weft.device
def put_elements(row: weft.Tensor, place: Int, values: Numbers) -> None:
    """Stores consecutive elements (unchecked)."""
    if len(values) == 1:
        row[place] = values[0]
    else:
        weft.store_vector(row, place, tuple(values))
