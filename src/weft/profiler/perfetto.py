# SPDX-License-Identifier: Apache-2.0
"""Perfetto's trace format, encoded in NumPy: https://perfetto.dev/docs/reference/trace-packet-proto.

In: a `Timeline`. Out: the bytes of a trace, which ui.perfetto.dev opens. Every event is a packet, and packets
of one shape are rows of one byte array, with numbers at fixed places in as many bytes as the largest needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from weft.profiler import protobuf
from weft.profiler.timeline import COUNTER

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
    return protobuf.message(FIELDS["Trace"]["packet"], *fields)


def _interned(names: list[str]) -> bytes:
    packet, data = FIELDS["TracePacket"], FIELDS["InternedData"]
    entry = FIELDS["EventName"]
    events = [
        protobuf.message(
            data["event_names"],
            protobuf.number(entry["iid"], index),
            protobuf.text(entry["name"], name),
        )
        for index, name in enumerate(names, 1)
    ]
    payload = protobuf.message(
        data["debug_annotation_names"],
        protobuf.number(entry["iid"], _PAYLOAD_NAME),
        protobuf.text(entry["name"], "payload"),
    )
    return _packet(
        protobuf.number(packet["trusted_packet_sequence_id"], SEQUENCE),
        protobuf.number(packet["sequence_flags"], STATE_CLEARED),
        protobuf.message(packet["interned_data"], *events, payload),
    )


def _track(timeline: Timeline, index: int) -> bytes:
    track, fields = timeline.tracks[index], FIELDS["TrackDescriptor"]
    parts = [
        protobuf.number(fields["uuid"], index + _FIRST_TRACK),
        protobuf.text(fields["name"], track.name),
        protobuf.number(fields["child_ordering"], EXPLICIT_ORDER),
        protobuf.number(fields["sibling_order_rank"], index),
        protobuf.number(fields["sibling_merge_behavior"], NEVER_MERGE),
    ]
    if track.parent >= 0:
        parts.append(protobuf.number(fields["parent_uuid"], track.parent + _FIRST_TRACK))
    if track.is_counter:
        parts.append(protobuf.message(fields["counter"]))
    return _packet(protobuf.message(FIELDS["TracePacket"]["track_descriptor"], *parts))


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
        self.time = len(protobuf.varint(int(events["time"].max())))
        self.track = len(protobuf.varint(int(events["track"].max()) + _FIRST_TRACK))
        self.name = len(protobuf.varint(int(events["name"].max()) + 1))


def _rows(events: NDArray[Any], shape: int, widths: _Widths) -> NDArray[np.uint8]:
    """Packets that all have the same fields, one per row."""
    packet, inner = FIELDS["TracePacket"], FIELDS["TrackEvent"]
    pieces: list[bytes | _Column] = [
        protobuf.tag(inner["type"], protobuf.VARINT),
        _Column(events["type"], 1),
        protobuf.tag(inner["track_uuid"], protobuf.VARINT),
        _Column(events["track"] + np.uint32(_FIRST_TRACK), widths.track),
    ]
    if shape & 4:
        pieces += [
            protobuf.tag(inner["counter_value"], protobuf.VARINT),
            _Column(events["value"], _VALUE_BYTES),
        ]
    else:
        pieces += [
            protobuf.tag(inner["name_iid"], protobuf.VARINT),
            _Column(events["name"] + np.uint32(1), widths.name),
        ]
    if shape & 1 and not shape & 4:
        pieces += _annotation(events)
    if shape & 2:
        flow = _Column(events["flow"], 8, is_fixed=True)
        pieces += [protobuf.tag(inner["flow_ids"], protobuf.FIXED64), flow]
    length = _length(pieces)
    front: list[bytes | _Column] = [
        protobuf.tag(packet["timestamp"], protobuf.VARINT),
        _Column(events["time"], widths.time),
        protobuf.number(packet["trusted_packet_sequence_id"], SEQUENCE),
        protobuf.number(packet["sequence_flags"], NEEDS_STATE),
        protobuf.tag(packet["track_event"], protobuf.BYTES) + protobuf.varint(length),
    ]
    whole = _length(front) + length
    start = protobuf.tag(FIELDS["Trace"]["packet"], protobuf.BYTES) + protobuf.varint(whole)
    return _filled(len(events), [start, *front, *pieces])


def _annotation(events: NDArray[Any]) -> list[bytes | _Column]:
    fields = FIELDS["DebugAnnotation"]
    head = protobuf.number(fields["name_iid"], _PAYLOAD_NAME) + protobuf.tag(
        fields["uint_value"], protobuf.VARINT
    )
    size = protobuf.varint(len(head) + _VALUE_BYTES)
    start = protobuf.tag(FIELDS["TrackEvent"]["debug_annotations"], protobuf.BYTES) + size + head
    return [start, _Column(events["value"], _VALUE_BYTES)]


def _length(pieces: list[bytes | _Column]) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece.width for piece in pieces)


def _filled(count: int, pieces: list[bytes | _Column]) -> NDArray[np.uint8]:
    # Column by column is the order in which the bytes are computed, so columns lie together until the end.
    rows = np.empty((count, _length(pieces)), np.uint8, order="F")
    column = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            column = protobuf.put(rows, column, piece)
        elif piece.is_fixed:
            column = protobuf.put_fixed64(rows, column, piece.values)
        else:
            column = protobuf.put_varint(rows, column, piece.values.astype(np.uint64), piece.width)
    return rows
