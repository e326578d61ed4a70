# SPDX-License-Identifier: Apache-2.0
"""Writes docs/timelines.md and its pictures: the tensor-core examples' blocks over time, on this machine's GPU.

In: a table of examples, and a GPU. Out: a picture for each, what was measured with them, and the page;
`python -m docs.generate_timelines` writes all. tests/docs compares the page with the table and the measurements.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from examples.catalog import EXAMPLES, HOPPER_EXAMPLES
from weft.driver.device import device_properties
from weft.driver.memory import copy, empty
from weft.profiler import capture
from weft.types.dtype import f16, f32, i32

if TYPE_CHECKING:
    from examples.common import Example
    from weft.profiler.trace import Trace

PAGE: Final = Path(__file__).parent / "timelines.md"
FOLDER: Final = Path(__file__).parent / "images" / "timelines"
MEASURED: Final = FOLDER / "measured.json"
WORDS: Final = 1 << 23  # for the records of one launch
WARM_UPS: Final = 300  # until the clocks are at their highest
DTYPES: Final = {"float32": f32, "float16": f16, "int32": i32}


class Shown(NamedTuple):
    """View of an example.

    Attributes:
        size: of its arguments.
        tracks: rows of the picture, of the first blocks.
        microseconds: length of the drawn window.
        begins: at its first record, or so that the first `store` of block 0 is at three quarters.
        what: a description of the picture.
    """

    size: int
    tracks: int
    microseconds: float
    begins: str
    what: str


TIMELINES: Final = {
    "tma_transpose": Shown(
        4096,
        16,
        9,
        "first record",
        "each warp waits for its tile, transposes it in 0.3 µs, and waits for its store; the kernel is memory-bound",
    ),
    "tensor_core_gemm": Shown(
        4096,
        8,
        13,
        "store",
        "the end of a tile: copies are issued three steps ahead, so the wait before the MMAs is short",
    ),
    "hopper_gemm": Shown(
        4096,
        6,
        20,
        "store",
        "from one tile to the next: up to four loads are in flight, also while both warpgroups store their accumulators",
    ),
    "attention": Shown(
        4096,
        6,
        19,
        "store",
        "the last blocks of keys of a sequence: each softmax overlaps with P·V of the block before, and a load is "
        "issued as soon as its buffer is free",
    ),
    "cluster_softmax": Shown(
        131072,
        8,
        7,
        "first record",
        "a row in the eight blocks of a cluster: exchanging their maxima, then their sums, takes 0.15 to 0.4 µs each",
    ),
    "bulk_reduction": Shown(
        1 << 26,
        9,
        14,
        "store",
        "the end of a block's chunks: summing one takes 0.2 µs, the rest is waiting for memory, with four chunks in flight; "
        "the last bars are the sums added by `red`",
    ),
    "split_k_gemm": Shown(
        65536,
        4,
        16,
        "first record",
        "four of 132 blocks, each with 32 steps of a tile's sum: four loads are in flight, and the partial sums are stored in the end",
    ),
}


def found() -> dict[str, Example]:
    """The examples that are shown, by name."""
    named = {example.name: example for example in (*EXAMPLES, *HOPPER_EXAMPLES)}
    return {name: named[name] for name in TIMELINES}


def on_device(value: Any) -> Any:
    """An array in the GPU's memory; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    array = np.ascontiguousarray(value)
    return copy(empty(array.shape, DTYPES[array.dtype.name], 0), array)


def recorded(example: Example, size: int) -> Trace:
    """A profiled, warm run of an example on the GPU."""
    arguments = {name: on_device(value) for name, value in example.make_arguments(size).items()}
    for _ in range(WARM_UPS):
        example.function(**arguments, profiled=True)
    with capture(WORDS) as trace:
        example.function(**arguments, profiled=True)
    assert trace.problems == [], trace.problems
    return trace


def draw(trace: Trace, name: str, folder: Path) -> None:
    """Draw the first launch that has records."""
    shown, begin = TIMELINES[name], 0.0
    if shown.begins == "store":
        spans = trace.spans()
        stores = spans[(spans["event"] == "store") & (spans["block"] == 0)]
        begin = max(float(stores["begin_ns"].min()) - 750 * shown.microseconds, 0)
    window = begin, begin + 1000 * shown.microseconds
    figure = trace.plot(tracks=shown.tracks, window=window, width=11)
    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def measurement(trace: Trace) -> float:
    """Microseconds from the launch's first record to its last."""
    return float(trace.recordings[0].records["time"].max()) / 1000


def page() -> str:
    """The text of the page."""
    measured = json.loads(MEASURED.read_text())
    parts = [
        "# Timelines",
        "The blocks of the examples for tensor cores and TMA over time. Each picture shows some blocks of one launch "
        f"on an {measured['gpu']}, recorded by the profiler events in the kernel's source ([profiling.md](profiling.md)): a row is a warp, a warpgroup or a "
        "block, bars are its regions, and lines are copies and MMAs in flight. Recording takes time itself; without "
        "`profiled=True` it leaves nothing in the kernel. `python -m docs.generate_timelines` makes the pictures and this page on a GPU of sm_90a.",
    ]
    for name, example in found().items():
        shown = TIMELINES[name]
        took = measured["microseconds"][name]
        first = (example.function.__doc__ or "").partition("\n")[0]
        parts += [
            f"## {name}",
            f"{first} [The source](../examples/{name}.py).",
            f"![{shown.what}](images/timelines/{name}.svg)",
            f"*{example.describe(shown.size)} on an {measured['gpu']}, {took:.0f} µs from the first event to the last. "
            f"{shown.what[0].upper()}{shown.what[1:]}.*",
        ]
    return "\n\n".join(parts) + "\n"


def main(names: list[str]) -> None:
    """Records all examples, or those named, and writes the pictures and the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    measured: dict[str, Any] = {"microseconds": {}}
    if MEASURED.exists():
        measured = json.loads(MEASURED.read_text())
    measured["gpu"] = device_properties(0).name
    for name, example in found().items():
        if not names or name in names:
            trace = recorded(example, TIMELINES[name].size)
            draw(trace, name, FOLDER)
            measured["microseconds"][name] = round(measurement(trace), 1)
    MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
