# SPDX-License-Identifier: Apache-2.0
"""Captures of real launches: what a `Trace` holds, shows and writes; what measuring costs."""

from __future__ import annotations

import re
import threading
import time
import weakref

import numpy as np
import pytest

import weft
from tests.profiler.trace_processor import query
from tests.profiler.writing import Entry, tirx_buffer, track_buffer
from weft import _native
from weft.profiler import (
    Launch,
    Profiler,
    Recording,
    Trace,
    calibrate,
    capture,
    capturing,
    decode_tirx,
    decode_track,
    inflation,
)
from weft.profiler.buffers import LaunchWords
from weft.profiler.records import RECORD, TRACK
from weft.profiler.summary import duration


@weft.kernel
def spin_kernel(out: weft.Tensor, iterations: weft.i32, on: weft.Constexpr[bool]):
    p = Profiler(("outer", "inner", "tick"), groups=("even", "odd"), enabled=on)
    tid = weft.thread_idx.x
    p.init(tid % 2)
    total = weft.f32(tid)
    with p.range("outer", payload=iterations):
        for step in range(iterations):
            with p.range("inner"):
                for _ in range(50):
                    total = total * 1.0001 + 0.5
            p.count("tick", step)
    out[tid] = total


@weft.jit
def spin(out: weft.Tensor, iterations: weft.i32, on: weft.Constexpr[bool] = True):
    spin_kernel(out, iterations, on).launch(grid=3, block=8)


@weft.jit
def spin_twice(out: weft.Tensor, times: weft.i32):
    for _ in range(times):
        spin_kernel(out, 1, True).launch(grid=1, block=8)
    spin_kernel(out, 2, True).launch(grid=2, block=8)


def captured(iterations: int = 4, calls: int = 1) -> Trace:
    out = np.zeros(8, np.float32)
    with capture(words=4096) as trace, trace.span("calls"):
        for _ in range(calls):
            spin(out, iterations)
    return trace


def test_every_launch_in_a_capture_is_collected():
    before = time.monotonic_ns()
    trace = captured(calls=3)
    after = time.monotonic_ns()
    assert len(trace.launches) == 3
    assert trace.problems == []
    for launch in trace.launches:
        assert launch.function == "spin"
        assert (launch.device, launch.stream) == ("cpu", None)
        assert launch.recording.kernel == "spin_kernel"
        assert launch.recording.grid == (3, 1, 1)
        assert launch.recording.block == (8, 1, 1)
        assert before < launch.begin_ns < launch.recording.origin_ns < launch.end_ns < after
        assert len(launch.recording.tracks) == 6
        assert len(launch.recording.records) == 6 * (2 + 3 * 4)


def test_launches_of_one_host_function_are_distinguished():
    out = np.zeros(8, np.float32)
    with capture(words=4096) as trace:
        spin_twice(out, 1)
    first, second = trace.recordings
    assert (len(first.tracks), len(second.tracks)) == (2, 4)
    assert trace.problems == []
    with capture(words=4096) as trace:
        spin_twice(out, 3)
    assert trace.problems == []
    assert [len(found.tracks) for found in trace.recordings] == [2, 2, 2, 4]
    begins = [found.origin_ns for found in trace.recordings]
    assert begins == sorted(set(begins))


def test_outside_a_capture_nothing_is_recorded():
    out = np.zeros(8, np.float32)
    spin(out, 2)
    with capture(words=4096) as trace:
        pass
    spin(out, 2)
    assert trace.launches == []


def test_other_threads_launches_are_collected():
    out, own = np.zeros(8, np.float32), []

    def with_its_own():
        with capture(words=4096) as trace:
            spin(np.zeros(8, np.float32), 2)
        own.append(trace)

    with capture(words=4096) as trace:
        for body in (lambda: spin(out, 1), with_its_own):
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
    assert [len(found.records) for found in trace.recordings] == [6 * (2 + 3 * 1)]
    assert [len(found.records) for found in own[0].recordings] == [6 * (2 + 3 * 2)]


def test_a_long_capture_frees_memory_of_ended_launches(monkeypatch):
    monkeypatch.setattr(capturing, "_MOST_WAITING_WORDS", 4 * 4096)
    alive: list[int] = []

    class Counted(capturing.LaunchWords):
        __slots__ = ("__weakref__",)

    made: weakref.WeakSet[Counted] = weakref.WeakSet()

    def count(*arguments):
        memory = Counted(*arguments)
        made.add(memory)
        alive.append(len(made))
        return memory

    monkeypatch.setattr(capturing, "LaunchWords", count)
    with capture(words=4096) as trace:
        for _ in range(30):
            spin(np.zeros(8, np.float32), 1)
    assert max(alive) <= 6
    assert trace.problems == []
    assert len(trace.launches) == 30


def test_a_capture_raises_its_bodys_error_and_keeps_records():
    with pytest.raises(KeyError, match="mine"), capture(words=4096) as trace:
        spin(np.zeros(8, np.float32), 1)
        raise KeyError("mine")
    assert len(trace.launches) == 1


@pytest.mark.parametrize("words", [-1, 0, 15, 1 << 31])
def test_a_capture_without_room_for_a_prologue_is_refused(words):
    with pytest.raises(weft.WeftError, match="expected 16 to"):
        capture(words=words)


def test_an_allocators_error_reaches_the_caller():
    def refuse(*_):
        raise RuntimeError("no memory today")

    before = _native.set_launch_memory(refuse)
    try:
        with pytest.raises(RuntimeError, match="no memory today"):
            spin(np.zeros(8, np.float32), 1)
        for wrong, text in (((1,), "2 arguments"), ("x", "is a str"), ((1, -1), "-1 words")):
            _native.set_launch_memory(lambda *_, wrong=wrong: wrong)
            with pytest.raises((TypeError, ValueError), match=text):
                spin(np.zeros(8, np.float32), 1)
        with pytest.raises(TypeError, match="expected a callable or None"):
            _native.set_launch_memory(3)
    finally:
        _native.set_launch_memory(before)
    spin(np.zeros(8, np.float32), 1)


def test_a_launch_that_did_not_run_is_in_the_trace_and_says_so():
    with capture(words=4096) as trace:
        spin_kernel[0, 8](np.zeros(8, np.float32), 1, True)
        spin_kernel[1, 8](np.zeros(8, np.float32), 1, True)
    assert [launch.recording.kernel for launch in trace.launches] == ["spin_kernel"] * 2
    assert trace.problems == ["launch 0: it did not run: its grid has no blocks, or it failed"]
    assert "launch 0: spin_kernel" in trace.summary()


def test_an_inner_capture_takes_over():
    out = np.zeros(8, np.float32)
    with capture(words=4096) as outer:
        spin(out, 1)
        with capture(words=4096) as inner:
            spin(out, 2)
        spin(out, 3)
    assert (len(outer.launches), len(inner.launches)) == (2, 1)


def test_a_capture_is_entered_once():
    once = capture(words=64)
    with once:
        pass
    with pytest.raises(weft.UnavailableError, match="has already been entered"), once:
        pass


def test_a_profiler_changes_no_signature():
    out = np.zeros(8, np.float32)
    function = weft.compile(spin, out, 1)
    assert str(function.signature) == str(weft.compile(spin, out, 1, False).signature)
    with capture(words=4096) as trace:
        function(out, 2)
    assert len(trace.recordings[0].records) == 6 * (2 + 3 * 2)
    assert trace.launches[0].function == "spin"


def test_spans_have_names_and_times_that_nest():
    spans = captured(iterations=5).spans()
    assert len(spans) == 6 * 6
    outer = spans[spans["event"] == "outer"]
    inner = spans[spans["event"] == "inner"]
    assert set(spans["group"]) == {"even", "odd"}
    assert outer["payload"].tolist() == [5] * 6
    assert (inner["depth"] == 1).all()
    for row in outer:
        mine = inner[(inner["block"] == row["block"]) & (inner["group"] == row["group"])]
        assert len(mine) == 5
        assert (mine["begin_ns"] >= row["begin_ns"]).all()
        ends = mine["begin_ns"] + mine["duration_ns"]
        assert (ends <= row["begin_ns"] + row["duration_ns"]).all()


def test_spans_are_a_dataframe_where_pandas_is_installed():
    pandas = pytest.importorskip("pandas")
    trace = captured(iterations=5)
    frame = trace.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    spans = trace.spans()
    assert list(frame.columns) == list(spans.dtype.names)
    mean = frame.groupby(["group", "event"])["duration_ns"].mean()
    for (group, event), value in mean.items():
        chosen = spans[(spans["group"] == group) & (spans["event"] == event)]
        assert value == pytest.approx(chosen["duration_ns"].mean())


def test_corrected_durations_are_less_the_records_inside():
    trace = captured(iterations=2)
    trace.cost_ns = 10.0
    spans = trace.spans()
    outer, inner = spans[spans["event"] == "outer"], spans[spans["event"] == "inner"]
    np.testing.assert_allclose(outer["corrected_ns"], np.maximum(outer["duration_ns"] - 10 * 7, 0))
    np.testing.assert_allclose(inner["corrected_ns"], np.maximum(inner["duration_ns"] - 10, 0))


def test_the_summary_is_a_table_of_groups_and_events():
    trace = captured(iterations=3)
    lines = trace.summary().splitlines()
    assert re.match(r"launch 0: spin_kernel  grid 3, block 8  6 tracks  span .*0 lost\)", lines[0])
    assert lines[1].split()[:4] == ["group", "event", "n", "total"]
    rows = {tuple(line.split()[:3]) for line in lines[2:]}
    assert rows == {
        (group, event, count)
        for group in ("even", "odd")
        for event, count in (("outer", "3"), ("inner", "9"))
    }


def test_times_are_shown_to_their_clocks_resolution():
    tracks = [[Entry(100, 0, 0), Entry(120, 1, 0)]]
    cycles = track_buffer(tracks, 1, names=["x"], capacity=9, flags=0, ratio=2)
    text = Trace([decode_track(cycles)]).summary()
    assert "tracks aligned to 32 ns" in text
    assert text.splitlines()[2].split()[2:5] == ["1", "20", "ns"]
    ticks = tirx_buffer([[*tracks[0], Entry(130, 3, 0)]], 1)
    assert "<64 ns" in Trace([decode_tirx(ticks, ["x"])]).summary()


def test_what_was_lost_stands_in_the_summary():
    out = np.zeros(8, np.float32)
    with capture(words=140) as trace:
        spin(out, 30)
    assert "! launch 0: track b0/g0 lost" in trace.summary()
    assert "in all" in trace.summary()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1 µs"), (1.5e6, "1.5 ms"), (61e9, "61 s")],
)
def test_durations_have_the_unit_that_fits(nanoseconds, text):
    assert duration(nanoseconds) == text


def test_host_spans_and_launches_stand_on_one_clock(tmp_path):
    trace = captured(calls=2)
    assert trace.clock_offset() == (0, 0)
    path = tmp_path / "run.pftrace"
    trace.to_perfetto(path)
    (rows, flows) = query(
        path.read_bytes(),
        "select s.name as name, s.ts as ts, s.dur as dur, t.name as track from slice s "
        "join track t on s.track_id = t.id order by s.ts",
        "select count(*) as n from flow",
    )
    (calls,) = [row for row in rows if row["name"] == "calls"]
    launches = [row for row in rows if row["name"] == "launch spin_kernel"]
    assert len(launches) == 2
    assert flows == [{"n": 2}]
    for row in rows:
        assert calls["ts"] <= row["ts"]
        assert row["ts"] + row["dur"] <= calls["ts"] + calls["dur"]
    assert sum(row["name"] == "inner" for row in rows) == 2 * 6 * 4


def test_the_clock_of_a_device_is_bounded_by_its_launches():
    records = np.zeros(2, RECORD)
    records["time"] = [0, 1000]
    tracks = np.zeros(1, TRACK)
    trace = Trace()
    # Two launches: the device's clock is 5000 behind the host's, give or take what the bounds leave open.
    for begin, end, origin in ((10_000, 13_000, 5_500), (20_000, 21_800, 15_400)):
        trace.add(Launch(Recording(records, tracks, origin_ns=origin), "f", begin, end, "cuda:0"))
    offset, uncertainty = trace.clock_offset()
    assert abs(offset - 5000) <= uncertainty
    assert uncertainty == (min(13_000 - 6_500, 21_800 - 16_400) - max(4_500, 4_600)) // 2
    assert "times of cuda:0 and host are aligned to ±" in trace.summary()
    assert trace.clock_offset("cuda:1") == (0, 0)


def test_a_picture_has_a_row_per_track_and_a_bar_per_event(tmp_path):
    trace = captured()
    path = tmp_path / "run.png"
    figure = trace.plot(path, title="a title")
    axes = figure.axes[0]
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(axes.get_yticks()) == 6
    assert axes.get_title(loc="left") == "a title"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["outer", "inner"]
    with pytest.raises(weft.WeftError, match="launch 3 of a trace with 1 launches"):
        trace.plot(launch=3)


@pytest.mark.parametrize(
    ("tracks", "note"), [(6, ""), (2, "; 4 of 6 tracks are not drawn (tracks=2)")]
)
def test_a_picture_says_how_many_tracks_it_leaves_out(tracks, note):
    label = captured().plot(tracks=tracks).axes[0].get_xlabel()
    assert label.endswith(note)
    assert ("not drawn" in label) is bool(note)


def test_a_picture_of_a_window_has_what_lies_in_it():
    times = [(1, 0, 0), (3, 1, 0), (5, 0, 1), (12, 1, 1), (15, 2, 2), (17, 0, 0), (19, 1, 0)]
    entries = [Entry(time, kind, event) for time, kind, event in times]
    trace = Trace([decode_track(track_buffer([entries], 1, names=["a", "b", "c"], capacity=9))])
    axes = trace.plot(window=(9, 13)).axes[0]
    assert axes.get_xlim() == (9, 13)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b"]
    with pytest.raises(
        weft.WeftError, match=r"the window is \(14, 9\); expected a time and a later"
    ):
        trace.plot(window=(14, 9))


def test_a_picture_shows_regions_that_end_in_another_track():
    tracks = [[Entry(1, 5, 0, 3), Entry(4, 5, 0, 4)], [Entry(9, 6, 0, 3), Entry(12, 6, 0, 4)]]
    trace = Trace([decode_track(track_buffer(tracks, 2, names=["copy"], capacity=9))])
    axes = trace.plot().axes[0]
    (lines,) = axes.collections
    assert [segment[:, 0].tolist() for segment in lines.get_segments()] == [[1, 9], [4, 12]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["copy"]


def test_a_notebook_shows_the_table_and_the_picture():
    trace = captured()
    html = trace._repr_html_()
    assert html.startswith("<pre>launch 0: spin_kernel")
    assert "data:image/png;base64," in html
    assert Trace()._repr_html_() == "<pre>no launches</pre>"


def test_compressed_traces_and_chrome_json_are_written(tmp_path):
    import gzip
    import json

    trace = captured()
    trace.to_perfetto(tmp_path / "a.pftrace")
    trace.to_perfetto(tmp_path / "a.pftrace.gz")
    plain = (tmp_path / "a.pftrace").read_bytes()
    assert gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes()) == plain
    trace.to_chrome(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["traceEvents"]


def test_calibration_finds_the_step_and_the_price_of_a_record():
    found = calibrate()
    assert 0 < found.step_ns < 1e4
    assert 0 < found.cost_ns < 1e5


def test_inflation_compares_two_programs():
    slow, fast = (lambda: time.sleep(0.004)), (lambda: time.sleep(0.001))
    assert inflation(slow, fast, samples=5) > 1.5


def test_inflation_measures_recording_markers(monkeypatch):
    made = []

    def remember(words, *place):
        made.append(words)
        return LaunchWords(words, *place)

    monkeypatch.setattr(capturing, "LaunchWords", remember)
    out = np.zeros(8, np.float32)
    with capture(words=64) as outer:
        inflation(lambda: spin(out, 30), lambda: spin(out, 30, False), samples=3)
    assert outer.launches == []
    with capture() as trace:
        spin(out, 30)
    assert made[1:4] == [trace.words_needed] * 3
    with capture(words=made[1]) as again:
        spin(out, 30)
    assert again.problems == []


@weft.kernel
def steady_kernel(out: weft.Tensor):
    p = Profiler(("round",), groups=8)
    tid = weft.thread_idx.x
    p.init(tid)
    for _ in range(100):
        p.start("round")
        p.end("round")
    out[tid] = 1.0


@weft.kernel
def sampled_kernel(out: weft.Tensor):
    p = Profiler(("once",), blocks=range(1, 1000, 3))
    p.init()
    p.mark("once")
    out[weft.thread_idx.x] = 1.0


@weft.jit
def steady(out: weft.Tensor, blocks: weft.i32):
    steady_kernel(out).launch(grid=blocks, block=8)


@weft.jit
def sampled(out: weft.Tensor, blocks: weft.i32):
    sampled_kernel(out).launch(grid=(blocks, 2, 1), block=1)


def test_a_known_number_of_records_sizes_the_memory_of_a_launch(monkeypatch):
    made = []

    def remember(words, *place):
        made.append(words)
        return LaunchWords(words, *place)

    monkeypatch.setattr(capturing, "LaunchWords", remember)
    out = np.zeros(8, np.float32)
    with capture() as trace:
        steady(out, 1000)  # 1.7 million words
        steady(out, 1)
        for blocks in (0, 1, 2, 5, 700):
            sampled(out, blocks)
        spin(out, 3)
    assert [p for p in trace.problems if "did not run" not in p and "tracks have no" not in p] == []
    assert len(trace.recordings[0].records) == 1000 * 8 * 200
    assert [len(recording.records) for recording in trace.recordings[2:7]] == [0, 1, 1, 3, 333]
    ran = [0, 1, 3, 4, 5, 6]
    assert [made[launch] for launch in ran] == [trace.recordings[k].words_needed for k in ran]
    assert made[-1] == 1 << 20, "only the run can tell"
    with capture(words=made[0] - 1) as refused:
        steady(out, 1000)
    assert any("nothing was recorded" in problem for problem in refused.problems)


def test_a_need_beyond_a_gigabyte_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(capturing, "_MOST_WAITING_WORDS", 1 << 12)
    with capture() as trace:
        steady(np.zeros(8, np.float32), 1000)
    assert f"has {1 << 20} words and this launch needs" in trace.problems[0]


def test_a_span_names_the_warp_of_its_leader():
    with capture() as trace:
        spin(np.zeros(64, np.float32), 1)
    rows = trace.spans()
    assert rows.dtype["warp"] == np.int32
    assert set(rows["warp"].tolist()) == {0}
    words = np.array([1 << 32 | 1, 100 << 32, 140 << 32 | 1, 150 << 32 | 3], np.uint64)
    assert Trace([decode_tirx(words)]).spans()["warp"].tolist() == [-1]


def test_a_first_run_counts_for_the_second():
    out = np.zeros(8, np.float32)
    with capture(words=140) as counted:
        spin(out, 30)
    with capture(words=counted.words_needed) as trace:
        spin(out, 30)
    assert trace.problems == []
    assert len(trace.recordings[0].records) == 6 * (2 + 3 * 30)
    with capture(words=16) as refused:
        spin(out, 30)
    assert "nothing was recorded" in refused.summary()
    assert refused.words_needed > 16


def test_importing_the_package_loads_neither_numpy_nor_a_compiler():
    from tests.architecture.source_tree import run_python

    code = (
        "import sys, weft.profiler as p; p.Profiler, p.CudaProfiler, dir(p); "
        "print([m for m in ('numpy', 'xdsl', 'llvmlite', 'matplotlib') if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_no_module_of_the_package_hides_a_public_name():
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(weft.profiler.__path__):
        importlib.import_module(f"weft.profiler.{module.name}")
    for name in weft.profiler.__all__:
        assert callable(getattr(weft.profiler, name)), name
