# SPDX-License-Identifier: Apache-2.0
"""The environment variables of weft: the only module that reads the environment.

In: `WEFT_*` variables, read on demand, and values set by `override`. Out: typed values of `config`.
docs/configuration.md is generated from this table.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_LOOKS_LIKE = 0.8  # of difflib: one letter in eight may differ or be missing
# Values of `override` in this context, by field name. Nearly always empty.
overrides_variable: ContextVar[Mapping[str, object]] = ContextVar("weft configuration overrides")
"""Values of `override` in a context, for native code too."""
_overrides = overrides_variable


class EnvironmentVariableError(ValueError):
    """An environment variable has an invalid value; the message names it and the allowed values."""


class Variable:
    """One environment variable: its name and meaning. The subclasses define its values.

    Reading the attribute of `Config` reads the environment, so changes take effect at once.

    Args:
        name: the variable, `WEFT_...`.
        doc: one or two sentences for docs/configuration.md.

    Attributes:
        field: the attribute of `Config`, by which `override` finds it.
        kind: its values, in words.
    """

    __slots__ = ("doc", "field", "name")

    kind: str = ""

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.doc = doc
        self.field = ""

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember the attribute's name."""
        self.field = name

    def text(self) -> str:
        """The environment's text; an empty variable counts as unset."""
        return os.environ.get(self.name, "")


class Switch(Variable):
    """A switch; off unless set."""

    __slots__ = ()

    kind = "1 or 0"
    texts: Mapping[str, bool] = {"": False, "0": False, "off": False, "1": True, "on": True}

    def __get__(self, instance: Config | None, owner: type[Config]) -> bool:
        """Whether it is on.

        Raises:
            ValueError: if the environment holds any other text.
        """
        overridden = _overrides.get({}).get(self.field)
        if isinstance(overridden, bool):
            return overridden
        value = self.texts.get(self.text().lower())
        if value is None:
            raise EnvironmentVariableError(f"{self.name} is {self.text()!r}, expected {self.kind}")
        return value

    def accepts(self, value: object) -> bool:
        """Accepts True and False."""
        return isinstance(value, bool)


class FilePath(Variable):
    """The path of a file; None unless set."""

    __slots__ = ()

    kind = "the path of a file"

    def __get__(self, instance: Config | None, owner: type[Config]) -> str | None:
        """The path as written, or None; it need not exist."""
        overridden = _overrides.get({}).get(self.field)
        return overridden if isinstance(overridden, str) else self.text() or None

    def accepts(self, value: object) -> bool:
        """Accepts strings; the environment's value cannot be unset."""
        return isinstance(value, str) and value != ""


class Count(Variable):
    """A count; 0 unless set."""

    __slots__ = ()

    kind = "an integer from 0 to 1024"

    def __get__(self, instance: Config | None, owner: type[Config]) -> int:
        """The number.

        Raises:
            ValueError: if the environment holds any other text.
        """
        overridden = _overrides.get({}).get(self.field)
        if isinstance(overridden, int):
            return overridden
        text = self.text() or "0"
        if not text.isdecimal() or not self.accepts(int(text)):
            raise EnvironmentVariableError(f"{self.name} is {self.text()!r}, expected {self.kind}")
        return int(text)

    def accepts(self, value: object) -> bool:
        """Accepts integers from 0 to 1024, no bools."""
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1024


class Choice(Variable):
    """One of a few words; None unless set."""

    __slots__ = ("words",)

    def __init__(self, name: str, words: tuple[str, ...], doc: str) -> None:
        super().__init__(name, doc)
        self.words = words

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The words."""
        return f"one of {', '.join(self.words)}"

    def __get__(self, instance: Config | None, owner: type[Config]) -> str | None:
        """The word in lower case, or None.

        Raises:
            ValueError: if the environment holds any other text.
        """
        overridden = _overrides.get({}).get(self.field)
        if isinstance(overridden, str):
            return overridden
        text = self.text().lower()
        if text and not self.accepts(text):
            raise EnvironmentVariableError(f"{self.name} is {self.text()!r}, expected {self.kind}")
        return text or None

    def accepts(self, value: object) -> bool:
        """Accepts the words only."""
        return value in self.words


class Words(Variable):
    """Some of a few words, separated by commas, as one text in the words' order; empty unless set.

    A group is a word that stands for others.
    """

    __slots__ = ("groups", "words")

    def __init__(
        self,
        name: str,
        words: tuple[str, ...],
        doc: str,
        groups: Mapping[str, tuple[str, ...]],
    ) -> None:
        super().__init__(name, doc)
        self.words = words
        self.groups = groups

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The words."""
        return f"some of {', '.join((*self.words, *self.groups))}, separated by commas"

    def __get__(self, instance: Config | None, owner: type[Config]) -> str:
        """The words in their order, each once, separated by commas.

        Raises:
            ValueError: if the environment holds any other text.
        """
        overridden = _overrides.get({}).get(self.field)
        if isinstance(overridden, str):
            return self.ordered(overridden)
        text = self.text()
        if text and not self.accepts(text):
            raise EnvironmentVariableError(f"{self.name} is {text!r}, expected {self.kind}")
        return self.ordered(text)

    def ordered(self, text: str) -> str:
        """The words of a text in the variable's order, each once, for groups those that they stand for."""
        given = [word.strip().lower() for word in text.split(",")]
        given += [word for group in given for word in self.groups.get(group, ())]
        return ",".join(word for word in self.words if word in given)

    def accepts(self, value: object) -> bool:
        """Accepts one or more of the words, separated by commas."""
        return isinstance(value, str) and all(
            word.strip().lower() in (*self.words, *self.groups) for word in value.split(",")
        )


SANITIZER_DEFECTS = ("bounds", "races", "barriers", "uninit", "async")
"""Checks of the sanitizer for defects in every program: ``all``; docs/sanitizer.md describes each."""
SANITIZER_CHECKS = (
    *SANITIZER_DEFECTS,
    *("overflow", "division", "shifts", "conversions", "nan"),
)
"""All checks of the sanitizer: those of arithmetic, whose results the language defines, are asked for by name."""
SANITIZER_MODES = ("continue", "benign", "orders", "trace")
"""Modes of the sanitizer: beyond the first finding; races of threads that write the same value too; in the order of
threads that `weft.testing` sets; tracing a thread for `weft.testing.trace_thread`."""


class Config:
    """The current configuration: attributes that read the environment on access."""

    __slots__ = ()

    backtrace = Switch(
        "WEFT_BACKTRACE",
        "Errors raised by generated code carry a native backtrace, which costs 4 to 84 µs each.",
    )
    full_tracebacks = Switch(
        "WEFT_FULL_TRACEBACKS",
        "Errors in a program that weft compiles show the compiler's own frames too.",
    )
    log = Choice(
        "WEFT_LOG",
        ("debug", "info", "warning", "error"),
        "Log messages from this level on are written to standard error, unless the program handles "
        "the logger `weft` itself: which executor each function got and why (info), for example.",
    )
    time = Switch(
        "WEFT_TIME",
        "Every compilation prints the times of its stages, and the first call of the result the times of "
        "loading and the first launch, as the option `--time` does for one function.",
    )
    sanitize = Words(
        "WEFT_SANITIZE",
        (*SANITIZER_CHECKS, *SANITIZER_MODES),
        "What functions compiled from now on for the CPU check while they run, as with the option `--sanitize` "
        "(docs/sanitizer.md).",
        {"all": SANITIZER_DEFECTS},
    )
    num_threads = Count(
        "WEFT_NUM_THREADS",
        "How many threads share a grid on the CPU; 0: one per CPU that the process may use.",
    )
    cpu_multiprocessors = Count(
        "WEFT_CPU_MULTIPROCESSORS",
        "What `weft.multiprocessors()` is on the CPU; 0: 4. More than 1 tries grids of fewer blocks than tiles.",
    )
    cpu_max_clusters = Count(
        "WEFT_CPU_MAX_CLUSTERS",
        "What `kernel.max_clusters(n)` is on the CPU, for every n; 0: 2.",
    )
    hold_gil = Switch(
        "WEFT_HOLD_GIL",
        "Foreign functions are called with the GIL held, which is faster and wrong for those that wait for a "
        "Python thread.",
    )
    launch_gil = Choice(
        "WEFT_LAUNCH_GIL",
        ("auto", "hold", "release"),
        "Whether a launch on a GPU holds the GIL: `auto`, the default, while the driver's queue is known to have room; "
        "`hold` always, which deadlocks where a full queue waits for a Python callback; `release` never. Read with "
        "`WEFT_LIBCUDA`, when the driver is prepared.",
    )
    libcuda = FilePath(
        "WEFT_LIBCUDA",
        "The driver library to open instead of `libcuda.so.1`.",
    )
    libtvm_ffi = FilePath(
        "WEFT_LIBTVM_FFI",
        "The `libtvm_ffi.so` to open instead of the installed `apache-tvm-ffi`'s.",
    )
    ptxas = FilePath(
        "WEFT_PTXAS",
        "The `ptxas` to run instead of that of the `cuda` extra or the search path.",
    )
    nvjitlink = FilePath(
        "WEFT_NVJITLINK",
        "The `libnvJitLink.so` to assemble with instead of `ptxas`, unless `WEFT_PTXAS` is set.",
    )
    no_cache = Switch(
        "WEFT_NO_CACHE",
        "Nothing is read from the cache on disk or kept there, as with the option `--no-cache` for one function.",
    )
    cache_dir = FilePath(
        "WEFT_CACHE_DIR",
        "The folder of the cache on disk instead of `weft` in `XDG_CACHE_HOME` or `~/.cache`.",
    )
    cache_pack = FilePath(
        "WEFT_CACHE_PACK",
        "Folders made by `weft cache pack`, separated as in `PATH`, that are searched before the user's cache.",
    )
    cache_limit = Count(
        "WEFT_CACHE_LIMIT",
        "How many megabytes the cache on disk may take; 0: 1024. What was not used for longest goes first.",
    )
    autotune = Choice(
        "WEFT_AUTOTUNE",
        ("off", "cached", "full"),
        "What functions of `weft.autotune` do for arguments that are new to them: `full` measures unless a result is "
        "kept, and is the default; `cached` never measures; `off` runs the first configuration.",
    )
    nvdisasm = FilePath(
        "WEFT_NVDISASM",
        "The `nvdisasm` to run instead of that of the `cuda` extra or the search path.",
    )


config = Config()


def variables() -> tuple[Switch | FilePath | Count | Choice | Words, ...]:
    """Every variable, in the order of the documentation."""
    return tuple(
        value
        for value in vars(Config).values()
        if isinstance(value, Switch | FilePath | Count | Choice | Words)
    )


def overridden(field: str) -> object:
    """The value of a field set by `override` in the calling context, or None; does not read the environment."""
    return _overrides.get({}).get(field)


def overrides() -> Mapping[str, object]:
    """All that is overridden in the calling context."""
    return _overrides.get({})


@contextmanager
def call_mode(name: str, value: object) -> Generator[None]:
    """Sets what no variable says, for `overridden` in the calling context."""
    token = _overrides.set({**_overrides.get({}), name: value})
    try:
        yield
    finally:
        _overrides.reset(token)


def misspelled_variables() -> dict[str, str]:
    """Names in the environment that resemble one of `variables`, each with that name.

    Other names with `WEFT_` belong to other programs: an application may have that name too.
    """
    known = [variable.name for variable in variables()]
    unknown = sorted(name for name in os.environ if name.startswith("WEFT_") and name not in known)
    if not unknown:
        return {}
    from difflib import get_close_matches  # only such a name needs it

    near = {name: get_close_matches(name, known, n=1, cutoff=_LOOKS_LIKE) for name in unknown}
    return {name: found[0] for name, found in near.items() if found}


def search_path() -> str:
    """`PATH`, for tools that no variable names."""
    return os.environ.get("PATH", os.defpath)


def cache_home() -> str | None:
    """Folder of programs' caches: `XDG_CACHE_HOME` or `~/.cache`; None where there is no home directory."""
    chosen, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if os.path.isabs(chosen):  # noqa: PTH117
        return chosen
    return os.path.join(home, ".cache") if home and os.path.isdir(home) else None  # noqa: PTH112, PTH118


def sanitize_process(checks: str) -> Callable[[], None]:
    """Sets `WEFT_SANITIZE` for this process and those that it starts; returns what sets it back."""
    name = vars(Config)["sanitize"].name
    before = os.environ.get(name)
    os.environ[name] = checks

    def restore() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    return restore


def environment(**defaults: str) -> dict[str, str]:
    """The environment for a tool, with defaults for missing variables."""
    return {**defaults, **os.environ}


@contextmanager
def override(**values: object) -> Generator[None]:
    """Set fields of `config` in the calling context, overriding the environment.

    Args:
        values: by field name (`ptxas`, not `WEFT_PTXAS`).

    Raises:
        TypeError: if there is no such field.
        ValueError: if a value is not of the field's kind.

    Example:
        >>> with override(backtrace=True):
        ...     config.backtrace
        True
    """
    fields = {variable.field: variable for variable in variables()}
    for name, value in values.items():
        if name not in fields:
            raise TypeError(
                f"no configuration field {name!r}, expected one of: {', '.join(fields)}"
            )
        if not fields[name].accepts(value):
            raise ValueError(
                f"configuration field {name!r} is {fields[name].kind}, received {value!r}"
            )
    token = _overrides.set({**_overrides.get({}), **values})
    try:
        yield
    finally:
        _overrides.reset(token)
