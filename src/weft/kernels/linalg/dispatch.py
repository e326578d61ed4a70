# SPDX-License-Identifier: Apache-2.0
"""Which kernel multiplies: by tensor cores with or without the copy engine, or by threads; in how many parts.

In: factors, a result and its ending, checked. Out: the result, written.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.host.arrays import Given, given
from weft.kernels.host.calls import Call, View
from weft.kernels.host.devices import capability, multiprocessors_of
from weft.kernels.linalg import gemm_config_sm90 as hopper_plans
from weft.kernels.linalg import gemm_simt as tiled_products
from weft.kernels.linalg import gemm_simt_f32 as thread_products
from weft.kernels.linalg import gemm_sm80 as warp_products
from weft.kernels.linalg import gemm_sm90 as hopper_products
from weft.kernels.linalg.epilogue import Ending
from weft.kernels.linalg.operands import Stored, exchanged, stored, suits_copy_engine
from weft.kernels.linalg.scales import UNSCALED, Scales
from weft.kernels.linalg.split_k import parts_for
from weft.types.dtype import f32, f64


def multiply(*arguments: Any, **keywords: Any) -> None:
    """Writes a product; arguments as of `product_of`."""
    call = product_of(*arguments, **keywords)
    call.function(*call.arguments)


def product_of(
    left: Given,
    right: Given,
    result: Given,
    ending: Ending,
    starts: Any = None,
    scales: Scales = UNSCALED,
) -> Call:
    """What writes a product whose arrays fit: on a Hopper GPU `hopper_products`, if the copy engine reads the factors.

    16-bit floats on other GPUs from sm_80 on, or in other layouts, go through `warp_products`, f32 in rows or columns
    without gaps through `thread_products`, everything else through `tiled_products`.

    Args:
        left: a matrix or a stack.
        right: a matrix or a stack.
        result: a matrix or a stack.
        ending: what follows the sums.
        starts: where groups of rows begin, or, for a result that is a stack of products of matrices, of sums.
        scales: of 8-bit factors.
    """
    views: list[View] = []
    if starts is None and scales.a is None:
        left, right, result, ending = _joined(left, right, result, ending, views)
    version, size = capability(left.device), left.dtype.itemsize
    given_ = left, right, result, ending, starts
    a, b = stored(left, views), stored(right, views)
    # There is no tensor map of nothing.
    if left.size and right.size and version >= (8, 0) and size <= 2 and result.dtype is not f64:
        # Sums that begin anywhere: no copies of neighbors along them.
        is_along = a.is_exchanged and not b.is_exchanged
        may_copy = starts is None or len(right.shape) > 2 or is_along
        if version == (9, 0) and may_copy and suits_copy_engine(left, right, a, b):
            return _hopper_call(*given_, scales, a, b, views)
        if size == 2:
            return _warps_call(*given_, a, b, views, may_copy=may_copy)
    is_wide = min(result.shape[-2:]) > tiled_products.FEW
    if left.dtype is f32 and version >= (8, 0) and is_wide and a.has_rows and b.has_rows:
        return _threads_call(*given_, a, b, views)
    sizes = tiled_products.sizes_for(left.dtype is f64, result.shape, version == (0, 0))
    along_k = left.strides[-1] == 1, right.strides[-2] == 1 and right.strides[-1] != 1
    sides = sizes.m, sizes.n
    cut = _parts(left, right, result, starts, sides, sizes.blocks, tiled_products.SHORTEST)
    arrays = left.array, right.array, result.array
    others = ending, sizes, along_k, cut, starts, scales
    return Call(tiled_products.gemm, (*arrays, *others), result.array, tuple(views))


def _warps_call(
    left: Given,
    right: Given,
    result: Given,
    ending: Ending,
    starts: Any,
    a: Stored,
    b: Stored,
    views: list[View],
    *,
    may_copy: bool,
) -> Call:
    own = warp_products
    call = own.gemm_of_chunks if a.is_whole and b.is_whole and may_copy else own.gemm
    cut = _parts(left, right, result, starts, (own.BM, own.BN), own.BLOCKS, own.SHORTEST)
    arrays = a.array, b.array, result.array
    others = ending, not a.is_exchanged, b.is_exchanged, cut, starts
    return Call(call, (*arrays, *others), result.array, tuple(views))


def _threads_call(
    left: Given,
    right: Given,
    result: Given,
    ending: Ending,
    starts: Any,
    a: Stored,
    b: Stored,
    views: list[View],
) -> Call:
    own, order = thread_products, (not a.is_exchanged, b.is_exchanged)
    has_chunks = a.is_whole and b.is_whole and order != (True, True)
    call = own.gemm_of_chunks if has_chunks else own.gemm
    sizes = own.sizes_for(*result.shape[-2:])
    sides = sizes.m, sizes.n
    cut = _parts(left, right, result, starts, sides, sizes.blocks, tiled_products.SHORTEST)
    arrays = a.array, b.array, result.array
    others = ending, sizes, *order, cut, starts
    return Call(call, (*arrays, *others), result.array, tuple(views))


def _hopper_call(
    left: Given,
    right: Given,
    result: Given,
    ending: Ending,
    starts: Any,
    scales: Scales,
    a: Stored,
    b: Stored,
    views: list[View],
) -> Call:
    """A product by `hopper_products`; of few rows that of the transposed matrices, whose tiles have few columns."""
    *stack, m, n = result.shape
    target, order = result.array, (not a.is_exchanged, b.is_exchanged)
    stacks = len(left.shape) > 2, len(right.shape) > 2
    if m < min(hopper_plans.FEW, n) and starts is None and scales.a is None:
        turned = _turned(result, ending, views)
        if turned is not None:
            target, ending = turned
            a, b, m, n, order, stacks = b, a, n, m, order[::-1], stacks[::-1]
    if starts is not None:
        choice = hopper_plans.Choice(columns=hopper_plans.columns_for(n))
    else:
        widths = hopper_plans.widths_of(n, order[1], scales.a is not None)
        processors = multiprocessors_of(left.device)
        sizes = left.shape[-1], left.dtype.itemsize, processors, widths
        choice = hopper_plans.choose((*stack, m, n), *sizes)
    c, is_whole = stored(result, []), choice.cut is None and choice.parts == 1
    by_copies = is_whole and starts is None and target is result.array
    by_copies = by_copies and choice.columns % 64 == 0 and result.dtype.itemsize == 2
    plan = hopper_plans.Plan(
        rows_of_a=order[0],
        columns_of_b=order[1],
        stacks=stacks,
        by_copies=by_copies and c.has_chunks and not c.is_exchanged,
        columns=choice.columns,
        rows=choice.rows,
        parts=choice.parts,
        neighbors=choice.neighbors,
        pending=int(choice.rows == 64),
        is_scaled=scales.a is not None,
    )
    others = ending, plan, choice.cut, starts, scales
    return Call(
        hopper_products.gemm, (a.array, b.array, target, *others), result.array, tuple(views)
    )


def _turned(result: Given, ending: Ending, views: list[View]) -> tuple[Any, Ending] | None:
    """A result and its ending with rows and columns exchanged; None where the library has no such views."""
    target = exchanged(result.array)
    residual = None if ending.residual is None else exchanged(ending.residual)
    if target is None or (residual is None) != (ending.residual is None):
        return None
    views.append(View(target, result.array, exchanged))
    if residual is not None:
        views.append(View(residual, ending.residual, exchanged))
    is_turned = ending.bias is not None
    return target, ending._replace(residual=residual, is_turned=is_turned)


def _parts(
    left: Given,
    right: Given,
    result: Given,
    starts: Any,
    sides: tuple[int, int],
    at_once: int,
    shortest: int,
) -> int | None:
    """Into how many parts sums are cut; None for whole ones, which those of groups are.

    Parts are written and read, no more than twice the memory of the factors.
    """
    if starts is not None:
        return None
    moved = 2 * (8 if left.dtype is f64 else 4) * result.size
    most = 2 * left.dtype.itemsize * (left.size + right.size) // max(moved, 1)
    blocks = at_once * multiprocessors_of(left.device)
    return parts_for(_tile_count(result.shape, sides), left.shape[-1], blocks, shortest, most)


def _tile_count(shape: tuple[int, ...], sides: tuple[int, int]) -> int:
    count = -(-shape[-2] // sides[0]) * -(-shape[-1] // sides[1])
    for size in shape[:-2]:
        count *= size
    return count


def _joined(
    left: Given, right: Given, result: Given, ending: Ending, views: list[View]
) -> tuple[Given, Given, Given, Ending]:
    """A stack times one matrix as a single product, where the stack has no gaps."""
    residual = ending.residual
    arrays = [left.array, result.array, *([] if residual is None else [residual])]
    if (
        len(left.shape) == 2
        or len(right.shape) > 2
        or not all(hasattr(array, "reshape") for array in arrays)
        or not all(given(array, "residual").is_contiguous for array in arrays)
    ):
        return left, right, result, ending
    flat = [_rows(array) for array in arrays]
    views += [View(one, array, _rows) for one, array in zip(flat, arrays, strict=True)]
    if residual is not None:
        ending = ending._replace(residual=flat[2])
    return given(flat[0], "a"), right, given(flat[1], "out"), ending


def _rows(array: Any) -> Any:
    """All rows of a stack without gaps, as a matrix."""
    return array.reshape(-1, array.shape[-1])
