# SPDX-License-Identifier: Apache-2.0
"""Whole operations, as a user of weft calls them, for benchmarks/gpu_kernels.py to measure beside other libraries'.

In: a scale. Out: for each name how to make its arguments and how weft is called on them; what it computes, which is
the name of the peers' calls.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from benchmarks.codegen.runs import Run
from examples.hopper_gemm import gemm
from examples.radix_sort import DIGITS, THREADS, radix_sort

if TYPE_CHECKING:
    from collections.abc import Callable


class Operation(NamedTuple):
    """One row.

    Attributes:
        computes: the name of the peers' calls for it.
        make: makes the arguments.
        call: weft's.
        tolerance: how far two results may be from each other, of the norm.
        capabilities: of the devices that can do it.
    """

    computes: str
    make: Callable[[np.random.Generator], Run]
    call: Callable[..., object]
    tolerance: float = 1e-4
    capabilities: range = range(1000)


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """One iteration: one sum."""
    for i in weft.each(a.shape[0]):
        c[i] = a[i] + b[i]


@weft.jit
def add(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """c = a + b, of vectors."""
    add_kernel(a, b, c).launch(over=a.shape[0])


def layer_norm(x: object, weight: object, bias: object, out: object) -> None:
    """weft.kernels.layer_norm with its usual epsilon."""
    weft.kernels.layer_norm(x, weight, bias, out=out)


def sum_all(a: object, total: object) -> None:
    """weft.kernels.sum of a whole array."""
    weft.kernels.sum(a, out=total)


def sort(keys: Any, ordered: Any, spare: Any, counts: Any) -> None:
    """The keys in order, in the second array."""
    weft.copy(ordered, keys)
    radix_sort(ordered, spare, counts)


def operations(scale: int = 1) -> dict[str, Operation]:
    """Each operation by the name of its row.

    Args:
        scale: what the extents of benchmarks are divided by: a power of two up to 64.
    """
    vector, side, depth = (1 << 26) // scale, 8192 // scale, 4096 // scale

    def run(*arguments: Any, written: int = -1, moved: int | None = None) -> Run:
        size = sum(one.nbytes for one in arguments) if moved is None else moved
        return Run((1, 1, 1), arguments, (), size, 0, (written % len(arguments),))

    def vectors(random: np.random.Generator, reads: int) -> Run:
        given = [random.random(vector, np.float32) for _ in range(reads)]
        return run(*given, np.zeros(vector, np.float32))

    def rows(random: np.random.Generator, parameters: int) -> Run:
        x = random.random((side, depth), np.float32)
        more = [random.random(depth, np.float32) for _ in range(parameters)]
        return run(x, *more, np.zeros_like(x))

    def total(random: np.random.Generator) -> Run:
        return run(random.random(vector, np.float32), np.zeros((), np.float32))

    def keys(random: np.random.Generator) -> Run:
        count = vector // 64
        made = random.integers(0, 1 << 31, count, np.uint32)
        counts = np.zeros((DIGITS, -(-count // THREADS)), np.int32)
        return run(made, made.copy(), made.copy(), counts, written=1, moved=2 * made.nbytes)

    def factors(random: np.random.Generator) -> Run:
        shape = (depth, depth)
        a, b = (random.random(shape, np.float32).astype(np.float16) for _ in range(2))
        return run(a, b, np.zeros(shape, np.float16))

    return {
        "add": Operation("add", partial(vectors, reads=2), add),
        "weft.kernels.softmax": Operation(
            "softmax", partial(rows, parameters=0), weft.kernels.softmax
        ),
        "weft.kernels.layer_norm": Operation("layernorm", partial(rows, parameters=2), layer_norm),
        "weft.kernels.sum": Operation("sum", total, sum_all),
        "weft.kernels.cumsum": Operation("cumsum", partial(vectors, reads=1), weft.kernels.cumsum),
        "sort": Operation("sort", keys, sort),
        "matmul": Operation("matmul", factors, gemm, 2e-3, range(90, 91)),
    }
