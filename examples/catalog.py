# SPDX-License-Identifier: Apache-2.0
"""The list of the examples, in the order in which they are worth reading.

Out: `EXAMPLES`, which the demo, the tests and the benchmarks walk through; `HOPPER_EXAMPLES`, which need sm_90a on a
GPU and have tests of their own.
"""

from __future__ import annotations

from examples import (
    add_one,
    bitonic_sort,
    black_scholes,
    block_reduction,
    box_blur,
    breadth_first_search,
    bulk_reduction,
    cholesky,
    cluster_softmax,
    convolution,
    crc32,
    fft,
    floyd_warshall,
    game_of_life,
    histogram,
    inclusive_scan,
    mandelbrot,
    matmul,
    monte_carlo,
    n_body,
    profile_matmul,
    profile_pipeline,
    profile_regions,
    radix_sort,
    saxpy,
    sha256,
    shared_histogram,
    sieve,
    smith_waterman,
    softmax,
    sparse_matvec,
    strided_copy,
    tiled_matmul,
    tma_transpose,
    transpose,
    warp_reduction,
)
from examples.checks import attention, hopper_gemm, split_k_gemm, tensor_core_gemm

EXAMPLES = (
    add_one.EXAMPLE,
    saxpy.EXAMPLE,
    strided_copy.EXAMPLE,
    black_scholes.EXAMPLE,
    mandelbrot.EXAMPLE,
    matmul.EXAMPLE,
    n_body.EXAMPLE,
    histogram.EXAMPLE,
    box_blur.EXAMPLE,
    block_reduction.EXAMPLE,
    warp_reduction.EXAMPLE,
    softmax.EXAMPLE,
    transpose.EXAMPLE,
    tiled_matmul.EXAMPLE,
    convolution.EXAMPLE,
    shared_histogram.EXAMPLE,
    inclusive_scan.EXAMPLE,
    bitonic_sort.EXAMPLE,
    breadth_first_search.EXAMPLE,
    sieve.EXAMPLE,
    game_of_life.EXAMPLE,
    crc32.EXAMPLE,
    sha256.EXAMPLE,
    monte_carlo.EXAMPLE,
    radix_sort.EXAMPLE,
    floyd_warshall.EXAMPLE,
    fft.EXAMPLE,
    sparse_matvec.EXAMPLE,
    cholesky.EXAMPLE,
    smith_waterman.EXAMPLE,
    profile_regions.EXAMPLE,
    profile_matmul.EXAMPLE,
    tensor_core_gemm.EXAMPLE,
    profile_pipeline.EXAMPLE,
)

HOPPER_EXAMPLES = (
    hopper_gemm.EXAMPLE,
    attention.EXAMPLE,
    tma_transpose.EXAMPLE,
    cluster_softmax.EXAMPLE,
    bulk_reduction.EXAMPLE,
    split_k_gemm.EXAMPLE,
)
