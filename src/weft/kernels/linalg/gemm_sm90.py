# SPDX-License-Identifier: Apache-2.0
"""C = epilogue(A · B) on Hopper: a persistent, warp-specialized GEMM by TMA and WGMMA.

In: tensor maps of two stacks of matrices of bf16, f16 or 8-bit floats. Out: C, accumulated in f32. A block has a
producer warpgroup, which loads tiles of A and B into a ring of stages, and one or two consumer warpgroups of 64 rows
each. A stage has two barriers: `full` counts its bytes, `empty` the consumer warps that are done with it. There is one
block per multiprocessor, which computes one tile after the other. With few tiles, the blocks of a cluster split K and
add up partial sums in distributed shared memory. `gemm_config_sm90` chooses tiles, clusters and splits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Bool, Int, Number, Numbers, Shape
from weft.kernels.linalg.epilogue import IDENTITY, Epilogue
from weft.kernels.linalg.gemm_config_sm90 import DEFAULT, ROW_BYTES, GemmConfig
from weft.kernels.linalg.operands import SCALE_BLOCK, UNSCALED, Scales
from weft.kernels.linalg.scheduler import (
    TileCoord,
    grid_size,
    k_bounds,
    num_tiles,
    tile_coord,
    tile_counts,
)
from weft.kernels.linalg.split_k import NO_SPLIT, Split, reduce_splits, split_work

OUT_OF_BOUNDS: Final = 1 << 30  # beyond the columns of any matrix


class Ring(NamedTuple):
    """The stages of a block: tiles of A and B, scales of rows, and the barriers of each stage."""

    a: weft.Tensor
    b: weft.Tensor
    full: weft.Mbarrier
    empty: weft.Mbarrier
    scales: Any = None


@weft.kernel(max_threads=384)
def gemm_kernel(
    a: weft.TensorMap,
    b: weft.TensorMap,
    c: Any,
    tiles: Any,
    k: weft.i32,
    dtype: weft.Constexpr[weft.DType],
    c_dtype: weft.Constexpr[weft.DType],
    epilogue: Epilogue = IDENTITY,
    config: GemmConfig = DEFAULT,
    split: Split = NO_SPLIT,
    scales: Scales = UNSCALED,
) -> None:
    """A block computes tiles of C; `tiles` are the scheduler's `tile_counts`, `c` a tensor map or a tensor."""
    bk, bm, bn = ROW_BYTES // dtype.itemsize, config.bm, config.bn
    stages, consumers = config.stages(c_dtype.itemsize), bm // 64
    ring = Ring(
        weft.shared((stages, *((bm, bk) if config.a_k_major else (bk, bm))), dtype, swizzle=128),
        weft.shared((stages, *((bn, bk) if config.b_k_major else (bk, bn))), dtype, swizzle=128),
        weft.mbarrier(stages, arrivals=2 if config.scaled else 1),
        weft.mbarrier(stages, arrivals=4 * consumers * config.cluster_m),  # consumer warps
        weft.shared((stages, bm), weft.f32) if config.scaled else None,
    )
    c_tiles: Any = None
    if config.tma_store:
        c_tiles = weft.shared((consumers, 2, 64, 64), c_dtype, swizzle=128)
    partials = partial_sums(config)
    role, leader = weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    p = weft.profiler.Profiler(groups=("load", "multiply 0", "multiply 1"), enabled=config.profiled)
    p.init(role, leader)

    if role == 0 and leader:
        weft.tma.prefetch(a)
        weft.tma.prefetch(b)
    weft.grid_dependency_wait()
    weft.grid_dependency_launch()
    if role == 0:  # the producer
        if consumers > 1:
            weft.setmaxnreg(40)
        if leader:
            load_tiles(a, b, ring, tiles, k, config, split, p)
        if config.scaled and weft.warp_id() == 1:
            load_scales(scales, ring, tiles, k, config, split)
    else:
        if consumers > 1:
            weft.setmaxnreg(232)
        consumer, stage = role - 1, weft.PipelineState(stages)
        for tile in block_tiles(tiles, config, split):
            coord = block_coord(tile, tiles, config, split)
            bounds = block_k_bounds(coord, k, bk, config, split)
            if not config.scaled:
                acc, stage = mainloop(ring, stage, consumer, bounds, config, split, p)
            else:
                acc, stage = scaled_mainloop(ring, stage, consumer, bounds, config)
            row = coord.row + 64 * consumer
            with p.range("store"):
                acc, column = reduce_partials(acc, coord.column, partials, consumer, config)
                width = min(acc.shape[1], 64)
                for first in weft.static_range(0, acc.shape[1], width):
                    left = column + first
                    part = epilogue.apply_fragment(acc[:, first : first + width], coord, row, left)
                    if config.tma_store:
                        buffer = c_tiles[consumer, first // 64 % 2]
                        pending = 1 - bn // 64 % 2  # an even number alternates between the buffers
                        store_part(part, c, (*coord.c_batch, row, left), buffer, leader, pending)
                    else:
                        part.store(coord.slice_c(c), (row, left))
        if config.tma_store and leader:
            weft.tma.wait()
    if config.cluster_m > 1:
        weft.sync_cluster()  # other blocks still multicast to this one and arrive at its barriers


@weft.device
def block_tiles(tiles: Shape, config: GemmConfig, split: Split) -> Numbers:
    """The indices of the tiles of this block; of the first one in a cluster."""
    first, step = weft.block_idx.x // config.cluster, weft.grid_dim.x // config.cluster
    return range(first, num_tiles(tiles, split), step)


@weft.device
def block_coord(tile: Int, tiles: Shape, config: GemmConfig, split: Split) -> TileCoord:
    """The position of this block's tile."""
    coord = tile_coord(tile, tiles, (config.cluster_m * config.bm, config.bn), split)
    if config.cluster_m == 1:
        return coord
    return coord._replace(row=coord.row + config.bm * weft.cluster_rank())


@weft.device
def block_k_bounds(coord: TileCoord, k: Int, bk: Int, config: GemmConfig, split: Split) -> Numbers:
    """The range of K that this block sums; of scaled operands pairs of steps, the last maybe beyond the end."""
    step = 2 * bk if config.scaled else bk
    if config.cluster_k == 1:
        first, end = k_bounds(coord, k, split)
    else:
        length = step * weft.ceil_div(weft.ceil_div(k, step), config.cluster_k)
        first = length * weft.cluster_rank()
        end = min(first + length, k)
    return first, first + step * weft.ceil_div(end - first, step) if config.scaled else end


@weft.device
def k_steps(bounds: Numbers, bk: Int, config: GemmConfig, split: Split) -> Numbers:
    """The first k of each step; one step, of zeros, where a group or a split is empty."""
    first, end = bounds
    may_be_empty = split.offsets is not None or config.cluster_k > 1
    return range(first, max(end, first + 1) if may_be_empty else end, bk)


@weft.device
def load_tiles(
    a: weft.TensorMap,
    b: weft.TensorMap,
    ring: Ring,
    tiles: Shape,
    k: Int,
    config: GemmConfig,
    split: Split,
    p: Any,
) -> None:
    """The producer thread: loads tiles of A and B into free stages."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    stage = weft.PipelineState(ring.a.shape[0], producer=True)
    for tile in block_tiles(tiles, config, split):
        coord = block_coord(tile, tiles, config, split)
        batch_a, batch_b = (coord.batch if batched else () for batched in config.batched)
        for at in k_steps(block_k_bounds(coord, k, bk, config, split), bk, config, split):
            at_a = (coord.row, at) if config.a_k_major else (at, coord.row)
            at_b = (coord.column, at) if config.b_k_major else (at, coord.column)
            with p.range("wait"):
                ring.empty[stage].wait()
            ring.full[stage].arrive(expect_bytes=ring.a[stage].nbytes + ring.b[stage].nbytes)
            weft.tma.load(a, (*batch_a, *at_a), ring.a[stage], ring.full[stage])
            load_b(b, batch_b, at_b, ring, stage, config)
            p.begin_async("load", stage.index)
            stage = stage.next()


@weft.device
def load_b(
    b: weft.TensorMap, batch: Shape, at: Int, ring: Ring, stage: Int, config: GemmConfig
) -> None:
    """Loads a tile of B; in a multicast cluster, this block's share of it into every block."""
    if config.cluster_m == 1:
        weft.tma.load(b, (*batch, *at), ring.b[stage], ring.full[stage])
        return
    rank, (height, width) = weft.cluster_rank(), ring.b[stage].shape
    height //= config.cluster_m
    share = ring.b[stage].tile((height, width), (rank, 0))
    place = (*batch, at[0] + height * rank, at[1])
    weft.tma.load(b, place, share, ring.full[stage], multicast=range(config.cluster_m))


@weft.device
def mainloop(
    ring: Ring, stage: Int, consumer: Int, bounds: Numbers, config: GemmConfig, split: Split, p: Any
) -> Any:
    """A consumer's accumulator of a tile, and the next stage."""
    bk = ROW_BYTES // ring.a.dtype.itemsize
    acc, before = weft.wgmma.accumulator((64, config.bn), weft.f32), stage
    for at in k_steps(bounds, bk, config, split):
        with p.range("wait"):
            ring.full[stage].wait()
        if consumer == 0:
            p.end_async("load", stage.index)
        if split.offsets is not None:
            zero_beyond(ring, stage, consumer, bounds[1] - at)
        if config.a_k_major:
            left = ring.a[stage].tile((64, bk), (consumer, 0))
        else:
            left = ring.a[stage].tile((bk, 64), (0, consumer)).T
        right = ring.b[stage].T if config.b_k_major else ring.b[stage]
        with p.range("multiply"):
            acc = weft.wgmma.mma(left, right, acc, accumulate=at > bounds[0])
            acc = weft.wgmma.wait(acc, pending=config.pending)
        if config.pending == 0 or at > bounds[0]:
            release(ring, before if config.pending else stage, config)
        before, stage = stage, stage.next()
    if config.pending:
        acc = weft.wgmma.wait(acc, pending=0)
        release(ring, before, config)
    return acc, stage


@weft.device
def release(ring: Ring, stage: Int, config: GemmConfig) -> None:
    """Frees a stage for the producers of all blocks that load into it."""
    if config.cluster_m == 1:
        ring.empty[stage].release()
    else:
        ring.empty[stage].release(ranks=range(config.cluster_m))


@weft.device
def zero_beyond(ring: Ring, stage: Int, consumer: Int, length: Int) -> None:
    """Zeros the rows of a stage's tiles from `length` on, which belong to the next group along K."""
    bk = ring.a.shape[1]
    if length < bk:
        for tile in (ring.a[stage].tile((bk, 64), (0, consumer)), ring.b[stage]):
            columns = tile.shape[1]
            first = length * columns + weft.thread_idx.x % 128
            for number in range(first, bk * columns, 128):
                tile[number // columns, number % columns] = tile.dtype(0.0)
        weft.fence_proxy()
        weft.sync_warpgroup()


class PartialSums(NamedTuple):
    """The DSMEM buffer for partial sums of a reducer's columns, four of each thread at a time, and its barrier."""

    values: weft.Tensor
    arrived: weft.Mbarrier


@weft.device
def partial_sums(config: GemmConfig) -> PartialSums | None:
    """The buffer that the blocks of a cluster send partial sums to; None without split-K in clusters."""
    if config.cluster_k == 1:
        return None
    vectors = config.bn // config.reducers // 8
    shape = config.cluster_k, config.bm // 64, vectors, 128, 4
    return PartialSums(weft.shared(shape, weft.f32), weft.mbarrier(1, arrivals=1))


@weft.device
def reduce_partials(
    acc: Number, column: Int, partials: PartialSums | None, consumer: Int, config: GemmConfig
) -> Any:
    """The sums over the whole of K and their first column: of the tile, or of this reducer's share of its columns.

    Each block of a cluster sends its partial sums to the reducers, which add them up in the order of K. Columns of a
    block that reduces nothing are out of bounds.
    """
    if partials is None:
        return acc, column
    width, thread = config.bn // config.reducers, weft.thread_idx.x % 128
    rank = weft.cluster_rank()
    is_reducer = rank < config.reducers
    if consumer == 0 and weft.elect_one(weft.warpgroup):
        partials.arrived[0].arrive(expect_bytes=partials.values.nbytes if is_reducer else 0)
    for reducer in weft.static_range(config.reducers):
        values = acc[:, width * reducer : width * (reducer + 1)].values
        for vector in weft.static_range(width // 8):
            place = rank, consumer, vector, thread, 0
            four = values[4 * vector : 4 * (vector + 1)]
            weft.st_async(partials.values, place, four, partials.arrived[0], reducer)
    partials.arrived[0].wait(0)

    def total_of(_: object, row: Int, column: Int) -> Any:
        # A thread holds two adjacent elements of two rows in every eight columns.
        at = consumer, column // 8, thread, row % 16 // 8 * 2 + column % 2
        total = partials.values[(0, *at)]
        for source in weft.static_range(1, config.cluster_k):
            total += partials.values[(source, *at)]
        return total

    column = column + width * rank if is_reducer else OUT_OF_BOUNDS
    return acc[:, :width].map(total_of, coordinates=True), column


@weft.device
def load_scales(
    scales: Scales, ring: Ring, tiles: Shape, k: Int, config: GemmConfig, split: Split
) -> None:
    """A producer warp: loads the scales of each stage's rows."""
    stage, lane = weft.PipelineState(ring.a.shape[0], producer=True), weft.lane_id()
    for tile in block_tiles(tiles, config, split):
        coord = block_coord(tile, tiles, config, split)
        bounds = block_k_bounds(coord, k, SCALE_BLOCK, config, split)
        for at in k_steps(bounds, SCALE_BLOCK, config, split):
            scale_of = scales.of_rows(coord, at)
            found = [scale_of(lane + first) for first in weft.static_range(0, config.bm, 32)]
            ring.empty[stage].wait()
            for i, scale in enumerate(found):
                ring.scales[stage, lane + 32 * i] = scale
            ring.full[stage].release()
            stage = stage.next()


@weft.device
def scaled_mainloop(
    ring: Ring, stage: Int, consumer: Int, bounds: Numbers, config: GemmConfig
) -> Any:
    """`mainloop` for scaled K-major operands: sums over blocks of K are scaled and added in f32.

    While the sum of one block is added, that of the next is in flight.
    """
    first, end = bounds

    def issue(stage: Int) -> Any:
        ring.full[stage].wait()
        left = ring.a[stage].tile((64, SCALE_BLOCK), (consumer, 0))
        return weft.wgmma.mma(left, ring.b[stage].T)

    def add(total: Number, part: Number, stage: Int) -> Number:
        def scale_of(row: Int) -> Any:
            return ring.scales[stage, 64 * consumer + row]

        scale = part.rows(scale_of)
        release(ring, stage, config)
        return total.map(add_scaled, part, scale)

    one, one_stage = weft.wgmma.wait(issue(stage), pending=0), stage
    total = one.map(zero)
    for _ in range(first + SCALE_BLOCK, end - SCALE_BLOCK, 2 * SCALE_BLOCK):
        stage = stage.next()
        other, other_stage = issue(stage), stage
        total = add(total, one, one_stage)
        other, stage = weft.wgmma.wait(other, pending=0), stage.next()
        one, one_stage = issue(stage), stage
        total = add(total, other, other_stage)
        one = weft.wgmma.wait(one, pending=0)
    stage = stage.next()
    other = issue(stage)
    total = add(total, one, one_stage)
    return add(total, weft.wgmma.wait(other, pending=0), stage), stage.next()


@weft.device
def zero(_: object) -> Any:
    """An empty sum."""
    return 0.0


@weft.device
def add_scaled(total: Number, x: Number, scale: Number) -> Any:
    """Adds a scaled number."""
    return total + x * scale


@weft.device
def store_part(
    part: weft.Fragment,
    c: weft.TensorMap,
    place: Shape,
    buffer: weft.Tensor,
    leader: Bool,
    pending: Bool,
) -> None:
    """Stores a part of C by TMA, through one of its warpgroup's two buffers."""
    if leader:
        weft.tma.wait(pending=pending, read=True)  # the buffer's last store has been read
    weft.sync_warpgroup()
    part.to(buffer.dtype).store(buffer)
    weft.fence_proxy()
    weft.sync_warpgroup()
    if leader:
        weft.tma.store(c, place, buffer)


@weft.jit
def gemm(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    epilogue: Epilogue = IDENTITY,
    config: GemmConfig = DEFAULT,
    num_splits: weft.i32 | None = None,
    offsets: weft.Tensor | None = None,
    scales: Scales = UNSCALED,
) -> None:
    """C = epilogue(A · B), where A is stored as (m, k) or (k, m), B as (n, k) or (k, n).

    With `num_splits`, that many blocks split K of a tile. With `offsets`, rows of A and C belong to groups, each with a
    matrix of B; if C is a stack, K is divided into groups instead, a matrix of C for each. Neither goes with TMA
    stores. Scaled operands have 8 bits and are K-major, and their tiles have 128 columns.
    """
    bk = ROW_BYTES // a.dtype.itemsize
    k = a.shape[-1] if config.a_k_major else a.shape[-2]
    a_box, b_box = (
        (*(1,) * (tensor.ndim - 2), *((rows, bk) if k_major else (bk, rows)))
        for tensor, rows, k_major in (
            (a, config.bm, config.a_k_major),
            (b, config.bn, config.b_k_major),
        )
    )
    *b_stack, height, width = b_box
    rows = config.cluster_m * config.bm
    step = 2 * bk if config.scaled else bk
    target, split = split_work(c, a.dtype, k, step, rows, num_splits, offsets)
    tiles = tile_counts(target, (rows, config.bn), split)
    blocks = grid_size(tiles)
    if config.cluster_k == 1:
        blocks = min(blocks, max(weft.multiprocessors() // config.cluster, 1))
    gemm_kernel(
        weft.tensor_map(a, box=a_box, swizzle=128),
        weft.tensor_map(b, box=(*b_stack, height // config.cluster_m, width), swizzle=128),
        weft.tensor_map(c, box=(*(1,) * (c.ndim - 2), 64, 64), swizzle=128)
        if config.tma_store
        else target,
        tiles,
        k,
        a.dtype,
        c.dtype,
        epilogue if num_splits is None else IDENTITY,
        config,
        split,
        scales,
    ).launch(
        grid=blocks * config.cluster,
        block=128 * (1 + config.bm // 64),
        cluster=config.cluster if config.cluster > 1 else None,
        programmatic=True,
    )
    if num_splits is not None:
        reduce_splits(target, c, epilogue)
