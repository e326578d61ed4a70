# SPDX-License-Identifier: Apache-2.0
"""How much of a GPU's memory speed elementwise kernels with `weft.each` reach.

Every kernel runs over f32, bf16, and bf16 in with f32 out, and over arrays of every layout: of an even and an odd
length, with addresses that are not aligned (alike, or of the input alone), of two dimensions, and with rows that are
parts of longer ones. What it writes is compared with torch's result before it is timed. Beside it, in turns, torch
copies as many bytes: `out.copy_(x)` of half of them. The data is random, and each launch takes the next of several sets
of arrays, which together exceed the caches; each figure is a median.

In: a GPU, and torch. Out: GB/s, read and written, of each kernel and of the copy, so that a ratio of 0.95 is the goal;
then the worst ratio and the geometric mean. Says why there are none where there is no GPU.
"""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from benchmarks.gpu_kernels import MOST_SETS, ROTATED, Stopwatch
from benchmarks.gpu_launch import gpu_missing
from benchmarks.harness import Figure, interleave, parse_arguments, reason_of, report
from weft.driver.device import set_current_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

COLUMNS = 1024
GOAL = 0.95


@weft.kernel
def copy(x: weft.Tensor, y: weft.Tensor):
    """y = x, converted where the types differ."""
    for at in weft.each(y.shape):
        y[at] = x[at]


@weft.kernel
def scale(x: weft.Tensor, y: weft.Tensor):
    """y = 1.5 x."""
    for at in weft.each(y.shape):
        y[at] = 1.5 * weft.f32(x[at])


@weft.kernel
def saxpy(x: weft.Tensor, y: weft.Tensor):
    """y = 1.5 x + y."""
    for at in weft.each(y.shape):
        y[at] = 1.5 * weft.f32(x[at]) + weft.f32(y[at])


@weft.kernel
def gelu_tanh(x: weft.Tensor, y: weft.Tensor):
    """GELU by its approximation with tanh."""
    for at in weft.each(y.shape):
        u = weft.f32(x[at])
        y[at] = 0.5 * u * (1 + weft.math.tanh(0.79788456 * (u + 0.044715 * u * u * u)))


@weft.kernel
def gelu_erf(x: weft.Tensor, y: weft.Tensor):
    """GELU itself."""
    for at in weft.each(y.shape):
        u = weft.f32(x[at])
        y[at] = 0.5 * u * (1 + weft.math.erf(0.70710678 * u))


@weft.kernel
def noise(x: weft.Tensor, seed: weft.u32):
    """Numbers between -4 and 4, as random as a hash of their place."""
    for at in weft.each(x.shape):
        bits = weft.u32(0)
        for part in (seed, *at):
            bits = (bits + weft.u32(part) + 1) * 2654435761
            bits = bits ^ (bits >> 15)
        x[at] = weft.f32(bits >> 8) / 2097152 - 4


@weft.jit
def launch(kernel: weft.Constexpr, x: weft.Tensor, y: weft.Tensor):
    """Launch a kernel with as many repeats as `y` has elements."""
    kernel(x, y).launch(over=y.shape)


# Kernel → what torch computes in f32 from the two arrays.
REFERENCES: dict[Any, Callable[[Any, Any, Any], Any]] = {
    copy: lambda torch, x, y: x,
    scale: lambda torch, x, y: 1.5 * x,
    saxpy: lambda torch, x, y: torch.add(y, x, alpha=1.5),
    gelu_tanh: lambda torch, x, y: torch.nn.functional.gelu(x, approximate="tanh"),
    gelu_erf: lambda torch, x, y: torch.nn.functional.gelu(x),
}
TYPES = {
    "f32": (weft.f32, weft.f32),
    "bf16": (weft.bf16, weft.bf16),
    "mixed": (weft.bf16, weft.f32),
}


class Layout(NamedTuple):
    """How the arrays lie in memory.

    Attributes:
        left: elements that the length lacks, or each row.
        starts: elements before the first one of the input and of the output.
        is_matrix: whether there are two dimensions.
    """

    left: int = 0
    starts: tuple[int, int] = (0, 0)
    is_matrix: bool = False

    def arrays(self, types: Sequence[Any], n: int, seed: int, device: str = "cuda:0") -> list[Any]:
        """Random arrays of `n` elements, but those that the layout lacks."""
        made: list[Any] = []
        for start, dtype in zip(self.starts, types, strict=True):
            shape = (n // COLUMNS, COLUMNS) if self.is_matrix else (n + start,)
            memory = weft.empty(shape, dtype, device)
            noise.over(shape)(memory, 2 * seed + len(made))
            if self.is_matrix:
                made.append(memory[:, : COLUMNS - self.left])
            else:
                made.append(memory[start : start + n - self.left])
        return made


LAYOUTS = {
    "even": Layout(),
    "odd": Layout(left=3),
    "shifted": Layout(starts=(1, 1)),
    "misaligned": Layout(starts=(1, 0)),
    "matrix": Layout(is_matrix=True),
    "part": Layout(left=3, is_matrix=True),
}


def cuda_torch() -> Any:
    """torch, if it is installed and can use the GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def check(torch: Any, kernel: Any, run: Callable[..., object], arrays: Sequence[Any]) -> str:
    """Compares what a launch writes with torch's result; an empty string, or how they differ."""
    x, y = map(torch.from_dlpack, arrays)
    expected = REFERENCES[kernel](torch, x.float(), y.float()).to(y.dtype)
    run(*arrays)
    weft.synchronize()
    try:
        torch.testing.assert_close(y, expected)
    except AssertionError as error:
        return f"wrong: {reason_of(error)}"
    return ""


def measured(
    torch: Any, kernel: Any, given: Sequence[Sequence[Any]], watch: Stopwatch, repeats: int
) -> tuple[float, float | None, str]:
    """Bytes per microsecond of a kernel and of torch's copy, and what is wrong with its result."""
    run = weft.compile(launch, kernel, *given[0])
    wrong = check(torch, kernel, run, given[0]) if torch else "not compared: needs torch"
    x, y = (math.prod(one.shape) * one.dtype.itemsize for one in given[0])
    total = x + y * (2 if kernel is saxpy else 1)
    turn = itertools.cycle(given)
    found = {"weft": watch.measurement(lambda: run(*next(turn)))}
    if torch:
        source = torch.randint(256, (total // 2,), dtype=torch.uint8, device="cuda")
        pairs = [(source.clone(), source.clone()) for _ in given]
        turns = itertools.cycle(pairs)

        def copied() -> None:
            source, target = next(turns)
            target.copy_(source)

        found["torch"] = watch.measurement(copied)
    samples = interleave(found, repeats)
    speeds = {who: total / statistics.median(times) for who, times in samples.items()}
    return speeds["weft"], speeds.get("torch"), wrong


def figures(repeats: int, driver: str = "libcuda.so.1", scale: int = 1) -> Iterator[Figure]:
    """The speed of every kernel, then the worst ratio to torch's copy, and the mean.

    Args:
        repeats: measurements of each candidate.
        driver: the library whose events are used.
        scale: what the number of elements is divided by.
    """
    set_current_device(0)
    torch, watch, n = cuda_torch(), Stopwatch(driver), (1 << 26) // scale
    ratios: dict[str, float] = {}
    for (how, layout), (kind, types) in itertools.product(LAYOUTS.items(), TYPES.items()):
        bytes_of_a_set = n * sum(dtype.itemsize for dtype in types)
        sets = max(2, min(MOST_SETS, ROTATED // bytes_of_a_set))
        given = [layout.arrays(types, n, seed) for seed in range(sets)]
        for kernel in REFERENCES:
            name = f"each_bandwidth/{kernel.__name__}/{kind}/{how}"
            ours, theirs, wrong = measured(torch, kernel, given, watch, repeats)
            peer = theirs and theirs / 1e3
            figure = Figure(name, ours / 1e3, "GB/s", "torch's copy", peer, wrong)
            if figure.ratio and not wrong:
                ratios[name] = figure.ratio
            yield figure
    if ratios:
        worst = min(ratios, key=lambda name: ratios[name])
        slow = sum(ratio < GOAL for ratio in ratios.values())
        note = f"{worst}; {slow} of {len(ratios)} are below {GOAL}"
        yield Figure("each_bandwidth/worst", ratios[worst], "x", note=note)
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        yield Figure("each_bandwidth/geometric mean", mean, "x", note="of ratios to torch's copy")


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", repeats=9)
    if reason := gpu_missing():
        missing = Figure("each_bandwidth", None, "GB/s", note=f"needs a GPU: {reason}")
        report([missing], arguments.json)
    else:
        report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
