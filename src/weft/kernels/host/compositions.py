# SPDX-License-Identifier: Apache-2.0
"""Derivatives by composition: of operators whose meaning torch's own functions say, such as derivatives themselves.

In: a formula of tensors of torch. Out: a derivative as `differentiable` takes it. It is computed by torch, and so has
derivatives of its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable


def composed(formula: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The derivative of an operator that computes what a formula says of the same arguments."""

    def backward(gradient: Any, _: Any, *arguments: Any) -> tuple[Any, ...]:
        torch: Any = sys.modules["torch"]
        places = [
            place
            for place, one in enumerate(arguments)
            if isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex())
        ]

        def run(*tensors: Any) -> Any:
            given = list(arguments)
            for place, tensor in zip(places, tensors, strict=True):
                given[place] = tensor
            return formula(*given)

        found = pulled_back(run, gradient, *[arguments[place] for place in places])
        every: list[Any] = [None] * len(arguments)
        for place, slope in zip(places, found, strict=True):
            every[place] = slope
        return tuple(every)

    backward.formula = formula  # type: ignore[attr-defined]
    return backward


def pulled_back(function: Callable[..., Any], gradient: Any, *tensors: Any) -> tuple[Any, ...]:
    """The derivatives of a function of tensors by each of them, from the gradients of its results."""
    torch: Any = sys.modules["torch"]
    results, pull = torch.func.vjp(function, *tensors)
    if isinstance(results, tuple):
        pairs = zip(
            cast("tuple[Any, ...]", gradient), cast("tuple[Any, ...]", results), strict=True
        )
        return pull(tuple(one.to(result.dtype) for one, result in pairs))
    return pull(gradient.to(results.dtype))


def widened(tensor: Any) -> Any:
    """A tensor in the type in which kernels compute: f32 for fewer bits."""
    return tensor.float() if tensor.itemsize < 4 else tensor
