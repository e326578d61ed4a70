# SPDX-License-Identifier: Apache-2.0
"""Buffers in the `track` format, which `Profiler` writes: decoding.

In: a u64 buffer. Out: a `Recording` on one clock for all tracks, with lost records.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft.errors import ArgumentValueError
from weft.profiler.records import (
    BLOCK_LIMIT,
    RECORD,
    TRACK,
    Recording,
    as_words,
    find_spans,
    segments,
    unwrapped,
)
from weft.types import record_format as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_RUN: Final = "no kernel has recorded into this buffer"
_LOW: Final = 0xFFFFFFFF
_GPU_TICK_NS: Final = 32.0
_TRUSTED_TICKS: Final = 1000
"""A track longer than this many ticks of the global timer determines its own clock rate."""


class Prologue:
    """The first words of a buffer, read and checked.

    Attributes:
        has_run: whether a kernel has written it.
        blocks, groups: tracks of the launch.
        capacity: words per track.
        is_wide, is_ring, is_nanoseconds: flags.
        headers, records: first words of both.
        needed: words that the launch needs.
        refusal: the reason why nothing was recorded, or 0.
        launches: the number that used the buffer since it was prepared.
        has_strangers: whether a thread called init() with a group out of range.
        description: names of the kernel, its events and groups.
    """

    def __init__(self, words: NDArray[np.uint64]) -> None:
        if len(words) < wire.PROLOGUE_WORDS or int(words[0]) != wire.TRACK_MAGIC:
            raise ArgumentValueError(
                "PROFILER_BUFFER",
                "this is not a buffer of weft.profiler.Profiler: its first word is "
                + (f"0x{int(words[0]):016x}" if len(words) else "missing"),
                hint="make it with weft.profiler.buffer(); decode_tirx reads those of CudaProfiler",
            )
        self.epoch = int(words[wire.WORD_EPOCH])
        self.has_run = int(words[wire.WORD_ECHO]) == self.epoch
        self.groups, self.blocks = _halves(words[wire.WORD_TRACKS])
        self.capacity, flags = _halves(words[wire.WORD_LAYOUT])
        self.is_wide = bool(flags & wire.FLAG_WIDE)
        self.is_ring = bool(flags & wire.FLAG_RING)
        self.is_nanoseconds = bool(flags & wire.FLAG_NANOSECONDS)
        self.records, self.headers = _halves(words[wire.WORD_HEADERS])
        self.needed = int(words[wire.WORD_NEEDED])
        self.refusal = int(words[wire.WORD_REFUSAL])
        self.launches = int(words[wire.WORD_LAUNCHES])
        self.has_strangers = int(words[wire.WORD_OUTSIDE]) == self.epoch
        grid_y, grid_x = _halves(words[wire.WORD_GRID_XY])
        block_x, grid_z = _halves(words[wire.WORD_GRID_Z])
        block_z, block_y = _halves(words[wire.WORD_BLOCK_YZ])
        self.grid = (grid_x, grid_y, grid_z)
        self.block = (block_x, block_y, block_z)
        length, start = _halves(words[wire.WORD_TEXT])
        self.description = _description(words, start, length) if self.has_run else {}

    @property
    def tracks(self) -> int:
        """Tracks of the launch."""
        return self.blocks * self.groups

    def fits(self, size: int) -> bool:
        """Whether the offsets are inside the buffer, as they are unless the prologue was overwritten."""
        end = self.records + self.tracks * self.capacity
        headers_end = self.headers + self.tracks * wire.HEADER_WORDS
        in_order = wire.PROLOGUE_WORDS <= self.headers and headers_end <= self.records
        # A track has room for at least one record: a launch without that records nothing.
        return in_order and end <= size and self.capacity >= (2 if self.is_wide else 1)


def _halves(word: Any) -> tuple[int, int]:
    return int(word) >> 32, int(word) & _LOW


def _description(words: NDArray[np.uint64], start: int, length: int) -> dict[str, Any]:
    end = start + (length + 7) // 8
    if not wire.PROLOGUE_WORDS <= start <= end <= len(words):
        return {}
    try:
        found = json.loads(words[start:end].astype("<u8").tobytes()[:length])
    except ValueError:  # not UTF-8, or no JSON: something overwrote it
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _names(described: Any) -> list[str]:
    items = cast("list[Any]", described) if isinstance(described, list) else []
    return [str(item) if item else f"event {number}" for number, item in enumerate(items)]


def decode_track(buffer: object) -> Recording:
    """Reads the records of a kernel with a `Profiler`.

    Times are nanoseconds of the device's global timer; within a track they are as exact as its cycle counter.
    Missing or impossible data is described in the result's `problems`.

    Args:
        buffer: 8-byte integers; see `as_words`.

    Raises:
        SignatureError, ArgumentValueError: if it is not a buffer of this profiler.

    Example:
        >>> weft.profiler.decode_track(weft.profiler.buffer(words=64)).problems
        ['no kernel has recorded into this buffer']
    """
    words = as_words(buffer)
    prologue = Prologue(words)
    nothing = Recording(np.zeros(0, RECORD), np.zeros(0, TRACK))
    if not prologue.has_run:
        nothing.problems.append(NOT_RUN)
        return nothing
    description = prologue.description
    nothing.kernel = str(description.get("kernel", ""))
    nothing.events, nothing.groups = (_names(description.get(k)) for k in ("events", "groups"))
    nothing.grid, nothing.block = prologue.grid, prologue.block
    nothing.words_needed = prologue.needed
    nothing.tick_ns = 1.0 if prologue.is_nanoseconds else _GPU_TICK_NS
    # A track's records hold cycles, which are shorter than a nanosecond.
    nothing.step_ns = 1.0
    if prologue.refusal:
        nothing.problems.append(
            f"the buffer has {len(words)} words and this launch needs {prologue.needed}: nothing was recorded"
        )
        return nothing
    if not prologue.fits(len(words)):
        nothing.problems.append(
            "the prologue does not fit the buffer: it was cut, or other code wrote to it"
        )
        return nothing
    return _decode_tracks(words, prologue, nothing)


def _decode_tracks(
    words: NDArray[np.uint64], prologue: Prologue, recording: Recording
) -> Recording:
    first, last = prologue.headers, prologue.headers + prologue.tracks * wire.HEADER_WORDS
    headers = words[first:last].reshape(-1, wire.HEADER_WORDS)
    epoch = np.uint64(prologue.epoch)
    claimed = np.flatnonzero(headers[:, wire.HEADER_CLAIM] == epoch)
    chosen = headers[claimed]
    done = chosen[:, wire.HEADER_DONE] == epoch
    table = np.zeros(len(claimed), TRACK)
    start, step = recording_blocks(prologue.description)
    table["block"] = claimed // prologue.groups * step + start
    table["group"] = claimed % prologue.groups
    table["sm"] = -1 if prologue.is_nanoseconds else chosen[:, wire.HEADER_BEGIN_CLOCK] >> 48
    table["warp"] = chosen[:, wire.HEADER_WARP] & np.uint64(_LOW)
    table["is_complete"] = done
    attempted = np.where(done, chosen[:, wire.HEADER_END] & np.uint64(_LOW), 0).astype(np.int64)
    counted = attempted == wire.COUNT_BY_FINALIZE
    attempted[counted] = _ended_counts(words, prologue, claimed[counted])
    kept = np.minimum(attempted, prologue.capacity)
    if prologue.is_wide:
        kept -= kept % 2
    recording.tracks = table
    places, track = _places(prologue, claimed, attempted, kept)
    rows, raw, track = _records(words, prologue, places, track, recording.problems)
    _add_times(rows, raw, track, chosen, prologue, recording)
    recording.records = rows
    _report(recording, prologue, chosen, attempted, kept, len(claimed))
    find_spans(recording, recording.problems)
    return recording


def _ended_counts(
    words: NDArray[np.uint64], prologue: Prologue, claimed: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Words before a track's FINALIZE record; all its words if there is none."""
    step = 2 if prologue.is_wide else 1
    places = prologue.records + claimed[:, None] * prologue.capacity
    tags = words[places + np.arange(step - 1, prologue.capacity, step)]
    is_last = (tags & np.uint64(7)) == wire.FINALIZE
    last = is_last.argmax(axis=1) * step
    return np.where(is_last.any(axis=1), last, prologue.capacity)


def recording_blocks(description: dict[str, Any]) -> tuple[int, int]:
    """First block that records, and the step to the next."""
    found = description.get("blocks")
    if isinstance(found, list) and len(cast("list[Any]", found)) == 2:
        start, step = cast("list[Any]", found)
        is_possible = type(start) is int and type(step) is int
        if is_possible and 0 <= start < BLOCK_LIMIT and 1 <= step < BLOCK_LIMIT:
            return start, step
    return 0, 1


def _places(
    prologue: Prologue,
    claimed: NDArray[np.int64],
    attempted: NDArray[np.int64],
    kept: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The word of each kept record, track by track in the order of time, and its row among the tracks."""
    track = np.repeat(np.arange(len(claimed)), kept)
    within = np.arange(len(track)) - np.repeat(np.cumsum(kept) - kept, kept)
    if prologue.is_ring:
        oldest = np.where(attempted > prologue.capacity, attempted % prologue.capacity, 0)
        within = (within + oldest[track]) % prologue.capacity
    return prologue.records + claimed[track] * prologue.capacity + within, track


def _records(
    words: NDArray[np.uint64],
    prologue: Prologue,
    places: NDArray[np.int64],
    track: NDArray[np.int64],
    problems: list[str],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Rows without times, their raw clocks, and their tracks."""
    if prologue.is_wide:
        raw, tags = words[places[::2]], words[places[1::2]]
        track = track[::2]
    else:
        tags = words[places]
        raw = tags >> np.uint64(32)
    kind = (tags & np.uint64(7)).astype(np.uint8)
    extension = kind == wire.EXTENSION
    rows = np.zeros(len(tags), RECORD)
    rows["track"], rows["kind"] = track, kind
    rows["event"] = tags >> np.uint64(wire.TRACK_EVENT_SHIFT) & np.uint64(
        wire.TRACK_MOST_EVENTS - 1
    )
    rows["has_payload"] = (tags & np.uint64(wire.TRACK_HAS_PAYLOAD)) != 0
    if prologue.is_wide:
        rows["payload"] = tags >> np.uint64(32)
        return rows, raw.astype(np.int64), track
    rows["payload"] = tags >> np.uint64(wire.TRACK_PAYLOAD_SHIFT) & np.uint64(0xFFFF)
    # An extension belongs to the record before it; the oldest word of a ring may have lost its own.
    follows = np.flatnonzero(extension)
    owned = follows[(follows > 0) & (track[follows] == track[follows - 1])]
    owned = owned[~extension[owned - 1]]
    rows["payload"][owned - 1] = raw[owned]
    if len(follows) - len(owned) > len(np.unique(track)):
        problems.append("some payloads belong to no record: other code wrote to the buffer")
    return rows[~extension], raw[~extension].astype(np.int64), track[~extension]


def _add_times(
    rows: NDArray[Any],
    raw: NDArray[Any],
    track: NDArray[np.int64],
    headers: NDArray[np.uint64],
    prologue: Prologue,
    recording: Recording,
) -> None:
    """Maps each track's clock onto the global timer: a line through its first and last readings of both."""
    begin_ns = headers[:, wire.HEADER_BEGIN_NS].astype(np.int64)
    if not len(begin_ns):
        return
    recording.origin_ns = int(begin_ns.min())
    if not len(rows):
        return
    begin_clock = (headers[:, wire.HEADER_BEGIN_CLOCK] & np.uint64((1 << 48) - 1)).astype(np.int64)
    starts = segments(track)
    if prologue.is_wide:
        ticks = (raw - begin_clock[track]) & ((1 << 48) - 1) if prologue.is_nanoseconds else None
        ticks = raw - begin_clock[track] if ticks is None else ticks
    elif prologue.is_ring:
        ticks = _from_the_end(raw, track, starts, headers)
    else:
        first = (raw[starts] - begin_clock[track[starts]]) & _LOW
        ticks = unwrapped(raw, starts) + np.repeat(first, np.diff(np.r_[starts, len(track)]))
    rate = _rates(headers, prologue, recording)
    rows["time"] = (begin_ns - recording.origin_ns)[track] + ticks * rate[track]


def _from_the_end(
    raw: NDArray[Any],
    track: NDArray[np.int64],
    starts: NDArray[np.int64],
    headers: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Ticks since a track began, for rings that kept only the last records: counted back from its end."""
    span = _track_ticks(headers)
    ticks = unwrapped(raw, starts)
    ends = np.r_[starts[1:], len(track)] - 1
    final = headers[track[ends], wire.HEADER_END] >> np.uint64(32)
    behind = (final.astype(np.int64) - raw[ends]) & _LOW
    shift = span[track[ends]] - behind - ticks[ends]
    return ticks + np.repeat(shift, np.diff(np.r_[starts, len(track)]))


def _track_ticks(headers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Ticks of the track's clock from init to finalize, by its low 32 bits and its nanoseconds."""
    begin = headers[:, wire.HEADER_BEGIN_CLOCK].astype(np.int64) & _LOW
    end = (headers[:, wire.HEADER_END] >> np.uint64(32)).astype(np.int64)
    short = (end - begin) & _LOW
    lasted = _track_ns(headers)
    # The clock ticks once or twice a nanosecond: the number of wraps that makes both agree.
    wraps = np.maximum(np.rint((lasted * 1.5 - short) / (1 << 32)), 0).astype(np.int64)
    return short + np.where(lasted < 1 << 31, 0, wraps << 32)


def _track_ns(headers: NDArray[np.uint64]) -> NDArray[np.int64]:
    spans = headers[:, wire.HEADER_END_NS] - headers[:, wire.HEADER_BEGIN_NS]
    return spans.view(np.int64)


def _rates(
    headers: NDArray[np.uint64], prologue: Prologue, recording: Recording
) -> NDArray[np.float64]:
    """Nanoseconds per tick of each track's clock."""
    if prologue.is_nanoseconds:
        return np.ones(len(headers))
    lasted = _track_ns(headers).astype(np.float64)
    counted = _track_ticks(headers).astype(np.float64)
    good = recording.tracks["is_complete"] & (counted > 0) & (lasted > 0)
    together = lasted[good].sum() / counted[good].sum() if good.any() else 1.0
    own = good & (lasted > _TRUSTED_TICKS * _GPU_TICK_NS)
    rates = np.full(len(headers), together)
    rates[own] = lasted[own] / counted[own]
    return rates


def _report(
    recording: Recording,
    prologue: Prologue,
    headers: NDArray[np.uint64],
    attempted: NDArray[np.int64],
    kept: NDArray[np.int64],
    claimed: int,
) -> None:
    problems, table = recording.problems, recording.tracks
    per_record = 2 if prologue.is_wide else 1
    lost = (attempted - kept) // per_record
    table["lost"] = lost
    for index in np.flatnonzero(lost)[:3]:
        problems.append(
            f"track {recording.track_name(int(index))} lost {int(lost[index])} of "
            f"{int(attempted[index]) // per_record} records"
            + (", the oldest ones" if prologue.is_ring else "")
        )
    if np.count_nonzero(lost) > 3:
        problems.append(f"{np.count_nonzero(lost)} tracks lost {int(lost.sum())} records in all")
    most = int(attempted.max(initial=0))
    recording.words_needed = max(prologue.needed, prologue.records + prologue.tracks * most)
    if lost.any():
        problems.append(
            f"a buffer of {recording.words_needed} words, or records={-(-most // per_record)}, holds all"
        )
    unfinished = np.flatnonzero(~table["is_complete"])
    if len(unfinished):
        problems.append(
            f"track {recording.listed(unfinished)} never ended: the kernel did not run to its end, and its "
            "records are unknown"
        )
    doubled = np.flatnonzero(headers[:, wire.HEADER_DOUBLED] == np.uint64(prologue.epoch))
    if prologue.launches > 1:
        problems.append(
            f"{prologue.launches} launches used this buffer, and only the first recorded: prepare() it before each"
        )
    elif len(doubled):
        problems.append(
            f"track {recording.listed(doubled)} has more than one leader; the first recorded"
        )
    if prologue.has_strangers:
        problems.append(
            f"threads called init() with a group outside 0 .. {prologue.groups - 1} and recorded nothing"
        )
    if claimed < prologue.tracks:
        problems.append(
            f"{prologue.tracks - claimed} of {prologue.tracks} tracks have no leader that called init()"
        )
