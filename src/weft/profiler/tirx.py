# SPDX-License-Identifier: Apache-2.0
"""Buffers in the `tirx` format, which `CudaProfiler` writes: decoding, and TIRx's export function.

In: a u64 buffer. Out: a `Recording`, with a sentence for each problem of the buffer.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.errors import ArgumentValueError
from weft.profiler.records import (
    RECORD,
    TRACK,
    Recording,
    as_words,
    find_spans,
    list_of_names,
    segments,
    unwrapped,
)
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from enum import Enum
    from os import PathLike
    from typing import TypeAlias

    from numpy.typing import NDArray

    EventNames: TypeAlias = Iterable[str] | Mapping[int | Enum, str] | type[Enum]

_LOW: Final = 0xFFFFFFFF


def decode_tag(tag: int, num_groups: int) -> tuple[int, int, int, int]:
    """The low word of a record: block, group, event, kind (0 start, 1 end, 2 instant, 3 finalize).

    Args:
        tag: the low 32 bits of a record.
        num_groups: groups per block of the profiler.

    Raises:
        ArgumentValueError: if `num_groups` is below 1, or `tag` does not have 32 bits.
        TypeError: if `tag` is not an integer.

    Example:
        >>> weft.profiler.decode_tag(5 << 12 | 7 << 2 | 1, num_groups=2)
        (2, 1, 7, 1)
    """
    if num_groups < 1:
        raise ArgumentValueError(
            "PROFILER_GROUPS", f"num_groups is {num_groups}; expected at least 1"
        )
    tag = operator.index(tag)
    if not 0 <= tag <= _LOW:
        raise ArgumentValueError("PROFILER_BUFFER", f"the tag is {tag}; expected 32 bits")
    track = tag >> wire.TIRX_TRACK_SHIFT
    event = tag >> wire.TIRX_EVENT_SHIFT & wire.TIRX_MOST_EVENTS - 1
    return track // num_groups, track % num_groups, event, tag & 3


def decode_tirx(buffer: object, event_names: EventNames = ()) -> Recording:
    """Reads the records of a kernel with a `CudaProfiler`.

    Times are unwrapped to 64 bits: they are right while neighboring records of a track are less than 4.29 s
    apart. Missing or impossible data is described in the result's `problems`.

    Args:
        buffer: 8-byte integers; see `as_words`.
        event_names: a list by number, a dict from numbers to names, or their `enum.Enum`.

    Raises:
        SignatureError, ArgumentValueError: if it is not a buffer of this profiler.
        TypeError: for names of another kind.

    Example:
        >>> import numpy
        >>> words = numpy.array([1 << 32 | 1, 100 << 32, 140 << 32 | 1, 150 << 32 | 3], numpy.uint64)
        >>> recording = weft.profiler.decode_tirx(words, ["load", "compute", "store"])
        >>> recording.records["time"].tolist(), recording.problems
        ([0.0, 40.0, 50.0], [])
    """
    words, names = as_words(buffer), list_of_names(event_names)
    if not len(words):
        raise ArgumentValueError("PROFILER_BUFFER", "the buffer is empty; word 0 is its header")
    if int(words[0]) == wire.TRACK_MAGIC:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            "this is a buffer of weft.profiler.Profiler, or made by weft.profiler.buffer",
            hint="decode_track reads it; CudaProfiler takes a buffer of zeros",
        )
    problems: list[str] = []
    groups, blocks = _header(int(words[0]), problems)
    slots = np.flatnonzero(words[1:]) + 1
    track = (words[slots] & _LOW) >> wire.TIRX_TRACK_SHIFT
    tracks = min(groups * blocks, wire.TIRX_MOST_TRACKS)
    foreign = track >= tracks
    if tracks and foreign.any():
        problems.append(
            f"{int(foreign.sum())} records name tracks from {int(track[foreign].min())} up, and the launch has "
            f"{tracks}: the buffer was not zeroed, or other code wrote to it"
        )
        slots, track = slots[~foreign], track[~foreign]
    order = np.argsort(track, kind="stable")
    slots, track = slots[order], track[order].astype(np.int64)
    slots, track = _without_leftovers(words, slots, track, problems)
    recording = _recording(words[slots], track, groups, tracks, names)
    recording.problems = problems
    _check_tracks(recording, words, slots, track, tracks)
    find_spans(recording, problems)
    return recording


def _header(word: int, problems: list[str]) -> tuple[int, int]:
    """Groups per block and blocks."""
    refusal = word >> wire.TIRX_REFUSAL_SHIFT
    if refusal == wire.TAKEN_TWICE:
        problems.append(wire.TAKEN_TWICE_TEXT)
    elif refusal:
        reason = wire.REFUSALS.get(refusal, f"for a reason with the unknown number {refusal}")
        problems.append(f"tracks of this launch recorded nothing: {reason}")
    groups, blocks = word >> 32 & 0xFFFFFF, word & _LOW
    if not groups or not blocks:
        problems.append(
            "the header (word 0) is empty: the kernel did not run, or thread 0 of block 0 never called init()"
            if not word
            else f"the header (word 0) is 0x{word:016x}, which is not a header: {groups} groups, {blocks} blocks"
        )
        return 1, wire.TIRX_MOST_TRACKS
    return groups, blocks


def _without_leftovers(
    words: NDArray[np.uint64],
    slots: NDArray[np.int64],
    track: NDArray[np.int64],
    problems: list[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drops records after a track's first finalize."""
    final = (words[slots] & 3) == wire.FINALIZE
    before = np.cumsum(final) - final
    starts = segments(track)
    lengths = np.diff(np.r_[starts, len(track)])
    behind = before - np.repeat(before[starts], lengths) > 0
    if behind.any():
        problems.append(
            f"{int(behind.sum())} records follow the last one of their track: the buffer was not zeroed "
            "before the launch"
        )
    return slots[~behind], track[~behind]


def _recording(
    words: NDArray[np.uint64],
    track: NDArray[np.int64],
    groups: int,
    tracks: int,
    names: Sequence[str],
) -> Recording:
    starts = segments(track)
    raw = (words >> np.uint64(32)).astype(np.int64)
    times = unwrapped(raw, starts)
    origin = 0
    if len(raw):
        # Tracks begin less than half a wrap apart, so that their first times are one signed difference away.
        first = raw[starts]
        offsets = (first - first[0] + (1 << 31) & _LOW) - (1 << 31)
        times += np.repeat(offsets, np.diff(np.r_[starts, len(raw)]))
        origin = int(first[0]) + int(times.min())
        times -= times.min()
    numbers = track[starts]
    table = np.zeros(len(numbers), TRACK)
    table["block"], table["group"] = numbers // groups, numbers % groups
    table["sm"] = table["warp"] = -1
    records = np.zeros(len(words), RECORD)
    records["track"] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(words)]))
    tags = words & np.uint64(_LOW)
    records["kind"] = tags & np.uint64(3)
    records["event"] = tags >> np.uint64(wire.TIRX_EVENT_SHIFT) & np.uint64(
        wire.TIRX_MOST_EVENTS - 1
    )
    records["time"] = times
    table["is_complete"][records["track"][records["kind"] == wire.FINALIZE]] = True
    return Recording(records, table, events=names, origin_ns=origin)


def _check_tracks(
    recording: Recording,
    words: NDArray[np.uint64],
    slots: NDArray[np.int64],
    track: NDArray[np.int64],
    tracks: int,
) -> None:
    """Adds the problems within tracks."""
    problems, table = recording.problems, recording.tracks
    starts = segments(track)
    inner = np.ones(len(track), bool)
    inner[starts] = False
    steps = np.diff(slots, prepend=slots[:1])[inner]
    strides, counts = np.unique(steps, return_counts=True)
    stride = int(strides[counts.argmax()]) if len(strides) else 0
    if len(strides) > 1:
        uneven = np.unique(recording.records["track"][inner][steps != stride])
        problems.append(
            f"the records of track {recording.listed(uneven)} are not {stride} words apart as the others: the "
            "buffer was not zeroed, or other code wrote to it"
        )
    backward = np.zeros(len(track), bool)
    backward[1:] = np.diff(recording.records["time"]) < 0
    backward[starts] = False
    if backward.any():
        found = np.unique(recording.records["track"][backward])
        problems.append(
            f"time goes back within track {recording.listed(found)}: two leaders record into one track, or the "
            "buffer was not zeroed before the launch"
        )
    if words[0] and len(table) < tracks <= 1 << 24 and len(words) > 1:
        problems.append(f"{tracks - len(table)} of {tracks} tracks have no records")
    open_tracks = np.flatnonzero(~table["is_complete"])
    if len(open_tracks):
        ends = np.r_[starts[1:], len(track)] - 1
        full = (
            open_tracks[slots[ends[open_tracks]] + stride >= len(words)]
            if len(track)
            else open_tracks
        )
        unfinished = np.setdiff1d(open_tracks, full)
        if len(full):
            problems.append(
                f"track {recording.listed(full)} reached the end of the buffer ({len(words)} words) without a "
                "finalize: later records are lost"
            )
        if len(unfinished):
            # If no track has a second record, the distance to its place is unknown.
            cause = "" if stride else f", or the buffer ({len(words)} words) is too small"
            problems.append(f"track {recording.listed(unfinished)} has no finalize{cause}")


def export_to_perfetto_trace(
    profiler_buffer: object, file_name: str | PathLike[str], event_type_names: EventNames
) -> None:
    """Writes a buffer of `CudaProfiler` as a trace for https://ui.perfetto.dev.

    The signature is TIRx's. Problems of the buffer are logged by the logger ``weft`` and do not stop it.

    Args:
        profiler_buffer: the buffer after the launch.
        file_name: is replaced; compressed if the name ends in ``.gz``.
        event_type_names: as of `decode_tirx`.

    Raises:
        SignatureError, ArgumentValueError: if it is not a buffer of this profiler.
        TypeError: for names of another kind.

    Example:
        >>> import numpy
        >>> words = numpy.array([1 << 32 | 1, 100 << 32, 140 << 32 | 1, 150 << 32 | 3], numpy.uint64)
        >>> weft.profiler.export_to_perfetto_trace(words, "/dev/null", ["load", "compute", "store"])
    """
    import logging

    from weft.profiler.perfetto import encode
    from weft.profiler.timeline import lay_out
    from weft.profiler.trace import write

    recording = decode_tirx(profiler_buffer, event_type_names)
    for problem in recording.problems:
        logging.getLogger("weft").warning("profiler buffer: %s", problem)
    timeline: Any = lay_out([recording])
    write(file_name, encode(timeline))
