# SPDX-License-Identifier: Apache-2.0
"""A timeline for viewers: a tree of tracks, and events on them, independent of file formats.

In: recordings, and spans of the host. Out: `Timeline`, in which the slices of one track always nest: a slice that
crosses others gets its own row, since viewers drop or cut such slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from weft.profiler.records import closing_order, find_spans, last_of_depth_above
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from weft.profiler.records import Recording

SLICE_BEGIN: Final = 1
SLICE_END: Final = 2
SLICE_INSTANT: Final = 3
COUNTER: Final = 4

EVENT: Final = np.dtype(
    [
        ("time", np.int64),  # nanoseconds on the timeline's clock
        ("type", np.uint8),
        ("track", np.uint32),
        ("name", np.uint16),  # index into Timeline.names
        ("has_value", np.bool_),
        ("value", np.uint32),  # payload, or a counter's value
        ("flow", np.uint64),  # joins events; 0 for none
    ]
)


class Track(NamedTuple):
    """One row, or a folder of rows."""

    name: str
    parent: int
    is_counter: bool = False


class HostSpan(NamedTuple):
    """A stretch of the host program: nanoseconds on its monotonic clock."""

    name: str
    begin_ns: int
    end_ns: int
    launch: int = -1  # number of the launch that it made; -1 for none


class Timeline:
    """Tracks and events.

    Attributes:
        tracks: parents before their children; a root's parent is -1.
        names: of events, each once.
        events: rows of `EVENT`, in order within a track.
    """

    __slots__ = ("_numbers", "_parts", "names", "tracks")

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._parts: list[NDArray[Any]] = []

    @property
    def events(self) -> NDArray[Any]:
        """All events."""
        return np.concatenate(self._parts) if self._parts else np.zeros(0, EVENT)

    def add_track(self, name: str, parent: int = -1, *, is_counter: bool = False) -> int:
        """Adds a track and returns its number."""
        self.tracks.append(Track(name, parent, is_counter))
        return len(self.tracks) - 1

    def name(self, text: str) -> int:
        """The number of an event's name."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.names)
            self.names.append(text)
        return found

    def add_events(self, events: NDArray[Any]) -> None:
        """Adds rows of `EVENT`."""
        self._parts.append(events)

    def begin_at_zero(self) -> None:
        """Shifts all events if one is before the start of the clock, as in a broken buffer; files cannot hold such."""
        earliest = min((int(part["time"].min()) for part in self._parts if len(part)), default=0)
        if earliest < 0:
            for part in self._parts:
                part["time"] -= earliest


def lay_out(
    recordings: Sequence[Recording],
    host_spans: Sequence[HostSpan] = (),
    offsets_ns: Sequence[int] = (),
) -> Timeline:
    """Arranges launches as folders: launch → multiprocessor → group → block, or launch → block → group.

    Args:
        recordings: one per launch.
        host_spans: of the program around them.
        offsets_ns: per launch, added to its device's clock to get the host's.
    """
    timeline = Timeline()
    if host_spans:
        _add_host(timeline, host_spans)
    launched = {span.launch for span in host_spans}
    for number, recording in enumerate(recordings):
        offset = offsets_ns[number] if offsets_ns else 0
        _LaunchLayout(timeline, recording, number, offset, number in launched).add()
    timeline.begin_at_zero()
    return timeline


def _add_host(timeline: Timeline, spans: Sequence[HostSpan]) -> None:
    track = timeline.add_track("host")
    rows: list[list[HostSpan]] = []
    tracks: list[int] = []
    edges: list[tuple[int, int, int, int, HostSpan]] = []
    for span in sorted(spans, key=lambda span: (span.begin_ns, -span.end_ns)):
        row = _row_for(rows, span)
        if row == len(tracks):
            tracks.append(track if not row else timeline.add_track(f"host ({row + 1})"))
        depth = len(rows[row])
        edges.append((span.begin_ns, 1, depth, tracks[row], span))
        edges.append((span.end_ns, 0, -depth, tracks[row], span))
    events = np.zeros(len(edges), EVENT)
    for index, (time, opens, _, place, span) in enumerate(sorted(edges, key=_edge_order)):
        flow = span.launch + 1 if opens and span.launch >= 0 else 0
        kind = SLICE_BEGIN if opens else SLICE_END
        events[index] = (time, kind, place, timeline.name(span.name), False, 0, flow)
    timeline.add_events(events)


def _edge_order(edge: tuple[int, int, int, int, HostSpan]) -> tuple[int, int, int]:
    time, opens, depth, _, span = edge
    # At one time: ends before starts, but a span of no length is opened before it is closed.
    empty = span.begin_ns == span.end_ns
    return time, 1 if empty else 2 * opens, 2 * depth + (not opens) if empty else depth


def _row_for(rows: list[list[HostSpan]], span: HostSpan) -> int:
    """The first row in which a span nests; its stack is advanced to the span's start."""
    for number, stack in enumerate(rows):
        while stack and stack[-1].end_ns <= span.begin_ns:
            stack.pop()
        if not stack or stack[-1].end_ns >= span.end_ns:
            stack.append(span)
            return number
    rows.append([span])
    return len(rows) - 1


class _LaunchLayout:
    """Adds one recording to a timeline."""

    def __init__(
        self, timeline: Timeline, recording: Recording, number: int, offset: int, flows: bool
    ) -> None:
        self.timeline = timeline
        self.recording = recording
        self.flow = number + 1 if flows else 0
        self.origin = recording.origin_ns + offset
        self.root = timeline.add_track(_launch_name(recording, number))
        self.folders: dict[tuple[int, str], int] = {}
        names = [recording.event_name(event) for event in range(_event_count(recording))]
        self.names = np.array([timeline.name(name) for name in names], np.uint16)

    def add(self) -> None:
        recording = self.recording
        # Multiprocessors in the order of their numbers, wherever the launch put its first blocks.
        for track in recording.tracks[np.argsort(recording.tracks["sm"], kind="stable")]:
            self._folder(track)
        own = np.array([self._row(track) for track in recording.tracks], int)
        spans = find_spans(recording)
        plain = spans[~spans["is_async"]]
        rows = own[plain["track"]] if len(plain) else np.zeros(0, int)
        self._split_crossing(plain, rows)
        self._add_slices(plain, rows, plain["first"], closing_order(plain))
        crossing = spans[spans["is_async"]]
        if len(crossing):
            # They may end in another track, so only their times order them.
            rows = self._async_rows(crossing)
            self._add_slices(crossing, rows, crossing["begin"], crossing["end"])
        self._add_points(wire.INSTANT, SLICE_INSTANT, own)
        counters = recording.records["kind"] == wire.COUNTER
        if counters.any():
            self._add_counters(np.flatnonzero(counters))

    def _folder(self, track: Any) -> int:
        name = f"SM {track['sm']}" if track["sm"] >= 0 else f"block {track['block']}"
        return self._folder_at(name)

    def _folder_at(self, name: str, parent: int | None = None) -> int:
        """The folder of that name in another one, or in the launch."""
        place = self.root if parent is None else parent, name
        if place not in self.folders:
            self.folders[place] = self.timeline.add_track(name, place[0])
        return self.folders[place]

    def _row(self, track: Any) -> int:
        """Adds the timeline's track for one of the recording's."""
        group = self.recording.group_name(int(track["group"]))
        if track["sm"] < 0:
            # Of a block each group is one track.
            return self.timeline.add_track(group, self._folder(track))
        folder = self._folder_at(group, self._folder(track))
        return self.timeline.add_track(f"block {track['block']}", folder)

    def _absolute(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(times).astype(np.int64) + self.origin

    def _split_crossing(self, spans: NDArray[Any], rows: NDArray[Any]) -> None:
        """Moves spans that cross others of their track to another row; most tracks have none."""
        for crossed in _crossed_tracks(spans):
            indices = np.flatnonzero(spans["track"] == crossed)
            own_spans = spans[indices]
            found = _nesting_rows(own_spans["first"], closing_order(own_spans))
            own = int(rows[indices[0]])
            track = self.timeline.tracks[own]
            extra = [
                self.timeline.add_track(f"{track.name} ({row + 1})", track.parent)
                for row in range(1, max(found) + 1)
            ]
            rows[indices] = [own if row == 0 else extra[row - 1] for row in found]

    def _add_slices(
        self,
        spans: NDArray[Any],
        rows: NDArray[Any],
        opened: NDArray[Any],
        closed: NDArray[Any],
    ) -> None:
        count = len(spans)
        events = np.zeros(2 * count, EVENT)
        begins, ends = events[:count], events[count:]
        begins["time"], ends["time"] = self._absolute(spans["begin"]), self._absolute(spans["end"])
        begins["type"], ends["type"] = SLICE_BEGIN, SLICE_END
        begins["track"] = ends["track"] = rows
        begins["name"] = ends["name"] = self.names[spans["event"]]
        begins["has_value"], begins["value"] = spans["has_payload"], spans["payload"]
        if self.flow and count:
            begins["flow"][np.argmin(spans["begin"])] = self.flow
            self.flow = 0
        order = np.lexsort((events["type"], np.r_[opened, closed], events["track"]))
        self.timeline.add_events(events[order])

    def _async_rows(self, spans: NDArray[Any]) -> NDArray[np.int64]:
        """Tracks of asynchronous spans: per folder and event as many rows as overlap."""
        free: dict[tuple[int, int], list[tuple[int, float]]] = {}
        rows: list[int] = []
        for span in spans:
            folder = self._folder(self.recording.tracks[span["track"]])
            taken = free.setdefault((folder, int(span["event"])), [])
            for index, (track, end) in enumerate(taken):
                if end < span["begin"]:
                    taken[index] = (track, float(span["end"]))
                    rows.append(track)
                    break
            else:
                number = f" ({len(taken) + 1})" if taken else ""
                name = self.recording.event_name(int(span["event"])) + number
                track = self.timeline.add_track(name, folder)
                taken.append((track, float(span["end"])))
                rows.append(track)
        return np.array(rows, np.int64)

    def _add_points(self, kind: int, shown_as: int, own: NDArray[Any]) -> None:
        records = self.recording.records
        chosen = records[records["kind"] == kind]
        if not len(chosen):
            return
        events = np.zeros(len(chosen), EVENT)
        events["time"] = self._absolute(chosen["time"])
        events["type"] = shown_as
        events["track"] = own[chosen["track"]]
        events["name"] = self.names[chosen["event"]]
        events["has_value"], events["value"] = chosen["has_payload"], chosen["payload"]
        self.timeline.add_events(events)

    def _add_counters(self, indices: NDArray[np.int64]) -> None:
        records = self.recording.records[indices]
        keys = records["track"].astype(np.int64) << 16 | records["event"]
        found, inverse = np.unique(keys, return_inverse=True)
        tracks: list[int] = []
        for key in found.tolist():
            name = (
                f"{self.recording.event_name(key & 0xFFFF)} {self.recording.track_name(key >> 16)}"
            )
            folder = self._folder(self.recording.tracks[key >> 16])
            tracks.append(self.timeline.add_track(name, folder, is_counter=True))
        events = np.zeros(len(records), EVENT)
        events["time"] = self._absolute(records["time"])
        events["type"] = COUNTER
        events["track"] = np.array(tracks)[inverse]
        events["name"] = self.names[records["event"]]
        events["has_value"], events["value"] = True, records["payload"]
        self.timeline.add_events(events)


def _launch_name(recording: Recording, number: int) -> str:
    return f"launch {number}" + (f": {recording.kernel}" if recording.kernel else "")


def _event_count(recording: Recording) -> int:
    used = int(recording.records["event"].max()) + 1 if len(recording.records) else 0
    return max(used, len(recording.events))


def _crossed_tracks(spans: NDArray[Any]) -> NDArray[Any]:
    """Tracks in which a span begins inside another and ends after it."""
    if not len(spans):
        return np.zeros(0, np.uint32)
    order = np.lexsort((spans["first"], spans["track"]))
    ordered = spans[order]
    track = ordered["track"].astype(np.int64)
    last = closing_order(ordered)
    # In proper nesting the spans of one depth do not overlap, and each lies in the last one of the depth above.
    depth = ordered["depth"].astype(np.int64)
    inner = np.flatnonzero(depth > 0)
    position = last_of_depth_above(track, depth)
    crosses = last[position[inner]] < last[inner]
    return np.unique(ordered["track"][inner[crosses]])


def _nesting_rows(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[int]:
    """The first row in which each span nests, in the order of their starts."""
    rows: list[list[int]] = []
    found: list[int] = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        for number, stack in enumerate(rows):
            while stack and stack[-1] <= begin:
                stack.pop()
            if not stack or stack[-1] >= end:
                stack.append(end)
                found.append(number)
                break
        else:
            rows.append([end])
            found.append(len(rows) - 1)
    return found
