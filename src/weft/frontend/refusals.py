# SPDX-License-Identifier: Apache-2.0
"""Python that compiled functions cannot contain, and what to write instead.

In: a syntax node. Out: the error. Next: expressions, statements.
"""

from __future__ import annotations

import ast
from typing import Final

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
_OUTER: Final = (
    "OUTER_ASSIGNMENT",
    "variables of an outer function or a module cannot be changed",
    "return the value and assign it there",
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
    ast.Global: _OUTER,
    ast.Nonlocal: _OUTER,
    ast.ClassDef: ("CLASS", "a class cannot be defined in compiled code", "define it outside"),
    ast.Import: ("IMPORT", "import is not part of compiled code", "import at the top of the file"),
    ast.ImportFrom: (
        "IMPORT",
        "import is not part of compiled code",
        "import at the top of the file",
    ),
}


def refusal(node: ast.AST) -> UnsupportedSyntaxError:
    """The error for a node that no visitor knows."""
    code, message, hint = REFUSED.get(
        type(node),
        ("SYNTAX", f"Python's {type(node).__name__} cannot be compiled", "write it another way"),
    )
    return UnsupportedSyntaxError(code, message, hint=hint)
