# SPDX-License-Identifier: Apache-2.0
"""Reports defects of weft, in any stage, as one kind of error.

In: the stages of the main path, in `with` blocks. Out: `InternalCompilerError` with the stage, the function's place and
how to report it, for exceptions that are neither weft's own nor the user's.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from weft.blame import is_the_users, limit_reached
from weft.config import EnvironmentVariableError
from weft.errors import (
    REPORT_HINT,
    CompileError,
    InternalCompilerError,
    UnavailableError,
    WeftError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from weft.frontend.source.text import FunctionSource
    from weft.location import SourceLocation

# Not defects: a missing library, an environment variable's value, lack of memory.
_NOT_OURS: Final = (WeftError, EnvironmentVariableError, ImportError, MemoryError)


@contextlib.contextmanager
def reported(stage: str, source: FunctionSource) -> Generator[None]:
    """Reports exceptions that escape the `with` block; those of the user's code pass unchanged.

    Args:
        stage: in words, such as ``"the wrapper"``.
        source: the function being compiled; errors without a better place use its first line.
    Raises:
        CompileError: for programs nested too deeply.
        UnavailableError: for a limit of the process.
        InternalCompilerError: for any other exception that is not weft's own.
    """
    try:
        yield
    except _NOT_OURS as error:
        if isinstance(error, WeftError):
            _show_text(error.location, source)
        raise
    except RecursionError as error:
        raise CompileError(
            "TOO_DEEP",
            f"{stage} of '{source.name}' is nested too deeply for the compiler",
            hint="nest tuples and expressions less deeply",
            location=source.locate(source.tree),
        ) from error
    except Exception as error:
        if is_the_users(error):
            raise
        limit = limit_reached(error)
        if limit:
            raise UnavailableError(
                "LIMIT_REACHED",
                f"{stage} of '{source.name}' stopped at a limit of this process: {limit}",
                hint="raise the limit, or free what the process holds, then compile again",
            ) from error
        raise InternalCompilerError(
            "INTERNAL",
            f"{stage} of '{source.name}' failed with {type(error).__name__}: {error}",
            hint=REPORT_HINT,
            location=source.locate(source.tree),
        ) from error


def _show_text(place: SourceLocation | None, source: FunctionSource) -> None:
    """Gives places that were found in the IR the text as it was when the function was decorated."""
    while place is not None:
        if place.lines is None:
            place.lines = source.texts.of(place.file, source.globals).lines
        place = place.caller
