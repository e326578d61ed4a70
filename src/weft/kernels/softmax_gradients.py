# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax_backward``: a block per row, which is read twice.

In: the gradient of the result, and the result. Out: the derivative.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.activations import check_alike
from weft.kernels.arrays import Array, Constant, given, output_like
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_second
from weft.kernels.rows import row_count, row_of, sum_type, threads_for
from weft.language.control import unroll
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import sum as block_sum


@differentiable(like_second)
@remembered
def softmax_backward(gradient: Any, y: Any, out: Any = None) -> Any:
    """The derivative of `softmax`: y · (gradient − Σ gradient · y) over the last dimension.

    Args:
        gradient: of the result, an array of y's shape and type.
        y: what `softmax` gave.
        out: an array of y's shape and type, which may be `gradient` itself; None: a new one of y's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats of one type.
        ValueError: for arrays of different shapes or devices.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.softmax_backward(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])).tolist()
        [[0.25, -0.25]]
    """
    source = given(y, "y", is_float=True)
    check_alike(source, gradient, "gradient")
    out = output_like(source, out, ("gradient", "y"), gradient=gradient, y=y)
    if source.rows and source.shape[-1]:
        threads = threads_for(source.shape[-1], 8)
        return Call(_softmax_backward, (gradient, y, out, threads), out)
    return out


@jit
def _softmax_backward(gradient: Array, y: Array, out: Array, threads: Constant) -> None:
    rows = row_count(y.shape)
    softmax_backward_kernel(gradient, y, out, threads).launch(grid=rows, block=threads)


@kernel
def softmax_backward_kernel(gradient: Array, y: Array, out: Array, threads: Constant) -> None:
    """A block: a row."""
    wide = sum_type(y.dtype)
    source, row = row_of(gradient, block_idx.x), row_of(y, block_idx.x)
    total = wide(0.0)
    for i in unroll(range(thread_idx.x, len(row), threads), 4):
        total += wide(source[i]) * wide(row[i])
    total, target = block_sum(total), row_of(out, block_idx.x)
    for i in unroll(range(thread_idx.x, len(row), threads), 4):
        target[i] = out.dtype(wide(row[i]) * (wide(source[i]) - total))
