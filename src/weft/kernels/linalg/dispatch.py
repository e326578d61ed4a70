# SPDX-License-Identifier: Apache-2.0
"""GEMM dispatch: the kernel, its tiles and the split of K for a problem.

In: a `GemmProblem`. Out: the `Call` that computes it.
"""

from __future__ import annotations

import math
from typing import Any

import weft
from weft.kernels.annotations import Array
from weft.kernels.host.arrays import ArrayInfo, describe
from weft.kernels.host.devices import capabilities, multiprocessors_of
from weft.kernels.host.dispatch_cache import Call, View
from weft.kernels.linalg import gemm_config_sm90 as sm90_config
from weft.kernels.linalg import gemm_simt, gemm_sm80, gemm_sm90
from weft.kernels.linalg.epilogue import Epilogue
from weft.kernels.linalg.operands import Layout, layout_of, suits_tma, transposed
from weft.kernels.linalg.problem import GemmProblem
from weft.kernels.linalg.split_k import num_splits_for


def run(problem: GemmProblem) -> Array:
    """Computes a problem; its result."""
    if 0 not in problem.c.shape:
        call = dispatch(problem)
        call.function(*call.arguments)
    return problem.c.array


def dispatch(problem: GemmProblem) -> Call:
    """The call for a problem whose result is not empty.

    `gemm_sm90` takes 16- and 8-bit floats on sm_90 if TMA can load the operands, `gemm_sm80` 16-bit floats otherwise
    from sm_80 on, `gemm_simt` everything else: contiguous f32 by asynchronous copies.
    """
    views: list[View] = []
    own = _flattened(problem, views)
    call = _choose(own, layout_of(own.a, views), layout_of(own.b, views), views)
    return call._replace(result=problem.c.array, views=tuple(views))


def _choose(problem: GemmProblem, a: Layout, b: Layout, views: list[View]) -> Call:
    left, right, c, epilogue, offsets, scales = problem
    machine, itemsize = capabilities(left.device), left.dtype.itemsize
    has_terms = left.size and right.size  # there are no tensor maps of empty arrays
    if has_terms and machine.mma and itemsize <= 2 and c.dtype is not weft.f64:
        # Groups along K begin anywhere: no vectors along K.
        is_along_k = offsets is not None and len(right.shape) == 2
        may_copy = not is_along_k or (a.is_transposed and not b.is_transposed)
        if machine.wgmma and may_copy and suits_tma(left, right, a, b):
            return _sm90_call(problem, a, b, views)
        if itemsize == 2:
            return _sm80_call(problem, a, b, may_copy=may_copy)
    is_wide = min(c.shape[-2:]) > gemm_simt.FEW
    if left.dtype is weft.f32 and machine.mma and is_wide and a.is_contiguous and b.is_contiguous:
        return _f32_call(problem, a, b)
    config = gemm_simt.simt_config(left.dtype is weft.f64, c.shape, machine.number == 0)
    k_major = left.strides[-1] == 1, right.strides[-2] == 1 and right.strides[-1] != 1
    splits = _num_splits(
        problem, config.bm, config.bn, config.min_blocks, gemm_simt.MIN_K_PER_SPLIT
    )
    arrays = left.array, right.array, c.array
    others = epilogue, config, k_major, splits, offsets, scales
    return Call(gemm_simt.gemm, (*arrays, *others), c.array)


def _sm80_call(problem: GemmProblem, a: Layout, b: Layout, *, may_copy: bool) -> Call:
    own = gemm_sm80
    is_vectorized = a.is_vectorized and b.is_vectorized and may_copy
    splits = _num_splits(problem, own.BM, own.BN, own.MIN_BLOCKS, own.MIN_K_PER_SPLIT)
    arrays, k_major = (a.array, b.array, problem.c.array), (not a.is_transposed, b.is_transposed)
    others = problem.epilogue, *k_major, is_vectorized, splits, problem.offsets
    return Call(own.gemm, (*arrays, *others), problem.c.array)


def _f32_call(problem: GemmProblem, a: Layout, b: Layout) -> Call:
    own, k_major = gemm_simt, (not a.is_transposed, b.is_transposed)
    is_vectorized = a.is_vectorized and b.is_vectorized and k_major != (True, True)
    vector = own.VECTOR if is_vectorized else 1
    config = own.f32_config(*problem.c.shape[-2:])
    splits = _num_splits(problem, config.bm, config.bn, config.min_blocks, own.MIN_K_PER_SPLIT)
    arrays = a.array, b.array, problem.c.array
    others = problem.epilogue, config, *k_major, vector, splits, problem.offsets
    return Call(own.gemm_f32, (*arrays, *others), problem.c.array)


def _sm90_call(problem: GemmProblem, a: Layout, b: Layout, views: list[View]) -> Call:
    """A call of `gemm_sm90`; for M < 64, of the swapped problem Cᵀ = Bᵀ · Aᵀ, whose tiles can be narrow."""
    left, right, c, epilogue, offsets, scales = problem
    *stack, m, n = c.shape
    target, k_major = c.array, (not a.is_transposed, b.is_transposed)
    batched, is_scaled = (len(left.shape) > 2, len(right.shape) > 2), scales.a is not None
    if m < min(sm90_config.SMALL_M, n) and offsets is None and not is_scaled:
        swapped = _swap_ab(c, epilogue, views)
        if swapped is not None:
            target, epilogue = swapped
            a, b, m, n = b, a, n, m
            k_major, batched = (k_major[1], k_major[0]), (batched[1], batched[0])
    if offsets is not None:
        tiling = sm90_config.Tiling(bn=sm90_config.grouped_bn(n))
    else:
        choices = sm90_config.bn_choices(n, k_major[1], is_scaled)
        sizes = left.shape[-1], left.dtype.itemsize, multiprocessors_of(left.device)
        tiling = sm90_config.choose_tiling((*stack, m, n), *sizes, choices)
    layout = layout_of(c, [])
    config = sm90_config.GemmConfig(
        a_k_major=k_major[0],
        b_k_major=k_major[1],
        batched=batched,
        tma_store=tiling.num_splits is None
        and tiling.cluster_k == 1
        and offsets is None
        and target is c.array
        and tiling.bn % 64 == 0
        and c.dtype.itemsize == 2
        and layout.is_aligned
        and not layout.is_transposed,
        bn=tiling.bn,
        bm=tiling.bm,
        cluster_k=tiling.cluster_k,
        cluster_m=tiling.cluster_m,
        pending=int(tiling.bm == 64),
        scaled=is_scaled,
    )
    arrays = a.array, b.array, target
    others = epilogue, config, tiling.num_splits, offsets, scales
    return Call(gemm_sm90.gemm, (*arrays, *others), c.array)


def _swap_ab(c: ArrayInfo, epilogue: Epilogue, views: list[View]) -> tuple[Any, Epilogue] | None:
    """Cᵀ and its epilogue; None where a library has no transposed views."""
    made: list[View] = []

    def transpose(array: Array) -> Array:
        made.append(View(transposed(array), array, transposed))
        return made[-1].array

    target, swapped = transpose(c.array), epilogue.swap_ab(transpose)
    if any(view.array is None for view in made):
        return None
    views += made
    return target, swapped


def _num_splits(
    problem: GemmProblem, bm: int, bn: int, blocks_per_multiprocessor: int, min_k: int
) -> int | None:
    """The number of splits of K, or None; partial sums move at most twice the bytes of the operands."""
    a, b, c = problem.a, problem.b, problem.c
    if problem.offsets is not None:
        return None
    moved = 2 * (8 if a.dtype is weft.f64 else 4) * c.size
    max_splits = 2 * a.dtype.itemsize * (a.size + b.size) // max(moved, 1)
    blocks = blocks_per_multiprocessor * multiprocessors_of(a.device)
    tiles = -(-c.shape[-2] // bm) * -(-c.shape[-1] // bn) * math.prod(c.shape[:-2])
    return num_splits_for(tiles, a.shape[-1], blocks, min_k, max_splits)


def _flattened(problem: GemmProblem, views: list[View]) -> GemmProblem:
    """The problem of one matrix, where A is a stack, B a matrix, and A and C are contiguous."""
    left, right, c, epilogue, offsets, scales = problem
    arrays = [left.array, c.array]
    epilogue.map_c(arrays.append)
    if (
        offsets is not None
        or scales.a is not None
        or len(left.shape) == 2
        or len(right.shape) > 2
        or not all(hasattr(array, "reshape") for array in arrays)
        or not all(describe(array, "residual").is_contiguous for array in arrays)
    ):
        return problem

    def flat(array: Array) -> Array:
        views.append(View(_rows(array), array, _rows))
        return views[-1].array

    a, out = describe(flat(left.array), "a"), describe(flat(c.array), "out")
    return GemmProblem(a, right, out, epilogue.map_c(flat))


def _rows(array: Array) -> Array:
    """All rows of a contiguous stack, as a matrix."""
    return array.reshape(-1, array.shape[-1])
