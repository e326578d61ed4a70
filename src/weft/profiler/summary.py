# SPDX-License-Identifier: Apache-2.0
"""The text that `Trace.summary` shows: one table per launch.

In: launches. Out: lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.profiler.spans import find_spans, self_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from weft.profiler.records import Launch, Recording

_COLUMNS: Final = ("n", "total", "self", "min", "median", "p99", "max", "of kernel")


def summary(
    launches: Sequence[Launch],
    cost_ns: float,
    uncertainties: Mapping[str, int],
    problems: Sequence[str],
) -> str:
    """All tables, and the problems of the data.

    Args:
        launches: one table each.
        cost_ns: the cost of one record; 0 if unknown.
        uncertainties: of each device's clock offset from the host's, in ns.
        problems: shown below the tables.
    """
    lines: list[str] = []
    for number, launch in enumerate(launches):
        lines += _launch_lines(launch, number, cost_ns)
        lines.append("")
    for device, uncertainty in uncertainties.items():
        if uncertainty:
            lines.append(f"times of {device} and host are aligned to ±{duration(uncertainty)}")
    lines += [f"! {problem}" for problem in problems]
    return "\n".join(lines).rstrip("\n") if lines else "no launches"


def duration(nanoseconds: float) -> str:
    """A time in the unit that fits it.

    Example:
        >>> duration(5), duration(12345), duration(7.5e9)
        ('5 ns', '12.3 µs', '7.5 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def _times(launch: Launch) -> list[str]:
    """Its time on the host and by the device's events."""
    found: list[str] = []
    if launch.host_ns is not None:
        found.append(f"host {duration(launch.host_ns)}")
    if launch.device_ns is not None:
        found.append(f"device {duration(launch.device_ns)}")
    return found


def _launch_lines(launch: Launch, number: int, cost_ns: float) -> list[str]:
    recording = launch.recording
    tracks, records = recording.tracks, recording.records
    lost = int(tracks["lost"].sum())
    times = records["time"]
    span = float(times.max() - times.min()) if len(times) else 0.0
    head = [f"launch {number}: {recording.kernel or 'kernel'}"]
    if recording.grid is not None and recording.block is not None:
        head.append(f"grid {_size(recording.grid)}, block {_size(recording.block)}")
    if not launch.is_marked:
        return ["  ".join([*head, "no markers", *_times(launch)])]
    head.append(f"{len(tracks)} tracks")
    units = np.unique(tracks["sm"][tracks["sm"] >= 0])
    if len(units):
        head.append(f"{len(units)} SMs")
    head.append(f"span {duration(span)}")
    head.append(f"tracks aligned to {duration(recording.tick_ns)}")
    head.append(f"{len(records)} records ({lost} lost)")
    head += _times(launch)
    spans = find_spans(recording)
    if cost_ns:
        head.append(f"{duration(cost_ns)} per record")
    if len(tracks) > 1 and len(times):
        head.append(f"tail {duration(_tail(recording))}")
    rows = _rows(recording, spans, span)
    if not rows:
        return ["  ".join(head)]
    names = [("group", "event", *_COLUMNS), *rows]
    widths = [max(len(row[column]) for row in names) for column in range(len(names[0]))]
    lines = ["  ".join(head)]
    for row in names:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _size(sizes: tuple[int, int, int]) -> str:
    used = [str(size) for size in sizes]
    while len(used) > 1 and used[-1] == "1":
        used.pop()
    return "x".join(used)


def _tail(recording: Recording) -> float:
    """How much later the last track ends than half of them."""
    tracks = recording.records["track"]
    ends = np.full(len(recording.tracks), -np.inf)
    np.maximum.at(ends, tracks, recording.records["time"])
    ends = ends[np.isfinite(ends)]
    return float(ends.max() - np.median(ends))


def _rows(recording: Recording, spans: NDArray[Any], kernel_ns: float) -> list[tuple[str, ...]]:
    if not len(spans):
        return []
    groups = recording.tracks["group"][spans["track"]].astype(np.int64)
    tracks_of = np.bincount(recording.tracks["group"].astype(np.int64))
    keys = groups << 16 | spans["event"]
    own = self_times(spans)
    rows: list[tuple[str, ...]] = []
    for key in np.unique(keys).tolist():
        chosen = keys == key
        times = (spans["end"] - spans["begin"])[chosen]
        group, event = key >> 16, key & 0xFFFF
        whole = kernel_ns * int(tracks_of[group])
        share = f"{100 * times.sum() / whole:.1f}%" if whole else "-"
        shown = [
            _measured(value, recording.step_ns)
            for value in (times.min(), np.median(times), np.quantile(times, 0.99), times.max())
        ]
        rows.append(
            (
                recording.group_name(group),
                recording.event_name(event),
                str(len(times)),
                duration(float(times.sum())),
                duration(float(own[chosen].sum())),
                *shown,
                share,
            )
        )
    return rows


def _measured(value: float, step_ns: float) -> str:
    """A time, unless it is too short to be one."""
    return f"<{duration(2 * step_ns)}" if value < 2 * step_ns else duration(float(value))
