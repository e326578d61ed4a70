# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.cross_entropy`` and its derivative.

Computes loss = logsumexp(logits) − logits[target] and dlogits = gradient · (softmax(logits) − onehot(target)). Forward
reads a row once, in one block, by online softmax (Milakov and Gimelshein, 2018); backward maps rows as softmax does.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import weft
from weft.kernels.annotations import Array, Constant, ElementType, Int, Int32, Number, Numbers
from weft.kernels.device.cluster_reduce import cluster_barriers, fold
from weft.kernels.device.row import (
    elements,
    index_of,
    put_elements,
    row_count,
    row_of,
    sum_type,
    threads_for,
)
from weft.kernels.device.row_mapping import (
    RowLimits,
    block_of,
    cluster_of,
    first_column,
    grid_of,
    in_bounds,
    is_past_end,
    iterations,
    part_of,
    places,
    row_mapping_for,
    row_number,
)
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_shape,
    common_width,
    describe,
    element_type,
    integer_from,
    output,
    output_like,
)
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    composite_backward,
    differentiable,
    like_second,
    upcast,
    vjp,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch
from weft.kernels.nn.softmax import (
    exponential,
    exponentials,
    load_wide,
    online_max_sum,
    reduce_max_sum,
)

_LIMITS: Final = RowLimits(items=32, threads=1024)  # of rows of the derivative
_ITEMS: Final = 8  # elements of a thread's loads, at least
_THREADS: Final = 256  # of a block, at most


@weft.device
def online_softmax_sum(row: weft.Tensor, threads: Int, width: Int) -> Any:
    """Reduces a row to its maximum and Σ exp(x − maximum), with one block per row."""
    wide, first, step = sum_type(row.dtype), weft.thread_idx.x * width, threads * width
    several = max(2, _ITEMS // width)  # loads in flight
    carried, whole = (wide(-math.inf), wide(0.0)), len(row) // (step * several) * (step * several)
    for i in weft.unroll(range(first, whole, step * several), 1):
        found = ()
        for k in weft.static_range(several):
            found = (*found, *elements(row, i + k * step, width))
        carried = _online_update(carried, found, row.dtype)
    for i in weft.unroll(range(whole + first, len(row), step), 1):
        carried = _online_update(carried, elements(row, i, width), row.dtype)
    return weft.block.reduce(carried, _merge_max_sum)


@weft.device
def _online_update(carried: Number, found: Number, dtype: ElementType) -> Number:
    """Updates the running maximum and sum of exponentials with more elements."""
    largest, total = carried
    values = [largest.dtype(value) for value in found]
    new = max(largest, fold("max", values))
    shift = new if new != -math.inf else new.dtype(0.0)
    weights = [exponential(value - shift, dtype) for value in values]
    return new, total * exponential(largest - shift, dtype) + fold("sum", weights)


@weft.device
def _merge_max_sum(one: Number, other: Number) -> Number:
    """Merges two pairs of a maximum and a sum of exponentials."""
    (one_max, one_sum), (other_max, other_sum) = one, other
    largest = max(one_max, other_max)
    shift = largest if largest != -math.inf else largest.dtype(0.0)
    return largest, one_sum * weft.math.exp(one_max - shift) + other_sum * weft.math.exp(
        other_max - shift
    )


@weft.kernel
def cross_entropy_kernel(
    logits: Array,
    target: Array,
    out: Array,
    ignore_index: Int32,
    threads: Constant,
    width: Constant,
) -> None:
    """A block: a row, read once; a cluster for each row took twice as long."""
    row, place = row_of(logits, weft.block_idx.x, width), index_of(weft.block_idx.x, target.shape)
    largest, total = online_softmax_sum(row, threads, width)
    if weft.thread_idx.x == 0:
        chosen = target[place]
        inside = 0 <= chosen < len(row)
        assert inside or chosen == ignore_index, "a target of cross_entropy is out of range"
        loss = total.dtype(math.nan)
        if chosen == ignore_index:
            loss = total.dtype(0.0)
        elif inside:
            loss = largest - total.dtype(row[chosen]) + weft.math.log(total)
        out[place] = loss


@weft.kernel
def cross_entropy_backward_kernel(
    gradient: Array,
    logits: Array,
    target: Array,
    out: Array,
    ignore_index: Int32,
    mapping: Constant,
) -> None:
    """A warp, a block or a cluster: a row; in registers, or re-read from memory."""
    (barrier,) = cluster_barriers(mapping, 1)
    number = row_number(mapping)
    if is_past_end(number, logits.shape, mapping):
        return
    wide, width = sum_type(logits.dtype), mapping.width
    row, dlogits = (part_of(row_of(one, number, width), mapping) for one in (logits, out))
    place, first = index_of(number, target.shape), first_column(logits.shape[-1], mapping)
    chosen = target[place]
    factor = wide(0.0) if chosen == ignore_index else wide(gradient[place])

    def put(i: Int, shares: Numbers) -> None:
        """Stores `width` gradients from index i on, from the softmax times the upstream gradient."""
        put_elements(
            dlogits,
            i,
            [
                out.dtype(share - factor if first + i + k == chosen else share)
                for k, share in enumerate(shares)
            ],
        )

    if mapping.items:
        own, weights = exponentials(load_wide(row, mapping), row.dtype)
        largest, total = reduce_max_sum(own, weft.warp.sum(fold("sum", weights)), mapping, barrier)
        scale = weft.math.exp(own - largest) / total * factor
        for k, i in enumerate(places(mapping)):
            if in_bounds(row, i, mapping):
                put(i, [weight * scale for weight in weights[k * width : (k + 1) * width]])
    else:
        largest, total = online_max_sum(row, mapping, barrier)
        scale = factor / total
        for i in iterations(row, mapping):
            weights = [exponential(wide(v) - largest, row.dtype) for v in elements(row, i, width)]
            put(i, [weight * scale for weight in weights])


@weft.jit
def _cross_entropy(
    logits: Array,
    target: Array,
    out: Array,
    ignore_index: Int32,
    threads: Constant,
    width: Constant,
) -> None:
    cross_entropy_kernel(logits, target, out, ignore_index, threads, width).launch(
        grid=row_count(logits.shape), block=threads
    )


@weft.jit
def _cross_entropy_backward(
    gradient: Array,
    logits: Array,
    target: Array,
    out: Array,
    ignore_index: Int32,
    mapping: Constant,
) -> None:
    cross_entropy_backward_kernel(gradient, logits, target, out, ignore_index, mapping).launch(
        grid=grid_of(logits.shape, mapping), block=block_of(mapping), cluster=cluster_of(mapping)
    )


def _like_losses(logits: Array, *_: object) -> Array:
    made = logits.new_empty(logits.shape[:-1])
    return made if logits.dtype.itemsize == 8 else made.float()


def _derivative(
    gradient: Array, _: object, logits: Array, target: Array, ignore_index: int
) -> Array:
    return cross_entropy_backward(gradient, logits, target, ignore_index), None, None


def _cross_entropy_backward_by_torch(
    gradient: Array, logits: Array, target: Array, ignore_index: int
) -> Array:
    functional: Any = sys.modules["torch"].nn.functional
    own = target.flatten().long()

    def losses(logits: Array) -> Array:
        rows = upcast(logits).reshape(-1, logits.shape[-1])
        found = functional.cross_entropy(rows, own, ignore_index=ignore_index, reduction="none")
        return found.reshape(target.shape)

    return vjp(losses, gradient, logits)[0]


def _ignore_index(ignore_index: object) -> int:
    return integer_from(ignore_index, "ignore_index", -(1 << 31), 1 << 31)


def _given(logits: Array, target: Array) -> tuple[ArrayInfo, tuple[int, ...]]:
    source, found = describe(logits, "logits", is_float=True), describe(target, "target")
    if len(source.shape) < 2 or not source.shape[-1]:
        raise ValueError(f"logits has shape {source.shape}, expected (..., classes)")
    if not found.dtype.is_integer:
        raise TypeError(f"target has elements of {found.type_name}, expected integers")
    check_shape(found, "target", source, source.shape[:-1])
    return source, found.shape


def _loss_type(source: ArrayInfo) -> Array:
    return element_type(weft.ffi.DataType("float64" if source.dtype is weft.f64 else "float32"))


@differentiable(
    _like_losses,
    _derivative,
    autocast=WIDE_ON_GPUS,
    saves=frozenset({"logits", "target"}),
)
@cached_dispatch
def cross_entropy(
    logits: Array, target: Array, ignore_index: int = -100, out: Array = None
) -> Array:
    """The loss of each row: log Σ exp(logits) − the logit of its class, over the last dimension.

    Args:
        logits: an array of 16, 32 or 64-bit floats of any rank from 2 on and any layout.
        target: an array of integers, one per row, each from 0 below the number of columns.
        ignore_index: rows with this target have loss 0.
        out: an array of the shape of `target`, of f32, or f64 for f64; None: a new one of logits' library.

    Returns:
        `out`, or the new array: a loss per row; their mean is `weft.kernels.mean` of it.

    Raises:
        TypeError: for something else than arrays of these types.
        ValueError: for shapes that do not fit; for arrays on different devices.
        AssertionError: for a target out of range on the CPU. A GPU gives NaN for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cross_entropy(np.zeros((2, 4)), np.array([1, -100])).round(4).tolist()
        [1.3863, 0.0]
    """
    ignore_index, (source, _) = _ignore_index(ignore_index), _given(logits, target)
    dtype, name = _loss_type(source)
    out = output(source, source.shape[:-1], dtype, name, out, logits=logits, target=target)
    if source.rows:
        threads = min(threads_for(source.shape[-1], _ITEMS), _THREADS)
        return Call(_cross_entropy, (logits, target, out, ignore_index, threads, source.width), out)
    return out


@differentiable(like_second, composite_backward(_cross_entropy_backward_by_torch))
@cached_dispatch
def cross_entropy_backward(
    gradient: Array, logits: Array, target: Array, ignore_index: int = -100, out: Array = None
) -> Array:
    """The derivative of `cross_entropy` by the logits: gradient · (softmax − 1 for the class).

    Args:
        gradient: of the losses, an array of their shape and type.
        logits: as in `cross_entropy`.
        target: as in `cross_entropy`.
        ignore_index: as in `cross_entropy`; the derivative of such rows is 0.
        out: an array of logits' shape and type, which may be `logits` itself; None: a new one of its library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `cross_entropy`.
        ValueError: as `cross_entropy`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cross_entropy_backward(np.ones(1), np.zeros((1, 2)), np.array([1])).tolist()
        [[0.5, -0.5]]
    """
    ignore_index, (source, shape) = _ignore_index(ignore_index), _given(logits, target)
    found = describe(gradient, "gradient", is_float=True)
    if found.shape != shape or found.device != source.device:
        raise ValueError(
            f"gradient has shape {found.shape} on {found.device}, expected {shape} on {source.device}"
        )
    inputs = {"gradient": gradient, "logits": logits, "target": target}
    out = output_like(source, out, ("logits",), **inputs)
    if source.rows:
        width = common_width(source, describe(out, "out"))
        mapping = row_mapping_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        arguments = gradient, logits, target, out, ignore_index, mapping
        return Call(_cross_entropy_backward, arguments, out)
    return out
