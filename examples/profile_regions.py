# SPDX-License-Identifier: Apache-2.0
"""Where the time of a kernel goes: a load, a loop and a store, marked in three ways of grouping threads.

Shapes: `source` and `out` have n float32 elements; each buffer of records has one word, and then one per
record of every track. The markers are those of TIRx's CudaProfiler, whose programs run unchanged; run this
file to get a table and a trace for https://ui.perfetto.dev.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import CudaProfiler

ROUNDS = 500
RECORDS = 7  # per track: three regions have two each, and one ends the track


class Region(Enum):
    """Recorded events."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


@weft.kernel
def regions_kernel(
    source: weft.Tensor,
    out: weft.Tensor,
    records: weft.Tensor,
    bounds: weft.Constexpr[tuple],
):
    """One thread: one element. Threads from one bound to the next are a group, whose first one records."""
    tid = weft.thread_idx.x
    i = weft.block_idx.x * weft.block_dim.x + tid
    group = 0
    leads = tid == 0
    for bound in bounds[:-1]:
        if tid >= bound:
            group += 1
        leads = leads | (tid == bound)
    p = CudaProfiler(
        records,
        write_stride=weft.grid_dim.x * len(bounds),
        num_groups=len(bounds),
        default_leader=leads,
    )
    p.init(group)
    p.start(Region.LOAD)
    x = source[i] if i < source.shape[0] else 0.0
    p.end(Region.LOAD)
    with p.range(Region.COMPUTE):
        total = weft.f32(0)
        for _ in range(ROUNDS):
            total = total * 0.5 + x
    p.start(Region.STORE)
    if i < out.shape[0]:
        out[i] = total
    p.end(Region.STORE)
    p.finalize()


@weft.jit
def regions(
    source: weft.Tensor[weft.f32, ("n",)],
    out: weft.Tensor[weft.f32, ("n",)],
    one_group: weft.Tensor[weft.u64, (None,)],
    warp_groups: weft.Tensor[weft.u64, (None,)],
    uneven_groups: weft.Tensor[weft.u64, (None,)],
):
    """Run the kernel with one group per block, with two warp groups, and with groups that are not warps."""
    n = source.shape[0]
    blocks = weft.ceil_div(n, 128)
    regions_kernel(source, out, one_group, (128,)).launch(grid=blocks, block=128)
    halves = weft.ceil_div(n, 256)
    regions_kernel(source, out, warp_groups, (128, 256)).launch(grid=halves, block=256)
    regions_kernel(source, out, uneven_groups, (48, 96, 128)).launch(grid=blocks, block=128)


def make_arguments(n: int) -> Arguments:
    """Random numbers, and buffers of zeros that hold every record."""
    random = np.random.default_rng(21)
    blocks, halves = -(-n // 128), -(-n // 256)
    tracks = {"one_group": blocks, "warp_groups": 2 * halves, "uneven_groups": 3 * blocks}
    return {
        "source": random.standard_normal(n, dtype=np.float32),
        "out": np.empty(n, np.float32),
        **{name: np.zeros(1 + count * RECORDS, np.uint64) for name, count in tracks.items()},
    }


def fake_arguments():
    """Two vectors of one length, and three buffers of any."""
    n = weft.sym("n")
    vectors = [weft.fake_tensor(weft.f32, (n,)) for _ in range(2)]
    return *vectors, *(weft.fake_tensor(weft.u64, (None,)) for _ in range(3))


def reference(source: np.ndarray, **_: object) -> Arrays:
    """The series that the loop sums up."""
    total = np.zeros_like(source)
    for _step in range(ROUNDS):
        total = total * np.float32(0.5) + source
    return {"out": total}


EXAMPLE = Example(
    name="profile_regions",
    function=regions,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32, three launches with records",
    size=1 << 14,
    test_size=1000,
    tolerance=1e-6,
    instructions=("%globaltimer_lo", "st.global.v2"),
)


def main() -> None:
    """Run, check, and write what was recorded."""
    show(EXAMPLE)
    from weft.profiler import Trace, decode_tirx, export_to_perfetto_trace

    names = [region.name.lower() for region in Region]
    arguments = make_arguments(512)
    regions(**arguments)
    buffers = [arguments[name] for name in ("one_group", "warp_groups", "uneven_groups")]
    print(Trace([decode_tirx(buffer, names) for buffer in buffers]).summary())
    export_to_perfetto_trace(buffers[2], Path("regions.perfetto-trace"), names)
    print("\nregions.perfetto-trace opens in https://ui.perfetto.dev")


if __name__ == "__main__":
    main()
