# SPDX-License-Identifier: Apache-2.0
"""One row of ready_kernels: a function of `weft.kernels` and what a user would call instead."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2}


class Case(NamedTuple):
    """One row.

    Attributes:
        name: of the figure; its first word is the function.
        make: makes a set of arguments, tensors of torch on its default device, from a seed.
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


def normal(torch: Any, name: str, seed: int, *shape: int) -> Any:
    """Random numbers of a normal distribution, rounded to the type of that name."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, name))


def integers(torch: Any, end: int, dtype: Any, seed: int, *shape: int) -> Any:
    """Random integers from 0 on."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    return torch.randint(end, shape, generator=generator, dtype=dtype)


def eager_and_compiled(torch: Any, call: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """A function of torch as it is, and compiled for the shapes that it gets."""
    return {"torch": call, "torch.compile": torch.compile(call, dynamic=False)}


def cupy() -> Any:
    """CuPy, if it is installed and works, else None."""
    try:
        found: Any = import_module("cupy")
    except ImportError:
        return None
    return found if found.cuda.is_available() else None


def triton(name: str) -> Mapping[str, Callable[..., Any]]:
    """Triton's kernel for something, as its tutorials write it, by its name; none where Triton does not work."""
    try:
        calls: Any = import_module("benchmarks.peers.kernels_triton").CALLS
    except Exception:  # what stops it depends on its version
        return {}
    return {"Triton": calls[name]}
