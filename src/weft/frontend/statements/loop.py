# SPDX-License-Identifier: Apache-2.0
"""Common to all loops: carried variables, exits, `else`.

In: a loop's node and the names read after it. Out: `Loop`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.frontend.control_flow.carried import Carried
from weft.frontend.control_flow.joins import widened
from weft.frontend.events import tell
from weft.frontend.paths import Assigned, Conflict, EnclosingLoop, Path, Undefined
from weft.frontend.source.names import NONE
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.expressions.expression import Expressions
    from weft.frontend.source.names import Names


@dataclass(slots=True, eq=False)
class Rest:
    """The code after a statement in its block.

    Attributes:
        statements: in order.
        live_out: names that may be read after the block.
        is_body: whether the block is the whole body of a function or loop, after which nothing checks whether control
            continues.
    """

    statements: Sequence[ast.stmt]
    live_out: Names
    is_body: bool = False


class Tracer(Protocol):
    """The statement visitor, as used by loops."""

    @property
    def frame(self) -> Frame:
        """Whose variables and location are used."""
        ...

    @property
    def expressions(self) -> Expressions:
        """The visitor of the frame's expressions."""
        ...

    def block(
        self, statements: Sequence[ast.stmt], live_out: Names, *, is_body: bool = False
    ) -> None:
        """Traces statements in order, as long as control flows."""
        ...

    def branch(
        self,
        condition: Scalar,
        bodies: tuple[Callable[[], None], Callable[[], None]],
        rest: Rest,
        live: Names,
    ) -> bool:
        """Two alternative branches; returns whether they include the rest of the block."""
        ...

    def store(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target."""
        ...


class Loop(EnclosingLoop):
    """Base of all kinds of loops: needed variables and exits.

    Args:
        statements: the visitor of the frame.
        node: the loop.
        live_after: names that may be read after it.

    Attributes:
        assigned: the names it assigns.
        endless: whether its condition always holds, so that only a break or return ends it.
    """

    __slots__ = ("_outer", "assigned", "endless", "frame", "live_after", "node", "statements")

    def __init__(self, statements: Tracer, node: ast.For | ast.While, live_after: Names) -> None:
        frame = statements.frame
        analysis = frame.source.analysis
        behind = live_after | analysis.live_before(node.orelse, live_after)
        if isinstance(node, ast.While):
            again, killed = analysis.read(node.test), NONE
            first: list[ast.AST] = [node.test]
        else:
            again, killed = NONE, frozenset(_names_of(node.target))
            first = [node.target]
        head = behind | again | (analysis.live_before(node.body, behind) - killed)
        super().__init__(frame.locate(node).line, analysis.exits(node.body), head)
        self.statements = statements
        self.node = node
        self.frame: Frame = frame
        self.live_after = live_after
        self.assigned: Names = analysis.assigned([*first, *node.body])
        self.endless = False
        self._outer: EnclosingLoop | None = None

    def carried(self, *, always_runs: bool = False) -> Carried:
        """The variables that may change between rounds and are read again, in a fixed order."""
        wanted = self.assigned & self.head
        names = [name for name in self.frame.scope.path.variables if name in wanted]
        names += sorted(wanted - set(names))
        own = ["looping"] if self.exits.leave_loop else []
        if self.exits.returns:
            # Without a break, only a return ends the loop early.
            own += ["active"] if self.exits.breaks else []
            own += ["result"] if self.frame.returns_value else []
        return Carried(self.frame, self, self.node, names, own, always_runs=always_runs)

    def enter(self) -> None:
        """Before the first round: breaks and continues now belong to this loop."""
        self._outer, self.frame.loop = self.frame.loop, self
        self.frame.scope.path.looping = True

    def leave(self, rest: Rest) -> bool:
        """After the last round: traces the loop's `else`, and restores the outer loop's flags.

        Returns:
            Whether the rest has been traced too, if the `else` or a break decides whether it is reached.
        """
        path = self.frame.scope.path
        tell(self.frame, "end", self.node)
        self.frame.loop = self._outer
        looping = False if self.endless and self.exits.leave_loop else path.looping
        if self.exits.returns and not self.exits.breaks:
            path.active = looping
        path.live = path.looping = path.active
        path.broken = False
        if self.node.orelse and looping is not False:
            return self._trace_else(looping, rest)
        path.settle(self, was_left=looping is False)
        return False

    def _trace_else(self, looping: bool | Scalar | None, rest: Rest) -> bool:
        statements, scope = self.statements, self.frame.scope
        orelse, live = self.node.orelse, self.live_after
        if not isinstance(looping, Scalar):
            scope.path.settle(self, was_left=False)
            statements.block(orelse, live)
            return False
        self.frame.mark(self.node)

        def completed() -> None:
            scope.path.resume(self)
            statements.block(orelse, live)

        def broken() -> None:
            scope.path.end(looping)
            scope.path.settle(self, was_left=True)

        return statements.branch(looping, (completed, broken), rest, live)

    def round(self) -> None:
        """Traces the body once."""
        self.frame.scope.path.resume(self)
        self.statements.block(self.node.body, self.head, is_body=True)

    def unrolled_round(self) -> None:
        """Traces one of several rounds; what was a literal before it is wide after it, as in a loop at run time."""
        variables, wanted = self.frame.scope.path.variables, self.assigned & self.head
        before = [(name, variables[name]) for name in sorted(wanted) if name in variables]
        self.round()
        variables = self.frame.scope.path.variables
        for name, old in before:
            new = variables.get(name)
            if isinstance(old, Assigned) and isinstance(new, Assigned) and old is not new:
                builder = self.frame.builder
                variables[name] = Assigned(widened(builder, old.value, new.value), new.place)

    def finish(self, carried: Carried, results: Sequence[SSAValue]) -> None:
        """Binds the variables after a staged loop."""
        path = self.frame.scope.path
        reason = f"is assigned only inside the loop in line {self.line}, which may not run"
        for name in sorted(self.assigned):
            # A variable with incompatible values before the loop keeps that reason.
            if not isinstance(path.variables.get(name), Conflict):
                place = path.place(name)
                path.variables[name] = Undefined(reason, "assign it before the loop", place)
        carried.bind(path, results)

    def bind(self, carried: Carried, arguments: Sequence[SSAValue]) -> None:
        """Binds the carried variables at the start of an iteration."""
        path = self.frame.scope.path
        carried.bind(path, arguments)
        # An iteration runs only while the loop continues, so inside it the flags are known.
        path.resume(None)


def flags_of(carried: Carried, arguments: Sequence[SSAValue]) -> Path:
    """The loop-carried flags; true if no round can end it early."""
    path = Path()
    carried.bind(path, arguments, slots=False)
    return path


def _names_of(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
