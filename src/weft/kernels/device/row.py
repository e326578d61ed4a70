# SPDX-License-Identifier: Apache-2.0
"""The rows of an array of any rank, for kernels that give each a warp or a block.

In: an array and a row's number. Out: the row, a view; which threads it gets, and its elements, some neighbors at once.
"""

from __future__ import annotations

from typing import Any, Final

from weft.dialects.simt.views import VECTOR_BYTES
from weft.kernels.device.views import aligned
from weft.language.control import ceil_div
from weft.language.memory.vectors import load_vector, store_vector
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block import reductions as of_block
from weft.primitives.warp import reductions as of_warp
from weft.types.dtype import f32, f64, i64, u64
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

SHORT: Final = 1024
"""Elements of the longest row that a warp takes."""
ROWS: Final = 4
"""That a block takes of short ones, a warp each."""


def index_of(number: Any, sizes: Any) -> Any:
    """The indices of an element of an array with these sizes, from its number; traced in kernels."""
    index = ()
    for size in reversed(sizes[1:]):
        index = (number % size, *index)
        number //= size
    return (number, *index) if sizes else ()


def row_of(a: Any, number: Any, width: Any = 1) -> Any:
    """The row of that number, the last dimension of an array; traced in kernels.

    Args:
        a: an array.
        number: of the row.
        width: as many elements at a multiple of whose size each row begins, and of which it has a multiple.
    """
    return aligned(a if a.ndim == 1 else a[index_of(number, a.shape[:-1])], width)


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


def grid_of(shape: Any, threads: Any) -> Any:
    """Blocks for the rows of an array: short rows share one. Traced in host functions."""
    rows = row_count(shape)
    return ceil_div(rows, ROWS) if threads == WARP_SIZE else rows


def block_of(threads: Any) -> Any:
    """The shape of a block whose rows have so many threads."""
    return (threads, ROWS) if threads == WARP_SIZE else threads


def row_number(threads: Any) -> Any:
    """The number of this thread's row, which may be beyond the last one; traced in kernels."""
    return block_idx.x * ROWS + thread_idx.y if threads == WARP_SIZE else block_idx.x


def reduced_row(value: Any, function: Any, threads: Any) -> Any:
    """The values of all threads of the row combined by a function."""
    return (
        of_block.reduce(value, function) if threads > WARP_SIZE else of_warp.reduce(value, function)
    )


def places(items: Any, threads: Any, width: Any) -> Any:
    """Where in its row a thread's accesses of `width` neighbors begin: those of neighbors side by side."""
    return [(thread_idx.x + k * threads) * width for k in range(items // width)]


def elements(row: Any, place: Any, width: Any) -> Any:
    """So many neighbors of a row, which it has."""
    if width == 1:
        return [row[place]]
    most = min(width, VECTOR_BYTES // row.dtype.itemsize)
    parts = [load_vector(row, place + k, most) for k in range(0, width, most)]
    return [value for part in parts for value in part]


def put_elements(row: Any, place: Any, values: Any) -> None:
    """Writes neighbors of a row, which it has."""
    if len(values) == 1:
        row[place] = values[0]
    else:
        store_vector(row, place, tuple(values))
