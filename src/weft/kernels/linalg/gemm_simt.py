# SPDX-License-Identifier: Apache-2.0
"""The matrix product of any type, layout and target: a thread computes some rows times some columns in registers.

In: two stacks of matrices of floats. Out: sums in float32, or float64 for float64, finished and rounded. A block's
tiles lie in shared memory along k, so that a step reads neighbors; while it multiplies one, the next one is under way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import Array, Constant, Int32
from weft.kernels.linalg.epilogue import PLAIN, Ending
from weft.kernels.linalg.scales import UNSCALED, Scales
from weft.kernels.linalg.scheduler import count_in, count_of, place_of, sums_of, tiles_of
from weft.kernels.linalg.split_k import WHOLE, Cut, add_up, cut_of
from weft.language.control import ceil_div, static_range
from weft.language.memory.shared import shared
from weft.language.memory.vectors import load_vector
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx


class Sizes(NamedTuple):
    """What a block and a thread compute.

    Attributes:
        m, n: rows and columns of a block.
        k: a step.
        rows, columns: of a thread, multiples of `neighbors`.
        neighbors: elements of an access of shared memory.
        blocks: that a multiprocessor runs at once.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    neighbors: int
    blocks: int = 1

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.m // self.rows * (self.n // self.columns)


OF_F32: Final = Sizes(128, 128, 16, 8, 8, 4)
OF_F64: Final = Sizes(64, 64, 16, 4, 4, 2)
OF_FEW_ROWS: Final = Sizes(16, 128, 16, 4, 4, 4, 4)
OF_FEW_COLUMNS: Final = Sizes(128, 16, 16, 4, 4, 4, 4)
OF_CPU: Final = Sizes(16, 16, 8, 4, 4, 1)
FEW: Final = 32
SHORTEST: Final = 256  # part of a sum


def sizes_for(is_f64: bool, shape: tuple[int, ...], is_cpu: bool) -> Sizes:
    """What blocks and threads compute of a result of that shape."""
    if is_cpu:
        return OF_CPU
    if is_f64:
        return OF_F64
    if shape[-2] <= FEW:
        return OF_FEW_ROWS
    return OF_FEW_COLUMNS if shape[-1] <= FEW else OF_F32


def places_of(number: Any, side: Any, count: Any, vector: Any) -> Any:
    """A thread's rows or columns: groups of neighbors, as far apart as all threads' together. Traced in the kernel."""
    stride = vector * (side // count)
    return [stride * (i // vector) + vector * number + i % vector for i in static_range(count)]


def places_in(side: Any, sizes: Any, along_k: Any) -> Any:
    """Where a thread's elements of a tile are, along k and along the other side; traced in the kernel."""
    places: list[Any] = []
    for turn in static_range(side * sizes.k // sizes.threads):
        number = thread_idx.x + sizes.threads * turn
        places.append(divmod(number, sizes.k)[::-1] if along_k else divmod(number, side))
    return places


def at_places(tile: Any, step: Any, places: Any, vector: Any) -> Any:
    """A thread's elements of a step; traced in the kernel."""
    if vector == 1:
        return [tile[step, at] for at in places]
    found = ()
    for first in static_range(0, len(places), vector):
        found = (*found, *load_vector(tile, (step, places[first]), vector))
    return found


def write(sums: Any, c: Any, place: Any, rows: Any, columns: Any, ending: Any) -> None:
    """A thread's finished elements; traced in the kernel."""
    bias_row = ending.bias_of(place)
    end = c.shape[-2] if place.end is None else place.end
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if row < end and column < c.shape[-1]:
                at = (*place.result, row, column)
                bias = None if bias_row is None else bias_row[column]
                residual = ending.residual[at] if ending.residual is not None else None
                total = ending.finished(sums[i * len(columns) + j], bias, residual)
                c[at] = c.dtype(total)


@kernel
def gemm_kernel(
    a: Array,
    b: Array,
    c: Array,
    tiles: Any,
    ending: Ending,
    sizes: Constant,
    along_k: Constant,
    cut: Cut = WHOLE,
    scales: Scales = UNSCALED,
) -> None:
    """One block: one tile of c; `along_k` are which of a and b neighboring threads read along k."""
    wide = sum_type(a.dtype)
    vector = sizes.neighbors
    a_tile = shared((sizes.k, sizes.m + 4), wide)
    b_tile = shared((sizes.k, sizes.n + 4), wide)
    if cut.is_grouped and block_idx.x >= count_in(tiles, cut):
        return
    at = place_of(block_idx.x, tiles, (sizes.m, sizes.n), cut)
    of_a, of_b = at.matrix if a.ndim > 2 else (), at.matrix if b.ndim > 2 else ()
    top, left = at.row, at.column
    m, n, (begin, k) = c.shape[-2], b.shape[-1], sums_of(at, a.shape[-1], cut)

    of_rows = places_in(sizes.m, sizes, along_k[0])
    of_columns = places_in(sizes.n, sizes, along_k[1])

    def fetched(first: Any) -> Any:
        """This thread's elements of both tiles; zeros outside of the matrices."""
        found: list[Any] = []
        for step, row in of_rows:
            row, step = top + row, first + step
            inside = (row < m) & (step < k)
            value = a[(*of_a, row, step)] if inside else a.dtype(0.0)
            if scales.a is not None:
                value = wide(value) * (scales.of_a(at, row, step) if inside else 0.0)
            found.append(value)
        for step, column in of_columns:
            column, step = left + column, first + step
            inside = (column < n) & (step < k)
            value = b[(*of_b, step, column)] if inside else b.dtype(0.0)
            if scales.b is not None:
                value = wide(value) * (scales.of_b(at, step, column) if inside else 0.0)
            found.append(value)
        return found

    def keep(values: Any) -> None:
        own = iter(values)
        for place in of_rows:
            a_tile[place] = wide(next(own))
        for place in of_columns:
            b_tile[place] = wide(next(own))

    ty, tx = divmod(thread_idx.x, sizes.n // sizes.columns)
    rows = places_of(ty, sizes.m, sizes.rows, vector)
    columns = places_of(tx, sizes.n, sizes.columns, vector)
    sums = [wide(0.0)] * (sizes.rows * sizes.columns)
    values = fetched(begin)
    for step in range(ceil_div(k - begin, sizes.k)):
        sync_threads()
        keep(values)
        sync_threads()
        values = fetched(begin + sizes.k * (step + 1))
        for s in range(sizes.k):
            x, y = at_places(a_tile, s, rows, vector), at_places(b_tile, s, columns, vector)
            for i in static_range(sizes.rows):
                for j in static_range(sizes.columns):
                    sums[i * sizes.columns + j] += x[i] * y[j]
    rows, columns = [top + row for row in rows], [left + column for column in columns]
    write(sums, c, at, rows, columns, ending)


@jit
def gemm(
    a: Array,
    b: Array,
    c: Array,
    ending: Ending,
    sizes: Constant,
    along_k: Constant,
    parts: Int32 | None = None,
    starts: Array | None = None,
    scales: Scales = UNSCALED,
) -> None:
    """``c = a · b``, stacks of m x k and k x n matrices; `parts` and `starts` as in `hopper_products.gemm`."""
    target, cut = cut_of(c, a.dtype, a.shape[-1], sizes.k, sizes.m, parts, starts)
    tiles = tiles_of(target, (sizes.m, sizes.n), cut)
    own = ending if parts is None else PLAIN
    gemm_kernel(a, b, target, tiles, own, sizes, along_k, cut, scales).launch(
        grid=count_of(tiles), block=sizes.threads
    )
    if parts is not None:
        add_up(target, c, ending)
