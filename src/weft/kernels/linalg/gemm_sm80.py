# SPDX-License-Identifier: Apache-2.0
"""The matrix product of any GPU from sm_80 on: threads copy tiles ahead of time, warps multiply them.

In: two stacks of matrices of float16 or bfloat16. Out: sums in float32, finished and rounded. A block computes
128 x 128 elements with eight warps. Its tiles go around in a ring of four stages: while the warps multiply one, copies
of the next three are under way, which pass no register. Matrices that have no chunks of 16 bytes are copied through
registers.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.vector import Aligned
from weft.kernels.host.arrays import Array, Constant, Int32
from weft.kernels.linalg.epilogue import PLAIN, Ending
from weft.kernels.linalg.scheduler import count_in, count_of, place_of, sums_of, tiles_of
from weft.kernels.linalg.split_k import WHOLE, Cut, add_up, cut_of
from weft.language.asynchronous import cp_async
from weft.language.control import ceil_div, static_range
from weft.language.matrix import mma
from weft.language.memory.shared import shared
from weft.language.profiling.profiler import Profiler
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.types.dtype import f32

BM: Final = 128
BN: Final = 128
BK: Final = 32
STAGES: Final = 4
THREADS: Final = 256
WM: Final = 64
WN: Final = 32  # of one warp; two rows of four warps
CHUNK: Final = 8  # elements of a copy: 16 bytes
BLOCKS: Final = 2  # of a multiprocessor
SHORTEST: Final = 512  # part of a sum


def ring_of(dtype: Any, side: int, lies_along_k: bool) -> Any:
    """Tiles of a factor as they lie in memory; traced in kernels."""
    if lies_along_k:
        return shared((STAGES, side, BK), dtype, swizzle=64)
    return shared((STAGES, BK, side), dtype, swizzle=128)


def fetch(
    tile: Any, source: Any, matrix: Any, row: Any, column: Any, ends: Any, by_copies: bool
) -> None:
    """This thread's part of a tile; zeros from the ends of rows and columns on. Traced in the kernel."""
    rows, columns = tile.shape
    chunk = CHUNK if by_copies else 1
    for part in static_range(rows * columns // chunk // THREADS):
        r, c = divmod(thread_idx.x + THREADS * part, columns // chunk)
        place = row + r, column + chunk * c
        inside = (place[0] < ends[0]) & (place[1] < ends[1])
        index = (*matrix, *place)
        if by_copies:
            cp_async.copy(tile, (r, chunk * c), source, index, chunk, when=inside)
        else:
            tile[r, c] = source[index] if inside else source.dtype(0.0)


@kernel(max_threads=THREADS, min_blocks=BLOCKS)
def gemm_kernel(
    a: Array,
    b: Array,
    c: Array,
    tiles: Any,
    ending: Ending = PLAIN,
    rows_of_a: Constant = True,
    columns_of_b: Constant = True,
    by_copies: Constant = True,
    cut: Cut = WHOLE,
    profiled: Constant = False,
) -> None:
    """One block: one tile of c.

    `a` is m x k, or k x m where its rows are columns; `b` is n x k or k x n; each a matrix, or one for each of c.
    """
    p = Profiler(groups=[f"warp {i}" for i in range(THREADS // 32)], enabled=profiled)
    p.init(warp_id(), lane_id() == 0)
    a_ring = ring_of(a.dtype, BM, rows_of_a)
    b_ring = ring_of(a.dtype, BN, columns_of_b)
    if cut.is_grouped and block_idx.x >= count_in(tiles, cut):
        return
    place = place_of(block_idx.x, tiles, (BM, BN), cut)
    of_a, of_b = place.matrix if a.ndim > 2 else (), place.matrix if b.ndim > 2 else ()
    row, column = place.row, place.column
    first, end = sums_of(place, a.shape[-1 if rows_of_a else -2], cut)
    warp_row, warp_column = divmod(warp_id(), BN // WN)

    def fetch_both(step: Any, stage: Any) -> None:
        k = first + BK * step
        with p.range("copy"):
            for ring, factor, of_factor, side, along_k in (
                (a_ring, a, of_a, row, rows_of_a),
                (b_ring, b, of_b, column, columns_of_b),
            ):
                at = (side, k) if along_k else (k, side)
                ends = (factor.shape[-2], end) if along_k else (end, factor.shape[-1])
                fetch(ring[stage], factor, of_factor, *at, ends, by_copies)
            cp_async.commit()

    for step in static_range(STAGES - 1):
        fetch_both(step, step)

    acc = mma.zeros((WM, WN), f32)
    for step in range(ceil_div(end - first, BK)):
        with p.range("wait"):
            cp_async.wait(pending=STAGES - 2)
            sync_threads()  # this stage is there for all, and the one before it is free
        now = step % STAGES
        fetch_both(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        with p.range("multiply"):
            for k in static_range(BK // 16):
                if rows_of_a:
                    rows = a_ring[now].tile((WM, BK), (warp_row, 0))
                    left = mma.load_a(rows.tile((WM, 16), (0, k)))
                else:
                    left = mma.load_a(a_ring[now].tile((16, WM), (k, warp_row)).T)
                if columns_of_b:
                    columns = b_ring[now].tile((WN, BK), (warp_column, 0)).T
                    right = mma.load_b(columns.tile((16, WN), (k, 0)))
                else:
                    right = mma.load_b(b_ring[now].tile((16, WN), (k, warp_column)))
                acc = mma.mma(left, right, acc)
    row, column = row + WM * warp_row, column + WN * warp_column
    with p.range("store"):
        acc = ending.finished_part(acc, place, row, column)
        acc.store(place.matrix_of(c), (row, column))


def _launch(
    a: Any,
    b: Any,
    c: Any,
    ending: Any,
    rows_of_a: Any,
    columns_of_b: Any,
    parts: Any,
    starts: Any,
    copies: Any,
) -> None:
    """Traced in host functions."""
    k = a.shape[-1 if rows_of_a else -2]
    target, cut = cut_of(c, a.dtype, k, BK, BM, parts, starts)
    tiles = tiles_of(target, (BM, BN), cut)
    own = ending if parts is None else PLAIN
    gemm_kernel(a, b, target, tiles, own, rows_of_a, columns_of_b, copies, cut).launch(
        grid=count_of(tiles), block=THREADS
    )
    if parts is not None:
        add_up(target, c, ending)


@jit
def gemm(
    a: Array,
    b: Array,
    c: Array,
    ending: Ending,
    rows_of_a: Constant,
    columns_of_b: Constant,
    parts: Int32 | None = None,
    starts: Array | None = None,
) -> None:
    """``c = a · b`` of matrices that lie in any way; `parts` and `starts` as in `hopper_products.gemm`."""
    _launch(a, b, c, ending, rows_of_a, columns_of_b, parts, starts, False)


@jit
def gemm_of_chunks(
    a: Aligned,
    b: Aligned,
    c: Array,
    ending: Ending,
    rows_of_a: Constant,
    columns_of_b: Constant,
    parts: Int32 | None = None,
    starts: Array | None = None,
) -> None:
    """``c = a · b`` of matrices whose rows, as they lie in memory, are whole chunks of 16 bytes."""
    _launch(a, b, c, ending, rows_of_a, columns_of_b, parts, starts, True)
