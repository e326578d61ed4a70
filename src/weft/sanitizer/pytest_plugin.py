# SPDX-License-Identifier: Apache-2.0
"""``pytest --weft-sanitize``: the kernels of a test suite check themselves, and a finding reads like a failing assert.

In: the option, a failed test. Out: the environment variable that switches checks on; the kernel's lines as the last
entry of the traceback. pytest loads this through the entry point `pytest11`, so it imports little of weft until needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntry, ReprFileLocation

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from weft.location import SourceLocation
    from weft.sanitizer.report import Report

_LINES_BEFORE: Final = 6  # of a kernel, above the one that failed


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option, which takes what ``--sanitize`` of `weft.compile` takes."""
    parser.getgroup("weft").addoption(
        "--weft-sanitize",
        nargs="?",
        const="bounds",
        default=None,
        metavar="CHECKS",
        help="kernels on the CPU check themselves: bounds, or --weft-sanitize=all and others (docs/sanitizer.md)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Switches the checks on, for processes that tests start too.

    Raises:
        pytest.UsageError: for anything else, such as a path after ``--weft-sanitize``.
    """
    checks = config.getoption("--weft-sanitize")
    if checks is None:
        return
    from weft.config import sanitize_process
    from weft.sanitizer.checks import TAKES, ordered_checks

    if ordered_checks(checks) is None:
        raise pytest.UsageError(
            f"--weft-sanitize takes {TAKES}, received {checks!r}; before a path write --weft-sanitize=bounds"
        )
    config.add_cleanup(sanitize_process(checks))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Ends the traceback of a finding in the kernel, wherever the launch was."""
    report = yield
    raised = call.excinfo.value if call.excinfo is not None else None
    found = getattr(raised, "reports", None)
    shown = report.longrepr
    if (
        type(raised).__name__ == "SanitizerError"
        and found
        and isinstance(shown, ExceptionChainRepr)
    ):
        _end_in_kernel(shown, found)
    return report


def _end_in_kernel(shown: ExceptionChainRepr, found: tuple[Report, ...]) -> None:
    entries: Any = shown.reprtraceback.reprentries
    if not entries:
        return
    # The launch's entry says nothing else: the error's text is that of the kernel's entry.
    last: Any = entries[-1]
    if isinstance(last, ReprEntry):
        lines: Any = last.lines
        lines[:] = [line for line in lines if not line.startswith("E")]
        if last.reprfileloc is not None:
            last.reprfileloc = ReprFileLocation(last.reprfileloc.path, last.reprfileloc.lineno, "")
    for report in found:
        place = ReprFileLocation(report.file, report.line, "SanitizerError")
        entries.append(ReprEntry(list(_lines(report)), None, None, place, "long"))
    if shown.reprcrash is not None:
        shown.reprcrash.message = f"SanitizerError: {found[0].kind}: {found[0].text}"


def _lines(report: Report) -> Iterator[str]:
    """The kernel to the line that failed, and what happened, as pytest shows an assert."""
    yield from _source(report.location)
    for line in f"{report.kind}: {report.text}".splitlines():
        yield f"E   {line}"
    times = f", found {report.count} times" if report.count > 1 else ""
    yield f"E   block {report.block}, thread {report.thread} of {report.kernel}{times}"
    call = report.location.caller
    while call is not None:
        yield f"E   called from {call.file}:{call.line}"
        call = call.caller
    if report.other is not None:
        yield f"E   the other place: block {report.other.block}, thread {report.other.thread}"
        for line in report.other.location.excerpt().splitlines():
            yield f"E     {line}"


def _source(place: SourceLocation) -> Iterator[str]:
    import linecache

    lines = linecache.getlines(place.file)
    first = max(place.line - _LINES_BEFORE, 1)
    for number in range(place.line, first - 1, -1):  # not beyond the function's first line
        if number <= len(lines) and lines[number - 1].lstrip().startswith(("def ", "async def ")):
            first = number
            break
    for number in range(first, min(place.line, len(lines)) + 1):
        yield f"{'>' if number == place.line else ' '}   {lines[number - 1].rstrip()}"
    if place.line <= len(lines) and place.end_line == place.line:
        yield f"    {' ' * place.column}{'^' * max(place.end_column - place.column, 1)}"
