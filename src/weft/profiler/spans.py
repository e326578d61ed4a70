# SPDX-License-Identifier: Apache-2.0
"""Starts and ends matched to spans, without a Python loop over records.

In: a `Recording`. Out: rows of `SPAN`, and sentences about unmatched ends and starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.profiler.records import segments
from weft.types import record_format as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.profiler.records import Recording

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
    """How many spans of the track, of any event, are open at each start."""
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
