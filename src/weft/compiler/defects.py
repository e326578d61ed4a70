# SPDX-License-Identifier: Apache-2.0
"""A defect of weft itself, whatever stage it is in, reaches users as one error.

In: the stages of the main path, in `with` blocks. Out: `InternalCompilerError` with the stage, the function's place
and how to report it, for whatever is neither an error of weft's own nor the user's.
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

# A library that is missing is the machine's matter, a variable's value the user's, and no memory everybody's.
_NOT_OURS: Final = (WeftError, EnvironmentVariableError, ImportError, MemoryError)


@contextlib.contextmanager
def reported(stage: str, source: FunctionSource) -> Generator[None]:
    """Reports what escapes the `with` block; what code of the user raised passes as it is.

    Args:
        stage: in words, such as ``"the wrapper"``.
        source: the function that is compiled; an error that knows no better place stands at its first line.
    Raises:
        CompileError: for what is nested too deeply.
        UnavailableError: for a limit of the process.
        InternalCompilerError: for any other exception that is not weft's own.
    """
    try:
        yield
    except _NOT_OURS:
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
                hint="raise the limit, or free what the process holds; the function can be compiled again then",
            ) from error
        raise InternalCompilerError(
            "INTERNAL",
            f"{stage} of '{source.name}' failed with {type(error).__name__}: {error}",
            hint=REPORT_HINT,
            location=source.locate(source.tree),
        ) from error
