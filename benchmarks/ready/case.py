# SPDX-License-Identifier: Apache-2.0
"""One row of ready_kernels: a function of `weft.kernels` and what a user would call instead."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Case(NamedTuple):
    """One row.

    Attributes:
        name: of the figure.
        make: makes a set of arguments, tensors of torch on the GPU, from a seed.
        ours: weft's call; gives a tensor, or a tuple of them.
        peers: who → the same call by others. The first one's result is what ours is compared with.
        work: bytes that a call has to read and write, or its floating-point operations.
        unit: ``"GB/s"`` of bytes, or ``"TFLOP/s"`` of operations.
        tolerance: the largest difference of the results, of the norm; 0 where they have to be equal.
    """

    name: str
    make: Callable[[int], Sequence[Any]]
    ours: Callable[..., Any]
    peers: Mapping[str, Callable[..., Any]]
    work: float
    unit: str = "GB/s"
    tolerance: float = 0.0


def cupy() -> Any:
    """CuPy, if it is installed and works, else None."""
    try:
        found: Any = import_module("cupy")
    except ImportError:
        return None
    return found if found.cuda.is_available() else None
