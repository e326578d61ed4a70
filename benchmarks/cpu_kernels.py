# SPDX-License-Identifier: Apache-2.0
"""Kernels on the CPU target beside NumPy, which runs on one thread; weft with one thread and with all.

In: the examples at their full size. Out: milliseconds per call, compiled beforehand.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.harness import Figure, interleave, medians, parse_arguments, report
from examples.catalog import EXAMPLES
from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOALS = {"add_one": 1.0, "saxpy": 0.6}  # of NumPy's time


def numpy_in_place(name: str, given: dict[str, Any]) -> Callable[[], Any] | None:
    """NumPy without allocating its result, where that is how one would write it; else None."""
    if name == "add_one":
        return lambda: np.add(given["a"], np.float32(1), out=given["b"])
    if name == "saxpy":
        product = np.empty_like(given["x"])

        def saxpy() -> None:
            np.multiply(given["x"], np.float32(given["a"]), out=product)
            np.add(product, given["y"], out=given["y"])

        return saxpy
    return None


def milliseconds(call: Callable[[], Any]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def figures(rounds: int) -> Iterator[Figure]:
    """Each example beside its NumPy reference."""
    for example in EXAMPLES:
        arguments = example.make_arguments(example.size)
        compiled = weft.compile(example.function, *arguments.values())
        given = example.call_arguments(arguments)

        def all_threads(compiled: Any = compiled, given: dict[str, Any] = given) -> None:
            compiled(**given)

        def one_thread(call: Callable[[], None] = all_threads) -> None:
            _native.set_cpu_threads(1)
            call()
            _native.set_cpu_threads(0)

        def numpy(reference: Any = example.reference, given: Any = arguments) -> None:
            reference(**given)

        peer = numpy_in_place(example.name, arguments) or numpy
        calls = {"all threads": all_threads, "one thread": one_thread, "NumPy": peer}
        for call in calls.values():
            call()  # touches the memory, wakes the threads
        candidates = {name: (lambda call=call: milliseconds(call)) for name, call in calls.items()}
        found = medians(interleave(candidates, rounds))
        goal = GOALS.get(example.name)
        note = example.describe(example.size) + (f"; goal x{goal}" if goal else "")
        for name in ("all threads", "one thread"):
            title = f"cpu_kernels/{example.name}/{name}"
            yield Figure(title, found[name], "ms", "NumPy", found["NumPy"], note)


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", rounds=9)
    report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
