# SPDX-License-Identifier: Apache-2.0
"""What the sanitizer found: `SanitizerError` and its `Report` objects.

In: the message and the values of an error raised by generated code. Out: the exception; the message is that of the
native runtime, so that other languages read the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.errors import WeftError
from weft.location import UNKNOWN_LOCATION, SourceLocation

if TYPE_CHECKING:
    from collections.abc import Sequence

_ERROR: Final = "SanitizerError"


class Report:
    """One finding of the sanitizer.

    Attributes:
        kind: ``"out of bounds"``.
        text: what happened, in one sentence.
        array: as the program has it, such as ``"a"``.
        access: ``"read"``, ``"written"`` or ``"updated"`` (by an atomic operation).
        index: of the element, or of the first of several, one integer per dimension.
        shape: of the array; as long as `index`.
        block, thread: x, y and z of ``block_idx`` and ``thread_idx``.
        kernel: its name.
        location: file, line and columns of the access; its `caller` is the call that inlined the code, and so on.

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

    __slots__ = (
        *("kind", "text", "array", "access", "index", "shape"),
        *("block", "thread", "kernel", "location"),
    )

    def __init__(
        self,
        kind: str,
        text: str,
        array: str,
        access: str,
        index: Sequence[int],
        shape: Sequence[int],
        block: Sequence[int],
        thread: Sequence[int],
        kernel: str,
        location: SourceLocation,
    ) -> None:
        self.kind = kind
        self.text = text
        self.array = array
        self.access = access
        self.index = tuple(index)
        self.shape = tuple(shape)
        self.block = tuple(block)
        self.thread = tuple(thread)
        self.kernel = kernel
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
        return f"<weft report: {self.kind}: {self.text} ({self.location})>"


class SanitizerError(WeftError):
    """A kernel did what ``--sanitize`` looks for; the launch was stopped there.

    What the threads before had written stays written.

    Attributes:
        reports: what was found, as `Report` objects; the first is that of the message.

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
        self.reports: tuple[Report, ...] = ()
        code = "SANITIZER"
        if values:
            *described, places = values
            self.reports = (Report(*described, location=_location(places)),)
            code = self.reports[0].kind.upper().replace(" ", "_")
        super().__init__(code, message)
        if self.reports:
            self.location = self.reports[0].location
        self._values = values

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return SanitizerError, (self.message, *self._values)


def _location(text: str) -> SourceLocation:
    """The place of an access, from the text in its site: a line for each call, the innermost first."""
    found: SourceLocation | None = None
    for line in reversed(text.split("\n")):
        *numbers, function, file = line.split("\t", 5)
        first, column, last, end = map(int, numbers)
        found = SourceLocation(file, first, column, last, end, function, found)
    return found or UNKNOWN_LOCATION


def register_reports() -> None:
    """Has errors of checks raised as `SanitizerError`."""
    _native.register_error_kind(_ERROR, SanitizerError)
