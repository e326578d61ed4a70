# SPDX-License-Identifier: Apache-2.0
"""`Trace`: several launches and the program around them, with all exports.

In: recordings. Out: a table, spans, files for viewers, a picture.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.errors import brief
from weft.profiler.records import Launch, find_spans
from weft.profiler.timeline import HostSpan, Timeline, lay_out

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from weft.profiler.records import Recording

NAMED_SPAN: Final = np.dtype(
    [
        ("launch", np.uint32),
        ("kernel", "U48"),
        ("block", np.uint32),
        ("group", "U32"),
        ("sm", np.int32),  # -1 if the format does not say, as on the CPU
        ("warp", np.int32),  # of the leader within its block; -1 if the format does not say
        ("event", "U48"),
        ("depth", np.uint16),
        ("begin_ns", np.float64),  # since the first record of the trace
        ("duration_ns", np.float64),
        ("corrected_ns", np.float64),  # minus the cost of the records inside
        ("has_payload", np.bool_),
        ("payload", np.uint32),
        ("is_async", np.bool_),
        ("is_open", np.bool_),
    ]
)


class Trace:
    """Launches in the order of their calls.

    Args:
        recordings: of earlier launches, such as `decode_tirx` and `decode_track` return.
        cost_ns: the cost of one record on the recording machine (see `calibrate`); 0 for no correction.

    Attributes:
        launches: one `Launch` each.
        cost_ns: as given; may be changed.

    Example:
        >>> trace
        <weft.profiler.Trace: 1 launches, 4 records>
    """

    def __init__(self, recordings: Sequence[Recording] = (), cost_ns: float = 0.0) -> None:
        if not isinstance(recordings, list | tuple):
            raise TypeError(f"recordings is {brief(recordings)}, expected a list of Recording")
        self.launches = [Launch(recording) for recording in recordings]
        self.cost_ns = cost_ns
        self._host: list[HostSpan] = []

    def __repr__(self) -> str:
        records = sum(len(launch.recording.records) for launch in self.launches)
        return f"<weft.profiler.Trace: {len(self.launches)} launches, {records} records>"

    def add(self, launch: Launch) -> None:
        """Adds a launch after the others."""
        self.launches.append(launch)

    @contextmanager
    def span(self, name: str) -> Generator[None]:
        """Marks a stretch of the host program, shown next to the launches on the timeline.

        Example:
            ``with trace.span("forward"): run(x, y)``
        """
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            self._host.append(HostSpan(name, begin, time.monotonic_ns()))

    @property
    def recordings(self) -> list[Recording]:
        """Each launch's records."""
        return [launch.recording for launch in self.launches]

    @property
    def problems(self) -> list[str]:
        """Missing or wrong data, launch by launch."""
        found: list[str] = []
        for number, launch in enumerate(self.launches):
            found += [f"launch {number}: {problem}" for problem in launch.recording.problems]
        return found

    @property
    def words_needed(self) -> int:
        """The size of a buffer for every record of the largest launch.

        A first run in a small capture counts; the second has room: ``capture(words=trace.words_needed)``.
        """
        return max((recording.words_needed for recording in self.recordings), default=0)

    def clock_offset(self, device: str = "cuda:0") -> tuple[int, int]:
        """The offset from a device's clock to the host's, and its uncertainty, in ns.

        A launch's records lie between the moment before its call and the moment after it had ended, so each
        launch bounds the offset from both sides. Records of the CPU are on the host's clock already.

        Example:
            ``offset_ns, uncertainty_ns = trace.clock_offset()``
        """
        lowest, highest = None, None
        for launch in self.launches:
            times = launch.recording.records["time"]
            is_bound = launch.begin_ns is not None and launch.end_ns is not None
            if launch.device != device or device == "cpu" or not len(times) or not is_bound:
                continue
            assert launch.begin_ns is not None and launch.end_ns is not None
            origin = launch.recording.origin_ns
            low = launch.begin_ns - (origin + int(times.min()))
            high = launch.end_ns - (origin + int(times.max()))
            lowest = low if lowest is None else max(lowest, low)
            highest = high if highest is None else min(highest, high)
        if lowest is None or highest is None:
            return 0, 0
        return (lowest + highest) // 2, abs(highest - lowest) // 2

    def timeline(self) -> Timeline:
        """The trace as tracks and events, for the exporters."""
        offsets = [self.clock_offset(launch.device)[0] for launch in self.launches]
        return lay_out(self.recordings, [*self._host, *self._calls(offsets)], offsets)

    def _calls(self, offsets: Sequence[int]) -> list[HostSpan]:
        """From each call until the launch's first record; without records, the call itself."""
        found: list[HostSpan] = []
        for number, launch in enumerate(self.launches):
            times = launch.recording.records["time"]
            if launch.begin_ns is None:
                continue
            if not len(times):
                if launch.host_ns is not None:
                    name = f"launch {launch.recording.kernel}"
                    found.append(HostSpan(name, launch.begin_ns, launch.begin_ns + launch.host_ns))
                continue
            first = launch.recording.origin_ns + int(times.min()) + offsets[number]
            name = f"launch {launch.recording.kernel or launch.function}"
            found.append(HostSpan(name, launch.begin_ns, max(first, launch.begin_ns), number))
        return found

    def spans(self) -> NDArray[Any]:
        """Every region: rows of `NAMED_SPAN`, with names, times in ns and payloads.

        Example:
            ``trace.spans()["duration_ns"].max()``
        """
        parts: list[NDArray[Any]] = []
        starts = [r.origin_ns for r in self.recordings if len(r.records)]
        start = min(starts, default=0)
        for number, recording in enumerate(self.recordings):
            parts.append(_named(recording, number, start, self.cost_ns))
        return np.concatenate(parts) if parts else np.zeros(0, NAMED_SPAN)

    def to_dataframe(self) -> Any:
        """`spans` as a pandas DataFrame.

        Raises:
            ImportError: if pandas is not installed.
        """
        from importlib import import_module

        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.spans())

    def summary(self) -> str:
        """A table per launch: how often and how long each event ran in each group, and lost records."""
        from weft.profiler.summary import summary

        devices = sorted({launch.device for launch in self.launches})
        uncertainties = {device: self.clock_offset(device)[1] for device in devices}
        return summary(self.launches, self.cost_ns, uncertainties, self.problems)

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Writes a trace for https://ui.perfetto.dev; compressed if the name ends in ``.gz``."""
        from weft.profiler.perfetto import encode

        write(path, encode(self.timeline()))

    def to_chrome(self, path: str | PathLike[str]) -> None:
        """Writes JSON for chrome://tracing and similar viewers; compressed if the name ends in ``.gz``."""
        from weft.profiler.perfetto import encode_json

        write(path, encode_json(self.timeline()).encode())

    def plot(self, path: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Draws the timeline with matplotlib, into a file if there is a path; returns the figure.

        Args:
            path: of a PNG, SVG or PDF.
            options: of `weft.profiler.summary.plot`: ``launch``, ``tracks``, ``window``, ``width``,
                ``title``.

        Raises:
            ImportError: if matplotlib is not installed (``pip install weft-lang[plot]``).
        """
        from weft.profiler.summary import plot

        return plot(self.recordings, path, **options)

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the picture if matplotlib is installed."""
        from html import escape
        from importlib.util import find_spec

        text = f"<pre>{escape(self.summary())}</pre>"
        if find_spec("matplotlib") is None or not self.launches:
            return text
        import base64
        import io

        data = io.BytesIO()
        self.plot().savefig(data, format="png", dpi=110)
        picture = base64.b64encode(data.getvalue()).decode()
        return f'{text}<img src="data:image/png;base64,{picture}" alt="timeline">'


def _named(recording: Recording, number: int, start: int, cost_ns: float) -> NDArray[Any]:
    spans = find_spans(recording)
    rows = np.zeros(len(spans), NAMED_SPAN)
    if not len(spans):
        return rows
    tracks = recording.tracks[spans["track"]]
    rows["launch"], rows["kernel"] = number, recording.kernel
    for name in ("block", "sm", "warp"):
        rows[name] = tracks[name]
    rows["group"] = _lookup(tracks["group"], recording.group_name)
    rows["event"] = _lookup(spans["event"], recording.event_name)
    rows["begin_ns"] = spans["begin"] + (recording.origin_ns - start)
    rows["duration_ns"] = spans["end"] - spans["begin"]
    rows["corrected_ns"] = rows["duration_ns"]
    # Each record between a start and its end has cost its time.
    inside = np.where(spans["is_async"] | spans["is_open"], 0, spans["last"] - spans["first"])
    rows["corrected_ns"] = np.maximum(rows["duration_ns"] - cost_ns * inside, 0)
    for name in ("depth", "has_payload", "payload", "is_async", "is_open"):
        rows[name] = spans[name]
    return rows


def _lookup(numbers: NDArray[Any], name_of: Any) -> NDArray[Any]:
    found, inverse = np.unique(numbers, return_inverse=True)
    return np.array([name_of(int(number)) for number in found])[inverse]


def write(path: str | PathLike[str], data: bytes) -> None:
    """Replaces a file; compressed if its name ends in ``.gz``, and the same bytes each time."""
    if str(path).endswith(".gz"):
        import gzip

        data = gzip.compress(data, mtime=0)
    Path(path).write_bytes(data)
