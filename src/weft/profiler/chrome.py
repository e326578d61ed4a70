# SPDX-License-Identifier: Apache-2.0
"""Chrome's trace format, JSON: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.

In: a `Timeline`, in whose tracks slices nest, so that no viewer drops one. Out: text. Times are microseconds
with three decimals, that is, to a nanosecond.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.profiler.timeline import COUNTER, SLICE_BEGIN, SLICE_END, SLICE_INSTANT

if TYPE_CHECKING:
    from weft.profiler.timeline import Timeline

_PHASES: Final = {SLICE_BEGIN: "B", SLICE_END: "E", SLICE_INSTANT: "i", COUNTER: "C"}


def encode(timeline: Timeline) -> str:
    """The trace as JSON: a process per launch, a thread per track.

    Example:
        ``Path("run.json").write_text(encode(trace.timeline()))``
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
