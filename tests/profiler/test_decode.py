# SPDX-License-Identifier: Apache-2.0
"""Decoders: what was written comes back, for any stream; what is broken gives a report or a clear error."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import weft
from tests.profiler.writing import Entry, tirx_buffer, track_buffer
from weft.profiler import Trace, decode_tag, decode_tirx, decode_track, inflation, prepare
from weft.profiler.perfetto import encode
from weft.profiler.records import find_spans
from weft.types import record_format as wire

pytestmark = pytest.mark.joined

FEW = settings(max_examples=60, deadline=None)
END = 3


@st.composite
def streams(draw, kinds=(0, 1, 2), events=12, payloads=False, finalize=False):
    """Groups per block, and the tracks of a launch, each in the order of time."""
    groups = draw(st.integers(1, 3))
    count = groups * draw(st.integers(1, 3))
    tracks = []
    for _ in range(count):
        steps = draw(st.lists(st.integers(0, 500), max_size=12))
        times = np.cumsum([draw(st.integers(0, 1000)), *steps]).tolist()[: len(steps)]
        track = [
            Entry(
                time,
                draw(st.sampled_from(kinds)),
                draw(st.integers(0, events - 1)),
                draw(st.none() | st.integers(0, (1 << 32) - 1)) if payloads else None,
            )
            for time in times
        ]
        if finalize:
            track.append(Entry(times[-1] if times else 5, END, 0))
        tracks.append(track)
    return groups, tracks


def entries(recording, track: int, origin: int) -> list[Entry]:
    rows = recording.records[recording.records["track"] == track]
    return [
        Entry(
            round(float(row["time"])) + recording.origin_ns - origin,
            int(row["kind"]),
            int(row["event"]),
            int(row["payload"]) if row["has_payload"] else None,
        )
        for row in rows
    ]


def of_the_buffer(problems: list[str]) -> list[str]:
    """Those that a stream of random starts and ends does not have by itself."""
    return [problem for problem in problems if not re.match(r"\d+ (starts|ends) have no ", problem)]


@FEW
@given(streams(finalize=True), st.integers(1, (1 << 32) - 5000))
def test_a_tirx_stream_comes_back(given_streams, start):
    groups, tracks = given_streams
    recording = decode_tirx(tirx_buffer(tracks, groups, start_ns=start))
    assert of_the_buffer(recording.problems) == []
    for track, written in enumerate(tracks):
        assert entries(recording, track, start) == written


@FEW
@given(streams(finalize=True))
def test_tirx_times_are_unwrapped(given_streams):
    groups, tracks = given_streams
    start = (1 << 32) - 700
    # Word by word the format's own limit: as the clock wraps, a start of event 0 on track 0 is a word of zeros.
    assume(Entry(700, 0, 0) not in tracks[0])
    recording = decode_tirx(tirx_buffer(tracks, groups, start_ns=start))
    first = min(track[0].time for track in tracks)
    times = [round(float(time)) for time in recording.records["time"]]
    assert times == [entry.time - first for track in tracks for entry in track]


def test_a_track_that_runs_for_many_wraps_is_unwrapped():
    track = [Entry(step * ((1 << 32) - (1 << 21)), 2, 0) for step in range(40)]
    recording = decode_tirx(tirx_buffer([[*track, Entry(track[-1].time, END, 0)]], 1, start_ns=77))
    assert recording.problems == []
    assert recording.records["time"][39] == 39 * ((1 << 32) - (1 << 21))


@FEW
@given(
    streams(kinds=(0, 1, 2, 4, 5, 6), events=40, payloads=True),
    st.integers(0, (1 << 48) - 1),
    st.sampled_from([1, 2]),
)
def test_a_track_stream_comes_back(given_streams, clock, ratio):
    groups, tracks = given_streams
    names = [f"event {number}" for number in range(40)]
    flags = 4 if ratio == 1 else 0
    words = track_buffer(
        tracks, groups, names=names, capacity=30, start_clock=clock, ratio=ratio, flags=flags
    )
    recording = decode_track(words)
    assert of_the_buffer(recording.problems) == []
    assert recording.events == names
    for track, written in enumerate(tracks):
        assert entries(recording, track, 1 << 50) == written


@FEW
@given(streams(payloads=True), st.integers(2, 9))
def test_a_track_that_overflows_keeps_its_beginning(given_streams, capacity):
    groups, tracks = given_streams
    recording = decode_track(track_buffer(tracks, groups, names=["x"] * 12, capacity=capacity))
    for track, written in enumerate(tracks):
        found = entries(recording, track, 1 << 50)
        for mine, theirs in zip(found, written, strict=False):
            assert mine[:3] == theirs[:3]
        assert len(found) <= len(written)
        if len(found) < len(written):
            assert recording.tracks["lost"][track] > 0


def python_spans(track: list[Entry]) -> list[tuple[int, int, int]]:
    """(event, begin, end) of closed spans, by a stack per event."""
    stacks: dict[int, list[int]] = {}
    spans = []
    for entry in track:
        if entry.kind == 0:
            stacks.setdefault(entry.event, []).append(len(spans))
            spans.append([entry.event, entry.time, None])
        elif entry.kind == 1 and stacks.get(entry.event):
            spans[stacks[entry.event].pop()][2] = entry.time
    return [tuple(span) for span in spans if span[2] is not None]


@FEW
@given(streams(events=3))
def test_spans_match_as_a_stack_per_event_does(given_streams):
    groups, tracks = given_streams
    recording = decode_track(track_buffer(tracks, groups, names=["x"] * 3, capacity=20))
    problems: list[str] = []
    spans = find_spans(recording, problems)
    offset = recording.origin_ns - (1 << 50)
    for track, written in enumerate(tracks):
        mine = spans[(spans["track"] == track) & ~spans["is_open"]]
        found = [(int(s["event"]), int(s["begin"]) + offset, int(s["end"]) + offset) for s in mine]
        assert found == python_spans(written)
    starts = sum(entry.kind == 0 for track in tracks for entry in track)
    ends = sum(entry.kind == 1 for track in tracks for entry in track)
    closed = int((~spans["is_open"]).sum())
    assert len(spans) == starts
    assert any("ends have no start" in p for p in problems) == (ends > closed)
    assert any("starts have no end" in p for p in problems) == (starts > closed)


def test_asynchronous_spans_end_in_any_track_of_their_block():
    tracks = [
        [Entry(10, 5, 0, 1), Entry(20, 5, 0, 2)],
        [Entry(30, 6, 0, 2), Entry(50, 6, 0, 1), Entry(60, 6, 0, 9)],
    ]
    problems: list[str] = []
    recording = decode_track(track_buffer(tracks, 2, names=["copy"], capacity=8))
    spans = find_spans(recording, problems)
    assert [(s["payload"], s["end"] - s["begin"]) for s in spans] == [(1, 40.0), (2, 10.0)]
    assert problems == ["1 ends have no start, the first of copy in track b0/g1"]


# ---- broken buffers


def shown(recording) -> None:
    """Goes through everything that reads a recording; none of it may raise, whatever the buffer was."""
    trace = Trace([recording])
    assert trace.summary()
    spans = trace.spans()
    assert int((trace.timeline().events["type"] == 1).sum()) == len(spans)
    encode(trace.timeline())


@FEW
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=60))
def test_any_words_at_all_decode_as_tirx_with_a_report(words):
    assume(words[0] != wire.TRACK_MAGIC)  # a buffer of the other format, which is refused
    recording = decode_tirx(np.array(words, np.uint64))
    shown(recording)
    assert len(recording.records) <= len(words)


@FEW
@given(streams(payloads=True), st.data())
def test_a_track_buffer_with_broken_words_never_breaks_the_decoder(given_streams, data):
    groups, tracks = given_streams
    words = track_buffer(tracks, groups, names=["x"] * 12, capacity=20)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(1, len(words) - 1))
        words[place] = data.draw(st.integers(0, (1 << 64) - 1))
    shown(decode_track(words))


@pytest.mark.parametrize("capacity", [0, 1])
def test_a_wide_track_without_room_for_a_record_is_reported(capacity):
    words = track_buffer([[]], 1, names=["x"] * 12, capacity=20)
    words[wire.WORD_LAYOUT] = np.uint64(capacity << 32 | wire.FLAG_WIDE)
    assert decode_track(words).problems


@FEW
@given(streams(), st.data())
def test_a_truncated_track_buffer_is_reported(given_streams, data):
    groups, tracks = given_streams
    words = track_buffer(tracks, groups, names=["x"] * 12, capacity=20)
    cut = data.draw(st.integers(16, len(words) - 1))
    recording = decode_track(words[:cut])
    assert recording.problems


@pytest.mark.parametrize(
    "described",
    [
        '"blocks": [1099511627776, 1]',
        '"blocks": [true, 1]',
        '"blocks": [0, -1]',
        '"blocks": "all"',
        '"events": [1, null, ["x"]]',
        '"groups": {"a": 1}',
        '"kernel": 5',
        '"kernel": "\\ud800"',
        '"kernel": "',
    ],
)
def test_a_description_that_makes_no_sense_breaks_no_export(described, tmp_path):
    words = track_buffer([[Entry(1, 0, 1), Entry(5, 1, 1)]] * 2, 1, names=["x" * 60], capacity=9)
    first = int(words[wire.WORD_HEADERS]) & 0xFFFFFFFF
    text = b"{" + described.encode() + b"}"
    words[wire.PROLOGUE_WORDS : first] = np.frombuffer(text.ljust(8 * (first - 16)), "<u8")
    words[wire.WORD_TEXT] = len(text) << 32 | wire.PROLOGUE_WORDS
    trace = Trace([decode_track(words)])
    assert trace.spans()["block"].tolist() == [0, 1]
    assert "launch 0" in trace.summary()
    trace.to_perfetto(tmp_path / "a.pftrace")
    trace.to_chrome(tmp_path / "a.json")


def test_a_time_before_the_clock_moves_the_timeline_and_is_written(tmp_path):
    words = track_buffer([[Entry(1, 0, 1), Entry(5, 1, 1)]], 1, names=["x"] * 9, capacity=9)
    first = int(words[wire.WORD_HEADERS]) & 0xFFFFFFFF
    words[first + wire.HEADER_BEGIN_NS] = np.uint64((1 << 64) - 1000)
    timeline = Trace([decode_track(words)]).timeline()
    assert timeline.events["time"].min() == 0
    assert len(encode(timeline)) > 0


@pytest.mark.parametrize("decode", [decode_tirx, decode_track])
@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (np.zeros(4, np.float64), ValueError, "has float64 elements"),
        (np.zeros(4, np.int32), ValueError, "has int32 elements"),
        (b"12345", ValueError, "5 bytes are not a whole number of 8-byte words"),
        (object(), (TypeError, ValueError), "object"),
        ("text", (TypeError, ValueError), "elements"),
        (np.zeros(0, np.uint64), ValueError, "missing|empty"),
    ],
)
def test_a_non_buffer_is_a_clear_error(decode, given, error, text):
    with pytest.raises(error, match=text) as caught:
        decode(given)
    assert isinstance(caught.value, weft.WeftError)


def test_a_buffer_of_the_other_format_is_named():
    with pytest.raises(weft.WeftError, match=r"not a buffer of weft\.profiler\.Profiler") as caught:
        decode_track(tirx_buffer([[Entry(1, 0, 0)]], 1, extra=20))
    assert "decode_tirx" in caught.value.hint


def test_words_come_as_bytes_lists_of_torch_or_signed_integers():
    tracks = [[Entry(10, 0, 1), Entry(20, 1, 1), Entry(30, END, 0)]]
    words = tirx_buffer(tracks, 1, start_ns=5)
    for form in (words.tobytes(), words.view(np.int64), bytearray(words.tobytes())):
        assert decode_tirx(form).records["event"].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: prepare([0] * 64), "a list is not memory"),
        (lambda: prepare(np.frombuffer(bytes(512), np.uint64)), "read-only"),
        (lambda: prepare(np.zeros((8, 8), np.uint64)), "rank 2"),
        (lambda: prepare(np.zeros(8, np.uint64)), "8 words; expected 16 at least"),
        (lambda: prepare(np.zeros(64, np.float64)), "other elements"),
        (lambda: decode_tag(-1, 1), "the tag is -1"),
        (lambda: decode_tag(1 << 32, 1), "expected 32 bits"),
        (lambda: decode_tag(0, 0), "num_groups is 0"),
        (lambda: inflation(int, int, samples=0), "samples is 0"),
    ],
)
def test_what_a_function_cannot_use_is_a_clear_error(call, text):
    with pytest.raises(weft.WeftError, match=text):
        call()


def test_memory_of_weft_on_the_cpu_is_prepared_and_read():
    records = weft.empty(64, weft.u64)
    prepare(records)
    assert decode_track(records).problems == ["no kernel has recorded into this buffer"]


def test_tags_are_taken_apart_as_the_page_says():
    assert decode_tag(17 << 12 | 1023 << 2 | 2, 5) == (3, 2, 1023, 2)
    with pytest.raises(weft.WeftError, match="num_groups is 0"):
        decode_tag(1, 0)


PAIR = [Entry(10, 0, 1), Entry(20, 1, 1)]
CLOSED = [*PAIR, Entry(30, END, 0)]


def changed(words, **places):
    for name, value in places.items():
        words[int(name[1:])] = value
    return words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (np.zeros(8, np.uint64), r"the header \(word 0\) is empty"),
        (changed(tirx_buffer([CLOSED], 1), _0=5), "which is not a header: 0 groups, 5 blocks"),
        (tirx_buffer([PAIR], 1, extra=4), "track b0/g0 has no finalize"),
        (tirx_buffer([PAIR], 1), "reached the end of the buffer"),
        (tirx_buffer([CLOSED, []], 2), "1 of 2 tracks have no records"),
        (tirx_buffer([[*CLOSED, Entry(40, 0, 1)]], 1), "follow the last one of their track"),
        (
            changed(tirx_buffer([CLOSED], 1), _0=1 << 32 | 1, _2=9 << 12 | 1 << 40),
            "name tracks from 9",
        ),
        (changed(tirx_buffer([CLOSED, CLOSED], 2), _3=0), "are not"),
        (
            tirx_buffer([[Entry(900, 0, 1), Entry(800, 1, 1), CLOSED[2]]], 1),
            "time goes back|two leaders",
        ),
        (changed(tirx_buffer([CLOSED], 1), _0=2 << 56 | 1 << 32 | 1), "write_stride is smaller"),
    ],
)
def test_what_is_wrong_with_a_tirx_buffer_is_reported(words, text):
    import re

    problems = decode_tirx(words).problems
    assert any(re.search(text, problem) for problem in problems), problems
