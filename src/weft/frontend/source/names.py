# SPDX-License-Identifier: Apache-2.0
"""The names that statements assign, read and need later; their exits.

In: statements of one function. Out: sets of names, over-approximated where Python is dynamic, so that control flow
carries only what is assigned and live.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

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
    """How a statement can leave its block.

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
        # Keyed by the first and last of some statements, and what is live after them.
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
        """How control can leave the block through these nodes."""
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
