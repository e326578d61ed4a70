# SPDX-License-Identifier: Apache-2.0
"""What all loops have in common: which variables they carry, how control leaves them, their `else`.

In: a loop's node and the names that are read after it. Out: `Loop`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.frontend.control_flow.carried import Carried
from weft.frontend.paths import Conflict, EnclosingLoop, Path, Undefined
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
    """What follows a statement in its block.

    Attributes:
        statements: in order.
        live_out: names that may be read after the block.
        is_body: whether the block is all that a function or a loop's round does, after which nothing asks whether
            control goes on.
    """

    statements: Sequence[ast.stmt]
    live_out: Names
    is_body: bool = False


class Tracer(Protocol):
    """What a loop asks for its parts: the visitor of statements."""

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
        """Two branches of which one is taken; whether the rest of the block has been traced with them."""
        ...

    def store(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target."""
        ...


class Loop(EnclosingLoop):
    """What all kinds of loops have in common: who needs which variables, and how control leaves.

    Args:
        statements: the visitor of the frame.
        node: the loop.
        live_after: names that may be read after it.

    Attributes:
        assigned: names that it assigns.
        endless: whether its condition always holds, so that only a break or a return ends it.
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
        """What may change from round to round and is read again, in a fixed order."""
        wanted = self.assigned & self.head
        names = [name for name in self.frame.scope.path.variables if name in wanted]
        names += sorted(wanted - set(names))
        own = ["looping"] if self.exits.leave_loop else []
        if self.exits.returns:
            # Without a break, the loop ends early only where the function returns.
            own += ["active"] if self.exits.breaks else []
            own += ["result"] if self.frame.returns_value else []
        return Carried(self.frame, self, self.node, names, own, always_runs=always_runs)

    def enter(self) -> None:
        """Before the first round: breaks and continues are this loop's from now on."""
        self._outer, self.frame.loop = self.frame.loop, self
        self.frame.scope.path.looping = True

    def leave(self, rest: Rest) -> bool:
        """Behind the last round: runs the loop's `else`, and gives the flags back to the outer loop.

        Returns:
            Whether the rest has been traced too, where the `else` or a break decides whether it is reached.
        """
        path = self.frame.scope.path
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

    def finish(self, carried: Carried, results: Sequence[SSAValue]) -> None:
        """Gives the variables their values after a staged loop."""
        path = self.frame.scope.path
        reason = f"is assigned only inside the loop in line {self.line}, which may not run"
        for name in sorted(self.assigned):
            # A variable whose values did not go together before the loop still has that reason.
            if not isinstance(path.variables.get(name), Conflict):
                place = path.place(name)
                path.variables[name] = Undefined(reason, "assign it before the loop", place)
        carried.bind(path, results)

    def bind(self, carried: Carried, arguments: Sequence[SSAValue]) -> None:
        """Gives what is carried its values at the start of a round."""
        path = self.frame.scope.path
        carried.bind(path, arguments)
        # A round runs only while the loop goes on, so inside it the flags are known.
        path.resume(None)


def flags_of(carried: Carried, arguments: Sequence[SSAValue]) -> Path:
    """The flags as a loop carries them; true where no round can end it early."""
    path = Path()
    carried.bind(path, arguments)
    return path


def _names_of(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
