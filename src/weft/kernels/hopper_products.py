# SPDX-License-Identifier: Apache-2.0
"""The matrix product of a Hopper GPU: TMA copies, tensor cores multiply, and no thread waits for the other kind.

In: tensor maps of two stacks of matrices of bfloat16, float16 or 8-bit floats, and the result. Out: sums in float32,
finished and rounded. A block has three warpgroups. One copies tiles of `a` and `b` into a ring of four stages; two
multiply, 64 rows each. A stage goes around by two barriers: `full` counts its bytes, `empty` the warps that are done
with it. Every multiprocessor has one block, which takes tile after tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.arguments.tensor_map import TensorMap
from weft.kernels.arrays import Array, Constant, Int32
from weft.kernels.cuts import WHOLE, Cut, add_up, cut_of
from weft.kernels.endings import PLAIN, Ending
from weft.kernels.scales import BLOCK, UNSCALED, Scales
from weft.kernels.tiles import count_in, count_of, place_of, sums_of, tiles_of
from weft.language.asynchronous import tma
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.asynchronous.tensor_map import tensor_map
from weft.language.asynchronous.tma import fence_proxy
from weft.language.control import static_range
from weft.language.matrix import wgmma
from weft.language.memory.shared import shared
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.profiling.profiler import Profiler
from weft.language.threads.grid import block_idx, grid_dim, multiprocessors, thread_idx
from weft.language.threads.registers import setmaxnreg
from weft.language.threads.warpgroup import elect_one, sync_warpgroup, warpgroup, warpgroup_id
from weft.types.dtype import f32

if TYPE_CHECKING:
    Map = Any
else:
    Map = TensorMap

BM: Final = 128
BN: Final = 256
STAGES: Final = 4
ROW_BYTES: Final = 128  # of a and b in a tile: 64 elements of 16 bits, 128 of 8
SHORTEST: Final = 512  # part of a sum


class Plan(NamedTuple):
    """How the matrices lie; known when the kernel is compiled.

    Attributes:
        rows_of_a: whether a row of `a` has no gaps in memory, else a column.
        columns_of_b: whether a column of `b` has none, else a row.
        stacks: whether there is a matrix of `a` and of `b` for each of the result, or one for all.
        by_copies: whether the result is a tensor map, else a tensor.
        columns: of a tile, a multiple of 64; 128 where factors are scaled, which needs two sets of sums.
        profiled: whether a `weft.profiler.capture` shows what the block does when.
    """

    rows_of_a: Constant = True
    columns_of_b: Constant = True
    stacks: Constant = (False, False)
    by_copies: Constant = True
    columns: Constant = BN
    profiled: Constant = False


USUAL: Final = Plan()
"""One matrix of each; sums run along rows of both in memory; tiles of the result are copied."""


def columns_for(n: int) -> int:
    """Columns of a tile, for a result of n."""
    return next((columns for columns in (64, 128) if n <= columns), BN)


class Ring(NamedTuple):
    """The stages of a block: tiles of the factors, and what tells that they are full and empty."""

    a: Any
    b: Any
    full: Any
    empty: Any


def steps_of(bounds: Any, bk: Any, cut: Any) -> Any:
    """Where the steps of a sum begin; one, of zeros, for a group that is empty. Traced in the kernel."""
    first, end = bounds
    return range(first, end if cut.starts is None else greater(end, first + 1), bk)


def copy_tiles(a: Any, b: Any, ring: Any, tiles: Any, k: Any, plan: Any, cut: Any, p: Any) -> None:
    """What the thread does that starts all copies; traced in the kernel."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    stage = PipelineState(STAGES, producer=True)
    for tile in range(block_idx.x, count_in(tiles, cut), grid_dim.x):
        place = place_of(tile, tiles, (BM, plan.columns), cut)
        of_a, of_b = (place.matrix if is_stack else () for is_stack in plan.stacks)
        for at in steps_of(sums_of(place, k, cut), bk, cut):
            at_a = (place.row, at) if plan.rows_of_a else (at, place.row)
            at_b = (place.column, at) if plan.columns_of_b else (at, place.column)
            with p.range("wait"):
                ring.empty[stage].wait()
            ring.full[stage].arrive(expect_bytes=ring.a[stage].nbytes + ring.b[stage].nbytes)
            tma.load(a, (*of_a, *at_a), ring.a[stage], ring.full[stage])
            tma.load(b, (*of_b, *at_b), ring.b[stage], ring.full[stage])
            p.begin_async("load", stage.index)
            stage = stage.next()


def multiply(ring: Any, stage: Any, mine: Any, bounds: Any, plan: Any, cut: Any, p: Any) -> Any:
    """A warpgroup's sums of a tile, and the stage after them; traced in the kernel."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    acc = wgmma.accumulator((64, plan.columns), f32)
    for at in steps_of(bounds, bk, cut):
        with p.range("wait"):
            ring.full[stage].wait()
        if mine == 0:
            p.end_async("load", stage.index)
        if cut.starts is not None:
            keep_group(ring, stage, mine, bounds[1] - at)
        if plan.rows_of_a:
            rows = ring.a[stage].tile((64, bk), (mine, 0))
        else:
            rows = ring.a[stage].tile((bk, 64), (0, mine)).T
        columns = ring.b[stage].T if plan.columns_of_b else ring.b[stage]
        with p.range("multiply"):
            acc = wgmma.mma(rows, columns, acc, accumulate=at > bounds[0])
            acc = wgmma.wait(acc, pending=0)
        ring.empty[stage].release()
        stage = stage.next()
    return acc, stage


def multiply_scaled(ring: Any, stage: Any, mine: Any, bounds: Any, place: Any, scales: Any) -> Any:
    """As `multiply`, of scaled factors that lie along k: the sums of each block are scaled and added apart."""
    (first, end), row = bounds, place.row + 64 * mine

    def scale_of(k: Any) -> Any:
        last, of_b = scales.a.shape[-2] - 1, scales.of_b(place, k, place.column)

        def of_row(i: Any) -> Any:
            return scales.of_a(place, lesser(row + i, last), k) * of_b

        return of_row

    def begun(stage: Any) -> Any:
        ring.full[stage].wait()
        return wgmma.mma(ring.a[stage].tile((64, BLOCK), (mine, 0)), ring.b[stage].T)

    part = wgmma.wait(begun(stage), pending=0)
    ring.empty[stage].release()
    total, stage = part.map(product, part.rows(scale_of(first))), stage.next()
    scale = total.rows(scale_of(lesser(first + BLOCK, end - 1)))
    for k in range(first + BLOCK, end, BLOCK):
        part = begun(stage)
        following = total.rows(scale_of(lesser(k + BLOCK, end - 1)))  # loaded meanwhile
        part = wgmma.wait(part, pending=0)
        ring.empty[stage].release()
        total = total.map(added, part, scale)
        scale, stage = following, stage.next()
    return total, stage


def product(x: Any, scale: Any) -> Any:
    """A scaled sum."""
    return x * scale


def added(total: Any, x: Any, scale: Any) -> Any:
    """A sum, and a scaled one."""
    return total + x * scale


def keep_group(ring: Any, stage: Any, mine: Any, length: Any) -> None:
    """Zeros in what a warpgroup multiplies, from a row on, where another group begins; traced in the kernel."""
    bk = ring.a.shape[1]
    if length < bk:
        for tile in (ring.a[stage].tile((bk, 64), (0, mine)), ring.b[stage]):
            columns = tile.shape[1]
            for number in range(length * columns + thread_idx.x % 128, bk * columns, 128):
                tile[number // columns, number % columns] = tile.dtype(0.0)
        fence_proxy()
        sync_warpgroup()


def write(part: Any, c: Any, place: Any, buffer: Any, leader: Any) -> None:
    """Copies a finished part to the result through one of its warpgroup's two buffers in turn; traced in the kernel."""
    if leader:
        tma.wait(pending=1, read=True)  # the buffer's last copy has been read
    sync_warpgroup()
    part.to(buffer.dtype).store(buffer)
    fence_proxy()
    sync_warpgroup()
    if leader:
        tma.store(c, place, buffer)


@kernel(max_threads=384)
def gemm_kernel(
    a: Map,
    b: Map,
    c: Any,
    tiles: Any,
    k: Int32,
    dtype: Constant,
    out_dtype: Constant,
    ending: Ending = PLAIN,
    plan: Plan = USUAL,
    cut: Cut = WHOLE,
    scales: Scales = UNSCALED,
) -> None:
    """One block: one tile of c after the other; `tiles` as in `place_of`."""
    bk, bn = ROW_BYTES // dtype.itemsize, plan.columns
    ring = Ring(
        shared((STAGES, *((BM, bk) if plan.rows_of_a else (bk, BM))), dtype, swizzle=128),
        shared((STAGES, *((bn, bk) if plan.columns_of_b else (bk, bn))), dtype, swizzle=128),
        mbarrier(STAGES, arrivals=1),
        mbarrier(STAGES, arrivals=8),  # warps that multiply
    )
    c_tiles: Any = shared((2, 2, 64, 64), out_dtype, swizzle=128) if plan.by_copies else None
    role, leader = warpgroup_id(), elect_one(warpgroup)
    p = Profiler(groups=("copy", "multiply 0", "multiply 1"), enabled=plan.profiled)
    p.init(role, leader)

    if role == 0:  # copies
        setmaxnreg(40)
        if leader:
            copy_tiles(a, b, ring, tiles, k, plan, cut, p)
    else:  # multiplies
        setmaxnreg(232)
        mine, stage = role - 1, PipelineState(STAGES)
        for tile in range(block_idx.x, count_in(tiles, cut), grid_dim.x):
            place = place_of(tile, tiles, (BM, plan.columns), cut)
            bounds = sums_of(place, k, cut)
            if scales.a is None:
                acc, stage = multiply(ring, stage, mine, bounds, plan, cut, p)
            else:
                acc, stage = multiply_scaled(ring, stage, mine, bounds, place, scales)
            row = place.row + 64 * mine
            with p.range("store"):
                for j in static_range(plan.columns // 64):
                    left = place.column + 64 * j
                    part = ending.finished_part(acc[:, 64 * j : 64 * (j + 1)], place, row, left)
                    if plan.by_copies:
                        write(part, c, (*place.result, row, left), c_tiles[mine, j % 2], leader)
                    else:
                        part.store(place.matrix_of(c), (row, left))
        if plan.by_copies and leader:
            tma.wait()


@jit
def gemm(
    a: Array,
    b: Array,
    c: Array,
    ending: Ending = PLAIN,
    plan: Plan = USUAL,
    parts: Int32 | None = None,
    starts: Array | None = None,
    scales: Scales = UNSCALED,
) -> None:
    """``c = a · b``; `a` is as it lies in memory, m x k or k x m, and `b` n x k or k x n.

    With `parts`, blocks take that many parts of each sum. With `starts`, rows of `a` and `c` belong to groups, each of
    which has a matrix of `b`; or, where `c` is a stack, its matrices are the products of each group's rows of `a` and
    of `b`. Plans with either are not by copies. Factors with `scales` have 8 bits and lie along k, tiles 128 columns.
    """
    bk = ROW_BYTES // a.dtype.itemsize
    k = a.shape[-1] if plan.rows_of_a else a.shape[-2]
    a_box, b_box = (
        (*(1,) * (tensor.ndim - 2), *((rows, bk) if along_k else (bk, rows)))
        for tensor, rows, along_k in (
            (a, BM, plan.rows_of_a),
            (b, plan.columns, plan.columns_of_b),
        )
    )
    target, cut = cut_of(c, a.dtype, k, bk, BM, parts, starts)
    tiles = tiles_of(target, (BM, plan.columns), cut)
    gemm_kernel(
        tensor_map(a, box=a_box, swizzle=128),
        tensor_map(b, box=b_box, swizzle=128),
        tensor_map(c, box=(*(1,) * (c.ndim - 2), 64, 64), swizzle=128)
        if plan.by_copies
        else target,
        tiles,
        k,
        a.dtype,
        c.dtype,
        ending if parts is None else PLAIN,
        plan,
        cut,
        scales,
    ).launch(grid=lesser(count_of(tiles), multiprocessors()), block=384)
    if parts is not None:
        add_up(target, c, ending)
