# SPDX-License-Identifier: Apache-2.0
"""Captures of launches on a GPU, on the fake driver: whose memory, in which order, and what comes back.

The fake runs the CPU builds of kernels on its own device memory. Neither torch nor CuPy takes part.
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver.memory import empty
from weft.profiler import Profiler, buffer, capture, decode_tirx, decode_track, prepare
from weft.types import record_format as wire

WORDS = 4096


@weft.kernel
def spin_kernel(out: weft.Tensor, iterations: weft.i32):
    p = Profiler(("outer", "inner", "tick"), groups=("even", "odd"))
    tid = weft.thread_idx.x
    p.init(tid % 2)
    with p.range("outer", payload=iterations):
        for step in range(iterations):
            with p.range("inner"):
                out[tid] = weft.f32(step)
            p.count("tick", step)


@weft.jit
def spin(
    out: weft.Tensor[weft.f32, ("n",)], iterations: weft.i32, times: weft.i32, stream: weft.Stream
):
    for _ in range(times):
        spin_kernel(out, iterations).launch(grid=3, block=8, stream=stream)


@weft.kernel
def own_kernel(records: weft.Tensor, count: weft.i32):
    p = Profiler(("step",), buffer=records)
    p.init(0)
    for _ in range(count):
        p.mark("step")


@weft.jit
def own(records: weft.Tensor[weft.u64, ("n",)], count: weft.i32, stream: weft.Stream):
    own_kernel(records, count).launch(grid=2, block=4, stream=stream)


@weft.kernel
def marked_kernel(records: weft.Tensor):
    tid = weft.thread_idx.x
    p = weft.profiler.CudaProfiler(records, write_stride=2, num_groups=1, default_leader=(tid == 0))
    p.init(0)
    with p.range(0):
        weft.sync_threads()
    p.finalize()


@weft.jit
def marked(records: weft.Tensor[weft.u64, ("n",)]):
    marked_kernel(records).launch(grid=2, block=4)


@functools.cache
def compiled(name: str) -> Compiled:
    floats = weft.fake_tensor(weft.f32, ("n",))
    words = weft.fake_tensor(weft.u64, ("n",))
    stream = weft.Stream(0)
    arguments = {"spin": (floats, 1, 1, stream), "own": (words, 1, stream), "marked": (words,)}
    return Compiled({"spin": spin, "own": own, "marked": marked}[name], *arguments[name])


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    for name in ("spin", "own", "marked"):
        compiled(name)
    floats = np.zeros(8, np.float32)
    spin(floats, 2, 1, weft.Stream(0))


def shape_of(recording):
    """All of a recording that does not depend on time."""
    names = ("track", "kind", "event", "has_payload", "payload")
    return recording.tracks[["block", "group", "lost"]].tolist(), [
        recording.records[name].tolist() for name in names
    ]


def expected(iterations: int):
    """Records of a run on the CPU."""
    with capture(WORDS) as trace:
        spin(np.zeros(8, np.float32), iterations, 1, weft.Stream(0))
    assert trace.problems == []
    return trace.recordings[0]


@on_fake()
def test_a_launch_on_a_device_records_what_the_cpu_records(fake: FakeCuda):
    libraries = {name for name in ("torch", "cupy") if name in sys.modules}
    run = compiled("spin").register(fake)
    on_cpu = expected(4)
    with capture(WORDS) as trace:
        run(empty(8, weft.f32, "cuda"), 4, 1, weft.Stream(0))
    (launch,) = trace.launches
    assert trace.problems == []
    assert (launch.device, launch.stream, launch.function) == ("cuda:0", 0, "spin")
    assert launch.recording.kernel == "spin_kernel"
    assert shape_of(launch.recording) == shape_of(on_cpu)
    spans = trace.spans()
    assert len(spans) == 6 * (1 + 4)
    assert (spans["duration_ns"] >= 0).all()
    offset, uncertainty = trace.clock_offset("cuda:0")
    # The fake's kernels read this machine's own clock.
    assert abs(offset) <= uncertainty
    assert "times of cuda:0 and host are aligned to ±" in trace.summary()
    # The memory is weft's own: no array library was imported for it.
    assert libraries == {name for name in ("torch", "cupy") if name in sys.modules}


@on_fake()
def test_each_launch_of_a_loop_has_memory_of_its_own_on_its_stream(fake: FakeCuda):
    run = compiled("spin").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    out = empty(8, weft.f32, "cuda")
    run(out, 1, 1, weft.Stream(stream))
    weft.synchronize()
    before = fake.live("allocation")
    fake.forget_calls()
    with capture(WORDS) as trace:
        run(out, 2, 5, weft.Stream(stream))
        assert fake.live("allocation") == before + 5
    assert trace.problems == []
    assert [len(found.records) for found in trace.recordings] == [6 * (2 + 3 * 2)] * 5
    assert {launch.stream for launch in trace.launches} == {stream}
    copies = fake.calls("cuMemcpyAsync")
    prepared, read = copies[:5], copies[5:]
    assert all(f", 128, {stream:#x}" in text for text in prepared)
    assert len(read) == 5
    assert not any(f"{stream:#x}" in text for text in read)
    weft.synchronize()
    assert fake.live("allocation") == before


@on_fake()
def test_a_stream_may_be_gone_when_the_capture_ends(fake: FakeCuda):
    run = compiled("spin").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    with capture(WORDS) as trace:
        run(empty(8, weft.f32, "cuda"), 2, 1, weft.Stream(stream))
        fake.destroy_stream(stream)
    assert trace.problems == []
    assert trace.launches[0].stream == stream


@on_fake(devices=2)
def test_launches_on_two_devices_are_read_from_both(fake: FakeCuda):
    run = compiled("spin").register(fake)
    with capture(WORDS) as trace:
        for device in (1, 0, 1):
            run(empty(8, weft.f32, device), 2, 1, weft.Stream(0))
    assert trace.problems == []
    assert [launch.device for launch in trace.launches] == ["cuda:1", "cuda:0", "cuda:1"]
    assert [len(found.records) for found in trace.recordings] == [6 * (2 + 3 * 2)] * 3


@on_fake()
def test_outside_a_capture_no_memory_is_asked_for(fake: FakeCuda):
    run = compiled("spin").register(fake)
    out = empty(8, weft.f32, "cuda")
    fake.forget_calls()
    run(out, 2, 1, weft.Stream(0))
    assert fake.calls("cuMemAlloc", "cuMemcpyAsync") == []


@on_fake()
def test_out_of_memory_is_an_error_of_one_launch(fake: FakeCuda):
    run = compiled("spin").register(fake)
    out = empty(8, weft.f32, "cuda")
    run(out, 1, 1, weft.Stream(0))
    with capture(WORDS) as trace:
        fake.fail("cuMemAlloc", 2)
        launches = len(fake.launches())
        with pytest.raises(weft.CudaError, match="allocating 32768 bytes"):
            run(out, 1, 1, weft.Stream(0))
        assert len(fake.launches()) == launches
        run(out, 1, 1, weft.Stream(0))
    assert len(trace.launches) == 1
    assert trace.problems == []


@on_fake()
def test_a_launch_captured_into_a_graph_is_refused(fake: FakeCuda):
    run = compiled("spin").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    out = empty(8, weft.f32, "cuda")
    run(out, 1, 1, weft.Stream(stream))
    with capture(WORDS) as trace:
        fake.begin_capture(stream)
        with pytest.raises(
            weft.UnavailableError, match=r"'spin_kernel' is launched inside .* graph"
        ):
            run(out, 1, 1, weft.Stream(stream))
        fake.end_capture(stream)
    assert trace.launches == []
    fake.begin_capture(stream)
    run(out, 1, 1, weft.Stream(stream))
    graph = fake.end_capture(stream)
    fake.replay(graph, stream)


@on_fake()
def test_a_graph_records_into_a_buffer_of_the_users_at_every_run(fake: FakeCuda):
    run = compiled("own").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    records = buffer(256, "cuda")
    run(records, 3, weft.Stream(stream))
    assert len(decode_track(records).records) == 6
    fake.begin_capture(stream)
    run(records, 5, weft.Stream(stream))
    graph = fake.end_capture(stream)
    for _ in range(3):
        prepare(records)
        assert decode_track(records).problems == ["no kernel has recorded into this buffer"]
        fake.replay(graph, stream)
        found = decode_track(records)
        assert found.problems == []
        assert found.records["kind"].tolist() == [wire.INSTANT] * 10
    fake.replay(graph, stream)
    (problem,) = decode_track(records).problems
    assert problem.startswith("2 launches used this buffer, and only the first recorded")


@on_fake()
def test_a_buffer_of_cudaprofiler_is_read_from_the_device(fake: FakeCuda):
    run = compiled("marked").register(fake)
    records = empty(1 + 2 * 3, weft.u64, "cuda")
    weft.copy(records, np.zeros(7, np.uint64))
    run(records)
    found = decode_tirx(records, ["wait"])
    assert found.problems == []
    assert found.records["kind"].tolist() == [0, 1, 3] * 2


@on_fake()
def test_wrong_buffers_on_a_device_are_refused(fake: FakeCuda):
    del fake
    for made in (empty(8, weft.u64, "cuda"), empty(64, weft.f32, "cuda")):
        with pytest.raises(weft.WeftError, match="the buffer has"):
            prepare(made)
    with pytest.raises(weft.WeftError, match="first word"):
        decode_track(empty(64, weft.u64, "cuda"))
    with pytest.raises(weft.WeftError, match="8-byte integers"):
        decode_track(empty(64, weft.f32, "cuda"))
    with pytest.raises(ValueError, match="no device cuda:3"):
        buffer(64, "cuda:3")
