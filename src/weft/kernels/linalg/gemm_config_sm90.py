# SPDX-License-Identifier: Apache-2.0
"""Tile shapes, clusters and split-K of `gemm_sm90`, chosen by a model of its time.

In: the sizes of a problem. Out: a `Tiling`, and a `GemmConfig` for the kernel.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

import weft

ROW_BYTES: Final = 128  # of an operand tile along K: 64 elements of 16 bits, 128 of 8
SHARED_BYTES: Final = 226 * 1024  # of a block, without barriers
MAX_STAGES: Final = 12
BM: Final = 128
BN: Final = 256
SMALL_M: Final = 64  # fewer rows than a tile has
MIN_K_PER_SPLIT: Final = 512

# Measured on an H200. Rates are per µs, and per multiprocessor (SM) where the name says so; times are in µs.
MMA_RATE_PER_SM: Final = 6.7e6  # 16-bit elements of C times bytes along K
MIN_MMA_N: Final = 64  # a narrower WGMMA takes as long
L2_RATE_PER_SM: Final = 160e3  # bytes into shared memory
DRAM_RATE: Final = 4.1e6
DRAM_RATE_PER_SM: Final = 40e3
L2_BYTES: Final = 40e6
L2_RATE: Final = 35e6  # bytes, while others come from memory
DSMEM_RATE_PER_SM: Final = 32e3
K_STEP_TIME: Final = 0.12
TILE_TIME: Final = 2.9
CLUSTER_TIME: Final = 1.0
REDUCE_TIME: Final = 4.0  # of the second launch
CLUSTER_OCCUPANCY: Final = {
    1: 1.0,
    2: 1.0,
    4: 0.85,
    8: 0.75,
}  # the share of SMs that clusters reach


class GemmConfig(NamedTuple):
    """Operand layouts and tiles of `gemm_sm90`, known when it is compiled.

    Attributes:
        a_k_major: whether A is stored as (m, k) rows, else as (k, m).
        b_k_major: whether B is stored as (n, k) rows, else as (k, n).
        batched: whether A and B have a matrix for each of C, or one for all.
        tma_store: whether C is a tensor map, else a tensor.
        bn: columns of a tile; a multiple of 8 · `cluster_k`, of 64 for MN-major B or TMA stores; 128 for scaled
            operands, which need two accumulators.
        bm: rows of a tile, 64 for each consumer warpgroup.
        cluster_k: blocks of a cluster that split K of a tile.
        cluster_m: blocks of a cluster that share tiles of B by multicast.
        pending: WGMMAs in flight while the next one is issued.
        scaled: whether operands have scales.
        profiled: whether the kernel records events for `weft.profiler.capture`.
    """

    a_k_major: weft.Constexpr[bool] = True
    b_k_major: weft.Constexpr[bool] = True
    batched: weft.Constexpr[tuple[bool, bool]] = (False, False)
    tma_store: weft.Constexpr[bool] = True
    bn: weft.Constexpr[int] = BN
    bm: weft.Constexpr[int] = BM
    cluster_k: weft.Constexpr[int] = 1
    cluster_m: weft.Constexpr[int] = 1
    pending: weft.Constexpr[int] = 0
    scaled: weft.Constexpr[bool] = False
    profiled: weft.Constexpr[bool] = False

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_k * self.cluster_m

    @property
    def reducers(self) -> int:
        """Blocks of a cluster that reduce partial sums, each for a multiple of 8 columns."""
        vectors = self.bn // 8
        return max(count for count in range(1, self.cluster_k + 1) if vectors % count == 0)

    def stages(self, itemsize: int) -> int:
        """Stages of the pipeline: as many as shared memory holds beside results of `itemsize` bytes."""
        result = 2 * 64 * self.bm * itemsize if self.tma_store else 0
        partials = 4 * self.bm * self.bn * self.cluster_k // self.reducers
        stage = ROW_BYTES * (self.bm + self.bn) + (4 * self.bm if self.scaled else 0)
        rest = SHARED_BYTES - result - (partials if self.cluster_k > 1 else 0)
        return min(rest // stage, MAX_STAGES)


DEFAULT: Final = GemmConfig()


class Tiling(NamedTuple):
    """Tiles, clusters and splits.

    Attributes:
        bm, bn: rows and columns of a tile.
        cluster_k: blocks of a cluster that split K.
        cluster_m: blocks of a cluster that share tiles of B.
        num_splits: of K through memory, or None.
    """

    bm: int = BM
    bn: int = BN
    cluster_k: int = 1
    cluster_m: int = 1
    num_splits: int | None = None


@cache
def choose_tiling(
    shape: tuple[int, ...],
    k: int,
    itemsize: int,
    multiprocessors: int,
    bn_choices: tuple[int, ...],
) -> Tiling:
    """The tiling of the least `estimated_time`.

    Args:
        shape: of C, (..., m, n).
        k: the length of K.
        itemsize: of operand elements.
        multiprocessors: of the GPU.
        bn_choices: columns of a tile.
    """
    m, k_steps = shape[-2], -(-k * itemsize // ROW_BYTES)
    found: list[tuple[float, Tiling]] = []

    def add(tiling: Tiling) -> None:
        config = GemmConfig(bm=tiling.bm, bn=tiling.bn, cluster_k=tiling.cluster_k)
        if config.stages(2) > 2:
            found.append((estimated_time(tiling, shape, k, itemsize, multiprocessors), tiling))

    for bn in bn_choices:
        for bm in (64, 128):
            tiles = _tile_count(shape, bm, bn)
            if (bm == 128 and m <= 64) or (bm == 64 and m > 64 and tiles > multiprocessors):
                continue  # half of each tile would be empty; one warpgroup would do the work of two
            for cluster_k in (1, 2, 4, 8):
                if cluster_k <= max(k_steps, 1):
                    add(Tiling(bm, bn, cluster_k))
            if bm == 64 < m and bn >= 64:
                add(Tiling(bm, bn, cluster_m=2))
            num_splits = min(multiprocessors // tiles, k // MIN_K_PER_SPLIT)
            if num_splits > 8:
                add(Tiling(bm, bn, num_splits=num_splits))
    return min(found)[1]


def estimated_time(
    tiling: Tiling, shape: tuple[int, ...], k: int, itemsize: int, multiprocessors: int
) -> float:
    """Microseconds, roughly: the slowest of TMA, memory and tensor cores, plus latencies that nothing hides."""
    bm, bn, cluster_k, cluster_m, num_splits = tiling
    m, n = shape[-2:]
    splits = cluster_k * (num_splits or 1)
    blocks = _tile_count(shape, bm, bn) * splits
    resident = int(multiprocessors * CLUSTER_OCCUPANCY[cluster_k * cluster_m])
    waves = -(-blocks // max(resident, 1))
    k_steps = -(-k * itemsize // (ROW_BYTES * splits))
    k_step = max(
        bm * max(bn, MIN_MMA_N) * ROW_BYTES / MMA_RATE_PER_SM,
        ROW_BYTES * (bm + bn) / L2_RATE_PER_SM,
        K_STEP_TIME,
    )
    time = waves * (k_steps * k_step + TILE_TIME)
    read = k * itemsize * (m + n) * math.prod(shape[:-2])
    if read > L2_BYTES:
        loaded = blocks * k_steps * ROW_BYTES * (bm + bn / cluster_m)
        rate = min(DRAM_RATE, DRAM_RATE_PER_SM * min(blocks // waves, multiprocessors))
        time = max(time, TILE_TIME + read / rate + max(loaded - read, 0.0) / L2_RATE)
    if cluster_k * cluster_m > 1:
        time += CLUSTER_TIME
    if cluster_k > 1:
        time += 4 * bm * bn / DSMEM_RATE_PER_SM
    if num_splits:
        time += REDUCE_TIME + 8 * num_splits * m * n / DRAM_RATE
    return time


def _tile_count(shape: tuple[int, ...], bm: int, bn: int) -> int:
    return -(-shape[-2] // bm) * -(-shape[-1] // bn) * math.prod(shape[:-2])


def bn_choices(n: int, b_k_major: bool, scaled: bool) -> tuple[int, ...]:
    """Columns of a tile that suit an n, the layout of B and scales."""
    if scaled:
        return (128,)
    if b_k_major and n <= 64:
        return (8 * -(-n // 8),)
    return tuple(bn for bn in (32, 64, 128, 256) if bn >= 64 or b_k_major)


def grouped_bn(n: int) -> int:
    """Columns of a tile for groups of rows or along K."""
    return next((bn for bn in (64, 128) if n <= bn), BN)
