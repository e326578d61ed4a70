# SPDX-License-Identifier: Apache-2.0
"""Which kernels compute attention and its derivative: by tensor cores, with or without the copy engine, or by threads.

In: arrays that fit each other. Out: calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention import bwd_simt as row_attention_gradients
from weft.kernels.flash_attention import bwd_sm80 as warp_attention_gradients
from weft.kernels.flash_attention import bwd_sm90 as hopper_attention_gradients
from weft.kernels.flash_attention import fwd_simt as row_attention
from weft.kernels.flash_attention import fwd_sm80 as warp_attention
from weft.kernels.flash_attention import fwd_sm90 as hopper_attention
from weft.kernels.host.arrays import Given, output, output_like
from weft.kernels.host.calls import Call
from weft.kernels.host.devices import capability

if TYPE_CHECKING:
    from weft.types.dtype import DType

_WIDTHS: Final = (64, 128)  # of tiles of a head that warpgroups multiply
_CHUNK: Final = 16  # bytes, of which the copies' strides are multiples


class Options(NamedTuple):
    """What attention is computed with, besides arrays.

    Attributes:
        causal: whether a query sees the keys up to its own alone.
        scale: of the scores.
        cu_seqlens_q, cu_seqlens_k: where sequences begin, or None.
    """

    causal: bool
    scale: float
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None


def forward(
    queries: Given,
    keys: Given,
    values: Given,
    out: Any,
    lse: Any,
    max_seqlen_q: int,
    options: Options,
) -> Call:
    """What writes attention, and the logarithms of its sums of weights unless `lse` is None.

    Heads of up to 128 elements of 16 bits go through `hopper_attention` on a Hopper GPU, on others from sm_80 on and in
    other layouts through `warp_attention`, everything else through `row_attention`.
    """
    heads, hdim = queries.shape[-2:]
    causal, scale, *starts = options
    arguments = queries.array, keys.array, values.array, out, lse, *starts
    if keys.shape[-3] and scale > 0 and _suit_tensor_cores(queries):
        arrays = queries, keys, values
        if _suit_copy_engine(*arrays):
            arguments = *arguments, max_seqlen_q, scale, causal, _width_of(hdim)
            return Call(hopper_attention.attention, arguments, out)
        own = warp_attention
        call = own.attention_of_chunks if _have_chunks(*arrays) else own.attention
        return Call(
            call, (*arguments, scale, causal, own.columns_for(hdim), own.plan_for(hdim)), out
        )
    group = heads // max(keys.shape[-2], 1)
    return Call(
        row_attention.attention,
        (*arguments, max_seqlen_q, group, scale, causal, row_attention.width_for(hdim)),
        out,
    )


def backward(arrays: tuple[Given, ...], found: Any, by: tuple[Any, ...], options: Options) -> Call:
    """What writes the derivatives.

    Heads of up to 128 elements of 16 bits go through `hopper_attention_gradients` on a Hopper GPU, on others from sm_80
    on and in other layouts through `warp_attention_gradients`, everything else through `row_attention_gradients`.

    Args:
        arrays: the result's gradient, queries, keys, values.
        found: the result and the logarithms of its sums of weights; None: they are computed here where needed.
        by: where the derivatives go.
        options: what attention is computed with.
    """
    _, queries, keys, values = arrays
    inputs, hdim = tuple(one.array for one in arrays), queries.shape[-1]
    causal, scale, *starts = options
    own = warp_attention_gradients
    if not _suit_tensor_cores(queries) or 0 in (queries.size, keys.size):
        width = row_attention.width_for(hdim)
        arguments = *inputs, *by, *starts, scale, causal, width
        return Call(row_attention_gradients.differentiate, arguments, by)
    if found is None:
        out, lse = output_like(queries), sums_for(queries)
        made = forward(queries, keys, values, out, lse, queries.shape[-3], options)
        made.function(*made.arguments)
        found = out, lse
    if _suit_copy_engine(*arrays):
        own, call = hopper_attention_gradients, hopper_attention_gradients.differentiate
        columns: Any
        columns = hdim = _width_of(hdim)
    else:
        columns = warp_attention.columns_for(hdim)
        call = own.differentiate_chunks if _have_chunks(*arrays) else own.differentiate
    arguments = *inputs, *found, *by, *starts, scale, causal, columns, own.plans_for(hdim)
    return Call(call, arguments, by)


def sums_of(queries: Given) -> tuple[tuple[int, ...], DType, str]:
    """What logarithms of sums of weights are like, tokens of a head together: shape, type and the type's name."""
    tokens, heads = queries.shape[-3:-1]
    dtype = sum_type(queries.dtype)
    name = "float64" if dtype.itemsize == 8 else "float32"
    return (*queries.shape[:-3], heads, tokens), dtype, name


def sums_for(queries: Given) -> Any:
    """A new array for logarithms of sums of weights."""
    return output(queries, *sums_of(queries))


def _width_of(hdim: int) -> int:
    """The columns of a tile of heads: beyond the head's own they are zeros."""
    return next(width for width in _WIDTHS if hdim <= width)


def _suit_tensor_cores(queries: Given) -> bool:
    """Whether tensor cores multiply these queries' elements."""
    return (
        capability(queries.device) >= (8, 0)
        and queries.dtype.itemsize == 2
        and queries.shape[-1] <= warp_attention.MOST_HDIM
    )


def _suit_copy_engine(*arrays: Given) -> bool:
    """Whether warpgroups of a Hopper GPU multiply these arrays, which suit tensor cores."""
    return capability(arrays[0].device) == (9, 0) and _have_chunks(*arrays)


def _have_chunks(*arrays: Given) -> bool:
    """Whether rows of 16-bit elements are whole chunks of 16 bytes."""
    return all(
        array.dtype.itemsize == 2
        and 2 * array.shape[-1] % _CHUNK == 0
        and array.address % _CHUNK == 0
        and array.strides[-1] == 1
        and all(stride > 0 and 2 * stride % _CHUNK == 0 for stride in array.strides[:-1])
        for array in arrays
    )
