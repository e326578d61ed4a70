# SPDX-License-Identifier: Apache-2.0
"""Peak speeds of a GPU, measured: a copy from device to device, and kernels of nothing but arithmetic.

In: a stopwatch. Out: bytes or operations in a microsecond.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpu_kernels import Stopwatch

REPEATS = 5  # measurements, of which the median counts
DEPTH = 8  # wgmmas between two waits
COLUMNS = 256


def memory_ceiling(watch: Stopwatch, scale: int = 1) -> float:
    """Bytes per microsecond of a copy from device to device, read and written."""
    size = (1 << 30) // scale
    source, target = weft.zeros(size, weft.u8, "cuda:0"), weft.empty(size, weft.u8, "cuda:0")
    return 2 * size / _median(watch, lambda: weft.copy(target, source))


@weft.kernel
def multiply_adds(a: weft.Tensor, repeats: weft.i32):
    """Nothing but fused multiply-adds, eight chains in each thread."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    factor = a[i]
    sums = [factor + weft.f32(k) for k in range(8)]
    for _ in range(repeats):
        for _ in weft.static_range(16):
            for k in weft.static_range(8):
                sums[k] = weft.math.fma(sums[k], factor, 0.5)
    a[i] = sum(sums)


def arithmetic_ceiling(watch: Stopwatch, options: str = "") -> float:
    """Operations per microsecond on f32, a fused multiply-add being two."""
    blocks, threads, repeats = 4096, 256, 256
    a = weft.full(blocks * threads, 0.5, weft.f32, "cuda:0")

    @weft.jit(options=options)
    def host(a: weft.Tensor[weft.f32, ("n",)], repeats: weft.i32) -> None:
        multiply_adds(a, repeats).launch(grid=blocks, block=threads)

    return 2 * 128 * blocks * threads * repeats / _median(watch, lambda: host(a, repeats))


@weft.kernel(max_threads=256)
def products_kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor, repeats: weft.i32):
    """Nothing but products of two warpgroups, of tiles that stay in shared memory."""
    depth = 128 // a.dtype.itemsize
    a_tile = weft.shared((128, depth), a.dtype, swizzle=128)
    b_tile = weft.shared((COLUMNS, depth), b.dtype, swizzle=128)
    thread, group = weft.thread_idx.x, weft.warpgroup_id()
    for k in range(thread, 128 * depth, 256):
        a_tile[k // depth, k % depth] = a[k // depth, k % depth]
    for k in range(thread, COLUMNS * depth, 256):
        b_tile[k // depth, k % depth] = b[k // depth, k % depth]
    weft.fence_proxy()
    weft.sync_threads()
    rows = a_tile.tile((64, depth), (group, 0))
    total = weft.wgmma.accumulator((64, COLUMNS), weft.f32)
    for step in range(repeats):
        for k in weft.static_range(DEPTH):
            total = weft.wgmma.mma(rows, b_tile.T, total, accumulate=step + k > 0)
        total = weft.wgmma.wait(total, pending=0)
    out[weft.block_idx.x * 256 + thread] = total.values[0]


@weft.jit
def products(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor, repeats: weft.i32) -> None:
    """A block of `products_kernel` for every 256 elements of `out`."""
    products_kernel(a, b, out, repeats).launch(grid=out.shape[0] // 256, block=256)


def product_operands(torch: Any, dtype: Any, blocks: int) -> tuple[Any, Any, Any]:
    """Two factors, random since zeros draw less power and run faster, and what blocks write."""
    a, b = (torch.randn(rows, 128 // dtype.itemsize).to(dtype) for rows in (128, COLUMNS))
    return a, b, torch.empty(256 * blocks)


def product_ceiling(torch: Any, watch: Stopwatch, dtype: Any, blocks: int) -> float:
    """Operations per microsecond of tensor cores, of a GPU with products of warpgroups.

    Args:
        torch: the module, whose default device is the GPU.
        watch: measures.
        dtype: of the factors, torch's; sums are f32.
        blocks: as many as there are multiprocessors.
    """
    repeats, operands = 512, product_operands(torch, dtype, blocks)
    work = 2 * 128 * COLUMNS * (128 // dtype.itemsize) * DEPTH * repeats * blocks
    return work / _median(watch, lambda: products(*operands, repeats))


def _median(watch: Stopwatch, call: Callable[[], object]) -> float:
    measure = watch.measurement(call)
    return statistics.median(measure() for _ in range(REPEATS))
