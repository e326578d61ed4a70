# SPDX-License-Identifier: Apache-2.0
"""Compile options: one class each, in one table, for the typed form and for the string form.

In: ``weft.EnableTVMFFI`` and its like, or ``"--enable-tvm-ffi --opt-level 2"``. Out: `CompileOptions`.
Anything unknown, mistyped or out of range is an error that lists what is allowed. Next: pipeline.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, ClassVar, Final

from weft.errors import OptionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXECUTORS: Final = ("context", "library", "tvm-ffi")
KEEPABLE: Final = ("ir", "llvm", "ptx", "cubin", "sass")
_ARCHITECTURE: Final = re.compile(r"sm_[1-9]\d{1,2}[af]?")


class CompileOption:
    """One option with its value; subclasses are what users name.

    Attributes:
        flag: the spelling in a string of options.
        field: the attribute of `CompileOptions` that it sets.
        value: what it sets there.
    """

    flag: ClassVar[str]
    field: ClassVar[str]
    takes: ClassVar[str] = ""
    """What the value must be, in words; empty for a switch."""

    __slots__ = ("value",)

    def __init__(self, value: object = True) -> None:
        self.value = self.check(value)

    def __repr__(self) -> str:
        return f"weft.{type(self).__name__}" + (f"({self.value!r})" if self.takes else "")

    @classmethod
    def check(cls, value: object) -> Any:
        """The value as `CompileOptions` holds it.

        Raises:
            OptionError: if it is of the wrong type or out of range.
        """
        if not isinstance(value, bool):
            raise cls.wrong(value, "True or False")
        return value

    @classmethod
    def read(cls, text: str) -> object:
        """The value that a string of options gives, before `check`."""
        return text

    @classmethod
    def wrong(cls, value: object, expected: str) -> OptionError:
        """The error for a value that this option does not take."""
        return OptionError(
            "OPTION_VALUE", f"option {cls.flag} takes {expected}, received {value!r}"
        )


class _TextOption(CompileOption):
    __slots__ = ()
    takes = "a string"

    def __init__(self, value: object) -> None:
        super().__init__(value)

    @classmethod
    def check(cls, value: object) -> Any:
        if not isinstance(value, str) or not value:
            raise cls.wrong(value, cls.takes)
        return value


class EnableTVMFFI(CompileOption):
    """Makes the result usable by other languages as a TVM-FFI function: the executor is ``tvm-ffi``."""

    __slots__ = ()
    flag, field = "--enable-tvm-ffi", "enable_tvm_ffi"


class UseExecutor(CompileOption):
    """How kernels are loaded: ``"context"``, ``"library"``, ``"tvm-ffi"``, or a class with the Executor protocol."""

    __slots__ = ()
    flag, field, takes = "--executor", "executor", "one of " + ", ".join(EXECUTORS)

    def __init__(self, value: object) -> None:
        super().__init__(value)

    @classmethod
    def check(cls, value: object) -> Any:
        if value in EXECUTORS or isinstance(value, type):
            return value
        raise cls.wrong(value, cls.takes + " or an executor class")


class CompileTarget(_TextOption):
    """The backend: ``"cpu"``, ``"cuda"``, or one that another package registers."""

    __slots__ = ()
    flag, field, takes = "--target", "target", "the name of a backend, such as cpu or cuda"


class GPUArch(_TextOption):
    """The GPU architecture, such as ``"sm_90a"``; implies the target ``cuda``."""

    __slots__ = ()
    flag, field, takes = "--gpu-arch", "gpu_arch", "an architecture such as sm_90a"

    @classmethod
    def check(cls, value: object) -> Any:
        if not isinstance(value, str) or not _ARCHITECTURE.fullmatch(value):
            raise cls.wrong(value, cls.takes)
        return value


class OptLevel(CompileOption):
    """How hard LLVM and the assembler optimise, 0 to 3; 3 unless said otherwise."""

    __slots__ = ()
    flag, field, takes = "--opt-level", "opt_level", "an integer from 0 to 3"

    def __init__(self, value: object) -> None:
        super().__init__(value)

    @classmethod
    def read(cls, text: str) -> object:
        return int(text) if text.isdecimal() else text

    @classmethod
    def check(cls, value: object) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 3:
            raise cls.wrong(value, cls.takes)
        return value


class _KeepOption(CompileOption):
    """Writes one stage's text into the dump directory."""

    __slots__ = ()
    field = "keep"
    stage: ClassVar[str]


class KeepIR(_KeepOption):
    """Writes the module before lowering, host function, kernels and wrapper, into the dump directory."""

    __slots__ = ()
    flag, stage = "--keep-ir", "ir"


class KeepLLVM(_KeepOption):
    """Writes the LLVM texts into the dump directory."""

    __slots__ = ()
    flag, stage = "--keep-llvm", "llvm"


class KeepPTX(_KeepOption):
    """Writes the PTX text into the dump directory."""

    __slots__ = ()
    flag, stage = "--keep-ptx", "ptx"


class KeepCUBIN(_KeepOption):
    """Writes the cubin into the dump directory."""

    __slots__ = ()
    flag, stage = "--keep-cubin", "cubin"


class KeepSASS(_KeepOption):
    """Writes the disassembled cubin into the dump directory; needs nvdisasm."""

    __slots__ = ()
    flag, stage = "--keep-sass", "sass"


class DumpDir(_TextOption):
    """Where kept stages are written; alone, every stage is. Made if missing."""

    __slots__ = ()
    flag, field, takes = "--dump-dir", "dump_dir", "the path of a directory"


class GenerateLineInfo(CompileOption):
    """Puts source lines into device code for profilers; on the CPU, tells debuggers of the code."""

    __slots__ = ()
    flag, field = "--generate-line-info", "generate_line_info"


class EnableAssertions(CompileOption):
    """Keeps ``assert`` in kernels on CUDA; on the CPU they are always checked."""

    __slots__ = ()
    flag, field = "--enable-assertions", "enable_assertions"


class PtxasOptions(_TextOption):
    """More options for the assembler, as one string: ``"-maxrregcount=64"``."""

    __slots__ = ()
    flag, field, takes = "--ptxas-options", "ptxas_options", "a string of ptxas options"

    @classmethod
    def check(cls, value: object) -> Any:
        """The words of the string, as the assembler gets them."""
        try:
            return tuple(shlex.split(super().check(value)))
        except ValueError as error:
            raise cls.wrong(value, f"{cls.takes} ({error})") from None


class TimeStages(CompileOption):
    """Prints how long each stage took, in milliseconds."""

    __slots__ = ()
    flag, field = "--time", "time"


class VerifyIR(CompileOption):
    """Verifies the module after tracing and after every pass."""

    __slots__ = ()
    flag, field = "--verify", "verify"


OPTIONS: Final[tuple[type[CompileOption], ...]] = (
    EnableTVMFFI,
    UseExecutor,
    CompileTarget,
    GPUArch,
    OptLevel,
    KeepIR,
    KeepLLVM,
    KeepPTX,
    KeepCUBIN,
    KeepSASS,
    DumpDir,
    GenerateLineInfo,
    EnableAssertions,
    PtxasOptions,
    TimeStages,
    VerifyIR,
)

LATER_FLAGS: Final = ("--sanitize", "--no-cache")
"""Options of the design that this version does not have yet."""

_BY_FLAG: Final = {option.flag: option for option in OPTIONS}


class CompileOptions:
    """All options of one compilation, each with its default.

    Attributes:
        enable_tvm_ffi, generate_line_info, enable_assertions, time, verify: switches.
        executor: a name of `EXECUTORS`, an executor class, or None for the default.
        target: a backend's name, or None: follow the arguments.
        gpu_arch: such as ``"sm_90a"``, or None: the device's own, else ``sm_90a``.
        opt_level: 0 to 3.
        keep: stages of `KEEPABLE` to write into `dump_dir`.
        dump_dir: a directory's path, or None.
        ptxas_options: more options for the assembler, one word each.
    """

    __slots__ = (
        "dump_dir",
        "enable_assertions",
        "enable_tvm_ffi",
        "executor",
        "generate_line_info",
        "gpu_arch",
        "keep",
        "opt_level",
        "ptxas_options",
        "target",
        "time",
        "verify",
    )

    def __init__(self) -> None:
        self.enable_tvm_ffi = False
        self.executor: str | type | None = None
        self.target: str | None = None
        self.gpu_arch: str | None = None
        self.opt_level = 3
        self.keep: frozenset[str] = frozenset()
        self.dump_dir: str | None = None
        self.generate_line_info = False
        self.enable_assertions = False
        self.ptxas_options: tuple[str, ...] = ()
        self.time = False
        self.verify = False

    def apply(self, options: Iterable[CompileOption]) -> None:
        """Sets what the options say; a later one wins.

        Raises:
            OptionError: if two of them contradict each other.
        """
        for option in options:
            if isinstance(option, _KeepOption):
                change = frozenset((option.stage,))
                self.keep = self.keep | change if option.value else self.keep - change
            else:
                setattr(self, option.field, option.value)
        self._check_conflicts()

    def _check_conflicts(self) -> None:
        if self.gpu_arch is not None and self.target not in (None, "cuda"):
            raise OptionError(
                "OPTION_CONFLICT",
                f"--gpu-arch {self.gpu_arch} implies --target cuda, but --target is {self.target}",
                hint="leave one of them out",
            )
        if self.enable_tvm_ffi and self.executor not in (None, "tvm-ffi"):
            raise OptionError(
                "OPTION_CONFLICT",
                f"--enable-tvm-ffi asks for the executor tvm-ffi, but --executor is {self.executor}",
                hint="leave one of them out",
            )

    @property
    def wants_target(self) -> str | None:
        """The target that the options alone decide, or None."""
        return "cuda" if self.gpu_arch is not None else self.target


def _unknown(flag: str) -> Exception:
    if flag in LATER_FLAGS:
        return UnavailableError(
            "OPTION_NOT_AVAILABLE", f"option {flag} is not available in this version"
        )
    return OptionError(
        "OPTION_UNKNOWN",
        f"there is no option {flag!r}",
        hint="the options are " + ", ".join(_BY_FLAG),
    )


def parse_options(text: str) -> list[CompileOption]:
    """Options from a string such as ``"--opt-level 2 --gpu-arch=sm_90a"``; empty: none.

    Raises:
        OptionError: for anything unknown, mistyped, out of range or without its value.
        UnavailableError: for an option of a later version.
    Example:
        >>> parse_options("--enable-tvm-ffi --opt-level 2")
        [weft.EnableTVMFFI, weft.OptLevel(2)]
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionError("OPTION_SYNTAX", f"cannot split options {text!r}: {error}") from None
    options: list[CompileOption] = []
    position = 0
    while position < len(words):
        flag, equals, value = words[position].partition("=")
        position += 1
        option = _BY_FLAG.get(flag)
        if option is None:
            raise _unknown(flag)
        if not option.takes:
            if equals:
                raise OptionError(
                    "OPTION_VALUE", f"option {flag} takes no value, received {value!r}"
                )
            options.append(option(True))
            continue
        if not equals:
            if position == len(words):
                raise OptionError(
                    "OPTION_VALUE", f"option {flag} takes {option.takes}, received nothing"
                )
            value = words[position]
            position += 1
        options.append(option(option.read(value)))
    return options


def typed_options(items: object) -> list[CompileOption]:
    """Options from ``weft.compile[...]``: option objects, or option classes that are switches.

    Raises:
        OptionError: if an item is neither, or a class that needs a value.
    """
    options: list[CompileOption] = []
    for item in items if isinstance(items, tuple) else (items,):  # pyright: ignore[reportUnknownVariableType]
        if isinstance(item, CompileOption):
            options.append(item)
        elif isinstance(item, type) and issubclass(item, CompileOption) and hasattr(item, "flag"):
            if item.takes:
                raise OptionError(
                    "OPTION_VALUE", f"weft.{item.__name__} takes {item.takes}, received no value"
                )
            options.append(item())
        else:
            raise OptionError(
                "OPTION_UNKNOWN",
                f"weft.compile[...] takes options, received {item!r}",
                hint="the options are " + ", ".join(f"weft.{o.__name__}" for o in OPTIONS),
            )
    return options


def make_options(
    text: object = "",
    typed: Sequence[CompileOption] = (),
    defaults: Sequence[CompileOption] = (),
) -> CompileOptions:
    """One set of options from the decorator's, the typed and the string form, in that order.

    Args:
        text: what the user gave as ``options=``.
        typed: what stood in the brackets of ``weft.compile[...]``.
        defaults: what ``@weft.jit(options=)`` gave.
    Raises:
        OptionError: if `text` is no string, or anything in it is wrong.
    """
    options = CompileOptions()
    options.apply((*defaults, *typed, *options_from(text)))
    return options


def options_from(text: object) -> list[CompileOption]:
    """Options from whatever a user passes as ``options=``: a string, an option, or a tuple of options."""
    if isinstance(text, str):
        return parse_options(text)
    return typed_options(text)
