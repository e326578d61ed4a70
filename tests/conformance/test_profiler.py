# SPDX-License-Identifier: Apache-2.0
"""Markers change nothing of what a kernel computes: CudaProfiler beside barriers, loops and early returns."""

from __future__ import annotations

import numpy as np

from tests.conformance.harness import define
from weft.profiler import capture, decode_tirx

SOURCE = """
@weft.kernel
def kernel(source: weft.Tensor, target: weft.Tensor, trace: weft.Tensor, iterations: weft.i32):
    tile = weft.shared(64, weft.f32)
    tid = weft.thread_idx.x
    p = weft.profiler.CudaProfiler(
        trace, write_stride=weft.grid_dim.x * 2, num_groups=2, default_leader=tid % 32 == 0
    )
    p.init(weft.warp_id())
    place = weft.block_idx.x * 64 + tid
    p.start(0)
    tile[tid] = source[place]
    weft.sync_threads()
    p.end(0)
    total = 0.0
    for step in range(iterations):
        with p.range(1):
            if step == 5:
                continue
            total += tile[(tid + step) % 64]
        weft.sync_threads()
    p.mark(2)
    target[place] = total
    p.finalize()

@weft.jit
def host(source: weft.Tensor, target: weft.Tensor, trace: weft.Tensor, iterations: weft.i32):
    kernel(source, target, trace, iterations).launch(grid=3, block=64)
"""


def test_a_marked_kernel_computes_what_the_unmarked_one_does():
    source = np.arange(192, dtype=np.float32)
    target = np.zeros(192, np.float32)
    trace = np.zeros(1 + 6 * 40, np.uint64)
    define(SOURCE)["host"](source, target, trace, 8)
    tiles = source.reshape(3, 64)
    expected = sum(np.roll(tiles, -step, axis=1) for step in range(8) if step != 5)
    np.testing.assert_array_equal(target.reshape(3, 64), expected)
    recording = decode_tirx(trace)
    assert recording.problems == []
    assert len(recording.tracks) == 6
    assert np.bincount(recording.records["kind"]).tolist() == [54, 54, 6, 6]


CAPTURED = SOURCE.replace(
    """weft.profiler.CudaProfiler(
        trace, write_stride=weft.grid_dim.x * 2, num_groups=2, default_leader=tid % 32 == 0
    )""",
    "weft.profiler.Profiler(groups=2)",
)


def test_a_profiled_kernel_computes_the_same():
    source = np.arange(192, dtype=np.float32)
    target = np.zeros(192, np.float32)
    host = define(CAPTURED)["host"]
    unused = np.zeros(1, np.uint64)
    expected = sum(np.roll(source.reshape(3, 64), -s, axis=1) for s in range(8) if s != 5)
    host(source, target, unused, 8)
    np.testing.assert_array_equal(target.reshape(3, 64), expected)
    target[:] = 0
    with capture() as trace:
        host(source, target, unused, 8)
    np.testing.assert_array_equal(target.reshape(3, 64), expected)
    assert trace.problems == []
    assert len(trace.recordings[0].tracks) == 6
    assert np.bincount(trace.recordings[0].records["kind"]).tolist() == [54, 54, 6]
