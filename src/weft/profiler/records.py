# SPDX-License-Identifier: Apache-2.0
"""Decoded records, one NumPy row each, for every wire format; starts and ends matched to spans.

In: a buffer of any library. Out: its words; `Recording`, filled by the decoders; rows of `SPAN`, made without a Python
loop over records; sentences about the buffer's problems and unmatched ends and starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft import _native
from weft.blame import is_of_a_handler
from weft.errors import ArgumentValueError, SignatureError, brief
from weft.profiler.buffers import WORD_TYPES, device_tensor, read_device
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


RECORD: Final = np.dtype(
    [
        ("track", np.uint32),  # index into Recording.tracks
        ("kind", np.uint8),
        ("event", np.uint16),
        ("has_payload", np.bool_),
        ("time", np.float64),  # nanoseconds after Recording.origin_ns
        ("payload", np.uint32),
    ]
)
TRACK: Final = np.dtype(
    [
        ("block", np.uint32),
        ("group", np.uint32),
        ("sm", np.int32),  # -1 where the format does not say
        ("warp", np.int32),
        ("lost", np.uint64),  # records that did not fit
        ("is_complete", np.bool_),
    ]
)
_NAMES: Final = (
    "expected a list of names, a dict from events' numbers to names, or an Enum of the events"
)
BLOCK_LIMIT: Final = 1 << 31


def list_of_names(given: object) -> list[str]:
    """Names by number, as a list: of a sequence, a mapping from numbers to names, or an `enum.Enum`.

    Raises:
        TypeError: for anything else.
        ArgumentValueError: for a number of no event.
    """
    names: Any = given
    if isinstance(given, type) and issubclass(given, Enum):
        names = {member: member.name for member in given}
    if isinstance(names, Mapping):
        table = {_event_number(key): name for key, name in cast("Mapping[Any, Any]", names).items()}
        found = [
            table.get(number, f"event {number}") for number in range(max(table, default=-1) + 1)
        ]
    else:
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise TypeError(f"the event names are {brief(cast('object', names))}, {_NAMES}")
        found = list(cast("Iterable[Any]", names))
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"the event names hold {brief(name)}, {_NAMES}")
    return found


def _event_number(key: object) -> int:
    number = key.value if isinstance(key, Enum) else key
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"the event names have the key {brief(key)}, {_NAMES}")
    if not 0 <= number < wire.TRACK_MOST_EVENTS:
        raise ArgumentValueError(
            "PROFILER_EVENT",
            f"the event names have the number {number}; expected 0 to {wire.TRACK_MOST_EVENTS - 1}",
        )
    return number


class Recording:
    """One launch's records.

    Attributes:
        kernel: its name; empty if the format does not say.
        records: rows of `RECORD`, track by track, each track in the order of time.
        tracks: rows of `TRACK`, for tracks that recorded or should have.
        events: names by number.
        groups: names by number.
        origin_ns: nanoseconds on the recording machine's clock; times count from there.
        grid, block: of the launch; None if the format does not say.
        tick_ns: how exact times of different tracks are to each other.
        step_ns: how exact times within a track are.
        problems: sentences about missing or wrong data.
        words_needed: of a buffer for every record; 0 if the format does not say.

    Example:
        >>> recording = trace.recordings[0]
        >>> recording.kernel, recording.problems, len(recording.records)
        ('run_kernel', [], 4)
    """

    __slots__ = (
        "block",
        "events",
        "grid",
        "groups",
        "kernel",
        "origin_ns",
        "problems",
        "records",
        "step_ns",
        "tick_ns",
        "tracks",
        "words_needed",
    )

    def __init__(
        self,
        records: NDArray[Any],
        tracks: NDArray[Any],
        *,
        events: Sequence[str] = (),
        groups: Sequence[str] = (),
        kernel: str = "",
        origin_ns: int = 0,
        tick_ns: float = 32.0,
        problems: Sequence[str] = (),
    ) -> None:
        self.records = records
        self.tracks = tracks
        self.events = list(events)
        self.groups = list(groups)
        self.kernel = kernel
        self.origin_ns = origin_ns
        self.tick_ns = self.step_ns = tick_ns
        self.problems = list(problems)
        self.words_needed = 0
        self.grid: tuple[int, int, int] | None = None
        self.block: tuple[int, int, int] | None = None

    def event_name(self, number: int) -> str:
        """The event's name, or its number in words."""
        return self.events[number] if number < len(self.events) else f"event {number}"

    def group_name(self, number: int) -> str:
        """The group's name, or its number in words."""
        return self.groups[number] if number < len(self.groups) else f"group {number}"

    def track_name(self, index: int) -> str:
        """A track for messages: ``b3/g1``."""
        track = self.tracks[index]
        return f"b{track['block']}/g{track['group']}"

    def listed(self, indices: NDArray[Any]) -> str:
        """Tracks for messages, the first three by name."""
        names = [self.track_name(int(index)) for index in indices[:3]]
        more = len(indices) - len(names)
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


@dataclass(slots=True, eq=False)
class Launch:
    """One launch of a trace.

    Attributes:
        recording: its records.
        function: its host function; empty if unknown.
        begin_ns, end_ns: the host's monotonic clock just before the call, and after all launches had ended;
            None if unknown.
        device: where it ran: ``"cpu"``, whose clock is the host's, or ``"cuda:0"``.
        stream: the CUDA stream's handle; None on the CPU, or if unknown.
        host_ns: the launch's time on the host, on the CPU that of the run; None if unknown.
        device_ns: time on the GPU between an event before the launch and one after it; None on the CPU, in a
            CUDA graph, and if unknown.
        is_marked: whether the kernel has a `Profiler`; otherwise its recording is empty.

    Example:
        >>> trace.launches[0].function, trace.launches[0].device
        ('run', 'cpu')
    """

    recording: Recording
    function: str = ""
    begin_ns: int | None = None
    end_ns: int | None = None
    device: str = ""
    stream: int | None = None
    host_ns: int | None = field(default=None, init=False)
    device_ns: float | None = field(default=None, init=False)
    is_marked: bool = field(default=True, init=False)

    def __repr__(self) -> str:
        return f"<launch of {self.recording.kernel or 'a kernel'}: {len(self.recording.records)} records>"


def as_words(buffer: object) -> NDArray[np.uint64]:
    """A profiler's buffer as u64 words on the host, copied from a device if needed.

    Args:
        buffer: an array of 8-byte integers (NumPy, torch, CuPy, anything with the buffer protocol or DLPack),
            or bytes.

    Raises:
        SignatureError: if it is not an array.
        ArgumentValueError: for an array of other elements, or bytes that are not whole words.
    """
    if isinstance(buffer, bytes | bytearray):
        data = bytes(buffer)
        if len(data) % 8:
            raise ArgumentValueError(
                "PROFILER_BUFFER", f"{len(data)} bytes are not a whole number of 8-byte words"
            )
        return np.frombuffer(data, np.uint64)
    try:
        array: NDArray[Any] = np.ascontiguousarray(_on_host(buffer))
    except Exception as error:
        if is_of_a_handler(error):
            raise
        raise SignatureError(
            "PROFILER_BUFFER", f"a {type(buffer).__name__} is not a buffer of a profiler: {error}"
        ) from error
    if array.dtype.kind not in "iu" or array.dtype.itemsize != 8:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has {array.dtype} elements; a profiler's buffer holds 8-byte integers",
        )
    return array.reshape(-1).astype(array.dtype.newbyteorder("="), copy=False).view(np.uint64)


def _on_host(buffer: Any) -> NDArray[Any]:
    """An array of any library in this machine's memory."""
    for name in ("cpu", "get"):  # torch's and CuPy's methods, which know the writing streams
        bring = getattr(buffer, name, None)
        if callable(bring) and hasattr(buffer, "device"):
            return np.asarray(bring())
    tensor = device_tensor(buffer)
    if tensor is not None:
        if tensor.dtype not in WORD_TYPES or not tensor.is_contiguous:
            return np.empty(0, np.uint8)  # of another type, which the caller refuses
        _native.synchronize(tensor.device[1])
        return read_device(tensor)
    if hasattr(buffer, "__dlpack__") and not hasattr(buffer, "__array__"):
        return np.from_dlpack(buffer)
    return np.asarray(buffer)


def segments(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Starts of runs of equal keys, in an array that is sorted by them."""
    if not len(keys):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])


def unwrapped(times: NDArray[Any], starts: NDArray[np.int64], bits: int = 32) -> NDArray[np.int64]:
    """Times of `bits` bits as differences from the first of their run, for any number of wraps.

    Adjacent times must be less than one wrap apart. A step back of less than 1/4096 of a wrap is kept as such,
    since a clock read by two threads is not always in order.

    Args:
        times: raw times, run by run.
        starts: where the runs begin.
        bits: of the clock.
    """
    count = len(times)
    result = np.zeros(count, np.int64)
    if not count:
        return result
    mask = (1 << bits) - 1
    raw = times.astype(np.int64)
    steps = np.zeros(count, np.int64)
    steps[1:] = (raw[1:] - raw[:-1]) & mask
    backward = steps > mask - (1 << (bits - 12))
    steps[backward] -= mask + 1
    steps[starts] = 0
    total = np.cumsum(steps)
    lengths = np.diff(np.r_[starts, count])
    return total - np.repeat(total[starts], lengths)


SPAN: Final = np.dtype(
    [
        ("track", np.uint32),
        ("event", np.uint16),
        ("is_async", np.bool_),
        ("is_open", np.bool_),  # never ended; its end is that of its track
        ("depth", np.uint16),  # spans of the track that it lies in
        ("has_payload", np.bool_),
        ("payload", np.uint32),  # of the start
        ("begin", np.float64),
        ("end", np.float64),
        ("first", np.int64),  # index of the start among the records
        ("last", np.int64),  # index of the end; -1 for an open span
    ]
)


def find_spans(recording: Recording, problems: list[str] | None = None) -> NDArray[Any]:
    """The spans of a recording, in the order of their starts.

    Spans of one event nest: an end closes the last start of its event that is open in its track. Asynchronous
    ones match by event and payload, the oldest first.

    Args:
        recording: the decoded records.
        problems: receives sentences about unmatched records.
    """
    records = recording.records
    plain = _match(recording, wire.START, wire.END, problems)
    crossing = _match_async(recording, problems)
    spans = np.concatenate([plain, crossing])
    if len(crossing):
        spans = spans[np.argsort(spans["first"], kind="stable")]
    spans["begin"] = records["time"][spans["first"]]
    ends = records["time"][np.maximum(spans["last"], 0)]
    spans["end"] = np.where(spans["is_open"], _track_ends(recording)[spans["track"]], ends)
    return spans


def _track_ends(recording: Recording) -> NDArray[np.float64]:
    """The time of each track's last record."""
    ends = np.zeros(max(len(recording.tracks), 1))
    tracks = recording.records["track"]
    starts = segments(tracks)
    if len(starts):
        ends[tracks[starts]] = recording.records["time"][np.r_[starts[1:], len(tracks)] - 1]
    return ends


def _new_spans(
    recording: Recording, first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[Any]:
    records = recording.records
    spans = np.zeros(len(first), SPAN)
    spans["first"], spans["last"] = first, last
    spans["is_open"] = last < 0
    for name in ("track", "event", "payload", "has_payload"):
        spans[name] = records[name][first]
    return spans


def _match(recording: Recording, start: int, end: int, problems: list[str] | None) -> NDArray[Any]:
    records = recording.records
    chosen = np.flatnonzero((records["kind"] == start) | (records["kind"] == end))
    if not len(chosen):
        return np.zeros(0, SPAN)
    track = records["track"][chosen].astype(np.int64)
    event = records["event"][chosen].astype(np.int64)
    opens = records["kind"][chosen] == start
    firsts, lasts, unmatched = _pair(track << 16 | event, opens)
    if unmatched.any() and problems is not None:
        problems.append(_unmatched_text(recording, chosen[unmatched]))
    spans = _new_spans(recording, chosen[firsts], np.where(lasts >= 0, chosen[lasts], -1))
    spans["depth"] = _depths(track, opens, unmatched, firsts)
    order = np.argsort(spans["first"], kind="stable")
    spans = spans[order]
    if spans["is_open"].any() and problems is not None:
        never = spans[spans["is_open"]]
        problems.append(
            f"{len(never)} starts have no end, the first of {recording.event_name(int(never['event'][0]))} in "
            f"track {recording.track_name(int(never['track'][0]))}"
        )
    return spans


def _unmatched_text(recording: Recording, indices: NDArray[np.int64]) -> str:
    first = recording.records[indices[0]]
    return (
        f"{len(indices)} ends have no start, the first of {recording.event_name(int(first['event']))} in track "
        f"{recording.track_name(int(first['track']))}"
    )


def _pair(
    keys: NDArray[np.int64], opens: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Matches brackets: indices of starts, of their ends (−1 for none), and which ends match nothing.

    Within a key the depth is a running sum. An end that reaches a new minimum below 0 matches nothing; with
    those set aside, a start and its end are adjacent among the brackets of one key and depth.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys, up = keys[order], opens[order]
    level = np.cumsum(np.where(up, 1, -1))
    starts = segments(sorted_keys)
    lengths = np.diff(np.r_[starts, len(keys)])
    base = level[starts] - np.where(up[starts], 1, -1)
    level -= np.repeat(base, lengths)
    # A running minimum per key: each key is lifted below all before it, so that their minima do not count.
    drop = np.repeat(np.arange(len(starts)), lengths) * (2 * len(keys) + 2)
    lowest = np.minimum.accumulate(np.minimum(level, 0) - drop) + drop
    previous = np.r_[0, lowest[:-1]]
    previous[starts] = 0
    surplus = ~up & (level < previous)
    depth = level - np.minimum(lowest, 0) + ~up
    kept = np.flatnonzero(~surplus)
    inner = kept[np.lexsort((kept, depth[kept], sorted_keys[kept]))]
    is_start = up[inner]
    begins = np.flatnonzero(is_start)
    follows = np.minimum(begins + 1, len(inner) - 1)
    has_end = (
        (begins + 1 < len(inner))
        & ~is_start[follows]
        & (sorted_keys[inner[follows]] == sorted_keys[inner[begins]])
        & (depth[inner[follows]] == depth[inner[begins]])
    )
    firsts = order[inner[begins]]
    lasts = np.where(has_end, order[inner[follows]], -1)
    unmatched = np.zeros(len(keys), bool)
    unmatched[order[surplus]] = True
    return firsts, lasts, unmatched


def _depths(
    track: NDArray[np.int64],
    opens: NDArray[np.bool_],
    unmatched: NDArray[np.bool_],
    firsts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Number of the track's open spans, of any event, at each start."""
    steps = np.where(unmatched, 0, np.where(opens, 1, -1))
    level = np.cumsum(steps)
    starts = segments(track)
    lengths = np.diff(np.r_[starts, len(track)])
    base = level[starts] - steps[starts]
    return (level - np.repeat(base, lengths) - 1)[firsts]


def _match_async(recording: Recording, problems: list[str] | None) -> NDArray[Any]:
    """Asynchronous spans: any track of a block may end what another began; first in, first out."""
    records = recording.records
    kinds = records["kind"]
    chosen = np.flatnonzero((kinds == wire.ASYNC_BEGIN) | (kinds == wire.ASYNC_END))
    if not len(chosen):
        return np.zeros(0, SPAN)
    chosen = chosen[np.argsort(records["time"][chosen], kind="stable")]
    waiting: dict[tuple[int, int, int], list[int]] = {}
    first: list[int] = []
    last: list[int] = []
    lost: list[int] = []
    blocks = recording.tracks["block"]
    for index in chosen.tolist():
        row = records[index]
        key = (int(blocks[row["track"]]), int(row["event"]), int(row["payload"]))
        if row["kind"] == wire.ASYNC_BEGIN:
            waiting.setdefault(key, []).append(len(first))
            first.append(index)
            last.append(-1)
        elif waiting.get(key):
            last[waiting[key].pop(0)] = index
        else:
            lost.append(index)
    if lost and problems is not None:
        problems.append(_unmatched_text(recording, np.array(lost)))
    spans = _new_spans(recording, np.array(first, np.int64), np.array(last, np.int64))
    spans["is_async"] = True
    return spans


def closing_order(spans: NDArray[Any]) -> NDArray[np.int64]:
    """A number per span that grows with its end: the record's, and for open spans the inner ones first."""
    never = np.iinfo(np.int64).max - spans["first"]
    return np.where(spans["is_open"], never, spans["last"])


def last_of_depth_above(track: NDArray[np.int64], depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per span the index of the last one before it, in its track, whose depth is one less."""
    index = np.arange(len(depth))
    result = np.zeros(len(depth), np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        latest = np.maximum.accumulate(np.where(depth == level - 1, index, 0))
        here = depth == level
        result[here] = latest[here]
    return result


def self_times(spans: NDArray[Any]) -> NDArray[np.float64]:
    """Each span's duration minus those of the spans directly inside it, in the order of `spans`."""
    times = spans["end"] - spans["begin"]
    own = times.copy()
    plain = np.flatnonzero(~spans["is_async"])
    if not len(plain):
        return own
    order = plain[np.lexsort((spans["first"][plain], spans["track"][plain]))]
    ordered = spans[order]
    depth = ordered["depth"].astype(np.int64)
    inner = np.flatnonzero(depth > 0)
    parent = last_of_depth_above(ordered["track"].astype(np.int64), depth)[inner]
    # If regions cross instead of nesting, only their overlap is subtracted.
    shared = np.minimum(ordered["end"][inner], ordered["end"][parent]) - ordered["begin"][inner]
    np.subtract.at(own, order[parent], np.maximum(shared, 0))
    return np.maximum(own, 0)
