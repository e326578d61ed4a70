# SPDX-License-Identifier: Apache-2.0
"""The profiler on a GPU: captures into weft's own device memory, both wire formats, clocks, graphs, calibration.

In: kernels whose regions last a known time by the global timer. Out: what their records say of it. No torch, no
CuPy.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

import weft
from tests.profiler import seed_kernels as seed
from weft import driver
from weft.profiler import (
    Profiler,
    buffer,
    calibrate,
    capture,
    decode_tirx,
    decode_track,
    inflation,
    prepare,
)
from weft.profiler.records import find_spans

pytestmark = pytest.mark.gpu

THREAD_LOCAL = 1  # CUstreamCaptureMode
SPIN_NS = 50_000
FUSED = 10  # a region's two clock reads and the loop's last turn, in microseconds, generously


def on_device(array: np.ndarray):
    """The array's values in weft's own device memory."""
    dtype = {"float32": weft.f32, "uint64": weft.u64, "int32": weft.i32}[array.dtype.name]
    return weft.copy(weft.empty(array.shape, dtype, 0), array)


def on_host(tensor, dtype: type) -> np.ndarray:
    driver.synchronize(0)
    return weft.copy(np.empty(tensor.shape, dtype), tensor)


@weft.kernel
def waits_kernel(
    out: weft.Tensor, nanoseconds: weft.i64, iterations: weft.i32, form: weft.Constexpr[str]
):
    p = Profiler(("wait", "tick"), groups=("first", "second"), format=form)
    tid = weft.thread_idx.x
    p.init(tid // 32)
    for step in range(iterations):
        with p.range("wait", payload=weft.u16(step)):
            begin = weft.globaltimer()
            now = begin
            while now - begin < nanoseconds:
                now = weft.globaltimer()
        p.count("tick", step)
    if tid % 32 == 0:
        out[weft.block_idx.x * 2 + tid // 32] = weft.sm_id()


@weft.jit
def waits(
    out: weft.Tensor[weft.i32, ("n",)],
    nanoseconds: weft.i64,
    iterations: weft.i32,
    form: weft.Constexpr[str] = "track",
):
    waits_kernel(out, nanoseconds, iterations, form).launch(grid=out.shape[0] // 2, block=64)


@weft.jit
def waits_often(
    out: weft.Tensor[weft.i32, ("n",)],
    nanoseconds: weft.i64,
    times: weft.i32,
    stream: weft.Stream,
):
    for _ in range(times):
        waits_kernel(out, nanoseconds, 1, "track").launch(
            grid=out.shape[0] // 2, block=64, stream=stream
        )


@pytest.mark.parametrize("form", ["track", "wide"])
def test_a_region_that_waits_is_as_long_as_it_waits(form):
    blocks, iterations = 64, 3
    out = on_device(np.full(2 * blocks, -1, np.int32))
    waits(out, 1000, 1, form)
    begin = time.monotonic_ns()
    with capture() as trace:
        waits(out, SPIN_NS, iterations, form)
    end = time.monotonic_ns()
    assert trace.problems == []
    (launch,) = trace.launches
    assert (launch.device, launch.stream) == ("cuda:0", 0)
    assert begin < launch.begin_ns < launch.end_ns < end
    recording = launch.recording
    assert recording.grid == (blocks, 1, 1)
    assert len(recording.tracks) == 2 * blocks
    spans = trace.spans()
    assert len(spans) == 2 * blocks * iterations
    assert spans["payload"].tolist() == list(range(iterations)) * 2 * blocks
    durations = spans["duration_ns"]
    assert durations.min() > SPIN_NS * 0.98 - 100
    assert np.median(durations) < SPIN_NS + FUSED * 1000
    # Times of a track never go back, and all tracks ran in the time of the call.
    times = recording.records["time"]
    same = recording.records["track"][1:] == recording.records["track"][:-1]
    assert (np.diff(times)[same] >= 0).all()
    assert times.max() - times.min() < end - begin
    # Each track says which multiprocessor and warp it ran on, as the kernel does itself.
    units = on_host(out, np.int32)
    tracks = recording.tracks
    assert (tracks["sm"] == units[tracks["block"] * 2 + tracks["group"]]).all()
    assert tracks["sm"].max() < driver.device_properties(0).multiprocessor_count
    assert (tracks["warp"] == tracks["group"]).all()


def test_tracks_of_different_multiprocessors_stand_on_one_clock():
    blocks = 64
    out = on_device(np.zeros(2 * blocks, np.int32))
    with capture() as trace:
        waits(out, SPIN_NS, 1)
    spans = trace.spans()
    # All blocks fit the GPU at once, so that their waits overlap whatever unit they are on.
    assert len(np.unique(spans["sm"])) > 1
    begins, ends = spans["begin_ns"], spans["begin_ns"] + spans["duration_ns"]
    assert begins.max() < ends.min()


def test_launches_in_a_loop_on_a_stream_follow_each_other():
    made = ctypes.c_void_p()
    driver.set_current_device(0)
    libcuda = ctypes.CDLL("libcuda.so.1")
    assert libcuda.cuStreamCreate(ctypes.byref(made), 1) == 0
    out = on_device(np.zeros(16, np.int32))
    with capture(1 << 14) as trace:
        waits_often(out, 5000, 7, weft.Stream(made.value))
    assert trace.problems == []
    assert len(trace.launches) == 7
    assert {launch.stream for launch in trace.launches} == {made.value}
    ends = [r.origin_ns + r.records["time"].max() for r in trace.recordings]
    begins = [r.origin_ns + r.records["time"].min() for r in trace.recordings]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert libcuda.cuStreamDestroy_v2(made) == 0


def test_device_and_host_share_one_timeline(tmp_path):
    out = on_device(np.zeros(16, np.int32))
    waits(out, 1000, 1)
    with capture() as trace, trace.span("calls"):
        for _ in range(5):
            waits(out, SPIN_NS, 2)
    _, uncertainty = trace.clock_offset("cuda:0")
    assert 0 < uncertainty < 1_000_000
    assert "times of cuda:0 and host are aligned to ±" in trace.summary()
    path = tmp_path / "run.pftrace"
    trace.to_perfetto(path)
    assert path.stat().st_size > 1000
    events = trace.timeline().events
    assert events["time"].min() >= trace.launches[0].begin_ns - uncertainty - 1_000_000


def test_no_record_is_written_outside_of_a_small_buffer():
    out = on_device(np.zeros(128, np.int32))
    for words in (16, 40, 600, 1200):
        with capture(words) as trace:
            waits(out, 100, 20)
        assert trace.problems
        recording = trace.recordings[0]
        assert recording.words_needed > words
    with capture(recording.words_needed) as trace:
        waits(out, 100, 20)
    assert trace.problems == []


@weft.kernel
def ring_kernel(records: weft.Tensor, count: weft.i32, overflow: weft.Constexpr[str]):
    p = Profiler(("step",), buffer=records, records=8, overflow=overflow, blocks=range(0, 4, 2))
    p.init(0)
    for step in range(count):
        p.mark("step", payload=weft.u16(step))


@weft.jit
def ring(records: weft.Tensor[weft.u64, ("n",)], count: weft.i32, overflow: weft.Constexpr[str]):
    ring_kernel(records, count, overflow).launch(grid=4, block=32)


def test_overflow_keeps_the_first_or_the_last_of_chosen_blocks():
    for overflow, kept in (("drop", range(8)), ("ring", range(12, 20))):
        records = buffer(256, "cuda")
        ring(records, 20, overflow)
        driver.synchronize(0)
        found = decode_track(records)
        assert found.tracks["block"].tolist() == [0, 2]
        assert found.records["payload"].tolist() == [*kept, *kept]
        assert found.tracks["lost"].tolist() == [12, 12]
        assert "track b0/g0 lost 12 of 20" in found.problems[0]


def test_a_graph_records_into_the_users_buffer_at_every_run():
    libcuda = ctypes.CDLL("libcuda.so.1")
    driver.set_current_device(0)
    stream, graph, runnable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert libcuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    records = buffer(256, "cuda")

    @weft.jit
    def on_stream(records: weft.Tensor[weft.u64, ("n",)], count: weft.i32, stream: weft.Stream):
        ring_kernel(records, count, "drop").launch(grid=4, block=32, stream=stream)

    on_stream(records, 1, weft.Stream(stream.value))
    driver.synchronize(0)
    assert libcuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL) == 0
    on_stream(records, 6, weft.Stream(stream.value))
    assert libcuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    code = libcuda.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_uint64(0))
    assert code == 0
    origins = []
    for _ in range(3):
        prepare(records)
        assert libcuda.cuGraphLaunch(runnable, stream) == 0
        driver.synchronize(0)
        found = decode_track(records)
        assert found.problems == []
        assert len(found.records) == 12
        origins.append(found.origin_ns)
    assert origins == sorted(set(origins))


def test_a_launch_of_a_capture_cannot_go_into_a_graph():
    libcuda = ctypes.CDLL("libcuda.so.1")
    driver.set_current_device(0)
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    assert libcuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    out = on_device(np.zeros(16, np.int32))
    waits_often(out, 100, 1, weft.Stream(stream.value))
    driver.synchronize(0)
    with capture() as trace:
        assert libcuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL) == 0
        try:
            with pytest.raises(weft.UnavailableError, match="CUDA graph"):
                waits_often(out, 100, 1, weft.Stream(stream.value))
        finally:
            assert libcuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert trace.launches == []


# ---- CudaProfiler


@pytest.mark.parametrize("fence", [False, True])
def test_the_pages_loop_reads_the_first_kernel(fence):
    inp, out = on_device(np.ones(512, np.float32)), on_device(np.zeros(512, np.float32))
    prof = on_device(np.zeros(seed.PROF_SIZE, np.uint64))
    seed.one_group(out, inp, prof, fence=fence)
    driver.synchronize(0)
    words = on_host(prof, np.uint64)
    assert int(words[0]) == 1 << 32 | 4
    spans = seed.page_spans(words)
    assert sorted(spans) == [0, 1, 2, 3]
    for found in spans.values():
        assert [name for name, _ in found] == seed.EV_NAMES
        assert 1000 < found[1][1] < 1_000_000
    assert decode_tirx(prof, seed.EV_NAMES).problems == []
    expected = np.float32(0)
    for _ in range(4000):
        expected = np.float32(np.float32(expected * np.float32(1.0001)) + np.float32(1))
    np.testing.assert_allclose(on_host(out, np.float32), expected, rtol=1e-3)


def test_the_pages_loop_reads_groups_of_both_kinds():
    inp, out = on_device(np.ones(512, np.float32)), on_device(np.zeros(512, np.float32))
    prof = on_device(np.zeros(seed.PROF_SIZE, np.uint64))
    seed.warp_groups(out, inp, prof)
    driver.synchronize(0)
    tracks = seed.page_spans(on_host(prof, np.uint64))
    for block in (0, 1):
        light, heavy = (dict(tracks[2 * block + group])["compute"] for group in (0, 1))
        assert heavy > 2 * light
    prof = on_device(np.zeros(seed.PROF_SIZE, np.uint64))
    seed.uneven_groups(out, inp, prof)
    driver.synchronize(0)
    tracks = seed.page_spans(on_host(prof, np.uint64))
    assert sorted(tracks) == [0, 1, 2]
    assert decode_tirx(prof).problems == []


def test_fences_do_not_change_how_long_a_kernel_computes():
    inp, out = on_device(np.ones(512, np.float32)), on_device(np.zeros(512, np.float32))

    def compute_ns(prof) -> float:
        found = decode_tirx(prof)
        spans = find_spans(found)
        spans = spans[spans["event"] == 1]
        return float(np.median(spans["end"] - spans["begin"]))

    measured = []
    for fence in (False, True):
        for _ in range(2):
            prof = on_device(np.zeros(seed.PROF_SIZE, np.uint64))
            seed.one_group(out, inp, prof, fence=fence)
            driver.synchronize(0)
        measured.append(compute_ns(prof))
    assert 0.5 < measured[0] / measured[1] < 2.0


# ---- what measuring costs


def test_calibration_finds_the_step_and_the_price_of_a_record():
    found = calibrate("--target cuda")
    assert 0 < found.step_ns < 2000
    assert 0 < found.cost_ns < 2000


def test_inflation_of_a_kernel_that_waits_is_small():
    out = on_device(np.zeros(16, np.int32))

    def call():
        waits(out, 200_000, 2)
        driver.synchronize(0)

    with capture(1 << 14):
        assert 0.8 < inflation(call, call, samples=5) < 1.25
