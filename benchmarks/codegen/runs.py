# SPDX-License-Identifier: Apache-2.0
"""Arguments and grids of the suite's kernels: random data of real sizes, grids, and what a launch must do at least.

In: a scale. Out: for each kernel a function that makes a `Run`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

GRID = 2048  # blocks of kernels that take any number


class Run(NamedTuple):
    """Arguments and grid of a kernel of the suite.

    Attributes:
        grid: blocks.
        arguments: arrays and numbers, in the order of both languages.
        sizes: the integers that CUDA C++ takes after them; weft reads them from the arrays.
        bytes: that must be read or written.
        operations: on f32, a fused multiply-add being two; 0 where memory is the limit in any case.
        written: positions of the arrays that the kernel writes.
    """

    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    sizes: tuple[int, ...]
    bytes: int
    operations: int
    written: tuple[int, ...]


def runs(scale: int = 1) -> dict[str, Callable[[np.random.Generator], Run]]:
    """How to make the arguments of each kernel of the suite.

    Args:
        scale: what the extents of benchmarks are divided by: a power of two up to 64.
    """
    vector, side, depth = (1 << 26) // scale, 8192 // scale, 4096 // scale

    def elementwise(
        random: np.random.Generator, reads: int, writes: int, *numbers: object, per_block: int = 256
    ) -> Run:
        arrays = [random.random(vector, np.float32) + np.float32(0.1) for _ in range(reads)]
        arrays += [np.zeros(vector, np.float32) for _ in range(writes)]
        arguments = (*numbers, *arrays)
        written = tuple(range(len(arguments) - writes, len(arguments)))
        total = sum(array.nbytes for array in arrays)
        return Run((-(-vector // per_block), 1, 1), arguments, (vector,), total, 0, written)

    def saxpy(random: np.random.Generator, per_block: int) -> Run:
        made = elementwise(random, 2, 0, np.float32(1.5), per_block=per_block)
        return made._replace(bytes=made.bytes * 3 // 2, written=(2,))

    def reduction(random: np.random.Generator) -> Run:
        a, sums = random.random(vector, np.float32), np.zeros(GRID, np.float32)
        return Run((GRID, 1, 1), (a, sums), (vector,), a.nbytes, 0, (1,))

    def of_rows(random: np.random.Generator, parameters: int) -> Run:
        x = random.random((side, depth), np.float32)
        more = [random.random(depth, np.float32) for _ in range(parameters)]
        arguments = (x, *more, np.zeros_like(x))
        return Run((side, 1, 1), arguments, (depth,), 2 * x.nbytes, 0, (len(arguments) - 1,))

    def image(random: np.random.Generator, tile: tuple[int, int], *weights: object) -> Run:
        a = random.random((side, side), np.float32)
        arguments = (a, *weights, np.zeros_like(a))
        grid = (-(-side // tile[0]), -(-side // tile[1]), 1)
        return Run(grid, arguments, (side, side), 2 * a.nbytes, 0, (len(arguments) - 1,))

    def blur(random: np.random.Generator) -> Run:
        a = random.integers(0, 256, (2 * side, 2 * side), np.uint8)
        grid = (2 * side // 32, 2 * side // 8, 1)
        return Run(grid, (a, np.zeros_like(a)), (2 * side, 2 * side), 2 * a.nbytes, 0, (1,))

    def product(random: np.random.Generator, tile: tuple[int, int], extent: int) -> Run:
        a, b = (random.random((extent, extent), np.float32) for _ in range(2))
        grid = (extent // tile[0], extent // tile[1], 1)
        arguments = (a, b, np.zeros_like(a))
        return Run(grid, arguments, (extent,) * 3, 3 * a.nbytes, 2 * extent**3, (2,))

    def fft_step(random: np.random.Generator) -> Run:
        made = elementwise(random, 2, 2, np.int32(1024), per_block=512)
        return made

    def nbody(random: np.random.Generator) -> Run:
        count = 65536 // scale
        bodies = [random.random(count, np.float32) for _ in range(4)]
        force = np.zeros((count, 3), np.float32)
        # Of a pair: three differences, six operations of the square, the root, three products, three multiply-adds.
        return Run(
            (-(-count // 256), 1, 1),
            (*bodies, force),
            (count,),
            7 * 4 * count,
            19 * count**2,
            (4,),
        )

    def spmv(random: np.random.Generator) -> Run:
        rows, per_row = vector // 16, 16
        first = np.arange(rows + 1, dtype=np.int32) * np.int32(per_row)
        columns = random.integers(0, rows, rows * per_row, np.int32)
        values = random.random(rows * per_row, np.float32)
        x, y = random.random(rows, np.float32), np.zeros(rows, np.float32)
        total = first.nbytes + columns.nbytes + values.nbytes + x.nbytes + y.nbytes
        return Run((-(-rows // 256), 1, 1), (first, columns, values, x, y), (rows,), total, 0, (4,))

    def histogram(random: np.random.Generator) -> Run:
        a = random.integers(0, 256, 4 * vector, np.uint8)
        return Run((GRID, 1, 1), (a, np.zeros(256, np.int32)), (4 * vector,), a.nbytes, 0, (1,))

    def scan(random: np.random.Generator) -> Run:
        made = elementwise(random, 1, 1)
        sums = np.zeros(vector // 256, np.float32)
        return made._replace(arguments=(*made.arguments, sums), written=(1, 2))

    def attention(random: np.random.Generator) -> Run:
        queries, keys = 65536 // scale, 4096 // scale
        q, out = random.random((queries, 32), np.float32), np.zeros((queries, 32), np.float32)
        k, v = (random.random((keys, 32), np.float32) for _ in range(2))
        return Run(
            (-(-queries // 128), 1, 1),
            (q, k, v, out),
            (queries, keys),
            2 * q.nbytes + 2 * k.nbytes,
            4 * 32 * queries * keys,
            (3,),
        )

    return {
        "copy": partial(elementwise, reads=1, writes=1),
        "saxpy": partial(saxpy, per_block=256),
        "saxpy_vec4": partial(saxpy, per_block=1024),
        "reduction": reduction,
        "softmax": partial(of_rows, parameters=0),
        "layernorm": partial(of_rows, parameters=2),
        "transpose": lambda random: image(random, (32, 32)),
        "matmul_naive": partial(product, tile=(32, 8), extent=depth // 2),
        "matmul_tiled": partial(product, tile=(16, 16), extent=depth // 2),
        "sgemm": partial(product, tile=(128, 128), extent=max(depth, 128)),
        "stencil5x5": lambda random: image(random, (32, 8), np.full((5, 5), 0.04, np.float32)),
        "fft_step": fft_step,
        "nbody": nbody,
        "black_scholes": partial(elementwise, reads=3, writes=2),
        "spmv": spmv,
        "histogram": histogram,
        "blur_u8": blur,
        "scan": scan,
        "attention": attention,
        "gelu": partial(elementwise, reads=1, writes=1),
    }
