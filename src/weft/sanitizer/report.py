# SPDX-License-Identifier: Apache-2.0
"""Findings of the sanitizer: `SanitizerError` and its `Report` objects.

In: the message and the values of an error raised by generated code. Out: the exception; the message is that of the
native runtime, so that other languages read the same.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.errors import WeftError
from weft.location import UNKNOWN_LOCATION, SourceLocation

if TYPE_CHECKING:
    from collections.abc import Sequence

_ERROR: Final = "SanitizerError"
_OF_FLOATS: Final = ("conversion out of range", "new NaN")
"""Kinds whose values are floats, sent as the bits of doubles."""


class ReportPlace:
    """Place of a thread: of the reported one, or of the other one of a race.

    Attributes:
        access: ``"read"``, ``"written"`` or ``"updated"`` (by an atomic operation); of arithmetic the operator or
            function.
        block, thread: x, y and z of ``block_idx`` and ``thread_idx``.
        location: file, line and columns; its `caller` is the call that inlined the code, and so on.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def shift_kernel(a: weft.Tensor):
        ...     a[weft.thread_idx.x] = a[weft.thread_idx.x + 1]
        >>> try:
        ...     with weft.sanitize("races"):
        ...         shift_kernel[1, 7](numpy.zeros(8, numpy.float32))
        ... except weft.SanitizerError as error:
        ...     report = error.reports[0]
        >>> report.access, report.thread, report.other.access, report.other.thread
        ('written', (1, 0, 0), 'read', (0, 0, 0))
    """

    __slots__ = ("access", "block", "location", "thread")

    def __init__(
        self, access: str, block: Sequence[int], thread: Sequence[int], location: SourceLocation
    ) -> None:
        self.access = access
        self.block = tuple(block)
        self.thread = tuple(thread)
        self.location = location

    @property
    def file(self) -> str:
        """The path of the source file, as Python knows it."""
        return self.location.file

    @property
    def line(self) -> int:
        """The line in it, from 1."""
        return self.location.line

    def __repr__(self) -> str:
        return f"<weft place: {self.location}, block {self.block}, thread {self.thread}>"


class Report(ReportPlace):
    """One finding of the sanitizer.

    Attributes:
        kind: one of those in docs/sanitizer.md, such as ``"out of bounds"``.
        text: what happened, in one sentence.
        array: as the program has it, such as ``"a"``; of arithmetic the type.
        access: ``"read"``, ``"written"`` or ``"updated"`` (by an atomic operation); of arithmetic the operator or
            function.
        index: of the element, or of the first of several, one integer per dimension; empty where it is about none.
        shape: of the array; as long as `index`.
        values: of arithmetic the operands.
        block, thread: x, y and z of ``block_idx`` and ``thread_idx``.
        kernel: its name.
        count: how often it was found; more than 1 only with ``continue``, which groups equal ones.
        location: file, line and columns of the access; its `caller` is the call that inlined the code, and so on.
        other: the `ReportPlace` that it is about as well, or None: of a race the other access.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def fill_kernel(a: weft.Tensor):
        ...     a[weft.thread_idx.x] = 1.0
        >>> try:
        ...     with weft.sanitize():
        ...         fill_kernel[1, 8](numpy.zeros(4, numpy.float32))
        ... except weft.SanitizerError as error:
        ...     report = error.reports[0]
        >>> report.kind, report.array, report.access, report.index, report.shape, report.thread
        ('out of bounds', 'a', 'written', (4,), (4,), (4, 0, 0))
    """

    __slots__ = ("array", "count", "index", "kernel", "kind", "other", "shape", "text", "values")

    def __init__(
        self,
        kind: str,
        text: str,
        array: str,
        index: Sequence[int],
        shape: Sequence[int],
        values: Sequence[int | float],
        kernel: str,
        count: int,
        place: ReportPlace,
        other: ReportPlace | None = None,
    ) -> None:
        super().__init__(place.access, place.block, place.thread, place.location)
        self.kind = kind
        self.text = text
        self.array = array
        self.index = tuple(index)
        self.shape = tuple(shape)
        self.values = tuple(values)
        self.kernel = kernel
        self.count = count
        self.other = other

    def __repr__(self) -> str:
        return f"<weft report: {self.kind}: {self.text} ({self.location})>"


class SanitizerError(WeftError):
    """A kernel did what ``--sanitize`` looks for; the launch was stopped there, unless it continues.

    Earlier writes of other threads remain.

    Attributes:
        reports: what was found, as `Report` objects, in order; one unless the launch continues.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def fill_kernel(a: weft.Tensor):
        ...     a[weft.thread_idx.x] = 1.0
        >>> try:
        ...     with weft.sanitize():
        ...         fill_kernel[1, 8](numpy.zeros(4, numpy.float32))
        ... except weft.SanitizerError as error:
        ...     print(str(error).splitlines()[-1])
        [OUT_OF_BOUNDS] a[4] is written: index 0 is 4, and a.shape[0] is 4 (block (0, 0, 0), thread (4, 0, 0))
    """

    def __init__(self, message: str, *values: Any) -> None:
        self.reports: tuple[Report, ...] = tuple(map(_report, values))
        code = "SANITIZER"
        if self.reports:
            code = self.reports[0].kind.upper().replace(" ", "_")
        super().__init__(code, message)
        if self.reports:
            self.location = self.reports[0].location
        self._values = values

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return SanitizerError, (self.message, *map(_plain, self._values))


def _plain(value: Any) -> object:
    """Texts and numbers, in tuples: what another process can have."""
    return value if isinstance(value, str | int | float) else tuple(map(_plain, value))


def _report(values: Sequence[Any]) -> Report:
    kind, text, array, index, shape, numbers, kernel, count, *here, other = values
    if kind in _OF_FLOATS:
        numbers = [struct.unpack("d", struct.pack("q", bits))[0] for bits in numbers]
    places = _place(here), _place(other) if other else None
    return Report(kind, text, array, index, shape, numbers, kernel, count, *places)


def _place(values: Sequence[Any]) -> ReportPlace:
    access, block, thread, places = values
    return ReportPlace(access, block, thread, location_of(places))


def location_of(text: str) -> SourceLocation:
    """The place of an access, from the text in its site: a line for each call, the innermost first."""
    found: SourceLocation | None = None
    for line in reversed(text.splitlines()):
        *numbers, function, file = line.split("\t", 5)
        first, column, last, end = map(int, numbers)
        found = SourceLocation(file, first, column, last, end, function, found)
    return found or UNKNOWN_LOCATION


def register_reports() -> None:
    """Has errors of checks raised as `SanitizerError`."""
    _native.register_error_kind(_ERROR, SanitizerError)
