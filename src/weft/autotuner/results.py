# SPDX-License-Identifier: Apache-2.0
"""Trials and their best: as a table, as a picture, and as JSON, which people read and a package can ship.

In: the samples of a race; a path, a `Subject`. Out: a `Result` with a row for each configuration; the entry of a file
that fits. Another file, or a damaged one, is an error with its path and the place in it. In the picture, drawn with
matplotlib, each bar is as long as its median, with a line from the tenth to the ninetieth percentile.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.autotuner.space import as_json, json_text
from weft.cache import store
from weft.cache.entry import blake2b
from weft.config import config
from weft.errors import TuningError, brief

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from weft.autotuner.space import Configuration, Space


MEASURED: Final = "measured"
STOPPED: Final = "stopped"
STATES: Final = {
    MEASURED: "to the end",
    STOPPED: "left behind: even its fastest call is slower than the best one's median",
    "dropped": "compiled, then refused by its registers, spills or shared memory",
    "failed": "cannot be compiled or launched",
}
"""Outcome of a configuration."""

_BAR: Final = 24
_BLOCKS: Final = "▏▎▍▌▋▊▉█"


class Trial(NamedTuple):
    """One configuration.

    Attributes:
        configuration: parameter → value.
        state: a key of `STATES`.
        median, low, high: seconds of a call: the median, the tenth and the ninetieth percentile; None if not measured.
        samples: how many calls were timed.
        registers, spill_bytes, shared_memory_bytes: the most of the function's kernels.
        reason: why it has no time, or an empty string.
    """

    configuration: Mapping[str, Any]
    state: str
    median: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    registers: int = 0
    spill_bytes: int = 0
    shared_memory_bytes: int = 0
    reason: str = ""

    def timed(self, samples: Sequence[float], is_stopped: bool) -> Trial:
        """This trial with its samples."""
        tenths = statistics.quantiles(samples, n=10) if len(samples) > 1 else list(samples) * 2
        return self._replace(
            state=STOPPED if is_stopped else MEASURED,
            median=statistics.median(samples),
            low=max(tenths[0], min(samples)),
            high=min(tenths[-1], max(samples)),
            samples=len(samples),
        )


class Subject(NamedTuple):
    """The key of a result; results are found again by all of it.

    Attributes:
        function: its module and name.
        source: digest of its text and of the functions that it calls.
        space: digest of all configurations.
        signature: the types of the arguments.
        key: the key's values by name.
        device: in words.
    """

    function: str
    source: str
    space: str
    signature: str
    key: Mapping[str, Any]
    device: str


class Result(NamedTuple):
    """One measurement of a space; printing it shows a table.

    Attributes:
        subject: function, types, key and device.
        best: the configuration that won.
        trials: each configuration that was tried, the best first.
        refused: how many `prune` refused before they were compiled.
        seconds: how long it took.
        weft: the version that measured.
    """

    subject: Subject
    best: Mapping[str, Any]
    trials: tuple[Trial, ...]
    refused: int
    seconds: float
    weft: str

    def __str__(self) -> str:
        names = list(self.best)
        rows = [["", *names, "median", "10%", "90%", "registers", "spills", "shared", ""]]
        fastest = self.trials[0].median or 0.0
        rows += [self._row(trial, names, fastest) for trial in self.trials]
        rows = _without_zeros(rows, [names.index(name) + 1 for name in names])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        summary = (
            f"{len(self.trials)} tried, {self.refused} refused by prune, in {self.seconds:.1f} s"
        )
        return "\n".join([self._head(), *lines, summary])

    def plot(self, path: str | PathLike[str] | None = None, *, most: int = 40) -> Any:
        """Draws the configurations that were measured, the best first.

        Args:
            path: of a PNG, SVG or PDF, or None.
            most: how many bars.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        bars = [self._bar(trial) for trial in self.trials if trial.median is not None][:most]
        left_out = len(self.trials) - len(bars)
        title = f"{self._head()}\n{left_out} more are not shown" if left_out else self._head()
        return draw(bars, title, path)

    def _head(self) -> str:
        sizes = "".join(f" {name}={value}" for name, value in self.subject.key.items())
        return f"{self.subject.function}{sizes} on {self.subject.device}"

    def _bar(self, trial: Trial) -> Bar:
        label = ", ".join(f"{name}={value}" for name, value in trial.configuration.items())
        state = "best" if trial.configuration == self.best else trial.state
        return Bar(label, state, trial.low or 0.0, trial.median or 0.0, trial.high or 0.0)

    def _row(self, trial: Trial, names: Sequence[str], fastest: float) -> list[str]:
        values = [str(trial.configuration[name]) for name in names]
        numbers = [trial.registers, trial.spill_bytes, trial.shared_memory_bytes]
        times = [time_text(seconds) for seconds in (trial.median, trial.low, trial.high)]
        if trial.median is None:
            last = f"{trial.state}: {trial.reason.splitlines()[0] if trial.reason else ''}"
        else:
            last = _bar(fastest / trial.median if trial.median else 1.0)
            last += f" {trial.state}" if trial.state == STOPPED else ""
        mark = "*" if trial.configuration == self.best else ""
        return [mark, *values, *times, *map(str, numbers), last]

    def as_json(self) -> dict[str, Any]:
        """This result as JSON: an entry of a file of results."""
        subject = self.subject
        return {
            "signature": subject.signature,
            "key": {name: as_json(value) for name, value in subject.key.items()},
            "device": subject.device,
            "space": subject.space,
            "best": _configuration(self.best),
            "microseconds": _microseconds(self.trials[0].median),
            "trials": [_trial_json(trial) for trial in self.trials],
            "refused": self.refused,
            "seconds": round(self.seconds, 3),
            "weft": self.weft,
        }


def ranked(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The measured ones by their medians, then the stopped ones, then the rest."""

    def place(trial: Trial) -> tuple[bool, bool, float]:
        return trial.median is None, trial.state == STOPPED, trial.median or 0.0

    return tuple(sorted(trials, key=place))


def time_text(seconds: float | None) -> str:
    """A time with its unit."""
    if seconds is None:
        return ""
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.1f} {unit}"
    return f"{seconds:.2f} s"


def _bar(part: float) -> str:
    """Speed relative to the best, as a bar of at most `_BAR` characters."""
    eighths = max(1, round(min(part, 1.0) * _BAR * 8))
    whole, rest = divmod(eighths, 8)
    return _BLOCKS[-1] * whole + (_BLOCKS[rest - 1] if rest else "")


def _without_zeros(rows: list[list[str]], kept: Sequence[int]) -> list[list[str]]:
    """The rows without columns of zeros, such as the registers of a CPU."""
    shown = [
        column
        for column in range(len(rows[0]))
        if column in kept or any(row[column] not in ("", "0") for row in rows[1:])
    ]
    return [[row[column] for column in shown] for row in rows]


def _configuration(configuration: Configuration) -> dict[str, Any]:
    return {name: as_json(value) for name, value in configuration.items()}


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 4)


def _trial_json(trial: Trial) -> dict[str, Any]:
    made: dict[str, Any] = {
        "configuration": _configuration(trial.configuration),
        "state": trial.state,
    }
    if trial.median is not None:
        made["microseconds"] = _microseconds(trial.median)
        made["low"], made["high"] = _microseconds(trial.low), _microseconds(trial.high)
        made["samples"] = trial.samples
    for name in ("registers", "spill_bytes", "shared_memory_bytes", "reason"):
        if getattr(trial, name):
            made[name] = getattr(trial, name)
    return made


def trial_from(said: Mapping[str, Any], configuration: Configuration) -> Trial:
    """The trial of a checked JSON object."""

    def seconds(name: str) -> float | None:
        value = cast("float | None", said.get(name))
        return None if value is None else value / 1e6

    return Trial(
        configuration,
        said["state"],
        seconds("microseconds"),
        seconds("low"),
        seconds("high"),
        said.get("samples", 0),
        said.get("registers", 0),
        said.get("spill_bytes", 0),
        said.get("shared_memory_bytes", 0),
        said.get("reason", ""),
    )


_COLORS: Final = {"best": "#4c78a8", "measured": "#9ecae9", "stopped": "#d8d8d8"}
_UNITS: Final = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


class Bar(NamedTuple):
    """One configuration; `state` is a key of `_COLORS`."""

    label: str
    state: str
    low: float
    median: float
    high: float


def draw(bars: Sequence[Bar], title: str, path: str | PathLike[str] | None) -> Any:
    """The figure, written to `path` if there is one.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install weft-lang[plot]") from error
    slowest = max((bar.high for bar in bars), default=0.0)
    scale, unit = next((u for u in _UNITS if slowest < 1000 * u[0]), _UNITS[-1])
    figure: Any = Figure(figsize=(8, 1.4 + 0.3 * max(len(bars), 1)), layout="constrained")
    axes = figure.add_subplot()
    for place, bar in enumerate(bars):
        axes.barh(place, bar.median / scale, color=_COLORS[bar.state])
        axes.plot([bar.low / scale, bar.high / scale], [place, place], color="black", linewidth=1)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{unit} for each call: median, and from the 10th to the 90th percentile")
    axes.set_title(title, fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure


FORMAT: Final = "weft autotune 1"

_ENTRY: Final[Mapping[str, tuple[type, ...]]] = {
    "signature": (str,),
    "key": (dict,),
    "device": (str,),
    "space": (str,),
    "best": (dict,),
    "trials": (list,),
    "refused": (int,),
    "seconds": (int, float),
    "weft": (str,),
}
_NUMBERS: Final = (
    *("microseconds", "low", "high", "samples", "registers", "spill_bytes"),
    "shared_memory_bytes",
)


def as_document(function: str, source: str, results: Sequence[Result]) -> str:
    """The text of a file: the common part of one function's results, then each result."""
    document = {
        "format": FORMAT,
        "function": function,
        "source": source,
        "entries": [result.as_json() for result in results],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_document(path: Path) -> dict[str, Any] | None:
    """A file of results; None if there is no such file.

    Raises:
        TuningError: if it is not such a file; the message names the place.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from error
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _error(path, f"holds {brief(document)}, expected an object")  # pyright: ignore[reportUnknownArgumentType]
    checked = cast("dict[str, Any]", document)
    if checked.get("format") != FORMAT:
        raise _error(path, f'has the format {brief(checked.get("format"))}, expected "{FORMAT}"')
    for name in ("function", "source"):
        _check(path, name, checked, (str,))
    _check(path, "entries", checked, (list,))
    for number, entry in enumerate(checked["entries"]):
        _check_entry(path, f"entries[{number}]", entry)
    return checked


def _check_entry(path: Path, place: str, entry: Any) -> None:
    _check_object(path, place, entry)
    for name, kinds in _ENTRY.items():
        _check(path, f"{place}.{name}", entry, kinds)
    if not entry["trials"]:
        raise _error(path, f"has no {place}.trials")
    for number, trial in enumerate(entry["trials"]):
        inside = f"{place}.trials[{number}]"
        _check_object(path, inside, trial)
        _check(path, f"{inside}.configuration", trial, (dict,))
        _check(path, f"{inside}.state", trial, (str,))
        if trial["state"] not in STATES:
            raise _error(
                path,
                f"has {inside}.state {brief(trial['state'])}, expected one of {', '.join(STATES)}",
            )
        for name in _NUMBERS:
            if name in trial:
                _check(path, f"{inside}.{name}", trial, (int, float))
                if not math.isfinite(trial[name]) or trial[name] < 0:
                    raise _error(path, f"has {inside}.{name} {trial[name]}, expected 0 or more")
        if "reason" in trial:
            _check(path, f"{inside}.reason", trial, (str,))


def _check_object(path: Path, place: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise _error(path, f"has {brief(value)} at {place}, expected an object")


def _check(path: Path, place: str, owner: Any, kinds: tuple[type, ...]) -> None:
    name = place.rpartition(".")[2]
    value = owner.get(name)
    if not isinstance(value, kinds) or isinstance(value, bool):
        words = {str: "a text", dict: "an object", list: "a list", int: "a number"}
        raise _error(path, f"has {brief(value)} at {place}, expected {words[kinds[0]]}")


def _error(path: Path, what: str) -> TuningError:
    return TuningError(
        "AUTOTUNE_FILE",
        f"{path} {what}",
        hint="write it with the tuned function's save(), or remove it",
    )


def find_result(path: Path, subject: Subject, space: Space) -> Result | None:
    """The result of a file for a subject; None if it has none.

    Raises:
        TuningError: if the file is not one of results.
    """
    document = read_document(path)
    if document is None or document["source"] != subject.source:
        return None
    wanted = _identity(subject)
    for entry in document["entries"]:
        found = subject._replace(**{name: entry[name] for name in _SAME})
        if _identity(found) == wanted:
            return as_result(entry, subject, space)
    return None


_SAME: Final = ("signature", "key", "device", "space")


def _identity(subject: Subject) -> str:
    return json_text([getattr(subject, name) for name in _SAME])


def as_result(entry: Mapping[str, Any], subject: Subject, space: Space) -> Result | None:
    """The result of an entry; None if its configurations are not those of the space."""
    best = space.find(entry["best"])
    chosen = [space.find(trial["configuration"]) for trial in entry["trials"]]
    if best is None or None in chosen:
        return None
    trials = tuple(
        trial_from(trial, configuration)
        for trial, configuration in zip(entry["trials"], chosen, strict=True)
        if configuration is not None
    )
    return Result(subject, best, trials, entry["refused"], entry["seconds"], entry["weft"])


def store_path(subject: Subject) -> Path | None:
    """The file of one result in the user's cache; None without a cache."""
    folder = store.user_folder()
    if folder is None or config.no_cache:
        return None
    digest = blake2b(f"{subject.source} {_identity(subject)}".encode(), digest_size=12).hexdigest()
    name = "".join(c if c.isalnum() or c in "._" else "_" for c in subject.function)[-80:]
    return Path(folder) / "autotune" / f"{name}-{digest}.json"


def write(path: Path, text: str) -> None:
    """Writes a file that appears whole under its name.

    Raises:
        OSError: if it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{os.urandom(8).hex()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
