# SPDX-License-Identifier: Apache-2.0
"""The rows of an array of any rank, for kernels that give each a block.

In: an array and a row's number. Out: the row, a view; how many threads a row of so many elements gets.
"""

from __future__ import annotations

from typing import Any, Final

from weft.types.dtype import f32, f64, i64, u64
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

MOST_ITEMS: Final = 16


def index_of(number: Any, sizes: Any) -> Any:
    """The indices of an element of an array with these sizes, from its number; traced in kernels."""
    index = ()
    for size in reversed(sizes):
        index = (number % size, *index)
        number //= size
    return index


def row_of(a: Any, number: Any) -> Any:
    """The row of that number, the last dimension of an array; traced in kernels."""
    return a if a.ndim == 1 else a[index_of(number, a.shape[:-1])]


def row_count(shape: Any) -> Any:
    """How many rows an array has, an i64; traced in host functions."""
    count = i64(1)
    for size in shape[:-1]:
        count *= size
    return count


def sum_type(dtype: Any) -> Any:
    """The type in which elements are added: f32 for floats up to it, and 64-bit integers."""
    if dtype.is_float:
        return f64 if dtype is f64 else f32
    return u64 if dtype.kind == "uint" else i64


def result_name(dtype: Any, type_name: str) -> Any:
    """The element type of a sum and its name: a float's own, and 64-bit integers, as in NumPy and torch."""
    if dtype.is_float:
        return dtype, type_name
    return (u64, "uint64") if dtype.kind == "uint" else (i64, "int64")


def threads_for(columns: int, items: int) -> int:
    """Threads for a row, a power of two, with about so many elements each."""
    threads = WARP_SIZE
    while threads < MOST_THREADS and threads * items < columns:
        threads *= 2
    return threads


def geometry(columns: int) -> tuple[int, int]:
    """Threads for a row, and elements that each keeps in registers; 0 where the row does not fit."""
    threads = threads_for(columns, 4)
    items = 4
    while items < MOST_ITEMS and threads * items < columns:
        items *= 2
    return threads, items if threads * items >= columns else 0
