# SPDX-License-Identifier: Apache-2.0
"""Cost of the sanitizer's checks on the CPU: kernels with `--sanitize` and without, on one thread.

Data fits the cache, where a check costs most; both are the same function, run in turn. `bounds` is measured on loops
over arrays, `all` on kernels whose threads wait, beside the same kernels with one coroutine per thread. Out: a figure
for each kernel, and the geometric means (goals 1.6 and 3).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import UnitAttr

import weft
from benchmarks.harness import Figure, interleave, medians, parse_arguments, report
from weft.backends.cpu.lowering.fission import COROUTINES
from weft.config import override
from weft.dialects.simt.kernel import KernelOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xdsl.dialects.builtin import ModuleOp

CALLS = 200
SIDE = 256
Matrix = weft.Tensor[weft.f32, ("rows", "columns")]


@weft.kernel
def add_one(a: weft.Tensor, b: weft.Tensor):
    """One more than each element, with a guard."""
    row, column = weft.block_idx.y, weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if row < b.shape[0] and column < b.shape[1]:
        b[row, column] = a[row, column] + 1.0


@weft.kernel
def blur(a: weft.Tensor, b: weft.Tensor):
    """Sums of three adjacent elements."""
    row, column = weft.block_idx.y, weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if 0 < column < b.shape[1] - 1:
        b[row, column] = a[row, column - 1] + a[row, column] + a[row, column + 1]


@weft.kernel
def unguarded(a: weft.Tensor, b: weft.Tensor):
    """Twice each element, without a guard."""
    b[weft.block_idx.y, weft.thread_idx.x] = a[weft.block_idx.y, weft.thread_idx.x] * 2.0


@weft.kernel
def sum_of_column(a: weft.Tensor, b: weft.Tensor):
    """A loop over the rows."""
    column = weft.thread_idx.x
    total = 0.0
    for row in range(a.shape[0]):
        total += a[row, column]
    b[weft.block_idx.y, column] = total


@weft.kernel
def reversed_rows(a: weft.Tensor, b: weft.Tensor):
    """Through shared memory, with a barrier."""
    line = weft.shared(SIDE, weft.f32)
    thread = weft.thread_idx.x
    line[thread] = a[weft.block_idx.y, thread]
    weft.sync_threads()
    b[weft.block_idx.y, thread] = line[SIDE - 1 - thread]


@weft.kernel
def add_one_in_coroutines(a: weft.Tensor, b: weft.Tensor):
    """One more than each element, in threads that wait."""
    row, column = weft.block_idx.y, weft.thread_idx.x
    weft.sync_warp()
    b[row, column] = a[row, column] + 1.0


@weft.kernel
def block_sum(a: weft.Tensor, b: weft.Tensor):
    """A sum of each row, halved eight times."""
    parts = weft.shared(SIDE, weft.f32)
    thread = weft.thread_idx.x
    parts[thread] = a[weft.block_idx.y, thread]
    weft.sync_threads()
    for step in weft.static_range(8):
        if thread < SIDE >> (step + 1):
            parts[thread] += parts[thread + (SIDE >> (step + 1))]
        weft.sync_threads()
    if thread == 0:
        b[weft.block_idx.y, 0] = parts[0]


@weft.kernel
def warp_sums(a: weft.Tensor, b: weft.Tensor):
    """A sum of each warp by shuffles."""
    thread = weft.thread_idx.x
    b[weft.block_idx.y, thread] = weft.warp.sum(a[weft.block_idx.y, thread])


KERNELS = {
    "add_one": (add_one, SIDE),
    "blur": (blur, SIDE),
    "unguarded": (unguarded, SIDE),
    "sum_of_column": (sum_of_column, 1),
    "reversed_rows": (reversed_rows, SIDE),
}


# Kernels whose threads wait.
WAITING = {
    "add_one_in_coroutines": (add_one_in_coroutines, SIDE),
    "reversed_rows": (reversed_rows, SIDE),
    "block_sum": (block_sum, SIDE),
    "warp_sums": (warp_sums, SIDE),
}


def as_coroutines(module: ModuleOp) -> None:
    """A hook that makes each thread that waits a coroutine."""
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            kernel.attributes[COROUTINES] = UnitAttr()


def compiled(name: str, options: str, hooks: Iterable[Callable[..., None]] = ()) -> Any:
    """The kernel over a matrix of 256 by 256, as a function of two arrays."""
    kernel, rows = {**KERNELS, **WAITING}[name]

    @weft.jit
    def host(a: Matrix, b: Matrix) -> None:
        kernel(a, b).launch(grid=(1, rows), block=SIDE)

    example = np.zeros((SIDE, SIDE), np.float32)
    return weft.compile(host, example, example, options=options, post_compile_hooks=[*hooks])


def seconds_of(run: Callable[..., object], a: Any, b: Any, calls: int) -> float:
    """The time of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        run(a, b)
    return (time.perf_counter() - start) / calls


def figures(repeats: int, calls: int = CALLS) -> Iterator[Figure]:
    """One for each kernel, and their means."""
    yield from _figures(KERNELS, "bounds", 1.6, repeats, calls)
    yield from _figures(WAITING, "all", 3.0, repeats, max(calls // 20, 1))


def _figures(
    kernels: Iterable[str], checks: str, goal: float, repeats: int, calls: int
) -> Iterator[Figure]:
    ratios = []
    a, b = np.ones((SIDE, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32)
    option = f"--sanitize={checks}"
    for name in kernels:
        with override(num_threads=1):
            hooks = [as_coroutines] if kernels is WAITING else []
            runs = {"": compiled(name, "", hooks), option: compiled(name, option)}
            found = medians(
                interleave(
                    {
                        kind: lambda run=run: 1e6 * seconds_of(run, a, b, calls)
                        for kind, run in runs.items()
                    },
                    repeats,
                )
            )
        plain, checked = found[""], found[option]
        ratios.append(checked / plain)
        yield Figure(f"sanitizer_cost/{checks}/{name}", checked, "us", "without checks", plain)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    yield Figure(f"sanitizer_cost/{checks}/geometric mean", mean, "x", note=f"goal {goal:g}")


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", repeats=15)
    report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
