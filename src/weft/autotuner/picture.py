# SPDX-License-Identifier: Apache-2.0
"""A picture of what was tried, drawn with matplotlib.

In: a bar for each configuration, in seconds. Out: a figure, and a file: each bar is as long as its median, with a line
from the tenth to the ninetieth percentile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

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
