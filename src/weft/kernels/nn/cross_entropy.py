# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.cross_entropy`` and its derivative.

In: an array of logits and a class for each row. Out: a loss for each row, or the derivative by the logits. A
block reads a row once for its loss; for the derivative rows are spread as those of softmax, and its sums serve here.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from weft.api import jit, kernel
from weft.ffi.data_type import DataType
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
    Limits,
    block_of,
    cluster_of,
    first_of,
    folded,
    grid_of,
    has,
    is_beyond,
    meetings,
    part_of,
    places,
    rounds,
    row_number,
    spread_for,
)
from weft.kernels.host.arrays import (
    Array,
    ArrayInfo,
    Constant,
    Int32,
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
    load_wide,
    over_pairs,
    read_pair,
    weighed,
)
from weft.language.control import static_range, unroll
from weft.language.numbers.math import exp, log
from weft.language.numbers.math import max as greater
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import reduce
from weft.primitives.warp import reductions as of_warp
from weft.types.dtype import f64

_LIMITS: Final = Limits(items=32, threads=1024)  # of rows of the derivative
_ITEMS: Final = 8  # elements of a thread's loads, at least
_THREADS: Final = 256  # of a block, at most


def _like_losses(logits: Any, *_: Any) -> Any:
    made = logits.new_empty(logits.shape[:-1])
    return made if logits.dtype.itemsize == 8 else made.float()


def _loss_backward(gradient: Any, _: Any, logits: Any, classes: Any, ignored: int) -> Any:
    return cross_entropy_backward(gradient, logits, classes, ignored), None, None


@differentiable(_like_losses, _loss_backward, autocast=WIDE_ON_GPUS)
@cached_dispatch
def cross_entropy(logits: Any, classes: Any, ignored: int = -100, out: Any = None) -> Any:
    """The loss of each row: log Σ exp(logits) − the logit of its class, over the last dimension.

    Args:
        logits: an array of 16, 32 or 64-bit floats of any rank from 2 on and any layout.
        classes: an array of integers of the shape of the rows, from 0 below their length.
        ignored: the class of rows whose loss is 0.
        out: an array of the shape of `classes`, of f32, or f64 for f64; None: a new one of logits' library.

    Returns:
        `out`, or the new array: a loss per row; their mean is `weft.kernels.mean` of it.

    Raises:
        TypeError: for something else than arrays of these types.
        ValueError: for shapes that do not fit; for arrays on different devices.
        AssertionError: for a class out of range on the CPU. A GPU gives NaN for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cross_entropy(np.zeros((2, 4)), np.array([1, -100])).round(4).tolist()
        [1.3863, 0.0]
    """
    ignored, (source, _) = _ignored(ignored), _given(logits, classes)
    dtype, name = _loss_type(source)
    out = output(source, source.shape[:-1], dtype, name, out, logits=logits, classes=classes)
    if source.rows:
        threads = min(threads_for(source.shape[-1], _ITEMS), _THREADS)
        return Call(_losses, (logits, classes, out, ignored, threads, source.width), out)
    return out


def _slope_by_torch(gradient: Any, logits: Any, classes: Any, ignored: int) -> Any:
    functional: Any = sys.modules["torch"].nn.functional
    own = classes.flatten().long()

    def losses(logits: Any) -> Any:
        rows = upcast(logits).reshape(-1, logits.shape[-1])
        found = functional.cross_entropy(rows, own, ignore_index=ignored, reduction="none")
        return found.reshape(classes.shape)

    return vjp(losses, gradient, logits)[0]


@differentiable(like_second, composite_backward(_slope_by_torch))
@cached_dispatch
def cross_entropy_backward(
    gradient: Any, logits: Any, classes: Any, ignored: int = -100, out: Any = None
) -> Any:
    """The derivative of `cross_entropy` by the logits: gradient · (softmax − 1 for the class).

    Args:
        gradient: of the losses, an array of their shape and type.
        logits: as in `cross_entropy`.
        classes: as in `cross_entropy`.
        ignored: as in `cross_entropy`; the derivative of such rows is 0.
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
    ignored, (source, shape) = _ignored(ignored), _given(logits, classes)
    found = describe(gradient, "gradient", is_float=True)
    if found.shape != shape or found.device != source.device:
        raise ValueError(
            f"gradient has shape {found.shape} on {found.device}, expected {shape} on {source.device}"
        )
    inputs = {"gradient": gradient, "logits": logits, "classes": classes}
    out = output_like(source, out, ("logits",), **inputs)
    if source.rows:
        width = common_width(source, describe(out, "out"))
        spread = spread_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        arguments = gradient, logits, classes, out, ignored, spread
        return Call(_losses_backward, arguments, out)
    return out


def _ignored(ignored: object) -> int:
    return integer_from(ignored, "ignored", -(1 << 31), 1 << 31)


def _given(logits: Any, classes: Any) -> tuple[ArrayInfo, tuple[int, ...]]:
    source, found = describe(logits, "logits", is_float=True), describe(classes, "classes")
    if len(source.shape) < 2 or not source.shape[-1]:
        raise ValueError(f"logits has shape {source.shape}, expected (..., classes)")
    if not found.dtype.is_integer:
        raise TypeError(f"classes has elements of {found.type_name}, expected integers")
    if found.shape != source.shape[:-1]:
        raise ValueError(f"classes has shape {found.shape}, expected {source.shape[:-1]}")
    if found.device != source.device:
        raise ValueError(f"classes is on {found.device}, expected {source.device}")
    return source, found.shape


def _loss_type(source: ArrayInfo) -> Any:
    return element_type(DataType("float64" if source.dtype is f64 else "float32"))


@jit
def _losses(
    logits: Array,
    classes: Array,
    out: Array,
    ignored: Int32,
    threads: Constant,
    width: Constant,
) -> None:
    losses_kernel(logits, classes, out, ignored, threads, width).launch(
        grid=row_count(logits.shape), block=threads
    )


@jit
def _losses_backward(
    gradient: Array, logits: Array, classes: Array, out: Array, ignored: Int32, spread: Constant
) -> None:
    losses_backward_kernel(gradient, logits, classes, out, ignored, spread).launch(
        grid=grid_of(logits.shape, spread), block=block_of(spread), cluster=cluster_of(spread)
    )


def sum_of(row: Any, threads: Any, width: Any) -> Any:
    """The largest of a row and the sum of exponentials relative to it; traced in kernels of a block for each row."""
    wide, first, step = sum_type(row.dtype), thread_idx.x * width, threads * width
    several = max(2, _ITEMS // width)  # accesses under way
    carried, whole = (wide(-math.inf), wide(0.0)), len(row) // (step * several) * (step * several)
    for i in unroll(range(first, whole, step * several), 1):
        found = ()
        for k in static_range(several):
            found = (*found, *elements(row, i + k * step, width))
        carried = _followed(carried, found, row.dtype)
    for i in unroll(range(whole + first, len(row), step), 1):
        carried = _followed(carried, elements(row, i, width), row.dtype)
    return reduce(carried, _joined)


def _followed(carried: Any, found: Any, dtype: Any) -> Any:
    """A maximum and the sum of exponentials relative to it, with more numbers: one of them is scaled for all."""
    largest, total = carried
    values = [largest.dtype(value) for value in found]
    new = greater(largest, folded("max", values))
    shift = new if new != -math.inf else new.dtype(0.0)
    weights = [exponential(value - shift, dtype) for value in values]
    return new, total * exponential(largest - shift, dtype) + folded("sum", weights)


def _joined(one: Any, other: Any) -> Any:
    """Two maxima with the sums of exponentials relative to them, as one such pair."""
    (one_max, one_sum), (other_max, other_sum) = one, other
    largest = greater(one_max, other_max)
    shift = largest if largest != -math.inf else largest.dtype(0.0)
    return largest, one_sum * exp(one_max - shift) + other_sum * exp(other_max - shift)


@kernel
def losses_kernel(
    logits: Array,
    classes: Array,
    out: Array,
    ignored: Int32,
    threads: Constant,
    width: Constant,
) -> None:
    """A block: a row, read once; a cluster for each row took twice as long."""
    row, place = row_of(logits, block_idx.x, width), index_of(block_idx.x, classes.shape)
    largest, total = sum_of(row, threads, width)
    if thread_idx.x == 0:
        chosen = classes[place]
        inside = 0 <= chosen < len(row)
        assert inside or chosen == ignored, "a class of cross_entropy is out of range"
        loss = total.dtype(math.nan)
        if chosen == ignored:
            loss = total.dtype(0.0)
        elif inside:
            loss = largest - total.dtype(row[chosen]) + log(total)
        out[place] = loss


@kernel
def losses_backward_kernel(
    gradient: Array, logits: Array, classes: Array, out: Array, ignored: Int32, spread: Constant
) -> None:
    """A warp, a block or a cluster: a row; in its registers, or in rounds."""
    (meeting,) = meetings(spread, 1)
    number = row_number(spread)
    if is_beyond(number, logits.shape, spread):
        return
    wide, width = sum_type(logits.dtype), spread.width
    row, target = (part_of(row_of(one, number, width), spread) for one in (logits, out))
    place, first = index_of(number, classes.shape), first_of(logits.shape[-1], spread)
    chosen = classes[place]
    factor = wide(0.0) if chosen == ignored else wide(gradient[place])

    def put(i: Any, shares: Any) -> None:
        """Writes what neighbors from index i on get, from their shares of the gradient."""
        put_elements(
            target,
            i,
            [
                out.dtype(share - factor if first + i + k == chosen else share)
                for k, share in enumerate(shares)
            ],
        )

    if spread.items:
        own, weights = weighed(load_wide(row, spread), row.dtype)
        largest, total = over_pairs(own, of_warp.sum(folded("sum", weights)), spread, meeting)
        scale = exp(own - largest) / total * factor
        for k, i in enumerate(places(spread)):
            if has(row, i, spread):
                put(i, [weight * scale for weight in weights[k * width : (k + 1) * width]])
    else:
        largest, total = read_pair(row, spread, meeting)
        scale = factor / total
        for i in rounds(row, spread):
            weights = [exponential(wide(v) - largest, row.dtype) for v in elements(row, i, width)]
            put(i, [weight * scale for weight in weights])
