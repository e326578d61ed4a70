# SPDX-License-Identifier: Apache-2.0
"""GEMM epilogues: ``activation(alpha · acc + bias) + beta · residual``, composed of pieces.

In: an accumulator, an element or a fragment, and its position in C. Out: the result. A piece is a named tuple of its
parameters with `apply`, which kernels trace, and `backward`, which torch runs. One that `reads` an array also has
`at`, the array's element at a position, and `load`, its fragment; `map_c` replaces an array of C's shape. An activation
is one line of `ACTIVATIONS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Array, ElementType, Int, Number, Numbers, Shape
from weft.kernels.host.arrays import number, unexpected
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

Activation = Any
"""A name, a name and its parameters, a function of a number, or None. torch's operators take text."""


class Scale(NamedTuple):
    """``alpha · acc``; its gradient is a factor of those of A and B."""

    alpha: weft.f64

    reads = False

    def apply(self, acc: Number, _: object = None) -> Number:
        return acc * acc.dtype(self.alpha)

    def map_c(self, _: Callable[[Any], Any]) -> Scale:
        return self


class Bias(NamedTuple):
    """``acc + bias``, one number per column of C.

    Attributes:
        bias: (n,), or (groups, n).
        per_row: whether A and B are swapped, and the numbers belong to rows.
    """

    bias: weft.Tensor
    per_row: weft.Constexpr[bool] = False

    reads = True

    def _vector(self, batch: Shape) -> weft.Tensor:
        return self.bias if self.bias.ndim == 1 else self.bias[batch]

    def at(self, batch: Shape, _: object, row: Int, column: Int) -> Number:
        return self._vector(batch)[row if self.per_row else column]

    def load(self, acc: weft.Fragment, coord: Any, row: Int, column: Int) -> Any:
        bias = self._vector(coord.batch)
        first = row if self.per_row else column

        def load(i: Int) -> Any:
            at = first + i
            return acc.dtype(bias[at]) if at < len(bias) else acc.dtype(0.0)

        return acc.rows(load) if self.per_row else acc.cols(load)

    def apply(self, acc: Number, bias: Number) -> Number:
        return acc + acc.dtype(bias)

    def map_c(self, _: Callable[[Any], Any]) -> Bias:
        return self

    @staticmethod
    def backward(gradient: Array, bias: Array) -> Array:
        """The gradient summed over rows."""
        return (
            gradient.reshape(-1, gradient.shape[-1])
            .sum(0, dtype=accumulator_type(gradient))
            .to(bias.dtype)
        )


class Pointwise(NamedTuple):
    """``function(acc, *parameters)``.

    Attributes:
        function: of a number and the parameters.
        parameters: numbers.
    """

    function: weft.Constexpr[Any]
    parameters: tuple[weft.f64, ...] = ()

    reads = False

    def apply(self, acc: Number, _: object = None) -> Number:
        return self.function(acc, *[acc.dtype(one) for one in self.parameters])

    def map_c(self, _: Callable[[Any], Any]) -> Pointwise:
        return self


class Residual(NamedTuple):
    """``acc + beta · residual``.

    Attributes:
        residual: of C's shape.
        beta: None for 1.
    """

    residual: weft.Tensor
    beta: weft.f64 | None = None

    reads = True

    def at(self, _: object, c_batch: Shape, row: Int, column: Int) -> Number:
        return self.residual[(*c_batch, row, column)]

    def load(self, acc: weft.Fragment, coord: Any, row: Int, column: Int) -> Any:
        return acc.load(self.residual[coord.c_batch], (row, column))

    def apply(self, acc: Number, residual: Number) -> Number:
        dtype = acc.dtype
        term = dtype(residual)
        if self.beta is not None:
            # beta = 0 ignores the residual, NaN included, as BLAS does.
            term = weft.where(self.beta == 0, dtype(0), dtype(self.beta) * term)
        return acc + term

    def map_c(self, function: Callable[[Any], Any]) -> Residual:
        return self._replace(residual=function(self.residual))

    @staticmethod
    def backward(gradient: Array, residual: Array, beta: float) -> Array:
        """``beta · gradient``; for 1 the gradient itself."""
        wide = widest(gradient, residual)
        return (wide if beta == 1 else beta * wide).to(residual.dtype)


class PointwiseGrad(NamedTuple):
    """``gradient · function'(acc)``: the backward of `Pointwise`, where `acc` is computed again.

    Attributes:
        gradient: of the activation's result, of C's shape.
        function: of the gradient, a number and the parameters.
        parameters: numbers.
    """

    gradient: weft.Tensor
    function: weft.Constexpr[Any]
    parameters: tuple[weft.f64, ...] = ()

    reads = True

    def at(self, _: object, c_batch: Shape, row: Int, column: Int) -> Number:
        return self.gradient[(*c_batch, row, column)]

    def load(self, acc: weft.Fragment, coord: Any, row: Int, column: Int) -> Any:
        return acc.load(self.gradient[coord.c_batch], (row, column))

    def apply(self, acc: Number, gradient: Number) -> Number:
        dtype = acc.dtype
        return self.function(dtype(gradient), acc, *[dtype(one) for one in self.parameters])

    def map_c(self, function: Callable[[Any], Any]) -> PointwiseGrad:
        return self._replace(gradient=function(self.gradient))


Piece = Scale | Bias | Pointwise | Residual | PointwiseGrad


class Epilogue(NamedTuple):
    """Pieces, applied in order.

    Attributes:
        pieces: of any kinds.
    """

    pieces: tuple[Any, ...] = ()

    def apply(self, acc: Number, values: Numbers) -> Number:
        """The result of an element.

        Args:
            acc: the accumulator.
            values: the element of each piece that reads an array.
        """
        index = 0
        for piece in self.pieces:
            if piece.reads:
                acc = piece.apply(acc, values[index])
                index += 1
            else:
                acc = piece.apply(acc)
        return acc

    def apply_at(self, acc: Number, batch: Shape, c_batch: Shape, row: Int, column: Int) -> Number:
        """The result of the element of C at a position."""
        values = [p.at(batch, c_batch, row, column) for p in self.pieces if p.reads]
        return self.apply(acc, values)

    def apply_fragment(self, acc: weft.Fragment, coord: Any, row: Int, column: Int) -> Any:
        """The result of a fragment that begins at a row and a column of C."""
        if not self.pieces:
            return acc
        loaded = [p.load(acc, coord, row, column) for p in self.pieces if p.reads]

        def apply(acc: Number, *values: Numbers) -> Any:
            return self.apply(acc, values)

        return acc.map(apply, *loaded)

    def map_c(self, function: Callable[[Any], Any]) -> Epilogue:
        """The epilogue with a function applied to each array of C's shape."""
        return Epilogue(tuple(piece.map_c(function) for piece in self.pieces))

    def swap_ab(self, transpose: Callable[[Any], Any]) -> Epilogue:
        """The epilogue of the swapped problem, whose result is Cᵀ."""
        pieces = self.map_c(transpose).pieces
        return Epilogue(
            tuple(p._replace(per_row=True) if isinstance(p, Bias) else p for p in pieces)
        )


IDENTITY: Final = Epilogue()


def epilogue_of(
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Epilogue:
    """The epilogue ``activation(alpha · acc + bias) + beta · residual``.

    Raises:
        TypeError: for numbers or activations of another type.
        ValueError: for an unknown activation.
    """
    alpha, beta = number(alpha, "alpha"), number(beta, "beta")
    pieces: list[Piece] = []
    if alpha != 1:
        pieces.append(Scale(alpha))
    if bias is not None:
        pieces.append(Bias(bias))
    if activation is not None:
        known, parameters = parse_activation(activation)
        pieces.append(Pointwise(known.forward, parameters))
    if residual is not None:
        pieces.append(Residual(residual, None if beta == 1 else beta))
    return Epilogue(tuple(pieces))


def gradient_epilogue(gradient: Array, activation: str, bias: Array, alpha: float) -> Epilogue:
    """The epilogue ``gradient · activation'(alpha · acc + bias)``."""
    known, parameters = parse_activation(activation)
    start = epilogue_of(bias=bias, alpha=alpha).pieces
    return Epilogue((*start, PointwiseGrad(gradient, known.backward, parameters)))


def leaky_relu(x: Number, negative_slope: Number) -> Number:
    """The number, times `negative_slope` if it is negative."""
    return negative_slope * x if x < 0 else x


def leaky_relu_backward(gradient: Number, x: Number, negative_slope: Number) -> Number:
    """The gradient, times `negative_slope` where the number is not positive."""
    return gradient if x > 0 else negative_slope * gradient


class ActivationKind(NamedTuple):
    """An activation that has a name.

    Attributes:
        forward: of a number and the parameters; traced in kernels.
        backward: of a gradient, a number and the parameters; traced in kernels.
        by_torch: of `torch.nn.functional`, a tensor and the parameters.
        parameters: their names.
    """

    forward: Callable[..., Any]
    backward: Any = None
    by_torch: Any = None
    parameters: tuple[str, ...] = ()


ACTIVATIONS: Final = {
    "gelu": ActivationKind(gelu_erf, gelu_erf_backward, lambda f, x: f.gelu(x)),
    "gelu_tanh": ActivationKind(
        gelu_tanh, gelu_tanh_backward, lambda f, x: f.gelu(x, approximate="tanh")
    ),
    "leaky_relu": ActivationKind(
        leaky_relu,
        leaky_relu_backward,
        lambda f, x, negative_slope: f.leaky_relu(x, negative_slope),
        ("negative_slope",),
    ),
    "relu": ActivationKind(relu, relu_backward, lambda f, x: f.relu(x)),
    "silu": ActivationKind(silu, silu_backward, lambda f, x: f.silu(x)),
}


def parse_activation(activation: Activation) -> tuple[ActivationKind, tuple[float, ...]]:
    """An activation and its parameters.

    Raises:
        ValueError: for an unknown name, or another number of parameters.
        TypeError: for something else than a name, a name with numbers, or a function.
    """
    if callable(activation):
        return ActivationKind(activation), ()
    name, *parameters = _parts(activation)
    if not isinstance(name, str):
        raise TypeError(unexpected("activation", activation, "a name or a function"))
    if name not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"activation is {name!r}, expected one of {names}, or a function")
    found = ACTIVATIONS[name]
    if len(parameters) != len(found.parameters):
        expected = repr((name, *found.parameters)) if found.parameters else repr(name)
        raise ValueError(unexpected("activation", activation, expected))
    numbers = zip(parameters, found.parameters, strict=True)
    return found, tuple(number(value, f"{one} of {name}") for value, one in numbers)


def _parts(activation: Activation) -> Array:
    """The name and the parameters: a tuple, or its text."""
    if isinstance(activation, str):
        name, *parameters = activation.split(" ")
        try:
            return name, *map(float, parameters)
        except ValueError:
            return (activation,)
    return activation if isinstance(activation, tuple) and activation else (activation,)


def activation_text(activation: Activation) -> str | None:
    """An activation as torch's operators take it: its name, and its parameters after spaces.

    Raises:
        TypeError: for a function.
        ValueError: for an unknown activation.
    """
    if activation is None:
        return None
    if callable(activation):
        raise TypeError(
            "activation is a function without a derivative that torch knows; expected a name, or a call under "
            "torch.no_grad() and outside of torch.compile"
        )
    parse_activation(activation)
    return " ".join(map(str, _parts(activation)))


def activate(activation: str, x: Number) -> Number:
    """The activation of a tensor, by torch."""
    known, parameters = parse_activation(activation)
    return known.by_torch(sys.modules["torch"].nn.functional, x, *parameters)


def widest(gradient: Array, other: Array) -> Array:
    """A gradient, in the other tensor's type if that has more bits, as 16-bit sums of wider gradients overflow."""
    return gradient.to(other.dtype) if gradient.itemsize < other.itemsize else gradient


def accumulator_type(tensor: Array) -> ElementType:
    """The type of torch in which elements of a tensor are summed."""
    torch: Any = sys.modules["torch"]
    return torch.float64 if tensor.itemsize == 8 else torch.float32
