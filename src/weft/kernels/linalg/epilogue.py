# SPDX-License-Identifier: Apache-2.0
"""What a matrix product may end with: a factor, a bias, an activation, a residual, in this order.

In: sums, a number or a fragment of them, and where they are. Out: the same, finished.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.errors import brief
from weft.kernels.host.arrays import Array, Constant, Float64
from weft.kernels.nn.activation import (
    gelu_erf,
    gelu_erf_backward,
    gelu_tanh,
    gelu_tanh_backward,
    relu,
    relu_backward,
    silu,
    silu_backward,
)
from weft.language.control import select

Activation = Any
"""A name, a function of a number, or None. torch's operators take names."""

ACTIVATIONS: Final = {
    "gelu": (gelu_erf, gelu_erf_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "relu": (relu, relu_backward),
    "silu": (silu, silu_backward),
}
"""Functions, and the gradient times their derivative."""


def activation_of(activation: Any) -> Any:
    """The function of a number that a name or a user's function is, or None.

    Raises:
        ValueError: for another name.
        TypeError: for something else.
    """
    if activation is None or callable(activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(f"activation is {brief(activation)}, expected a name or a function")
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"activation is {activation!r}, expected one of {names}, or a function")
    return ACTIVATIONS[activation][0]


def slope_of(activation: str) -> Any:
    """The function of a gradient and a number that differentiates an activation."""
    return ACTIVATIONS[activation][1]


class Ending(NamedTuple):
    """``activation(alpha · total + bias) + beta · residual``; what is None is left out.

    Attributes:
        alpha: a number.
        bias: a number per column, or per group and column.
        activation: a function of a number.
        beta: a number.
        residual: an array of the result's shape.
        slope: a function of the residual and the sum, in place of the activation and what follows.
        is_turned: whether rows and columns are exchanged: the bias is a number per row.
    """

    alpha: Float64 | None = None
    bias: Array | None = None
    activation: Constant = None
    beta: Float64 | None = None
    residual: Array | None = None
    slope: Constant = None
    is_turned: Constant = False

    def finished(self, total: Any, bias: Any, residual: Any) -> Any:
        """A finished sum, from the numbers that belong to it; traced in kernels."""
        wide = total.dtype
        if self.alpha is not None:
            total *= wide(self.alpha)
        if self.bias is not None:
            total += wide(bias)
        if self.slope is not None:
            return self.slope(wide(residual), total)
        if self.activation is not None:
            total = self.activation(total)
        if self.residual is not None:
            beside = wide(residual)
            if self.beta is not None:
                # A beta of 0 leaves the residual out, NaN too, as BLAS does.
                beside = select(self.beta == 0, wide(0), wide(self.beta) * beside)
            total += beside
        return total

    def bias_of(self, place: Any) -> Any:
        """The bias of a tile's columns, of its group where each has one, or None; traced in kernels."""
        if self.bias is None or self.bias.ndim == 1:
            return self.bias
        return self.bias[place.matrix]

    def finished_part(self, part: Any, place: Any, row: Any, column: Any) -> Any:
        """A finished fragment of a tile, which begins at that row and column of the result."""
        if self == PLAIN:
            return part
        others = ()
        bias = self.bias_of(place)
        if bias is not None:
            first = row if self.is_turned else column

            def of_place(i: Any) -> Any:
                at = first + i
                return part.dtype(bias[at]) if at < len(bias) else part.dtype(0.0)

            others = (part.rows(of_place) if self.is_turned else part.cols(of_place),)
        if self.residual is not None:
            others = (*others, part.load(self.residual[place.result], (row, column)))

        def finish(total: Any, *values: Any) -> Any:
            return self.finished(
                total,
                values[0] if self.bias is not None else None,
                values[-1] if self.residual is not None else None,
            )

        return part.map(finish, *others)


PLAIN: Final = Ending()
"""The sums as they are."""
