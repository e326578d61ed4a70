# SPDX-License-Identifier: Apache-2.0
"""Events of a traced thread, as objects: an event, a launch; numbers as a person writes them.

In: the texts and bits that `simt.event` tells. Out: `TraceEvent`.
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.codegen.check_texts import array_text
from weft.sanitizer.report import location_of
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.location import SourceLocation


class TraceEvent(NamedTuple):
    """Something that the thread did.

    Attributes:
        kind: ``"line"``: a statement begins; ``"assigned"``: a variable; ``"called"``: a function that is inlined;
            ``"returned"``; ``"branch"``: the condition of an ``if``; ``"round"`` and ``"end"`` of a loop; ``"read"``,
            ``"written"``, ``"updated"`` (an atomic operation, with the value before it), ``"added"``: elements of an
            array; ``"barrier"``: the thread has waited; ``"copy"``: one begins beside the threads.
        location: where, with the calls that led there; a `weft.SourceLocation`.
        name: of the variable, the function or the array.
        indices: of the element, or of the first of several consecutive ones; empty for other kinds.
        values: the numbers: bools, ints and floats, in order.
        shown: the value as text, ``"(3, 4.5)"`` say, numbers known at compile time included.
    """

    kind: str
    location: SourceLocation
    name: str
    indices: tuple[int, ...]
    values: tuple[Any, ...]
    shown: str


class TracedLaunch(NamedTuple):
    """One launch of a kernel.

    Attributes:
        kernel: its name.
        grid, block: how many blocks it had, and threads each.
        has_thread: whether the thread that was asked for is one of them.
        events: what it did.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    has_thread: bool
    events: tuple[TraceEvent, ...]


class Site(NamedTuple):
    """The static part of an event, the same each time that a thread comes there."""

    kind: str
    location: SourceLocation
    name: str
    shown: str
    types: tuple[str, ...]
    rank: int


def site_of(text: str) -> Site:
    """The static part of an event in the machine code."""
    kind, name, shown, words, places = text.split("\n", 4)
    location, types = location_of(places), tuple(words.split())
    rank = sum(word.startswith("index") for word in types)
    if kind in ("read", "written", "updated", "added"):
        name = _array_name(location, name)
    return Site(kind, location, name, shown, types, rank)


def event_of(site: Site, bits: Sequence[int]) -> TraceEvent:
    """An event, from its site and the bits of its values."""
    numbers = [_number(word, number) for word, number in zip(site.types, bits, strict=True)]
    values, types = tuple(numbers[site.rank :]), site.types[site.rank :]
    texts = [number_text(number, word) for number, word in zip(values, types, strict=True)]
    if site.kind in ("read", "written", "updated", "added"):
        shown = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    else:
        shown = site.shown.format(*texts)
    indices = tuple(map(int, numbers[: site.rank]))
    return TraceEvent(site.kind, site.location, site.name, indices, values, shown)


def _array_name(location: SourceLocation, name: str) -> str:
    """The array as the source has it, unless a call of a function stands there."""
    span = location.span()
    try:
        is_call = isinstance(ast.parse(span, mode="eval").body, ast.Call)
    except (SyntaxError, ValueError):
        is_call = False  # an assignment
    return name if is_call else array_text(span) or name


def _number(kind: str, bits: int) -> bool | int | float:
    """The number that bits in 64 stand for, by the name of its type."""
    if kind == "bool_":
        return bool(bits & 1)
    width = int(_WIDTH.findall(kind)[0])
    bits &= (1 << width) - 1
    if kind.startswith(("i", "u")):
        is_negative = kind[0] == "i" and bits >> (width - 1)
        return bits - (1 << width) if is_negative else bits
    kind_format = INFO[kind].format
    assert kind_format is not None
    return kind_format.value_of(bits)


_WIDTH: Final = re.compile(r"\d+")
_SHORTEST: Final = ("f16", "bf16", "f32")  # written with the fewest digits; others in full


def number_text(number: object, kind: str) -> str:
    """A number as a person writes it: the shortest digits that mean this number in its type.

    Example:
        >>> number_text(0.10000000149011612, "f32"), number_text(True, "bool_")
        ('0.1', 'true')
    """
    if isinstance(number, bool):
        return "true" if number else "false"
    if not isinstance(number, float) or kind not in _SHORTEST or not math.isfinite(number):
        return repr(number)
    if number.is_integer() and abs(number) < 1e7:
        return repr(number)
    kind_format = INFO[kind].format
    assert kind_format is not None
    fraction, least = kind_format.mantissa_bits, 1 - kind_format.bias
    distance = 2.0 ** (max(math.frexp(number)[1] - 1, least) - fraction)  # to the next number
    texts = (f"{number:.{digits}g}" for digits in range(1, 17))
    return next(repr(float(text)) for text in texts if abs(float(text) - number) < distance / 2)
