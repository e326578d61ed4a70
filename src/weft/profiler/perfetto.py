# SPDX-License-Identifier: Apache-2.0
"""Trace formats of viewers: Perfetto's, encoded in NumPy, and Chrome's, JSON.

https://perfetto.dev/docs/reference/trace-packet-proto and
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. In: a `Timeline`, in whose tracks
slices nest, so that no viewer drops one. Out: the bytes of a trace, which ui.perfetto.dev opens: every event is a
packet, and packets of one shape are rows of one byte array, with numbers at fixed places in as many bytes as the
largest needs. Or JSON, with times in microseconds with three decimals, that is, to a nanosecond.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from weft.profiler.timeline import COUNTER, SLICE_BEGIN, SLICE_END, SLICE_INSTANT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.profiler.timeline import Timeline


# Field numbers, by message. A test compares them with the descriptors of the package `perfetto`.
FIELDS: Final = {
    "Trace": {"packet": 1},
    "TracePacket": {
        "timestamp": 8,
        "trusted_packet_sequence_id": 10,
        "track_event": 11,
        "interned_data": 12,
        "sequence_flags": 13,
        "track_descriptor": 60,
    },
    "InternedData": {"event_names": 2, "debug_annotation_names": 3},
    "EventName": {"iid": 1, "name": 2},
    "DebugAnnotationName": {"iid": 1, "name": 2},
    "DebugAnnotation": {"name_iid": 1, "uint_value": 3},
    "TrackDescriptor": {
        "uuid": 1,
        "name": 2,
        "parent_uuid": 5,
        "counter": 8,
        "child_ordering": 11,
        "sibling_order_rank": 12,
        "sibling_merge_behavior": 15,
    },
    "TrackEvent": {
        "debug_annotations": 4,
        "type": 9,
        "name_iid": 10,
        "track_uuid": 11,
        "counter_value": 30,
        "flow_ids": 47,
    },
}
SEQUENCE: Final = 1
STATE_CLEARED: Final = 1
NEEDS_STATE: Final = 2
EXPLICIT_ORDER: Final = 3
NEVER_MERGE: Final = 2
_FIRST_TRACK: Final = 1
_PAYLOAD_NAME: Final = 1
_VALUE_BYTES: Final = 5


def encode(timeline: Timeline) -> bytes:
    """The trace as bytes.

    Slices, instants, counters, payloads as annotations, and flows are kept exactly; times are nanoseconds.

    Example:
        ``Path("run.perfetto-trace").write_bytes(encode(timeline))``
    """
    parts = [_interned(timeline.names)]
    parts += [_track(timeline, index) for index in range(len(timeline.tracks))]
    parts.append(encode_events(timeline.events))
    return b"".join(parts)


def _packet(*fields: bytes) -> bytes:
    return message(FIELDS["Trace"]["packet"], *fields)


def _interned(names: list[str]) -> bytes:
    packet, data = FIELDS["TracePacket"], FIELDS["InternedData"]
    entry = FIELDS["EventName"]
    events = [
        message(
            data["event_names"],
            number(entry["iid"], index),
            text(entry["name"], name),
        )
        for index, name in enumerate(names, 1)
    ]
    payload = message(
        data["debug_annotation_names"],
        number(entry["iid"], _PAYLOAD_NAME),
        text(entry["name"], "payload"),
    )
    return _packet(
        number(packet["trusted_packet_sequence_id"], SEQUENCE),
        number(packet["sequence_flags"], STATE_CLEARED),
        message(packet["interned_data"], *events, payload),
    )


def _track(timeline: Timeline, index: int) -> bytes:
    track, fields = timeline.tracks[index], FIELDS["TrackDescriptor"]
    parts = [
        number(fields["uuid"], index + _FIRST_TRACK),
        text(fields["name"], track.name),
        number(fields["child_ordering"], EXPLICIT_ORDER),
        number(fields["sibling_order_rank"], index),
        number(fields["sibling_merge_behavior"], NEVER_MERGE),
    ]
    if track.parent >= 0:
        parts.append(number(fields["parent_uuid"], track.parent + _FIRST_TRACK))
    if track.is_counter:
        parts.append(message(fields["counter"]))
    return _packet(message(FIELDS["TracePacket"]["track_descriptor"], *parts))


def encode_events(events: NDArray[Any]) -> bytes:
    """The packets of rows of `timeline.EVENT`, in their order.

    Raises:
        ValueError: for a negative time, which the format does not allow.
    """
    if not len(events):
        return b""
    if int(events["time"].min()) < 0:
        raise ValueError("an event lies before the start of its clock")
    # A packet's contents decide its length: bit 0 a value, bit 1 a flow, bit 2 a counter.
    shapes = (
        events["has_value"].astype(np.uint8)
        | (events["flow"] != 0).astype(np.uint8) << 1
        | (events["type"] == COUNTER).astype(np.uint8) << 2
    )
    widths = _Widths(events)
    found = np.flatnonzero(np.bincount(shapes)).tolist()
    if len(found) == 1:
        return _rows(events, found[0], widths).tobytes()
    groups = {shape: np.flatnonzero(shapes == shape) for shape in found}
    rows = {shape: _rows(events[places], shape, widths) for shape, places in groups.items()}
    sizes = np.zeros(8, np.int64)
    for shape, made in rows.items():
        sizes[shape] = made.shape[1]
    offsets = np.cumsum(sizes[shapes]) - sizes[shapes]
    out = np.zeros(int(sizes[shapes].sum()), np.uint8)
    for shape, made in rows.items():
        places = offsets[groups[shape]]
        for column in range(made.shape[1]):
            out[places + column] = made[:, column]
    return out.tobytes()


class _Column(NamedTuple):
    """One number per row: varints of `width` bytes, or eight plain bytes."""

    values: NDArray[Any]
    width: int
    is_fixed: bool = False


class _Widths:
    """Bytes that the largest time, track and name of a trace need."""

    __slots__ = ("name", "time", "track")

    def __init__(self, events: NDArray[Any]) -> None:
        self.time = len(varint(int(events["time"].max())))
        self.track = len(varint(int(events["track"].max()) + _FIRST_TRACK))
        self.name = len(varint(int(events["name"].max()) + 1))


def _rows(events: NDArray[Any], shape: int, widths: _Widths) -> NDArray[np.uint8]:
    """Packets that all have the same fields, one per row."""
    packet, inner = FIELDS["TracePacket"], FIELDS["TrackEvent"]
    pieces: list[bytes | _Column] = [
        tag(inner["type"], VARINT),
        _Column(events["type"], 1),
        tag(inner["track_uuid"], VARINT),
        _Column(events["track"] + np.uint32(_FIRST_TRACK), widths.track),
    ]
    if shape & 4:
        pieces += [
            tag(inner["counter_value"], VARINT),
            _Column(events["value"], _VALUE_BYTES),
        ]
    else:
        pieces += [
            tag(inner["name_iid"], VARINT),
            _Column(events["name"] + np.uint32(1), widths.name),
        ]
    if shape & 1 and not shape & 4:
        pieces += _annotation(events)
    if shape & 2:
        flow = _Column(events["flow"], 8, is_fixed=True)
        pieces += [tag(inner["flow_ids"], FIXED64), flow]
    length = _length(pieces)
    front: list[bytes | _Column] = [
        tag(packet["timestamp"], VARINT),
        _Column(events["time"], widths.time),
        number(packet["trusted_packet_sequence_id"], SEQUENCE),
        number(packet["sequence_flags"], NEEDS_STATE),
        tag(packet["track_event"], BYTES) + varint(length),
    ]
    whole = _length(front) + length
    start = tag(FIELDS["Trace"]["packet"], BYTES) + varint(whole)
    return _filled(len(events), [start, *front, *pieces])


def _annotation(events: NDArray[Any]) -> list[bytes | _Column]:
    fields = FIELDS["DebugAnnotation"]
    head = number(fields["name_iid"], _PAYLOAD_NAME) + tag(fields["uint_value"], VARINT)
    size = varint(len(head) + _VALUE_BYTES)
    start = tag(FIELDS["TrackEvent"]["debug_annotations"], BYTES) + size + head
    return [start, _Column(events["value"], _VALUE_BYTES)]


def _length(pieces: list[bytes | _Column]) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece.width for piece in pieces)


def _filled(count: int, pieces: list[bytes | _Column]) -> NDArray[np.uint8]:
    # Column by column is the order in which the bytes are computed, so columns lie together until the end.
    rows = np.empty((count, _length(pieces)), np.uint8, order="F")
    column = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            column = put(rows, column, piece)
        elif piece.is_fixed:
            column = put_fixed64(rows, column, piece.values)
        else:
            column = put_varint(rows, column, piece.values.astype(np.uint64), piece.width)
    return rows


VARINT = 0
FIXED64 = 1
BYTES = 2


def varint(value: int) -> bytes:
    """An unsigned number, seven bits per byte, the lowest first.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    if value < 0:
        raise ValueError(f"varint({value}): expected 0 or more")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    """The tag of a field."""
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field with an unsigned number, a bool or an enum."""
    return tag(field, VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A field with a message of these parts."""
    body = b"".join(parts)
    return tag(field, BYTES) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """A field with a string; a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    return message(field, value.encode(errors="replace"))


def put(rows: NDArray[np.uint8], column: int, constant: bytes) -> int:
    """Writes the same bytes into every row; returns the next column."""
    rows[:, column : column + len(constant)] = np.frombuffer(constant, np.uint8)
    return column + len(constant)


def put_varint(rows: NDArray[np.uint8], column: int, values: NDArray[np.uint64], width: int) -> int:
    """Writes numbers in a fixed number of bytes each, which decoders read like shorter ones.

    Args:
        rows: one row per number.
        column: where the first byte goes.
        values: numbers below 2 ** (7 * width).
        width: bytes per number, at most 10.
    """
    for index in range(width):
        byte = (values >> np.uint64(7 * index)).astype(np.uint8)
        if index < width - 1:
            np.bitwise_or(byte, 0x80, out=rows[:, column + index])
        else:
            np.bitwise_and(byte, 0x7F, out=rows[:, column + index])
    return column + width


def put_fixed64(rows: NDArray[np.uint8], column: int, values: NDArray[np.uint64]) -> int:
    """Writes numbers in eight bytes each; returns the next column."""
    for index in range(8):
        rows[:, column + index] = (values >> np.uint64(8 * index)).astype(np.uint8)
    return column + 8


_PHASES: Final = {SLICE_BEGIN: "B", SLICE_END: "E", SLICE_INSTANT: "i", COUNTER: "C"}


def encode_json(timeline: Timeline) -> str:
    """The trace as JSON: a process per launch, a thread per track.

    Example:
        ``Path("run.json").write_text(encode_json(trace.timeline()))``
    """
    roots = [_root(timeline, index) for index in range(len(timeline.tracks))]
    entries: list[dict[str, Any]] = []
    for index, track in enumerate(timeline.tracks):
        if track.parent < 0:
            entries.append(_named("process_name", index, 0, track.name))
            entries.append(_sorted("process_sort_index", index, 0, index))
        entries.append(_named("thread_name", roots[index], index + 1, _path(timeline, index)))
        entries.append(_sorted("thread_sort_index", roots[index], index + 1, index))
    events = timeline.events
    begin = int(events["time"].min()) if len(events) else 0
    order = np.argsort(events["time"], kind="stable")
    for event in events[order]:
        entries += _entries(timeline, event, roots, begin)
    return json.dumps(
        {"displayTimeUnit": "ns", "otherData": {"origin_ns": begin}, "traceEvents": entries},
        separators=(",", ":"),
    )


def _root(timeline: Timeline, index: int) -> int:
    while timeline.tracks[index].parent >= 0:
        index = timeline.tracks[index].parent
    return index


def _path(timeline: Timeline, index: int) -> str:
    """A track's name with those of its folders, since threads have none."""
    names: list[str] = []
    while index >= 0:
        track = timeline.tracks[index]
        if track.parent >= 0 or not names:
            names.append(track.name)
        index = track.parent
    return " / ".join(reversed(names))


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _sorted(what: str, process: int, thread: int, place: int) -> dict[str, Any]:
    return {
        "ph": "M",
        "name": what,
        "pid": process,
        "tid": thread,
        "args": {"sort_index": place},
    }


def _entries(timeline: Timeline, event: Any, roots: list[int], begin: int) -> list[dict[str, Any]]:
    kind, track = int(event["type"]), int(event["track"])
    name = timeline.names[int(event["name"])]
    entry: dict[str, Any] = {
        "ph": _PHASES[kind],
        "name": name,
        "pid": roots[track],
        "tid": track + 1,
        "ts": (int(event["time"]) - begin) / 1000,
    }
    if kind == COUNTER:
        entry["name"] = timeline.tracks[track].name
        entry["args"] = {name: int(event["value"])}
    elif event["has_value"]:
        entry["args"] = {"payload": int(event["value"])}
    if kind == SLICE_INSTANT:
        entry["s"] = "t"
    if not event["flow"]:
        return [entry]
    starts = timeline.tracks[roots[track]].name == "host"
    phase = "s" if starts else "f"
    flow = {**entry, "ph": phase, "id": int(event["flow"]), "cat": "launch", "name": "launch"}
    flow.pop("args", None)
    if not starts:
        flow["bp"] = "e"
    return [entry, flow]
