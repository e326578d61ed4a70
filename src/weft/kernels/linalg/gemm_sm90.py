# SPDX-License-Identifier: Apache-2.0
"""The matrix product of a Hopper GPU: TMA copies, tensor cores multiply, and no thread waits for the other kind.

In: tensor maps of two stacks of matrices of bfloat16, float16 or 8-bit floats, and the result. Out: sums in float32,
finished and rounded. One warpgroup of a block copies tiles of `a` and `b` into a ring; one or two multiply, 64 rows
each. A stage goes around by two barriers: `full` counts its bytes, `empty` the warps that are done with it. Every
multiprocessor has one block, which takes tile after tile. Of few tiles, the blocks of a cluster take a part of a tile's
sums each, and send each other what they have to add up. `hopper_plans` says which tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.arguments.tensor_map import TensorMap
from weft.kernels.host.arrays import Array, Constant, Int32
from weft.kernels.linalg.epilogue import PLAIN, Ending
from weft.kernels.linalg.gemm_config_sm90 import ROW_BYTES, USUAL, Plan
from weft.kernels.linalg.scales import BLOCK, UNSCALED, Scales
from weft.kernels.linalg.scheduler import Place, count_in, count_of, place_of, sums_of, tiles_of
from weft.kernels.linalg.split_k import WHOLE, Cut, add_up, cut_of
from weft.language.asynchronous import tma
from weft.language.asynchronous.cluster import cluster_rank, sync_cluster
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.asynchronous.st_async import st_async
from weft.language.asynchronous.tensor_map import tensor_map
from weft.language.asynchronous.tma import fence_proxy
from weft.language.control import ceil_div, static_range
from weft.language.matrix import wgmma
from weft.language.memory.shared import shared
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.profiling.profiler import Profiler
from weft.language.threads.dependencies import launch_dependents, wait_for_dependencies
from weft.language.threads.grid import block_idx, grid_dim, multiprocessors, thread_idx
from weft.language.threads.registers import setmaxnreg
from weft.language.threads.warp import lane_id, warp_id
from weft.language.threads.warpgroup import elect_one, sync_warpgroup, warpgroup, warpgroup_id
from weft.types.dtype import f32

if TYPE_CHECKING:
    Map = Any
else:
    Map = TensorMap


BEYOND: Final = 1 << 30  # any column of a matrix


class Ring(NamedTuple):
    """The stages of a block: tiles of the factors, and what tells that they are full and empty."""

    a: Any
    b: Any
    full: Any
    empty: Any
    scales: Any = None


def own_tiles(tiles: Any, plan: Any, cut: Any) -> Any:
    """The numbers of this block's tiles, of a cluster's the first; traced in the kernel."""
    return range(block_idx.x // plan.cluster, count_in(tiles, cut), grid_dim.x // plan.cluster)


def own_place(tile: Any, tiles: Any, plan: Any, cut: Any) -> Any:
    """Where this block's tile is; traced in the kernel."""
    place = place_of(tile, tiles, (plan.neighbors * plan.rows, plan.columns), cut)
    if plan.neighbors == 1:
        return place
    row = place.row + plan.rows * cluster_rank()
    return Place(place.matrix, place.result, row, place.column, place.end)


def own_sums(place: Any, k: Any, bk: Any, plan: Any, cut: Any) -> Any:
    """The first of this block's products in a tile's sums, and the one after the last; traced in the kernel.

    Of scaled factors they are pairs of blocks, of which the last one may be beyond the end.
    """
    step = 2 * bk if plan.is_scaled else bk
    if plan.parts == 1:
        first, end = sums_of(place, k, cut)
    else:
        length = step * ceil_div(ceil_div(k, step), plan.parts)
        first = length * cluster_rank()
        end = lesser(first + length, k)
    return first, first + step * ceil_div(end - first, step) if plan.is_scaled else end


def steps_of(bounds: Any, bk: Any, plan: Any, cut: Any) -> Any:
    """Where the steps of a sum begin; one, of zeros, for a group or part that is empty. Traced in the kernel."""
    first, end = bounds
    may_be_empty = cut.starts is not None or plan.parts > 1
    return range(first, greater(end, first + 1) if may_be_empty else end, bk)


def copy_columns(b: Any, of_b: Any, at: Any, ring: Any, stage: Any, plan: Any) -> None:
    """Copies a tile of `b`, or this block's share of it to all neighbors, who copy theirs; traced in the kernel."""
    if plan.neighbors == 1:
        tma.load(b, (*of_b, *at), ring.b[stage], ring.full[stage])
        return
    rank, (height, width) = cluster_rank(), ring.b[stage].shape
    height //= plan.neighbors
    part = ring.b[stage].tile((height, width), (rank, 0))
    place = (*of_b, at[0] + height * rank, at[1])
    tma.load(b, place, part, ring.full[stage], multicast=range(plan.neighbors))


def copy_tiles(a: Any, b: Any, ring: Any, tiles: Any, k: Any, plan: Any, cut: Any, p: Any) -> None:
    """What the thread does that starts all copies; traced in the kernel."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    stage = PipelineState(ring.a.shape[0], producer=True)
    for tile in own_tiles(tiles, plan, cut):
        place = own_place(tile, tiles, plan, cut)
        of_a, of_b = (place.matrix if is_stack else () for is_stack in plan.stacks)
        for at in steps_of(own_sums(place, k, bk, plan, cut), bk, plan, cut):
            at_a = (place.row, at) if plan.rows_of_a else (at, place.row)
            at_b = (place.column, at) if plan.columns_of_b else (at, place.column)
            with p.range("wait"):
                ring.empty[stage].wait()
            ring.full[stage].arrive(expect_bytes=ring.a[stage].nbytes + ring.b[stage].nbytes)
            tma.load(a, (*of_a, *at_a), ring.a[stage], ring.full[stage])
            copy_columns(b, of_b, at_b, ring, stage, plan)
            p.begin_async("load", stage.index)
            stage = stage.next()


def multiply(ring: Any, stage: Any, mine: Any, bounds: Any, plan: Any, cut: Any, p: Any) -> Any:
    """A warpgroup's sums of a tile, and the stage after them; traced in the kernel."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    acc, before = wgmma.accumulator((64, plan.columns), f32), stage
    for at in steps_of(bounds, bk, plan, cut):
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
            acc = wgmma.wait(acc, pending=plan.pending)
        if plan.pending == 0 or at > bounds[0]:
            release(ring, before if plan.pending else stage, plan)
        before, stage = stage, stage.next()
    if plan.pending:
        acc = wgmma.wait(acc, pending=0)
        release(ring, before, plan)
    return acc, stage


def release(ring: Any, stage: Any, plan: Any) -> None:
    """Frees a stage for the copies of all blocks that bring tiles there; traced in the kernel."""
    if plan.neighbors == 1:
        ring.empty[stage].release()
    else:
        ring.empty[stage].release(ranks=range(plan.neighbors))


class Inbox(NamedTuple):
    """Where the parts of a block's share of the columns come to: four sums of each thread at a time."""

    sums: Any
    came: Any


def inbox_of(plan: Any) -> Any:
    """What the blocks of a cluster send their sums to, or None where each has whole ones; traced in the kernel."""
    if plan.parts == 1:
        return None
    shape = plan.parts, plan.rows // 64, plan.columns // plan.owners // 8, 128, 4
    return Inbox(shared(shape, f32), mbarrier(1, arrivals=1))


def exchanged(acc: Any, column: Any, inbox: Any, mine: Any, plan: Any) -> Any:
    """Whole sums and their first column: all, or, of parts, this block's share of the columns. Traced in the kernel.

    Each block of the cluster sends its sums to those that add them up, in the order of the parts. A block without a
    share has columns beyond the matrix.
    """
    if inbox is None:
        return acc, column
    width, thread, rank = plan.columns // plan.owners, thread_idx.x % 128, cluster_rank()
    is_owner = rank < plan.owners
    if mine == 0 and elect_one(warpgroup):
        inbox.came[0].arrive(expect_bytes=inbox.sums.nbytes if is_owner else 0)
    for owner in static_range(plan.owners):
        values = acc[:, width * owner : width * (owner + 1)].values
        for block in static_range(width // 8):
            four = values[4 * block : 4 * (block + 1)]
            st_async(inbox.sums, (rank, mine, block, thread, 0), four, inbox.came[0], owner)
    inbox.came[0].wait(0)

    def added_up(_: Any, row: Any, column: Any) -> Any:
        # How a fragment lies: eight columns, of which a thread has two neighbors of two rows.
        at = mine, column // 8, thread, row % 16 // 8 * 2 + column % 2
        total = inbox.sums[(0, *at)]
        for part in static_range(1, plan.parts):
            total += inbox.sums[(part, *at)]
        return total

    column = column + width * rank if is_owner else BEYOND
    return acc[:, :width].map(added_up, coordinates=True), column


def copy_scales(scales: Any, ring: Any, tiles: Any, k: Any, plan: Any, cut: Any) -> None:
    """What a warp does that brings the scales of the sums of each stage; traced in the kernel."""
    stage = PipelineState(ring.a.shape[0], producer=True)
    for tile in own_tiles(tiles, plan, cut):
        place = own_place(tile, tiles, plan, cut)
        for at in steps_of(own_sums(place, k, BLOCK, plan, cut), BLOCK, plan, cut):
            scale_of = scales.of_rows(place, at)
            found = [scale_of(lane_id() + first) for first in static_range(0, plan.rows, 32)]
            ring.empty[stage].wait()
            for i, scale in enumerate(found):
                ring.scales[stage, lane_id() + 32 * i] = scale
            ring.full[stage].release()
            stage = stage.next()


def multiply_scaled(ring: Any, stage: Any, mine: Any, bounds: Any, plan: Any) -> Any:
    """As `multiply`, of scaled factors that lie along k: the sums of each block are scaled and added apart.

    A block's sums are added while those of the next one are under way.
    """
    first, end = bounds

    def begun(stage: Any) -> Any:
        ring.full[stage].wait()
        return wgmma.mma(ring.a[stage].tile((64, BLOCK), (mine, 0)), ring.b[stage].T)

    def added_up(total: Any, part: Any, stage: Any) -> Any:
        def of_row(row: Any) -> Any:
            return ring.scales[stage, 64 * mine + row]

        scale = part.rows(of_row)
        release(ring, stage, plan)
        return total.map(added, part, scale)

    one, one_stage = wgmma.wait(begun(stage), pending=0), stage
    total = one.map(nothing)
    for _ in range(first + BLOCK, end - BLOCK, 2 * BLOCK):
        stage = stage.next()
        other, other_stage = begun(stage), stage
        total = added_up(total, one, one_stage)
        other, stage = wgmma.wait(other, pending=0), stage.next()
        one, one_stage = begun(stage), stage
        total = added_up(total, other, other_stage)
        one = wgmma.wait(one, pending=0)
    stage = stage.next()
    other = begun(stage)
    total = added_up(total, one, one_stage)
    return added_up(total, wgmma.wait(other, pending=0), stage), stage.next()


def nothing(_: Any) -> Any:
    """A sum of no products."""
    return 0.0


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


def write(part: Any, c: Any, place: Any, buffer: Any, leader: Any, pending: Any) -> None:
    """Copies a finished part to the result through one of its warpgroup's two buffers; traced in the kernel."""
    if leader:
        tma.wait(pending=pending, read=True)  # the buffer's last copy has been read
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
    bk, bm, bn = ROW_BYTES // dtype.itemsize, plan.rows, plan.columns
    stages, groups = plan.stages(out_dtype.itemsize), bm // 64
    ring = Ring(
        shared((stages, *((bm, bk) if plan.rows_of_a else (bk, bm))), dtype, swizzle=128),
        shared((stages, *((bn, bk) if plan.columns_of_b else (bk, bn))), dtype, swizzle=128),
        mbarrier(stages, arrivals=2 if plan.is_scaled else 1),
        mbarrier(stages, arrivals=4 * groups * plan.neighbors),  # warps that multiply
        shared((stages, bm), f32) if plan.is_scaled else None,
    )
    c_tiles: Any = shared((groups, 2, 64, 64), out_dtype, swizzle=128) if plan.by_copies else None
    inbox = inbox_of(plan)
    role, leader = warpgroup_id(), elect_one(warpgroup)
    p = Profiler(groups=("copy", "multiply 0", "multiply 1"), enabled=plan.profiled)
    p.init(role, leader)

    if role == 0 and leader:
        tma.prefetch(a)
        tma.prefetch(b)
    wait_for_dependencies()
    launch_dependents()
    if role == 0:  # copies
        if groups > 1:
            setmaxnreg(40)
        if leader:
            copy_tiles(a, b, ring, tiles, k, plan, cut, p)
        if plan.is_scaled and warp_id() == 1:
            copy_scales(scales, ring, tiles, k, plan, cut)
    else:  # multiplies
        if groups > 1:
            setmaxnreg(232)
        mine, stage = role - 1, PipelineState(stages)
        for tile in own_tiles(tiles, plan, cut):
            place = own_place(tile, tiles, plan, cut)
            bounds = own_sums(place, k, bk, plan, cut)
            if not plan.is_scaled:
                acc, stage = multiply(ring, stage, mine, bounds, plan, cut, p)
            else:
                acc, stage = multiply_scaled(ring, stage, mine, bounds, plan)
            row = place.row + 64 * mine
            with p.range("store"):
                acc, column = exchanged(acc, place.column, inbox, mine, plan)
                step = lesser(acc.shape[1], 64)
                for first in static_range(0, acc.shape[1], step):
                    left = column + first
                    part = ending.finished_part(acc[:, first : first + step], place, row, left)
                    if plan.by_copies:
                        buffer = c_tiles[mine, first // 64 % 2]
                        pending = 1 - bn // 64 % 2  # of an even number, buffers take turns
                        write(part, c, (*place.result, row, left), buffer, leader, pending)
                    else:
                        part.store(place.matrix_of(c), (row, left))
        if plan.by_copies and leader:
            tma.wait()
    if plan.neighbors > 1:
        sync_cluster()  # the others still copy to this block, and tell it what they have read


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
            (a, plan.rows, plan.rows_of_a),
            (b, plan.columns, plan.columns_of_b),
        )
    )
    *of_stack, height, width = b_box
    rows = plan.neighbors * plan.rows
    step = 2 * bk if plan.is_scaled else bk
    target, cut = cut_of(c, a.dtype, k, step, rows, parts, starts)
    tiles = tiles_of(target, (rows, plan.columns), cut)
    blocks = count_of(tiles)
    if plan.parts == 1:
        blocks = lesser(blocks, greater(multiprocessors() // plan.cluster, 1))
    gemm_kernel(
        tensor_map(a, box=a_box, swizzle=128),
        tensor_map(b, box=(*of_stack, height // plan.neighbors, width), swizzle=128),
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
    ).launch(
        grid=blocks * plan.cluster,
        block=128 * (1 + plan.rows // 64),
        cluster=plan.cluster if plan.cluster > 1 else None,
        programmatic=True,
    )
    if parts is not None:
        add_up(target, c, ending)
