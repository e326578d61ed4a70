# SPDX-License-Identifier: Apache-2.0
"""A digest of a function's program: its text, and that of the kernels, helpers and constants that it names.

In: a host function. Out: a digest that comments, blank lines, decorators and other functions do not change, equal for
every version of Python.
"""

from __future__ import annotations

import io
import sys
import tokenize
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.autotuner.space import as_json
from weft.blame import top_package
from weft.cache.digest import blake2b
from weft.errors import ArgumentValueError, WeftError
from weft.frontend.source import plain_function, read_source
from weft.language.functions import KernelFunction, StagedFunction
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.api import JitFunction

_CONSTANTS: Final = (bool, int, float, str, tuple, DType, type(None))
_BOUNDS: Final = ("max_threads", "min_blocks", "max_registers", "cluster", "fp_contract", "math")


def source_digest(function: JitFunction) -> str:
    """The digest of a host function's program."""
    lines: dict[str, str] = {}
    _add(function, lines)
    lines["options"] = repr(function.default_options)
    text = "\0".join(f"{name}\0{lines[name]}" for name in sorted(lines))
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _add(function: Any, lines: dict[str, str]) -> None:
    plain = plain_function(function)
    if plain is None:
        return
    name = plain.__qualname__
    if name in lines:
        return
    bounds = ""
    if isinstance(function, KernelFunction):
        bounds = repr([getattr(function, bound) for bound in _BOUNDS])
    lines[name] = bounds  # before what it names: functions may name each other
    try:
        source = read_source(function)
    except (WeftError, OSError):
        lines[name] += plain.__code__.co_code.hex()
    else:
        first = getattr(source.tree, "lineno", 1) + source.line_offset
        last = (source.tree.end_lineno or 1) + source.line_offset
        lines[name] += without_comments("".join(source.lines[first - 1 : last]))
    for read, value in _reached(plain):
        value = getattr(value, "tuned_function", value)
        if isinstance(value, StagedFunction) or (
            isinstance(value, FunctionType) and not _is_a_library(value.__module__)
        ):
            _add(value, lines)
        elif isinstance(value, _CONSTANTS):
            lines[f"{name} {read}"] = _text(cast("object", value))


def _text(constant: object) -> str:
    try:
        return repr(as_json(constant))
    except ArgumentValueError:  # a tuple of objects without texts
        return type(constant).__name__


def _reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Current values of a function's names, attributes of modules too."""
    names = _names(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    for name in names:
        value = function.__globals__.get(name)
        if value is not None:
            yield name, value
        if isinstance(value, ModuleType) and not _is_a_library(value.__name__):
            yield from ((f"{name}.{n}", vars(value)[n]) for n in names if n in vars(value))


def _names(code: CodeType) -> list[str]:
    inner = (n for c in code.co_consts if isinstance(c, CodeType) for n in _names(c))
    return sorted({*code.co_names, *inner})


def _is_a_library(module: object) -> bool:
    """Whether a module's functions are not the program's own: they are compiled by name."""
    top = top_package(module)
    return top in ("weft", "numpy", "torch") or top in sys.stdlib_module_names


def without_comments(text: str) -> str:
    r"""A function's text without comments, blank lines and spaces that end a line.

    Example:
        >>> without_comments("def f(a):  # why\n\n    return a\n")
        'def f(a):\n    return a'
    """
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, IndentationError):
        pass  # a part of an expression; its comments count
    return "\n".join(line.rstrip() for line in lines if line.strip())
