# SPDX-License-Identifier: Apache-2.0
"""Every exception of weft that a user can catch, each with a stable code.

In: what went wrong, where, and what to do. Out: one text: place, excerpt with caret, code, sentence, hint.
At call time the builtin TypeError and ValueError are raised instead (design: the wrapper's errors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from weft.location import SourceLocation


class WeftError(Exception):
    """Base of weft's own exceptions.

    Attributes:
        code: stable, upper-case; ``docs/errors.md`` lists all of them.
        message: one sentence: what was found and what was expected.
        hint: what to do about it, or an empty string.
        location: where in the user's source, or None.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        location: SourceLocation | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.location = location
        super().__init__(code, message)

    def __str__(self) -> str:
        place = f"{self.location.excerpt()}\n" if self.location is not None else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}[{self.code}] {self.message}{hint}"


class CompileError(WeftError):
    """A function that cannot be compiled, with the place in its source."""


class UnsupportedSyntaxError(CompileError):
    """Python that kernels and host functions cannot contain."""


class TypeMismatchError(CompileError, TypeError):
    """Operands, branches or arguments whose types do not go together."""


class ValueRangeError(CompileError, ValueError):
    """A constant that does not fit, or a compile-time value out of range."""


class NameResolutionError(CompileError, NameError):
    """A name that is not defined, or not usable at compile time."""


class OptionError(WeftError, ValueError):
    """A compile option that is unknown, mistyped or out of range."""


class SignatureError(WeftError, TypeError):
    """Arguments or annotations from which no signature can be made."""


class ArgumentValueError(SignatureError, ValueError):
    """Arguments of the right kind whose dtype, size, layout, device or range does not fit."""


class UnavailableError(WeftError):
    """Something that this version does not offer, or that this machine lacks."""


class ToolchainError(WeftError):
    """An assembler or linker that is missing or failed; the message holds its log."""


class InternalCompilerError(WeftError):
    """A defect of weft itself; the message says the stage and how to report it."""


class CudaError(RuntimeError):
    """An error of the CUDA driver.

    Attributes:
        code: the CUresult, as an integer; -1 when there is no driver to ask.
        name: its name, such as ``"CUDA_ERROR_INVALID_VALUE"``.
        function: the driver function that returned it.
        kernel: the kernel being loaded or launched, or an empty string.
        configuration: grid, block, shared memory, stream and attributes of a launch, as text.
    """

    def __init__(
        self,
        message: str,
        code: int = -1,
        name: str = "",
        function: str = "",
        kernel: str = "",
        configuration: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.function = function
        self.kernel = kernel
        self.configuration = configuration


REPORT_HINT: Final = (
    "this is a defect of weft; please report it with the source of the function and this text"
)
