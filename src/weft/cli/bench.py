# SPDX-License-Identifier: Apache-2.0
"""``weft bench``: how long a call of a function takes, on each target that this machine has.

In: a function, the types of its arguments, sizes. Out: one line for each target: the median of samples, and their
percentiles. A sample is as many calls as take a few milliseconds, from the first to the end of the last kernel.
"""

from __future__ import annotations

import statistics
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Final

from weft.cli.functions import (
    WrongCommandError,
    add_data_arguments,
    add_function_arguments,
    compile_named,
    find_function,
    make_arguments,
)
from weft.errors import CudaError
from weft.types.device import CPU

if TYPE_CHECKING:
    import argparse

EXAMPLES: Final = ("weft bench kernels.py::scale --spec 'a:f32[n],b:f32[n]' --samples 3",)

_SAMPLE_SECONDS: Final = 0.005
_MOST_CALLS: Final = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The function, its data, and how often."""
    add_function_arguments(parser)
    add_data_arguments(parser)
    parser.add_argument("--samples", type=int, default=30, help="measurements (default: 30)")


def run(arguments: argparse.Namespace) -> int:
    """Measures each target."""
    if arguments.samples < 1:
        raise WrongCommandError(f"--samples is {arguments.samples}, expected at least 1")
    function = find_function(arguments.function)
    is_chosen = arguments.target or arguments.gpu_arch
    for target in [arguments.target] if is_chosen else ["cpu", *_gpu()]:
        chosen = Namespace(**{**vars(arguments), "target": target})
        compiled = compile_named(chosen, function)
        values = make_arguments(compiled, arguments.sizes, arguments.seed)
        samples = _measure(compiled, values, arguments.samples)
        first, *_, last = statistics.quantiles(samples, n=10) if len(samples) > 1 else samples * 2
        median = statistics.median(samples)
        name = "cpu" if _is_on_cpu(compiled) else "cuda"
        print(
            f"{name:5} median {_time(median)}  10% {_time(first)}  90% {_time(last)}"
            f"  of {len(samples)} samples",
            flush=True,
        )
    return 0


def _gpu() -> list[str]:
    """The target of GPUs if this machine has one."""
    from weft.driver.device import device_count

    try:
        return ["cuda"] if device_count() else []
    except CudaError:
        return []


def _is_on_cpu(compiled: Any) -> bool:
    return compiled.signature.device_type in (None, CPU)


def _measure(compiled: Any, values: dict[str, Any], samples: int) -> list[float]:
    """Seconds for each call, by sample."""
    _seconds(compiled, values, 1)  # loads the code
    calls = 1
    while (took := _seconds(compiled, values, calls)) < _SAMPLE_SECONDS and calls < _MOST_CALLS:
        calls = min(_MOST_CALLS, calls * max(2, int(_SAMPLE_SECONDS / max(took, 1e-7))))
    measured: list[float] = []
    for number in range(samples):
        measured.append(_seconds(compiled, values, calls) / calls)
        if sys.stderr.isatty():
            end = "\n" if number + 1 == samples else ""
            print(f"\r{number + 1}/{samples}", end=end, file=sys.stderr, flush=True)
    return measured


def _seconds(compiled: Any, values: dict[str, Any], calls: int) -> float:
    import weft

    is_on_cpu = _is_on_cpu(compiled)
    if not is_on_cpu:
        weft.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        compiled(**values)
    if not is_on_cpu:
        weft.synchronize()
    return time.perf_counter() - began


def _time(seconds: float) -> str:
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:6.1f} {unit}"
    return f"{seconds:6.2f} s"
