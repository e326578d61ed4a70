# SPDX-License-Identifier: Apache-2.0
"""Six warps, six stages: a pipeline in one block, and a timeline on which the stages overlap.

Shapes: `source` and `out` have n float32 elements. Each tile of 32 elements passes from warp to warp
through shared memory: it is read, shifted, bent by a polynomial, divided by the tile's sum of squares,
rounded to steps, and written. While one warp works on a tile, the next works on the one before it. Each
warp is a group of the profiler with its own leader. Run this file for a table, a picture and a trace; with the argument
``cuda`` on a GPU, with arrays of torch.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

WARP = 32
STAGES = ("read", "shift", "bend", "normalize", "round", "write")
TERMS = 24


@weft.kernel
def profile_pipeline_kernel(
    source: weft.Tensor, out: weft.Tensor, tiles: weft.i32, profiled: weft.Constexpr[bool]
):
    """One block: `tiles` tiles, one per step and stage."""
    p = Profiler(events=(*STAGES, "step", "in flight"), groups=STAGES, enabled=profiled)
    slots = weft.shared((len(STAGES), 2, WARP), weft.f32)
    stage, lane = weft.warp_id(), weft.lane_id()
    p.init(stage)
    n = source.shape[0]
    for step in range(tiles + len(STAGES) - 1):
        tile = step - stage
        has_tile = 0 <= tile < tiles
        if has_tile:
            # A step lasts until all warps hand over, so that those of all stages overlap.
            p.start("step", payload=tile)
            i = (weft.block_idx.x * tiles + tile) * WARP + lane
            half = tile % 2
            if stage == 0:
                with p.range("read", payload=tile):
                    slots[0, half, lane] = source[i] if i < n else 0.0
                    p.begin_async("in flight", key=tile)
                    weft.sync_warp()
            elif stage == 1:
                with p.range("shift", payload=tile):
                    slots[1, half, lane] = slots[0, half, lane] * 0.25 + 1.0
                    weft.sync_warp()
            elif stage == 2:
                with p.range("bend", payload=tile):
                    x = slots[1, half, lane]
                    weft.sync_warp()
                    total = weft.f32(0)
                    for _ in range(TERMS):
                        total = total * x * 0.5 + 1.0
                    slots[2, half, lane] = total
                    weft.sync_warp()
            elif stage == 3:
                with p.range("normalize", payload=tile):
                    x = slots[2, half, lane]
                    slots[3, half, lane] = x / weft.math.sqrt(weft.warp.sum(x * x))
            elif stage == 4:
                with p.range("round", payload=tile):
                    slots[4, half, lane] = weft.math.floor(slots[3, half, lane] * 64.0 + 0.5) / 64.0
                    weft.sync_warp()
            else:
                with p.range("write", payload=tile):
                    if i < n:
                        out[i] = slots[4, half, lane]
                    p.end_async("in flight", key=tile)
                    weft.sync_warp()
        weft.sync_threads()
        if has_tile:
            p.end("step")


@weft.jit
def profile_pipeline(
    source: weft.Tensor[weft.f32, ("n",)],
    out: weft.Tensor[weft.f32, ("n",)],
    profiled: weft.Constexpr[bool] = True,
):
    """Send all tiles through the pipeline, 16 per block."""
    tiles = 16
    blocks = weft.ceil_div(source.shape[0], tiles * WARP)
    profile_pipeline_kernel(source, out, tiles, profiled).launch(
        grid=blocks, block=len(STAGES) * WARP
    )


def make_arguments(n: int) -> Arguments:
    """Random numbers."""
    random = np.random.default_rng(23)
    return {"source": random.standard_normal(n, dtype=np.float32), "out": np.empty(n, np.float32)}


def fake_arguments():
    """Two vectors of one length."""
    n = weft.sym("n")
    return weft.fake_tensor(weft.f32, (n,)), weft.fake_tensor(weft.f32, (n,))


def reference(source: np.ndarray, **_: object) -> Arrays:
    """The same stages on all tiles at once."""
    padded = np.zeros(-(-len(source) // WARP) * WARP, np.float32)
    padded[: len(source)] = source
    x = padded.reshape(-1, WARP) * np.float32(0.25) + np.float32(1)
    total = np.zeros_like(x)
    for _step in range(TERMS):
        total = total * x * np.float32(0.5) + np.float32(1)
    scaled = total / np.sqrt((total * total).sum(axis=1, keepdims=True))
    return {"out": (np.floor(scaled * 64 + 0.5) / 64).reshape(-1)[: len(source)]}


EXAMPLE = Example(
    name="profile_pipeline",
    function=profile_pipeline,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32 through six stages",
    size=1 << 16,
    test_size=3000,
    # A sum that is added in another order may round to the next step, which is 1/64 away.
    tolerance=1 / 64,
    instructions=("%clock", "st.global.v2", "bar.sync", "shfl.sync"),
)


def captured(device: str = "cpu", n: int = 16 * WARP):
    """Record a second run of the pipeline; the first one compiles and loads."""
    from weft.profiler import calibrate, capture

    arguments = make_arguments(n)
    if device != "cpu":
        from importlib import import_module

        torch: Any = import_module("torch")
        arguments = {name: torch.from_numpy(a).to(device) for name, a in arguments.items()}
    profile_pipeline(**arguments)
    with capture() as trace, trace.span("profile_pipeline"):
        profile_pipeline(**arguments)
    trace.cost_ns = calibrate("" if device == "cpu" else "--target cuda").cost_ns
    return trace


def main() -> None:
    """Run, check, and show a captured run."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if device == "cpu":
        show(EXAMPLE)
    trace = captured(device)
    print(trace.summary())
    trace.to_perfetto("pipeline.perfetto-trace")
    trace.plot("pipeline.png")
    print("\npipeline.perfetto-trace and pipeline.png are written")


if __name__ == "__main__":
    main()
