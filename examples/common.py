# SPDX-License-Identifier: Apache-2.0
"""Description of an example; running, checking and timing one.

In: a host function, how to make its arguments, and what NumPy says. Out: figures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = dict[str, Any]
Arrays = dict[str, np.ndarray]

# A run is repeated until this much time is spent, and the best one counts.
TIMING_SECONDS = 0.25


@dataclass(frozen=True)
class Example:
    """One example: what runs, on what, and how it is checked.

    Attributes:
        name: of the module, which is also the first column of the demo's table.
        function: the host function, made by ``@weft.jit``.
        make_arguments: size → its arguments by name, in order; the same ones each time.
        fake_arguments: the same kinds of arguments without data, for compiling without arrays.
        reference: takes the arguments by name, leaves them unchanged, and returns what NumPy
            expects each output to be.
        describe: size → words for the demo's table.
        size: of the demo. It is real work: tenths of a second in NumPy.
        test_size: of the tests; not a multiple of the block, so that the guards are tested.
        tolerance: the largest error allowed, see `largest_error`; 0 means equal to the bit.
        constants: names of the arguments that are compile-time constants (`weft.Constexpr`).
        picture: arguments after a run → height x width x 3 bytes, where there is one to look at.
        instructions: those that the PTX must contain; the tests look for them.
    """

    name: str
    function: Any
    make_arguments: Callable[[int], Arguments]
    fake_arguments: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Arrays]
    describe: Callable[[int], str]
    size: int
    test_size: int
    tolerance: float = 0.0
    constants: tuple[str, ...] = ()
    picture: Callable[[Arguments], np.ndarray] | None = None
    instructions: tuple[str, ...] = ()

    def call_arguments(self, arguments: Arguments) -> Arguments:
        """Arguments of a compiled function: without the constants it was compiled for."""
        return {name: value for name, value in arguments.items() if name not in self.constants}


@dataclass(frozen=True)
class Report:
    """Figures of one run.

    Attributes:
        arguments: after the run, with the outputs filled in.
        compile_ms: Python function to callable.
        run_ms: best of several calls.
        numpy_ms: best of several calls of the reference.
        error: see `largest_error`, over all outputs.
    """

    example: Example
    size: int
    arguments: Arguments
    compile_ms: float
    run_ms: float
    numpy_ms: float
    error: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the example's tolerance; NaN is not."""
        return self.error <= self.example.tolerance


def largest_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, absolute where the expected value is below 1 and relative above.

    Returns:
        0.0 when all elements are equal, infinity when shapes differ.

    Example:
        >>> largest_error(np.array([0.5, 101.0]), np.array([0.0, 100.0]))
        0.5
    """
    if got.shape != expected.shape:
        return float("inf")
    if got.size == 0 or np.array_equal(got, expected):
        return 0.0
    wanted = expected.astype(np.float64)
    return float(np.max(np.abs(got - wanted) / np.maximum(1.0, np.abs(wanted))))


def best_ms(call: Callable[[], object], seconds: float = TIMING_SECONDS) -> float:
    """Milliseconds of the fastest call of as many as fit into `seconds`, and at least three."""
    best, spent, calls = float("inf"), 0.0, 0
    while spent < seconds or calls < 3:
        start = time.perf_counter()
        call()
        elapsed = time.perf_counter() - start
        best, spent, calls = min(best, elapsed), spent + elapsed, calls + 1
    return best * 1000


def run(example: Example, size: int | None = None) -> Report:
    """Compile an example for the CPU, run it, check it against NumPy and time both.

    The check uses the first call, on fresh arguments: an example may change its inputs in place.
    """
    size = example.size if size is None else size
    arguments = example.make_arguments(size)
    expected = example.reference(**arguments)

    start = time.perf_counter()
    compiled = weft.compile(example.function, *arguments.values())
    compile_ms = (time.perf_counter() - start) * 1000

    given = example.call_arguments(arguments)
    compiled(**given)
    error = max(largest_error(arguments[name], array) for name, array in expected.items())

    again = example.make_arguments(size)
    given_again = example.call_arguments(again)
    run_ms = best_ms(lambda: compiled(**given_again))
    numpy_ms = best_ms(lambda: example.reference(**again))
    return Report(example, size, arguments, compile_ms, run_ms, numpy_ms, error)


def show(example: Example) -> None:
    """Run an example and print one line; what each example's `main` does.

    Raises:
        SystemExit: if the result is wrong.
    """
    report = run(example)
    print(
        f"{example.name}, {example.describe(report.size)}: compiled in {report.compile_ms:.1f} ms, "
        f"ran in {report.run_ms:.2f} ms (NumPy {report.numpy_ms:.2f} ms), "
        f"largest error {report.error:.1e}"
    )
    if not report.passed:
        raise SystemExit(f"{example.name}: expected an error of at most {example.tolerance:.1e}")
