# SPDX-License-Identifier: Apache-2.0
"""weft's exceptions, each with a stable code.

In: problem, place and remedy. Out: one text: place, excerpt with caret, code, sentence, hint. Calls raise the builtin
TypeError and ValueError instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

    from weft.location import SourceLocation

_LONGEST_TEXT: Final = 100
_LONGEST_INTEGER: Final = 8 * _LONGEST_TEXT  # bits


def brief(value: object) -> str:
    """A received value as text for a message: shortened if long, the type if its repr fails.

    An int of hundreds of digits is given by its magnitude.

    Example:
        >>> brief("cuda:0"), len(brief("a" * 1000))
        ("'cuda:0'", 100)
    """
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER:
        return f"{'-' if value < 0 else ''}~10**{round(value.bit_length() * 0.30103)}"
    try:
        text = repr(value)
    except Exception:  # a user's value whose __repr__ fails
        text = object.__repr__(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def without_frames(trace: TracebackType | None, *packages: str) -> TracebackType | None:
    """A traceback without the frames of these packages."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not any(is_of(trace, package) for package in packages):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for one in reversed(kept):
        made = type(one)(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made


def is_of(trace: TracebackType, package: str) -> bool:
    """Whether a traceback's first frame is in the package."""
    module = str(trace.tb_frame.f_globals.get("__name__"))
    return module == package or module.startswith(f"{package}.")


class WeftError(Exception):
    """Base of weft's own exceptions.

    Attributes:
        code: stable, upper-case; ``docs/errors.md`` lists all.
        message: one sentence: what was found and what was expected.
        hint: what to do, or an empty string.
        location: in the user's source, or None.

    Example:
        >>> import weft
        >>> try:
        ...     weft.compile["--fast"]
        ... except weft.WeftError as error:
        ...     print(error.code, error.message, sep=": ")
        OPTION_UNKNOWN: weft.compile[...] takes options, received '--fast'
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

    def _render_traceback_(self) -> list[str]:
        """For IPython and notebooks: the user's frames and the text with the place, on one screen."""
        from traceback import format_exception

        trace = without_frames(self.__traceback__, "weft", "IPython", "ipykernel")
        return "".join(format_exception(type(self), self, trace, chain=False)).splitlines()


class CompileError(WeftError):
    """A function that cannot be compiled, with the place in its source.

    Example:
        >>> import weft
        >>> @weft.kernel
        ... def kernel(a: weft.Tensor): ...
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     kernel(a)
        >>> try:
        ...     weft.compile(host)
        ... except weft.CompileError as error:
        ...     print(error.location.line, error.code, error.hint)
        3 LAUNCH_MISSING write kernel(...).launch(grid=..., block=...)
    """


class UnsupportedSyntaxError(CompileError):
    """Python that kernels and host functions cannot contain.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     print(a.shape)
        >>> weft.compile(host)
        Traceback (most recent call last):
            ...
        weft.errors.UnsupportedSyntaxError: ...
        [PRINT] print is not available in compiled code
        ...
    """


class TypeMismatchError(CompileError, TypeError):
    """Operands, branches or arguments of incompatible types.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     return a + 1
        >>> weft.compile(host)
        Traceback (most recent call last):
            ...
        weft.errors.TypeMismatchError: ...
        [TYPE_NOT_A_NUMBER] ...
    """


class ValueRangeError(CompileError, ValueError):
    """A constant that does not fit, or a compile-time value out of range.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     return weft.i8(300)
        >>> weft.compile(host)
        Traceback (most recent call last):
            ...
        weft.errors.ValueRangeError: ...
        [CONSTANT_OUT_OF_RANGE] the constant 300 does not fit i8, which holds -128 to 127
        ...
    """


class NameResolutionError(CompileError, NameError):
    """A name that is not defined, or not usable at compile time.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     return a.shpae[0]
        >>> weft.compile(host)
        Traceback (most recent call last):
            ...
        weft.errors.NameResolutionError: ...
        [UNKNOWN_ATTRIBUTE] ...
    """


class OptionError(WeftError, ValueError):
    """A compile option that is unknown, mistyped or out of range.

    Example:
        >>> import weft
        >>> weft.OptLevel(4)
        Traceback (most recent call last):
            ...
        weft.errors.OptionError: [OPTION_VALUE] option --opt-level takes an integer from 0 to 3, received 4
    """


class SignatureError(WeftError, TypeError):
    """Arguments or annotations that do not make a signature.

    Example:
        >>> import weft
        >>> weft.Tensor["f32"]
        Traceback (most recent call last):
            ...
        weft.errors.SignatureError: [TENSOR_SPECIFICATION] ...
    """


class ArgumentValueError(SignatureError, ValueError):
    """Arguments of the right kind whose dtype, size, layout, device or range does not fit.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def next_of(value: weft.u8):
        ...     return value + 1
        >>> weft.compile(next_of, 256)
        Traceback (most recent call last):
            ...
        weft.errors.ArgumentValueError: [ARGUMENT_OUT_OF_RANGE] next_of: argument 'value': ...
    """


class UnavailableError(WeftError):
    """A feature that this version or this machine does not have.

    Example:
        >>> import weft
        >>> weft.sync_threads()
        Traceback (most recent call last):
            ...
        weft.errors.UnavailableError: [OUTSIDE_KERNEL] weft.sync_threads(...) works only in code ...
    """


class ToolchainError(WeftError):
    """An assembler or linker that is missing or failed; the message holds its log.

    Example:
        >>> import weft
        >>> @weft.kernel
        ... def kernel(a: weft.Tensor):
        ...     weft.inline_ptx("no.such.instruction;")
        >>> @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)]):
        ...     kernel(a).launch(grid=1, block=1)
        >>> weft.compile(host, options="--gpu-arch sm_90a")
        Traceback (most recent call last):
            ...
        weft.errors.ToolchainError: ...
        [ASSEMBLY_FAILED] ...
    """


class ExportError(WeftError):
    """A function that cannot be exported, pickled or loaded; the message says why.

    Example:
        >>> import weft
        >>> weft.load("nothing.so")
        Traceback (most recent call last):
            ...
        weft.errors.ExportError: [EXPORT_FILE] cannot read nothing.so: No such file or directory
    """


class TuningError(WeftError):
    """A space without a valid configuration, trials that differ, or a file without results.

    Example:
        >>> import weft
        >>> @weft.autotune(space={"step": [1, 2]}, prune=lambda step: step > 2)
        ... @weft.jit
        ... def host(a: weft.Tensor[weft.f32, ("n",)], step: weft.Constexpr[int]): ...
        >>> host(weft.zeros(3, weft.f32))
        Traceback (most recent call last):
            ...
        weft.errors.TuningError: [AUTOTUNE_NOTHING_LEFT] host: prune refuses all 2 configurations ...
    """


class InternalCompilerError(WeftError):
    """A defect of weft itself; the message names the stage and how to report it.

    Example:
        >>> import weft
        >>> error = weft.InternalCompilerError("INTERNAL", "tracing 'f' failed with KeyError: 'x'")
        >>> isinstance(error, weft.WeftError), error.code
        (True, 'INTERNAL')
    """


class CudaError(RuntimeError):
    """An error of the CUDA driver.

    Attributes:
        code: the CUresult as an integer; -1 without a driver.
        name: its name, such as ``"CUDA_ERROR_INVALID_VALUE"``.
        function: the driver function that returned it.
        kernel: the kernel being loaded or launched, or an empty string.
        configuration: grid, block, shared memory, stream and attributes of a launch, as text.

    Example:
        >>> import weft
        >>> try:
        ...     weft.synchronize("cuda:99")
        ... except (weft.CudaError, ValueError) as error:  # ValueError where the driver sees other devices
        ...     print("no such device")
        no such device
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
