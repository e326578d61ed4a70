# SPDX-License-Identifier: Apache-2.0
"""Compile options: one class each, in one table; as a string, or as objects in brackets.

In: ``"--enable-tvm-ffi --opt-level 2"``, or objects such as ``weft.EnableTVMFFI``; values of a wrong type or range, and
unknown options, are errors that name the allowed values. Out: fields of `CompileOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from weft.backends.registry import find_target
from weft.config import config, overridden
from weft.errors import OptionError, brief
from weft.language.functions import MATH
from weft.runtime.code_image import EXECUTORS
from weft.sanitizer.checks import TAKES, ordered_checks, unchecked_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.backends.base import Backend


class CompileOption:
    """One option with its value; users name the subclasses.

    Attributes:
        flag: the spelling in a string of options.
        field: the attribute of `CompileOptions` to set.
        value: to set.

    Example:
        >>> weft.compile[weft.OptLevel(1), weft.KeepPTX]
        weft.compile[weft.OptLevel(1), weft.KeepPTX]
    """

    flag: ClassVar[str]
    field: ClassVar[str]
    takes: ClassVar[str]
    """The allowed values, in words; empty for a switch."""
    alone: ClassVar[str] = ""
    """The value in a string of options without one; empty: the value is required."""

    def __init_subclass__(cls, *, flag: str = "", takes: str = "", **others: str) -> None:
        super().__init_subclass__(**others)
        cls.takes = takes
        if flag:
            cls.flag, cls.field = flag, flag[2:].replace("-", "_")

    def __init__(self, value: object = True) -> None:
        self.value = self.check(value)

    def __repr__(self) -> str:
        return f"weft.{type(self).__name__}" + (f"({self.value!r})" if self.takes else "")

    @classmethod
    def check(cls, value: object) -> Any:
        """The checked value for `CompileOptions`.

        Raises:
            OptionError: if it is of the wrong type or out of range.
        """
        if not isinstance(value, bool):
            raise cls.wrong(value, "True or False")
        return value

    @classmethod
    def read(cls, text: str) -> object:
        """The value from a string of options, before `check`."""
        return text

    @classmethod
    def wrong(cls, value: object, expected: str) -> OptionError:
        """The error for an invalid value of this option."""
        return OptionError(
            "OPTION_VALUE", f"option {cls.flag} takes {expected}, received {brief(value)}"
        )


class _TextOption(CompileOption):
    """An option whose value is a string."""

    pattern: ClassVar[str]

    def __init_subclass__(cls, *, pattern: str = r"[^\0]+", **others: str) -> None:
        super().__init_subclass__(**others)
        cls.pattern = pattern

    def __init__(self, value: object) -> None:
        super().__init__(value)

    @classmethod
    def check(cls, value: object) -> Any:
        import re

        if not isinstance(value, str) or not re.fullmatch(cls.pattern, value):
            raise cls.wrong(value, cls.takes)
        return value


class EnableTVMFFI(CompileOption, flag="--enable-tvm-ffi"):
    """Makes the result usable by other languages as a TVM-FFI function: the executor is ``tvm-ffi``.

    Example:
        >>> weft.compile[weft.EnableTVMFFI]
        weft.compile[weft.EnableTVMFFI]
    """


class UseExecutor(
    _TextOption,
    flag="--executor",
    takes="one of " + ", ".join(EXECUTORS),
    pattern="|".join(EXECUTORS),
):
    """Executor, which loads kernels: ``"context"``, ``"library"`` or ``"tvm-ffi"``.

    Example:
        >>> weft.compile[weft.UseExecutor('context')]
        weft.compile[weft.UseExecutor('context')]
    """


class CompileTarget(_TextOption, flag="--target", takes="a backend's name, such as cpu or cuda"):
    """The backend: ``"cpu"``, ``"cuda"``, or one that another package registers.

    Example:
        >>> weft.compile[weft.CompileTarget('cuda')]
        weft.compile[weft.CompileTarget('cuda')]
    """


class GPUArch(_TextOption, flag="--gpu-arch", takes="an architecture such as sm_90a"):
    """The GPU architecture, such as ``"sm_90a"``; implies its target, ``cuda``.

    By default code is for the first tensor's GPU, else for the current GPU, without a driver for sm_90a. From compute
    capability 9.0 on that is the chip's own architecture, with an ``a``. As a decorator's option it is ignored for
    tensors on the CPU. Without an installed assembler the function holds PTX, which the driver assembles when loading
    it.

    Example:
        >>> weft.compile[weft.GPUArch('sm_90a')]
        weft.compile[weft.GPUArch('sm_90a')]
    """

    @classmethod
    def check(cls, value: object) -> Any:
        """An architecture that some target has."""
        if find_target(super().check(value)) is None:
            raise cls.wrong(value, cls.takes)
        return value


class OptLevel(CompileOption, flag="--opt-level", takes="an integer from 0 to 3"):
    """Optimization level of LLVM and the assembler, 0 to 3; 3 by default.

    Example:
        >>> weft.compile[weft.OptLevel(0)]
        weft.compile[weft.OptLevel(0)]
    """

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
    """Writes one stage's text into the directory of ``--dump-dir``."""

    stage: ClassVar[str]

    def __init_subclass__(cls, *, flag: str) -> None:
        super().__init_subclass__(flag=flag)
        cls.field, cls.stage = "keep", flag.removeprefix("--keep-")


class KeepIR(_KeepOption, flag="--keep-ir"):
    """Writes the module before lowering, host function, kernels and wrapper, into the directory of ``--dump-dir``.

    Example:
        >>> weft.compile[weft.KeepIR]
        weft.compile[weft.KeepIR]
    """


class KeepLLVM(_KeepOption, flag="--keep-llvm"):
    """Writes the LLVM texts into the directory of ``--dump-dir``.

    Example:
        >>> weft.compile[weft.KeepLLVM]
        weft.compile[weft.KeepLLVM]
    """


class KeepPTX(_KeepOption, flag="--keep-ptx"):
    """Writes the PTX text into the directory of ``--dump-dir``.

    Example:
        >>> weft.compile[weft.KeepPTX]
        weft.compile[weft.KeepPTX]
    """


class KeepCUBIN(_KeepOption, flag="--keep-cubin"):
    """Writes the cubin into the directory of ``--dump-dir``.

    Example:
        >>> weft.compile[weft.KeepCUBIN]
        weft.compile[weft.KeepCUBIN]
    """


class KeepSASS(_KeepOption, flag="--keep-sass"):
    """Writes the disassembled cubin into the directory of ``--dump-dir``; needs nvdisasm.

    Example:
        >>> weft.compile[weft.KeepSASS]
        weft.compile[weft.KeepSASS]
    """


class DumpDir(_TextOption, flag="--dump-dir", takes="the path of a directory"):
    """The directory for kept stages, by default ``weft-dump`` in the working directory; created if missing.

    Without a ``--keep`` option, it keeps every stage that the machine can make: the module after its trace and
    after each pass (``.01-trace.mlir`` and so on, in order) and at the end (``.mlir``), LLVM's text of the kernels and
    of the host code (``.ll``, ``.host.ll``), for GPUs ``.ptx``, ``.cubin`` and ``.sass``, and the object that is linked
    into the process (``.o``).

    Example:
        >>> weft.compile[weft.DumpDir('stages')]
        weft.compile[weft.DumpDir('stages')]
    """


class GenerateLineInfo(CompileOption, flag="--generate-line-info"):
    """Adds source lines to device code for profilers; on the CPU, reports the code to debuggers.

    Example:
        >>> weft.compile[weft.GenerateLineInfo]
        weft.compile[weft.GenerateLineInfo]
    """


class EnableAssertions(CompileOption, flag="--enable-assertions"):
    """Keeps ``assert`` in kernels on CUDA; on the CPU they are always checked.

    A thread that fails one ends there. The next call of the function, or `weft.synchronize`, raises the
    `AssertionError`, and the context lives on. It is lost, though the error is the same, where other threads wait for a
    number of threads: in kernels with `mbarrier`, `named_barrier`, `sync_warpgroup` or `sync_grid`.

    Example:
        >>> weft.compile[weft.EnableAssertions]
        weft.compile[weft.EnableAssertions]
    """


class FPContract(_TextOption, flag="--fp-contract", takes="one of on, off", pattern="on|off"):
    """Whether ``a * b + c`` is rounded once, ``"on"``, or after each operation, ``"off"``; on by default.

    A kernel's ``fp_contract=`` takes precedence.

    Example:
        >>> weft.compile[weft.FPContract('off')]
        weft.compile[weft.FPContract('off')]
    """


class MathFunctions(
    _TextOption, flag="--math", takes="one of " + ", ".join(MATH), pattern="|".join(MATH)
):
    """Mathematical functions of kernels for ``f32`` and narrower floats: ``"fast"`` by default.

    ``"fast"`` functions use an NVIDIA GPU's special function units where that is shorter; on the CPU they are the
    portable ones, so the two differ, within the errors of docs/mathematics.md. ``"portable"`` functions give the same
    bits on every target. A kernel's ``math=`` takes precedence.

    Example:
        >>> weft.compile[weft.MathFunctions('portable')]
        weft.compile[weft.MathFunctions('portable')]
    """


class PtxasOptions(_TextOption, flag="--ptxas-options", takes="a string of ptxas options"):
    """Further options for the assembler, as one string: ``"-dlcm=cg -maxrregcount=64"``.

    ``-maxrregcount``, 16 to 255, becomes a limit in the PTX, since the assembler ignores it for constant blocks. A
    kernel's ``max_registers=`` takes precedence. The output of ``-v`` is in ``fn.kernels``.

    Example:
        >>> weft.compile[weft.PtxasOptions("-dlcm=cg -maxrregcount=64")]
        weft.compile[weft.PtxasOptions(('-dlcm=cg', '-maxrregcount=64'))]
    """

    @classmethod
    def check(cls, value: object) -> Any:
        """The words of the string, for the assembler."""
        import shlex

        text = super().check(value)
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise cls.wrong(value, f"{cls.takes} ({error})") from None


class Sanitize(_TextOption, flag="--sanitize", takes=TAKES):
    """Checks kernels while they run; ``--sanitize`` alone means ``"bounds"``: accesses outside of arrays.

    A finding is a `weft.SanitizerError`. Without the option there is no additional instruction.

    Example:
        >>> weft.compile[weft.Sanitize('bounds')]
        weft.compile[weft.Sanitize('bounds')]
    """

    alone = "bounds"

    @classmethod
    def check(cls, value: object) -> Any:
        """The checks in their order, each once."""
        found = ordered_checks(value)
        if found is None:
            raise cls.wrong(value, cls.takes)
        return found


class NoCache(CompileOption, flag="--no-cache"):
    """Neither looks the function up in the cache on disk nor keeps it there.

    Example:
        >>> weft.compile[weft.NoCache]
        weft.compile[weft.NoCache]
    """


class TimeStages(CompileOption, flag="--time"):
    """Prints the time of each stage, of loading and of the first launch, in milliseconds.

    Example:
        >>> weft.compile[weft.TimeStages]
        weft.compile[weft.TimeStages]
    """


class VerifyIR(CompileOption, flag="--verify"):
    """Verifies the module after tracing and after every pass.

    Example:
        >>> weft.compile[weft.VerifyIR]
        weft.compile[weft.VerifyIR]
    """


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
    FPContract,
    MathFunctions,
    NoCache,
    PtxasOptions,
    Sanitize,
    TimeStages,
    VerifyIR,
)


class CompileOptions:
    """All options of one compilation, each with its default.

    Attributes:
        enable_tvm_ffi, generate_line_info, enable_assertions, no_cache, time, verify: switches.
        executor: a name of `EXECUTORS`, or None for the default.
        target: a backend's name; None follows the arguments.
        gpu_arch: such as ``"sm_90a"``; None: the first tensor's device.
        opt_level: 0 to 3.
        keep: stages to write into `dump_dir`.
        dump_dir: a directory's path, or None.
        fp_contract: ``"on"`` or ``"off"``.
        math: ``"fast"`` or ``"portable"``.
        ptxas_options: further options for the assembler, one word each.
        sanitize: checks and modes of `weft.config` in their order, separated by commas, or an empty text.
        defaults: the fields, and stages of `keep`, set only by ``@weft.jit(options=)``.
    """

    enable_tvm_ffi = False
    executor: str | None = None
    target: str | None = None
    gpu_arch: str | None = None
    opt_level = 3
    keep: frozenset[str] = frozenset()
    dump_dir: str | None = None
    generate_line_info = False
    enable_assertions = False
    fp_contract = "on"
    math = "fast"
    no_cache = False
    ptxas_options: tuple[str, ...] = ()
    sanitize = ""
    time = False
    verify = False
    defaults: frozenset[str] = frozenset()

    def apply(self, options: Iterable[CompileOption], are_defaults: bool = False) -> None:
        """Applies options that were given together; they override earlier ones.

        Args:
            options: given together, without contradictions.
            are_defaults: whether they come from the decorator.
        Raises:
            OptionError: if two of them contradict each other.
        """
        said = CompileOptions()
        stages: set[str] = set()
        for option in options:
            if isinstance(option, _KeepOption):
                change = frozenset((option.stage,))
                self.keep = self.keep | change if option.value else self.keep - change
                stages |= change
            else:
                setattr(said, option.field, option.value)
        said._check_conflicts()
        if said.target not in (None, find_target(self.gpu_arch)):
            self.gpu_arch = None
        if said.gpu_arch is not None and self.target != find_target(said.gpu_arch):
            self.target = None
        if said.executor not in (None, "tvm-ffi"):
            self.enable_tvm_ffi = False
        if said.enable_tvm_ffi and self.executor != "tvm-ffi":
            self.executor = None
        vars(self).update(vars(said))
        fields = stages | vars(said).keys()
        self.defaults = self.defaults | fields if are_defaults else self.defaults - fields

    def fit(self, backend: Backend) -> None:
        """Drops the decorator's options for other targets.

        Raises:
            OptionError: if other options concern a stage that this target does not have.
        """
        if "gpu_arch" in self.defaults and find_target(self.gpu_arch) != backend.name:
            self.gpu_arch = None
        if self.ptxas_options and "ptx" not in backend.stages:
            if "ptxas_options" not in self.defaults:
                raise OptionError(
                    "OPTION_CONFLICT",
                    f"--ptxas-options are for the assembler of PTX, which the target {backend.name} does not have",
                    hint="leave them out, or compile with --target cuda",
                )
            self.ptxas_options = ()
        if unknown := set(self.sanitize.split(",")) - {"", *backend.checks}:
            if "sanitize" not in self.defaults:
                raise unchecked_target(backend.name, unknown, backend.checks)
            given = self.sanitize.split(",")
            self.sanitize = ",".join(name for name in backend.checks if name in given)
        self.keep -= self.defaults.difference(("ir", "llvm"), backend.stages)

    def _check_conflicts(self) -> None:
        implied = find_target(self.gpu_arch)
        if implied is not None and self.target not in (None, implied):
            raise OptionError(
                "OPTION_CONFLICT",
                f"--gpu-arch {self.gpu_arch} implies --target {implied}, but --target is {self.target}",
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
        """The target given by the options alone, or None."""
        return find_target(self.gpu_arch) or self.target

    @property
    def insists_on_target(self) -> str | None:
        """The same beside tensors, which override a decorator's architecture."""
        return self.target if "gpu_arch" in self.defaults else self.wants_target


_QUOTING: Final = frozenset("'\"\\")
_BY_FLAG: Final = {option.flag: option for option in OPTIONS}


def _unknown(flag: str) -> Exception:
    return OptionError(
        "OPTION_UNKNOWN",
        f"there is no option {brief(flag)}",
        hint="the options are " + ", ".join(_BY_FLAG),
    )


def _words(text: str) -> list[str]:
    """The words of a string of options, as a shell splits them."""
    if text.isascii() and text.isprintable() and _QUOTING.isdisjoint(text):
        return text.split()  # without importing `shlex`
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        raise OptionError("OPTION_SYNTAX", f"cannot split options {brief(text)}: {error}") from None


def parse_options(text: str) -> list[CompileOption]:
    """Options from a string such as ``"--opt-level 2 --gpu-arch=sm_90a"``; empty: none.

    Raises:
        OptionError: for anything unknown, mistyped, out of range or without its value.
        UnavailableError: for a value of a later version.
    Example:
        >>> parse_options("--enable-tvm-ffi --opt-level 2")
        [weft.EnableTVMFFI, weft.OptLevel(2)]
    """
    words = _words(text)
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
                    "OPTION_VALUE", f"option {flag} takes no value, received {brief(value)}"
                )
            options.append(option(True))
            continue
        stands_alone = position == len(words) or words[position].startswith("--")
        if not equals and option.alone and stands_alone:
            value = option.alone
        elif not equals:
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
    given = cast("tuple[Any, ...]", items if isinstance(items, tuple) else (items,))
    return [_typed("weft.compile[...]", item) for item in given]


def _typed(where: str, item: object) -> CompileOption:
    if isinstance(item, CompileOption):
        return item
    if isinstance(item, type) and issubclass(item, CompileOption) and hasattr(item, "flag"):
        if item.takes:
            raise OptionError(
                "OPTION_VALUE", f"weft.{item.__name__} takes {item.takes}, received no value"
            )
        return item()
    raise OptionError(
        "OPTION_UNKNOWN",
        f"{where} takes options, received {brief(item)}",  # pyright: ignore[reportUnknownArgumentType]
        hint="the options are " + ", ".join(f"weft.{o.__name__}" for o in OPTIONS),
    )


def make_options(
    text: object = "",
    typed: Sequence[CompileOption] = (),
    defaults: Sequence[CompileOption] = (),
) -> CompileOptions:
    """One set of options from the decorator, brackets and string; later ones win.

    Args:
        text: the user's ``options=``.
        typed: from the brackets of ``weft.compile[...]``.
        defaults: from ``@weft.jit(options=)``.
    Raises:
        OptionError: if `text` is not a string, or anything in it is wrong.
    """
    options = CompileOptions()
    options.apply(defaults, are_defaults=True)
    options.apply(typed)
    options.apply(options_from(text))
    _add_checks(options)
    return options


def _add_checks(options: CompileOptions) -> None:
    """Adds the checks of `weft.sanitize` or, as defaults, of the environment."""
    wanted = config.sanitize
    if wanted:
        insists = options.sanitize and "sanitize" not in options.defaults
        is_default = overridden("sanitize") is None and not insists
        checks = Sanitize(f"{options.sanitize},{wanted}".strip(","))
        options.apply([checks], are_defaults=is_default)


def options_from(given: object) -> list[CompileOption]:
    """Options from ``options=``: strings and options, single or in a list or tuple.

    None is not accepted.

    Raises:
        OptionError: for any other type or invalid content.
    Example:
        >>> options_from(["--opt-level 2", weft.EnableTVMFFI])
        [weft.OptLevel(2), weft.EnableTVMFFI]
    """
    if given is None:
        return []
    items = cast("Sequence[object]", given) if isinstance(given, list | tuple) else (given,)
    options: list[CompileOption] = []
    for item in items:
        options += parse_options(item) if isinstance(item, str) else [_typed("options=", item)]
    return options
