# SPDX-License-Identifier: Apache-2.0
"""A defect of weft itself, whatever stage it is in, reaches users as one error.

In: the stages of the main path, in `with` blocks. Out: `InternalCompilerError` with the stage, the function's place
and how to report it, for whatever is no error of weft's own. Next: pipeline.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from weft.config import EnvironmentVariableError
from weft.errors import REPORT_HINT, CompileError, InternalCompilerError, WeftError

if TYPE_CHECKING:
    from collections.abc import Generator

    from weft.frontend.source import FunctionSource

# A library that is missing is the machine's matter, a variable's value the user's, and no memory everybody's.
_NOT_OURS: Final = (WeftError, EnvironmentVariableError, ImportError, MemoryError)


@contextlib.contextmanager
def reported(
    stage: str, source: FunctionSource, *, runs_user_code: bool = False
) -> Generator[None]:
    """Reports what escapes the `with` block.

    Args:
        stage: in words, such as ``"the wrapper"``.
        source: the function that is compiled; an error that knows no better place stands at its first line.
        runs_user_code: whether the stage calls functions of users, whose exceptions are theirs.
    Raises:
        CompileError: for what is nested too deeply.
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
        if runs_user_code and not _is_raised_here(error):
            raise
        raise InternalCompilerError(
            "INTERNAL",
            f"{stage} of '{source.name}' failed with {type(error).__name__}: {error}",
            hint=REPORT_HINT,
            location=source.locate(source.tree),
        ) from error


def _is_raised_here(error: Exception) -> bool:
    """Whether code of weft raised it, and not a function that weft called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return module.partition(".")[0] == "weft"
