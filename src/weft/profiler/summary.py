# SPDX-License-Identifier: Apache-2.0
"""Launches as text and as pictures: the tables of `Trace.summary`, and a timeline drawn with matplotlib.

In: launches, recordings. Out: lines; a figure, and a file. Of pictures one row per track, block by block; regions are
bars, nested ones narrower, asynchronous ones lines, and instants ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.errors import ArgumentValueError
from weft.profiler.records import find_spans, self_times
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

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
    """Delay of the last track's end after that of half of them."""
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


_COLORS: Final = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2"),
    *("#eeca3b", "#ff9da6", "#9d755d", "#6b8e23", "#1f6f8b", "#a0a0a0"),
)
_ASYNC_LINES: Final = 8
_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def plot(
    recordings: Sequence[Recording],
    path: str | PathLike[str] | None = None,
    *,
    launch: int = 0,
    tracks: int = 48,
    window: tuple[float, float] | None = None,
    width: float = 12.0,
    title: str | None = None,
) -> Any:
    """Draws one launch.

    Args:
        recordings: of the launches of a trace.
        path: of a PNG, SVG or PDF, or None.
        launch: which one.
        tracks: how many at most; the first ones are drawn, and the axis says how many are not.
        window: the part of the launch that is drawn, in nanoseconds since its first record; None for all of it.
        width: of the figure, in inches.
        title: instead of the kernel's name and grid.

    Raises:
        ArgumentValueError: if there is no such launch, or the window ends before it begins.
        ImportError: if matplotlib is not installed.
    """
    if not 0 <= launch < len(recordings):
        raise ArgumentValueError(
            "PROFILER_LAUNCH", f"launch {launch} of a trace with {len(recordings)} launches"
        )
    if window is not None and not window[0] < window[1]:
        raise ArgumentValueError(
            "PROFILER_WINDOW",
            f"the window is {window}; expected a time and a later one, in nanoseconds",
        )
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install weft-lang[plot]") from error
    recording = recordings[launch]
    shown = min(len(recording.tracks), tracks)
    figure: Any = Figure(figsize=(width, 1.6 + 0.28 * max(shown, 1)), layout="constrained")
    axes = figure.add_subplot()
    begin, end = window or (0.0, float(recording.records["time"].max(initial=0.0)))
    spans = find_spans(recording)
    spans = spans[(spans["track"] < shown) & (spans["begin"] <= end) & (spans["end"] >= begin)]
    scale, unit = next((size, name) for size, name in _UNITS if end >= size or size == 1.0)
    _draw_spans(axes, recording, spans[~spans["is_async"]], scale, (end - begin) / scale / 200)
    _draw_async(axes, recording, spans[spans["is_async"]], scale)
    times = recording.records["time"]
    inside = (recording.records["track"] < shown) & (times >= begin) & (times <= end)
    _draw_instants(axes, recording, recording.records[inside], scale)
    axes.set_yticks(range(shown), [_track_label(recording, index) for index in range(shown)])
    axes.set_ylim(shown - 0.4, -0.6)
    axes.set_xlim(begin / scale, max(end / scale, begin / scale + 1e-9))
    count = len(recording.tracks)
    note = f"; {count - shown} of {count} tracks are not drawn (tracks={tracks})"
    axes.set_xlabel(f"time, {unit}{note if shown < count else ''}")
    axes.set_title(_title(recording) if title is None else title, loc="left", fontsize=11)
    axes.tick_params(axis="y", length=0, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _title(recording: Recording) -> str:
    name = recording.kernel or "kernel"
    return name if recording.grid is None else f"{name}, grid {recording.grid}"


def _track_label(recording: Recording, index: int) -> str:
    track = recording.tracks[index]
    where = f"SM {track['sm']} " if track["sm"] >= 0 else ""
    return f"{where}block {track['block']}  {recording.group_name(int(track['group']))}"


def _draw_spans(
    axes: Any, recording: Recording, spans: NDArray[Any], scale: float, least: float
) -> None:
    for event in np.unique(spans["event"]).tolist():
        chosen = spans[spans["event"] == event]
        widths = (chosen["end"] - chosen["begin"]) / scale
        color: str = _COLORS[int(event) % len(_COLORS)]
        # White between adjacent regions; an edge in its own color keeps regions below the least visible.
        edges = np.where(widths > least, "white", color)
        heights = np.maximum(0.84 - 0.22 * chosen["depth"].astype(float), 0.18)
        axes.barh(
            chosen["track"],
            widths,
            left=chosen["begin"] / scale,
            height=heights,
            color=color,
            edgecolor=edges.tolist(),
            linewidth=0.6,
            label=recording.event_name(event),
            zorder=2 + int(chosen["depth"].max()),
        )


def _draw_async(axes: Any, recording: Recording, spans: NDArray[Any], scale: float) -> None:
    """Lines along the row of the track that began them; those that overlap lie below each other."""
    for event in np.unique(spans["event"]).tolist():
        chosen = spans[spans["event"] == event]
        steps = np.arange(len(chosen)) % _ASYNC_LINES
        axes.hlines(
            chosen["track"] + 0.38 - 0.055 * steps,
            chosen["begin"] / scale,
            chosen["end"] / scale,
            color=_COLORS[int(event) % len(_COLORS)],
            linewidth=1.4,
            label=recording.event_name(int(event)),
            zorder=8,
        )


def _draw_instants(axes: Any, recording: Recording, records: NDArray[Any], scale: float) -> None:
    chosen = records[records["kind"] == wire.INSTANT]
    for event in np.unique(chosen["event"]).tolist():
        points = chosen[chosen["event"] == event]
        axes.plot(
            points["time"] / scale,
            points["track"],
            "|",
            markersize=9,
            color=_COLORS[event % len(_COLORS)],
            label=recording.event_name(event),
            zorder=9,
        )
