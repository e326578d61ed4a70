# SPDX-License-Identifier: Apache-2.0
"""Functions of `weft.math` on the CPU beside NumPy's: nanoseconds per element, on one thread.

In: arrays that stay in the second cache. Out: one figure per function and type; NumPy has no erf and
no rsqrt of its own, so erf has no peer and rsqrt is 1 / sqrt(x).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.harness import Figure, interleave, medians, parse_arguments, report
from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELEMENTS = 1 << 16
CALLS = 20
DTYPES = {"f32": np.float32, "f64": np.float64}
# Each function with the arguments that it is given, and NumPy's.
FUNCTIONS: dict[str, tuple[float, float, Any]] = {
    "exp": (-10, 10, np.exp),
    "exp2": (-10, 10, np.exp2),
    "log": (0.01, 100, np.log),
    "log2": (0.01, 100, np.log2),
    "sin": (-100, 100, np.sin),
    "cos": (-100, 100, np.cos),
    "tan": (-100, 100, np.tan),
    "asin": (-1, 1, np.arcsin),
    "atan": (-10, 10, np.arctan),
    "tanh": (-5, 5, np.tanh),
    "erf": (-3, 3, None),
    "rsqrt": (0.01, 100, lambda x, out: np.divide(1, np.sqrt(x, out=out), out=out)),
    "pow": (0.01, 10, lambda x, out: np.power(x, x, out=out)),
}


@weft.kernel
def apply_kernel(x: weft.Tensor, y: weft.Tensor, function: weft.Constexpr):
    """One thread: one element."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < x.shape[0]:
        y[i] = function(x[i])


@weft.jit
def apply(x: weft.Tensor, y: weft.Tensor, function: weft.Constexpr):
    """Write function(x) to y."""
    apply_kernel(x, y, function).launch(grid=weft.ceil_div(x.shape[0], 256), block=256)


def of_one(name: str) -> Callable[[Any], Any]:
    """A function of one element, as the kernel calls it."""
    function = getattr(weft.math, name)
    if name == "pow":
        return lambda x: function(x, x)
    return function


def per_element(call: Callable[[], Any]) -> float:
    """Nanoseconds per element, by the time that this thread was on the CPU."""
    start = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - start) / CALLS / ELEMENTS


def figures(repeats: int) -> Iterator[Figure]:
    """Each function in each type."""
    _native.set_cpu_threads(1)
    for kind, dtype in DTYPES.items():
        for name, (low, high, numpy) in FUNCTIONS.items():
            x = np.random.default_rng(0).uniform(low, high, ELEMENTS).astype(dtype)
            y = np.empty_like(x)
            compiled = weft.compile(apply, x, y, of_one(name))
            candidates = {"weft": lambda f=compiled, x=x, y=y: per_element(lambda: f(x, y))}
            if numpy is not None:
                candidates["NumPy"] = lambda f=numpy, x=x, y=y: per_element(lambda: f(x, out=y))
            for measure in candidates.values():
                measure()
            found = medians(interleave(candidates, repeats))
            peer = "NumPy" if numpy is not None else None
            title = f"cpu_math/{name}/{kind}"
            yield Figure(title, found["weft"], "ns", peer, found.get("NumPy"), "per element")


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=9)
    report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
