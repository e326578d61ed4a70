# SPDX-License-Identifier: Apache-2.0
"""A function's syntax before tracing: the names that statements assign, read and need later, exits, refused features.

In: statements of one function. Out: sets of names, over-approximated where Python is dynamic, so that control flow
carries only assigned, live variables. In: a syntax node, or a called function. Out: the error, with what to write
instead.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.errors import UnsupportedSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Names = frozenset[str]

NONE: Final[Names] = frozenset()

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_TAKING: Final = (ast.Call, ast.For, ast.comprehension)
_EXITS: Final = (ast.Break, ast.Continue, ast.Return)
_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)


class Exits(NamedTuple):
    """Ways in which a statement can leave its block.

    Attributes:
        breaks, continues: whether a `break` or `continue` of an enclosing loop is inside.
        returns: whether a `return` is inside.
    """

    breaks: bool = False
    continues: bool = False
    returns: bool = False

    def __bool__(self) -> bool:
        return any(self)

    @property
    def leave_loop(self) -> bool:
        """Whether an iteration may be the last although the loop's condition still holds."""
        return self.breaks or self.returns


_NO_EXITS: Final = Exits()


class NameAnalysis:
    """The analyses of one function's statements; each node is analyzed once.

    Args:
        has_walrus: whether assignment expressions may occur; without them, only targets bind.

    Attributes:
        always_live: names read by nested functions, which may be called anywhere.
    """

    def __init__(self, *, has_walrus: bool = True) -> None:
        self._has_walrus = has_walrus
        self._assigned: dict[ast.AST, Names] = {}
        self._read: dict[ast.AST, Names] = {}
        self._exits: dict[ast.AST, Exits] = {}
        # Keyed by the first and last of some statements, and the variables live after them.
        self._live: dict[tuple[ast.stmt, ast.stmt, Names], Names] = {}
        self.always_live: Names = NONE

    def assigned(self, nodes: Sequence[ast.AST]) -> Names:
        """Names that the nodes bind, except in nested functions and comprehensions."""
        return _union(self._assigned_by(node) for node in nodes)

    def _assigned_by(self, node: ast.AST) -> Names:
        found = self._assigned.get(node)
        if found is None:
            found = self._assigned[node] = self._find_assigned(node)
        return found

    def _find_assigned(self, node: ast.AST) -> Names:
        if isinstance(node, ast.Name):
            return NONE if isinstance(node.ctx, ast.Load) else frozenset((node.id,))
        if isinstance(node, ast.expr) and not self._has_walrus:
            # A target is a name, or a tuple of targets; elements and attributes bind nothing.
            parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
            parts = [node.value] if isinstance(node, ast.Starred) else parts
            return self.assigned(parts)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return frozenset((node.name,))
        if isinstance(node, ast.Lambda):
            return NONE
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return NONE
        if isinstance(node, _COMPREHENSIONS):
            # A comprehension's variables are local to it; a walrus inside binds in the function.
            walruses = [n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
            return frozenset(walruses)
        if isinstance(node, ast.alias):
            return frozenset(((node.asname or node.name).partition(".")[0],))
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
            return self.assigned(list(ast.iter_child_nodes(node))) | {node.name}
        return self.assigned(list(ast.iter_child_nodes(node)))

    def read(self, node: ast.AST) -> Names:
        """Names that the node may read, including in nested functions."""
        found = self._read.get(node)
        if found is None:
            found = self._read[node] = self._find_read(node)
        return found

    def _find_read(self, node: ast.AST) -> Names:
        if isinstance(node, ast.Name):
            return NONE if isinstance(node.ctx, ast.Store) else frozenset((node.id,))
        found = _union(self.read(child) for child in ast.iter_child_nodes(node))
        if isinstance(node, _FUNCTIONS):
            self.always_live |= found
        if not isinstance(node, _TAKING):
            # A stored generator expression reads when its items are taken.
            kept = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.GeneratorExp))
            self.always_live |= _union(self.read(child) for child in kept)
        return found

    def exits(self, nodes: Sequence[ast.AST]) -> Exits:
        """Ways in which control can leave the block through these nodes."""
        found = [exits for node in nodes if (exits := self._exits_of(node))]
        return Exits(*map(any, zip(*found, strict=True))) if found else _NO_EXITS

    def _exits_of(self, node: ast.AST) -> Exits:
        found = self._exits.get(node)
        if found is None:
            found = self._exits[node] = self._find_exits(node)
        return found

    def _find_exits(self, node: ast.AST) -> Exits:
        if isinstance(node, _FUNCTIONS) or isinstance(node, ast.expr):
            return _NO_EXITS
        if isinstance(node, _EXITS):
            return Exits(*(isinstance(node, kind) for kind in _EXITS))
        if isinstance(node, _LOOPS):
            # break and continue in the body are the loop's own; those in its else are an outer loop's.
            behind = self.exits(node.orelse)
            inside = self.exits(node.body)
            return Exits(behind.breaks, behind.continues, inside.returns or behind.returns)
        return self.exits(list(ast.iter_child_nodes(node)))

    def live_before(self, statements: Sequence[ast.stmt], live_out: Names) -> Names:
        """Names that may be read from here on, given that `live_out` may be read after the statements."""
        if not statements:
            return live_out | self.always_live
        # Every suffix of a block is requested in turn.
        key = (statements[0], statements[-1], live_out)
        if key not in self._live:
            live = live_out
            for statement in reversed(statements):
                behind = live | live_out if self._exits_of(statement) else live
                live = self._before(statement, behind)
                self._live[statement, statements[-1], live_out] = live
        return self._live[key] | self.always_live

    def _before(self, node: ast.stmt, live: Names) -> Names:
        if isinstance(node, ast.If):
            branches = self.live_before(node.body, live) | self.live_before(node.orelse, live)
            return self.read(node.test) | branches
        if isinstance(node, ast.While):
            head = self.read(node.test) | live | self.live_before(node.orelse, live)
            return head | self.live_before(node.body, head)
        if isinstance(node, ast.For):
            behind = live | self.live_before(node.orelse, live)
            inside = self.live_before(node.body, behind) - _plain_names([node.target])
            return behind | inside | self.read(node.iter) | self.read(node.target)
        if isinstance(node, ast.Match):
            cases = _union(
                self.live_before(case.body, live) | self.read(case.pattern) for case in node.cases
            )
            guards = _union(self.read(case.guard) for case in node.cases if case.guard)
            return live | cases | guards | self.read(node.subject)
        if isinstance(node, ast.With):
            body = self.live_before(node.body, live)
            return body | _union(self.read(item) for item in node.items)
        if isinstance(node, ast.Assign):
            return (live - _plain_names(node.targets)) | self.read(node)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return (live - _plain_names([node.target])) | self.read(node)
        if isinstance(node, ast.AugAssign):
            return live | self.read(node) | self._assigned_by(node.target)
        if isinstance(node, ast.FunctionDef):
            return (live - {node.name}) | self.read(node)
        return live | self.read(node)


def _plain_names(targets: Sequence[ast.expr]) -> Names:
    """The names that an assignment to these targets surely binds."""
    found: set[str] = set()
    for target in targets:
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            found |= _plain_names(target.elts)
        elif isinstance(target, ast.Starred):
            found |= _plain_names([target.value])
    return frozenset(found)


def _union(sets: Iterable[Names]) -> Names:
    return NONE.union(*sets)


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
