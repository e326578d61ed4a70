# SPDX-License-Identifier: Apache-2.0
"""Roofline pictures as SVG.

In: measured rows, and ceilings. Out: the text of a picture: each row's share of its roofline; or speed over operations
per byte, under the rooflines of memory and arithmetic (Williams, Waterman and Patterson, 2009).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from benchmarks.ready_kernels import SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.ready_kernels import Measured

WIDTH: Final = 860
LABELS: Final = 300  # pixels for the names of rows
LINE: Final = 16  # pixels of a row
TOP, BOTTOM, RIGHT = 44, 28, 24
OURS, THEIRS, LOST, GRID = "#3b6fb5", "#8a8a8a", "#c8452f", "#dddddd"


def shares(rows: list[Measured], ceilings: Mapping[str, float]) -> str:
    """A line for each row: weft's share of the roofline, and the fastest other's."""
    known = [(row, share) for row in rows if (share := row.share(ceilings)) is not None]
    others = [row.share(ceilings, row.best) if row.best else None for row, _ in known]
    most = max([1.05, *(share for _, share in known), *(one for one in others if one is not None)])
    height = TOP + LINE * len(known) + BOTTOM

    def x(share: float) -> float:
        return LABELS + share / most * (WIDTH - LABELS - RIGHT)

    parts = _legend()
    for step in range(int(most * 5) + 1):
        parts += _vertical(x(step / 5), height, f"{step / 5:.1f}", step == 5)
    for k, ((row, share), other) in enumerate(zip(known, others, strict=True)):
        y = TOP + LINE * (k + 0.5)
        color = LOST if row.is_lost else OURS
        parts.append(_text(LABELS - 8, y + 4, row.name.replace("/", ", "), "end"))
        if other is not None:
            parts.append(_line(x(share), y, x(other), y, color))
            parts.append(_dot(x(other), y, THEIRS, filled=False))
        parts.append(_dot(x(share), y, color, filled=True))
    return _picture(height, parts)


def roofline(rows: list[Measured], ceilings: Mapping[str, float]) -> str:
    """Speeds by operations for each byte, both on logarithmic axes."""
    known = [row for row in rows if row.unit == "TFLOP/s" and row.element in ceilings]
    height, left = 460, 70
    peaks = {row.element: ceilings[row.element] / SCALE["TFLOP/s"] for row in known}
    memory = ceilings["memory"] / SCALE["TFLOP/s"]  # TFLOP/s for each operation for each byte
    low = math.floor(math.log10(min(row.work / row.moved for row in known)))
    high = math.ceil(math.log10(max(row.work / row.moved for row in known)))
    reached = [speed for row in known for who in row.microseconds if (speed := row.speed(who))]
    bottom = math.floor(math.log10(min(reached)))
    top = math.ceil(math.log10(max([*peaks.values(), *reached])))

    def x(intensity: float) -> float:
        return left + (math.log10(intensity) - low) / (high - low) * (WIDTH - left - RIGHT)

    def y(speed: float) -> float:
        part = (math.log10(speed) - bottom) / (top - bottom)
        return height - BOTTOM - 12 - part * (height - BOTTOM - 12 - TOP)

    parts = _legend()
    for power in range(low, high + 1):
        parts += _vertical(x(10**power), height - 12, f"{10**power:g}", False)
    for power in range(bottom, top + 1):
        parts.append(_line(left, y(10**power), WIDTH - RIGHT, y(10**power), GRID))
        parts.append(_text(left - 8, y(10**power) + 4, f"{10**power:g}", "end"))
    parts.append(_text(WIDTH / 2, height - 4, "operations for each byte", "middle"))
    parts.append(_text(8, TOP - 8, "TFLOP/s", "start"))
    for name, peak in peaks.items():
        ridge = peak / memory
        begin = max(10.0**low, 10.0**bottom / memory)
        parts.append(_line(x(begin), y(begin * memory), x(ridge), y(peak), "#000000"))
        parts.append(_line(x(ridge), y(peak), x(10.0**high), y(peak), "#000000"))
        parts.append(_text(x(10.0**high) - 4, y(peak) - 5, name, "end"))
    for row in known:
        place, ours = x(row.work / row.moved), row.speed("weft")
        theirs = row.speed(row.best) if row.best else None
        if theirs is not None:
            parts.append(_dot(place, y(theirs), THEIRS, filled=False))
        if ours is not None:
            color = LOST if row.is_lost else OURS
            parts.append(_dot(place, y(ours), color, filled=True, title=row.name))
    return _picture(height, parts)


def _legend() -> list[str]:
    parts: list[str] = []
    for place, color, filled, words in (
        (14, OURS, True, "weft"),
        (74, LOST, True, "weft, where another is faster"),
        (282, THEIRS, False, "the fastest other"),
    ):
        parts += [_dot(place, 14, color, filled=filled), _text(place + 9, 18, words, "start")]
    return parts


def _vertical(x: float, height: float, words: str, is_roofline: bool) -> list[str]:
    color = "#000000" if is_roofline else GRID
    label = f"{words}, roofline" if is_roofline else words
    return [
        _line(x, TOP - 6, x, height - BOTTOM, color),
        _text(x, height - BOTTOM + 16, label, "middle"),
    ]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, color: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{color}"/>'


def _dot(x: float, y: float, color: str, *, filled: bool, title: str = "") -> str:
    fill = color if filled else "white"
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{color}">{said}</circle>'


def _picture(height: float, parts: list[str]) -> str:
    """The parts on white, so that they are seen on a dark page too."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
    style = 'font-family="sans-serif" font-size="11">'
    return "\n".join(
        [head + style, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"]
    )
