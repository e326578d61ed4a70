# SPDX-License-Identifier: Apache-2.0
"""Python features not allowed in compiled functions, and what to write instead.

In: a syntax node, or a called function. Out: the error.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import os
import sys
from numbers import Number
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from weft.errors import UnsupportedSyntaxError

_TRY: Final = (
    "TRY",
    "compiled code has no exceptions, so try has nothing to catch",
    "test the condition with if",
)
_WITH: Final = (
    "WITH",
    "with has no meaning in compiled code",
    "write the statements without it",
)
_GENERATOR: Final = (
    "GENERATOR",
    "generators and coroutines cannot be compiled",
    "return a tuple, or store the values in a tensor",
)
# Node class → code, message, hint.
REFUSED: Final[dict[type[ast.AST], tuple[str, str, str]]] = {
    ast.Try: _TRY,
    ast.TryStar: _TRY,
    ast.With: _WITH,
    ast.AsyncWith: _WITH,
    ast.Raise: (
        "RAISE",
        "exceptions cannot be raised by compiled code",
        'write assert condition, "text"',
    ),
    ast.Yield: _GENERATOR,
    ast.YieldFrom: _GENERATOR,
    ast.Await: _GENERATOR,
    ast.AsyncFor: _GENERATOR,
    ast.AsyncFunctionDef: _GENERATOR,
    ast.ClassDef: ("CLASS", "a class cannot be defined in compiled code", "define it outside"),
    ast.Import: ("IMPORT", "import is not part of compiled code", "import at the top of the file"),
    ast.ImportFrom: (
        "IMPORT",
        "import is not part of compiled code",
        "import at the top of the file",
    ),
}


def refusal(node: ast.AST) -> UnsupportedSyntaxError:
    """The error for an unsupported node."""
    code, message, hint = REFUSED.get(
        type(node),
        ("SYNTAX", f"Python's {type(node).__name__} cannot be compiled", "write it another way"),
    )
    return UnsupportedSyntaxError(code, message, hint=hint)


# Functions that inspect their caller's frame or the interpreter, which compiled code does not have.
_FRAMES: Final = ("compiled code has no Python frame", "name the variables one by one")
_TEXTS: Final = ("compiled code cannot run text", "write the code itself, or a helper function")
_ENDS: Final = (
    "it would end the interpreter during compilation",
    'end the thread with return, or the launch with assert False, "text"',
)
_STOPS: Final = ("it would stop the compiler", 'print values with weft.printf("%d\\n", x)')
_CALLS: Final[dict[object, tuple[str, str]]] = {
    builtins.locals: _FRAMES,
    builtins.globals: _FRAMES,
    builtins.vars: _FRAMES,
    builtins.dir: _FRAMES,
    sys._getframe: _FRAMES,  # pyright: ignore[reportPrivateUsage]
    inspect.currentframe: _FRAMES,
    inspect.stack: _FRAMES,
    builtins.eval: _TEXTS,
    builtins.exec: _TEXTS,
    builtins.super: (
        "compiled code has no Python frame",
        "name the class: Base.method(self, ...)",
    ),
    sys.exit: _ENDS,
    os._exit: _ENDS,
    os.abort: _ENDS,
    builtins.breakpoint: _STOPS,
    builtins.input: _STOPS,
}
_WITH_AN_OBJECT: Final = (builtins.vars, builtins.dir, builtins.super)


def refused_call(callee: Any, arguments: list[Any]) -> UnsupportedSyntaxError | None:
    """The error for a Python function without meaning in compiled code; None for any other."""
    if type(callee).__name__ == "Quitter" and type(callee).__module__ == "_sitebuiltins":
        found, name = _ENDS, callee.name  # exit and quit
    elif isinstance(callee, BuiltinFunctionType | FunctionType | type) and callee in _CALLS:
        if callee in _WITH_AN_OBJECT and arguments:
            return None  # of a compile-time object
        found, name = _CALLS[callee], callee.__name__
    elif isinstance(callee, FunctionType) and _makes_array(callee, "weft.driver.memory"):
        found, name = (
            ("it would run once, when the function is compiled", ARRAY_HINT),
            callee.__name__,
        )
    else:
        return None
    message, hint = found
    return UnsupportedSyntaxError(
        "CALL_REFUSED", f"{name}() cannot be compiled: {message}", hint=hint
    )


ARRAY_HINT: Final = (
    "pass the array as an argument, or make it with weft.scratch in a host function, "
    "weft.local or weft.shared in a kernel"
)
_ARRAYS: Final = frozenset(
    name + suffix for name in ("empty", "zeros", "ones", "full") for suffix in ("", "_like")
)
_TEXT_HINT: Final = "compiled code has no strings; weft.printf prints values"
_NUMBER_HINT: Final = "compute with weft's own numbers, such as weft.f64(x)"
# Common Python functions → what to write instead for run-time values.
_HINTS: Final[dict[object, str]] = {
    **dict.fromkeys((str, repr, format, ascii, hex, oct, bin, chr, bytes), _TEXT_HINT),
    builtins.sorted: "order two with low, high = min(x, y), max(x, y), more with a loop over an array",
    builtins.iter: "loop over range(...)",
    math.ceil: "weft.ceil_div(n, 128) divides integers and rounds up; weft.math.ceil gives a float",
    math.floor: "n // 128 divides integers and rounds down; weft.math.floor gives a float",
}


def _makes_array(callee: Any, module: str = "") -> bool:
    """Whether it is a library's function of that name, such as `numpy.zeros`."""
    own = getattr(callee, "__module__", None) or ""
    return getattr(callee, "__name__", "") in _ARRAYS and own.startswith(module)


def call_hint(callee: Any) -> str:
    """The code to write instead of calling a Python function with run-time values; "" for most."""
    if isinstance(getattr(callee, "__self__", None), str):
        return _TEXT_HINT  # a method such as str.format
    if isinstance(callee, type) and issubclass(callee, Number):
        return _NUMBER_HINT  # Fraction, complex, NumPy's
    if _makes_array(callee):
        return ARRAY_HINT  # NumPy's and torch's
    return _HINTS.get(callee, "") if isinstance(callee, BuiltinFunctionType | type) else ""


def outer_assignment() -> UnsupportedSyntaxError:
    """The error for a `global` or `nonlocal` of a variable that the function changes."""
    return UnsupportedSyntaxError(
        "OUTER_ASSIGNMENT",
        "variables of an outer function or a module cannot be changed",
        hint="return the value and assign it there; reading needs no declaration",
    )
