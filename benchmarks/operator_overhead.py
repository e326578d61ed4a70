# SPDX-License-Identifier: Apache-2.0
"""Cost of one call of an operator in a torch program, beside torch's own operators.

In: tensors of a few elements on the CPU, so that a call is what Python and torch's dispatcher cost. Out: microseconds
per call without gradients, with gradients, forward and backward, and of a node in a graph of `torch.compile`.
"""

from __future__ import annotations

import argparse
import time
import timeit
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from benchmarks.harness import Figure, interleave, medians, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = 200  # of one measurement: short, so that most are not interrupted, and many
GRAPH = 16  # calls in a graph: what entering it costs is divided among them


class Pair(NamedTuple):
    """A function of weft and torch's own.

    Attributes:
        name: of the row.
        ours, theirs: take the same tensors.
        shapes: of the tensors.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def pairs(torch: Any) -> tuple[Pair, ...]:
    """The operators that a model calls most."""
    nn, own = torch.nn.functional, weft.kernels
    heads = (1, 2, 4, 16)
    return (
        Pair("rms_norm", own.rms_norm, lambda x, w: nn.rms_norm(x, (8,), w), ((4, 8), (8,))),
        Pair("layer_norm", own.layer_norm, lambda x, w: nn.layer_norm(x, (8,), w), ((4, 8), (8,))),
        Pair("gemm", lambda x, w: own.gemm(x, w.T), nn.linear, ((4, 8), (8, 8))),
        Pair("attention", own.attention, nn.scaled_dot_product_attention, (heads, heads, heads)),
        Pair("softmax", own.softmax, lambda x: nn.softmax(x, -1), ((4, 8),)),
    )


def stopwatch(call: Callable[[], object], calls: int = CALLS) -> Callable[[], float]:
    """Measures the CPU time of one call in microseconds, to which other programs add nothing."""
    timer = timeit.Timer(call, timer=time.process_time)
    timer.timeit(calls)
    return lambda: timer.timeit(calls) / calls * 1e6


def with_backward(call: Callable[..., Any], tensors: list[Any], torch: Any) -> Callable[[], Any]:
    """Forward, and backward into new gradients."""
    gradient = torch.ones_like(call(*tensors))

    def run() -> Any:
        return torch.autograd.grad(call(*tensors), tensors, gradient)

    return run


def in_a_graph(call: Callable[..., Any], tensors: list[Any], torch: Any) -> Callable[[], Any]:
    """Calls in a compiled graph, each on the result of the one before."""

    def chain(first: Any, *rest: Any) -> Any:
        for _ in range(GRAPH):
            first = call(first, *rest)
        return first

    torch._dynamo.reset()
    compiled = torch.compile(chain, backend="aot_eager", fullgraph=True)
    return lambda: compiled(*tensors)


def figures(repeats: int, only: str) -> Iterator[Figure]:
    """Four figures for each operator, ours beside torch's in one run."""
    import torch

    torch.set_num_threads(1)
    for pair in pairs(torch):
        if only not in pair.name:
            continue
        plain = [torch.randn(shape) for shape in pair.shapes]
        tracked = [torch.randn(shape, requires_grad=True) for shape in pair.shapes]
        functions = {"weft": pair.ours, "torch": pair.theirs}
        kinds: dict[str, Callable[[Any], Callable[[], Any]]] = {
            "no grad": lambda call, given=plain: lambda: call(*given),
            "grad": lambda call, given=tracked: lambda: call(*given),
            "grad and backward": lambda call, given=tracked: with_backward(call, given, torch),
            "in a graph": lambda call, given=plain: in_a_graph(call, given, torch),
            "in a graph, grad": lambda call, given=tracked: in_a_graph(call, given, torch),
        }
        for kind, make in kinds.items():
            share = GRAPH if "graph" in kind else 1
            timers = {
                name: stopwatch(make(call), CALLS // share) for name, call in functions.items()
            }
            found = {
                who: time / share for who, time in medians(interleave(timers, repeats)).items()
            }
            name = f"operator_overhead/{pair.name}, {kind}"
            yield Figure(name, found["weft"], "µs", "torch", found["torch"])


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--repeats", type=int, default=31, help="measurements of each kind")
    parser.add_argument("--only", default="", help="operators whose names have this")
    arguments = parser.parse_args()
    report(figures(arguments.repeats, arguments.only), arguments.json)


if __name__ == "__main__":
    main()
