# SPDX-License-Identifier: Apache-2.0
"""A capture lists every launch, with markers or without: its times on the host, and on a GPU by events."""

from __future__ import annotations

import functools
import threading
import time

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import driver
from weft.errors import CudaError
from weft.profiler import Profiler, Trace, capture, capturing

PLAIN = parameter_kernel("plain", [".u64"])


@weft.kernel
def add_kernel(a: weft.Tensor, n: weft.i32):
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    for _ in range(n):
        a[i] += 1.0


@weft.kernel
def marked_kernel(a: weft.Tensor):
    p = Profiler(("all",))
    p.init(0)
    with p.range("all"):
        a[weft.thread_idx.x] = 2.0


@weft.jit
def add(
    a: weft.Tensor[weft.f32, ("n",)], n: weft.i32, blocks: weft.i32, stream: weft.Stream = None
):
    add_kernel(a, n).launch(grid=blocks, block=32, stream=stream)


@weft.jit
def both(a: weft.Tensor[weft.f32, ("n",)]):
    add_kernel(a, 1).launch(grid=2, block=32)
    marked_kernel(a).launch(grid=1, block=32)
    add_kernel(a, 1).launch(grid=1, block=32)


@functools.cache
def compiled(name: str) -> Compiled:
    floats = weft.fake_tensor(weft.f32, ("n",))
    if name == "add":
        return Compiled(add, floats, 1, 1, weft.Stream(0))
    return Compiled(both, floats)


@pytest.fixture(autouse=True, scope="module")
def everything_is_made_before_the_first_fork():
    build()
    assemble(PLAIN)
    for name in ("add", "both"):
        compiled(name)


def names(trace: Trace) -> list[str]:
    return [launch.recording.kernel for launch in trace.launches]


def test_launches_without_markers_have_their_times():
    a = np.zeros(64, np.float32)
    with capture() as trace:
        add(a, 200_000, 2)
        add(a, 0, 1)
    long, short = trace.launches
    assert names(trace) == ["add_kernel", "add_kernel"]
    assert (long.recording.grid, long.recording.block) == ((2, 1, 1), (32, 1, 1))
    assert not long.is_marked
    assert (long.device, long.stream, long.device_ns) == ("cpu", None, None)
    assert long.host_ns > 10 * short.host_ns > 0
    assert long.begin_ns + long.host_ns <= short.begin_ns + 1000
    assert trace.problems == []
    first = trace.summary().splitlines()[0]
    assert first.startswith("launch 0: add_kernel  grid 2, block 32  no markers  host ")
    assert len(trace.spans()) == 0


def test_launches_stand_in_the_order_of_their_calls():
    with capture() as trace:
        both(np.zeros(64, np.float32))
    assert names(trace) == ["add_kernel", "marked_kernel", "add_kernel"]
    assert [launch.is_marked for launch in trace.launches] == [False, True, False]
    assert [launch.function for launch in trace.launches] == ["", "both", ""]
    assert all(launch.host_ns > 0 for launch in trace.launches)
    assert trace.spans()["launch"].tolist() == [1]
    timeline = trace.timeline()
    starts = [timeline.names[int(event["name"])] for event in timeline.events]
    assert starts.count("launch add_kernel") == 4  # two begins, two ends
    assert starts.count("launch marked_kernel") == 2
    trace._repr_html_()


def test_a_launch_that_fails_is_listed_and_raises():
    with capture() as trace:
        with pytest.raises(ValueError, match=r"grid\.x is -1"):
            add(np.zeros(64, np.float32), 1, -1)
        add(np.zeros(64, np.float32), 1, 1)
    assert names(trace) == ["add_kernel", "add_kernel"]
    assert trace.problems == ["launch 0: it failed"]


def test_users_hooks_are_called_in_a_capture():
    seen: list[str] = []
    a, other = np.zeros(64, np.float32), np.zeros(64, np.float32)

    def enter(launch: driver.LaunchMetadata) -> None:
        seen.append(launch.kernel)
        if launch.kernel == "marked_kernel":
            add(other, 3, 1)

    driver.set_launch_hooks(enter)
    try:
        with capture() as trace:
            both(a)
    finally:
        driver.set_launch_hooks()
    assert seen == ["add_kernel", "marked_kernel", "add_kernel", "add_kernel"]
    assert sorted(names(trace)) == ["add_kernel"] * 3 + ["marked_kernel"]
    marked = next(launch for launch in trace.launches if launch.is_marked)
    assert marked.host_ns is not None
    assert len(marked.recording.records) == 2


def test_other_threads_launches_are_listed():
    with capture() as trace:
        thread = threading.Thread(target=add, args=(np.zeros(64, np.float32), 1, 1))
        thread.start()
        thread.join()
    add(np.zeros(64, np.float32), 1, 1)
    assert names(trace) == ["add_kernel"]


@on_fake()
def test_on_a_device_events_around_each_launch_tell_its_time(fake: FakeCuda):
    run = compiled("add").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a = weft.empty(64, weft.f32, 0)
    run(a, 1, 1, stream)
    fake.forget_calls()
    begin = time.monotonic_ns()
    with capture() as trace:
        run(a, 100_000, 2, stream)
        run(a, 0, 1, None)
    whole = time.monotonic_ns() - begin
    first, second = trace.launches
    assert names(trace) == ["add_kernel", "add_kernel"]
    assert (first.device, first.stream) == ("cuda:0", stream)
    assert whole > first.device_ns > second.device_ns > 0
    assert first.host_ns > 0
    order = [c.split("(")[0] for c in fake.calls("cuEventRecord", "cuLaunchKernelEx")]
    assert order == ["cuEventRecord", "cuLaunchKernelEx", "cuEventRecord"] * 2
    assert fake.live("event") == 0
    assert "device " in trace.summary()
    assert trace.problems == []
    fake.forget_calls()
    run(a, 1, 1, stream)
    assert fake.calls("cuEventCreate") == []


@on_fake()
def test_marked_and_unmarked_launches_have_events(fake: FakeCuda):
    run = compiled("both").register(fake)
    with capture() as trace:
        run(weft.empty(64, weft.f32, 0))
    assert names(trace) == ["add_kernel", "marked_kernel", "add_kernel"]
    assert all(launch.device_ns > 0 for launch in trace.launches)


@on_fake()
def test_launches_by_handle_are_listed(fake: FakeCuda):
    function = driver.load_binary("plain", assemble(PLAIN))[1]
    signature = driver.make_kernel_signature(["*i8"])
    launcher = driver.Launcher(["*i8"])
    with capture() as trace:
        driver.launch_ex(function, 3, 64, signature, (None,))
        driver.launch_ex(function, 3, 64, signature, (None,), release_gil=True)
        launcher(2, 1, 1, None, function, (1, 1, 0), None, None, None, None)
        fake.fail("cuLaunchKernelEx", 1)
        with pytest.raises(CudaError, match="INVALID_VALUE"):
            driver.launch_ex(function, 3, 64, signature, (None,))
    assert names(trace) == ["plain"] * 4
    assert [launch.recording.grid for launch in trace.launches[1:3]] == [(3, 1, 1), (2, 1, 1)]
    assert [launch.device_ns is not None for launch in trace.launches] == [True] * 3 + [False]
    assert trace.problems == ["launch 3: it failed"]
    assert fake.live("event") == 0


@on_fake()
def test_a_launch_that_a_graph_captures_has_no_time_of_its_own(fake: FakeCuda):
    run = compiled("add").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a = weft.empty(64, weft.f32, 0)
    run(a, 1, 1, stream)
    with capture() as trace:
        fake.begin_capture(stream)
        run(a, 1, 1, stream)
        graph = fake.end_capture(stream)
    assert names(trace) == ["add_kernel"]
    assert trace.launches[0].device_ns is None
    assert trace.problems == []
    fake.destroy_graph(graph)


@on_fake()
def test_an_event_that_cannot_be_made_is_an_error_of_the_launch(fake: FakeCuda):
    run = compiled("add").register(fake)
    a = weft.empty(64, weft.f32, 0)
    run(a, 1, 1, None)
    for name in ("cuEventCreate", "cuEventRecord"):
        fake.fail(name, 2)
        with capture(), pytest.raises(CudaError, match=name):
            run(a, 1, 1, None)
        fake.forget_failures()
    assert fake.live("event") == 0
    with capture() as trace:
        run(a, 1, 1, None)
    assert trace.launches[0].device_ns > 0


@on_fake()
def test_many_launches_keep_a_bounded_number_of_events(fake: FakeCuda):
    run = compiled("add").register(fake)
    a = weft.empty(64, weft.f32, 0)
    capturing._MOST_WAITING_EVENTS = 8
    with capture() as trace:
        for _ in range(30):
            run(a, 1, 1, None)
            assert fake.live("event") <= 2 * 9
    assert all(launch.device_ns > 0 for launch in trace.launches)
