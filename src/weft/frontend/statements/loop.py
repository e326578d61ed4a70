# SPDX-License-Identifier: Apache-2.0
"""What all loops have in common: which variables they carry, how control leaves them, their `else`.

In: a loop's node and the names that are read after it. Out: `Loop`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft.dialects.printed_names import name_value
from weft.frontend.scope import Conflict, LeftEarly, Undefined
from weft.frontend.source.names import ACTIVE, BROKEN, LIVE, LOOPING, NONE, RESULT
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Block, SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.control_flow.carried import Carried
    from weft.frontend.expressions.expression import Expressions
    from weft.frontend.source.names import Exits, Names

_ABSENT: Final = object()


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

    def block(self, statements: Sequence[ast.stmt], live_out: Names) -> None:
        """Traces statements in order, as long as control flows."""
        ...

    def branch(
        self,
        condition: Scalar,
        bodies: tuple[Callable[[], None], Callable[[], None]],
        rest: Sequence[ast.stmt],
        live: Names,
        live_out: Names,
    ) -> bool:
        """Two branches of which one is taken; whether the rest of the block has been traced with them."""
        ...

    def store(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target."""
        ...


class Loop:
    """What all kinds of loops have in common: who needs which variables, and how control leaves.

    Args:
        statements: the visitor of the frame.
        node: the loop.
        live_after: names that may be read after it.
    """

    __slots__ = (
        "_outer_broken",
        "_outer_exit_names",
        "_outer_loop",
        "_outer_looping",
        "assigned",
        "body_live",
        "endless",
        "exits",
        "frame",
        "head",
        "live_after",
        "node",
        "statements",
    )

    def __init__(self, statements: Tracer, node: ast.For | ast.While, live_after: Names) -> None:
        self.statements = statements
        self.node = node
        self.frame: Frame = statements.frame
        self.live_after = live_after
        analysis = self.frame.source.analysis
        self.exits: Exits = analysis.exits(node.body)
        behind = live_after | analysis.live_before(node.orelse, live_after)
        if isinstance(node, ast.While):
            again, killed = analysis.read(node.test), NONE
            first: list[ast.AST] = [node.test]
        else:
            again, killed = NONE, frozenset(_names_of(node.target))
            first = [node.target]
        # Names that are read in a later round, or after the loop.
        self.head: Names = behind | again | (analysis.live_before(node.body, behind) - killed)
        self.assigned: Names = analysis.assigned([*first, *node.body])
        flags: set[str] = set()
        if self.exits.leave_loop:
            flags.add(LOOPING)
        if self.exits.returns:
            flags |= {ACTIVE, RESULT}
        self.body_live: Names = self.head | flags
        # Whether its condition always holds, so that only a break or a return ends it.
        self.endless = False

    def candidates(self) -> list[str]:
        """Variables that may change from round to round and are read again, in a fixed order."""
        values = self.frame.scope.values
        wanted = self.assigned & self.head
        names = [name for name in values if name in wanted]
        names += sorted(wanted - set(names))
        if self.exits.leave_loop:
            names.append(LOOPING)
        if self.exits.returns:
            # Without a break, the loop ends early only where the function returns.
            names += [ACTIVE] if self.exits.breaks else []
            names += [RESULT] if self.frame.returns_value else []
        return names

    def enter(self) -> None:
        """Before the first round: breaks and continues are this loop's from now on."""
        frame = self.frame
        self._outer_looping = frame.scope.values.get(LOOPING, _ABSENT)
        self._outer_exit_names = frame.exit_names
        self._outer_loop = frame.loop
        self._outer_broken = frame.scope.values.get(BROKEN, False)
        frame.exit_names = self.body_live
        frame.loop = self
        frame.scope.values[LOOPING] = True

    def leave(self, rest: Sequence[ast.stmt], live_out: Names) -> bool:
        """Behind the last round: runs the loop's `else`, and gives the flags back to the outer loop.

        Args:
            rest: the statements after the loop.
            live_out: names that may be read after them.

        Returns:
            Whether the rest has been traced too, where the `else` or a break decides whether it is reached.
        """
        frame = self.frame
        values = frame.scope.values
        frame.exit_names = self._outer_exit_names
        frame.loop = self._outer_loop
        values[BROKEN] = self._outer_broken
        looping = values.pop(LOOPING)
        if self.endless and self.exits.leave_loop:
            looping = False
        if self.exits.returns and not self.exits.breaks:
            values[ACTIVE] = looping
        active = values[ACTIVE]
        values[LIVE] = active
        if self._outer_looping is not _ABSENT:
            values[LOOPING] = active
        if self.node.orelse and looping is not False:
            return self._trace_else(looping, rest, live_out)
        self._settle(was_left=looping is False)
        return False

    def left_early(self, value: Any) -> LeftEarly:
        """A variable that has this value only where the loop is left by a break."""
        return LeftEarly(value, self, self.frame.locate(self.node).line)

    def goes_on(self) -> None:
        """Where a round begins, or goes on, no break was met: what only one assigns has no value."""
        self.frame.scope.values[BROKEN] = False
        self._settle(was_left=False)

    def _settle(self, *, was_left: bool) -> None:
        """Variables that have a value only where the loop was left: it is now known whether it was."""
        values = self.frame.scope.values
        for name, value in values.items():
            if isinstance(value, LeftEarly) and value.loop is self:
                values[name] = value.value if was_left else Undefined(value.reason, value.hint)

    def _trace_else(
        self, looping: bool | Scalar, rest: Sequence[ast.stmt], live_out: Names
    ) -> bool:
        statements, orelse, live = self.statements, self.node.orelse, self.live_after
        if not isinstance(looping, Scalar):
            self._settle(was_left=False)
            statements.block(orelse, live)
            return False
        self.frame.mark(self.node)

        def completed() -> None:
            self._set_flags(lambda _: True)
            self._settle(was_left=False)
            statements.block(orelse, live)

        def broken() -> None:
            same = looping.ssa
            self._set_flags(
                lambda value: False if isinstance(value, Scalar) and value.ssa is same else value
            )
            self._settle(was_left=True)

        flags = frozenset((LIVE,)) if isinstance(self.frame.scope.values[LIVE], Scalar) else NONE
        return statements.branch(looping, (completed, broken), rest, live | flags, live_out)

    def _set_flags(self, change: Callable[[Any], Any]) -> None:
        values = self.frame.scope.values
        for flag in (LIVE, LOOPING, ACTIVE):
            if flag in values:
                values[flag] = change(values[flag])

    def round(self) -> None:
        """Traces the body once."""
        values = self.frame.scope.values
        values[LIVE] = True
        self.goes_on()
        self.statements.block(self.node.body, self.body_live)

    def trace_in(self, block: Block, body: Callable[[], None]) -> tuple[dict[str, Any], Any]:
        """Traces `body` into a block of its own; returns the variables and places that it leaves."""
        frame = self.frame
        scope, builder, context = frame.scope, frame.builder, frame.context
        outer = scope.values, scope.places, builder.block
        scope.values, scope.places, builder.block = dict(outer[0]), dict(outer[1]), block
        context.regions.append(block)
        try:
            body()
            return scope.values, scope.places
        finally:
            context.regions.pop()
            scope.values, scope.places, builder.block = outer

    def finish(self, carried: Carried, results: Sequence[SSAValue]) -> None:
        """Gives the variables their values after a staged loop."""
        values = self.frame.scope.values
        hint = "assign it before the loop"
        reason = (
            f"is assigned only inside the loop in line {self.frame.locate(self.node).line}, "
            "which may not run"
        )
        for name in self.assigned:
            # A variable whose values did not go together before the loop still has that reason.
            if not isinstance(values.get(name), Conflict):
                values[name] = Undefined(reason, hint)
        carried.bind(values, results)
        self.frame.scope.places.update(carried.early_places())
        for result, name in zip(results, carried.hints(), strict=True):
            name_value(result, name)

    def bind(self, carried: Carried, arguments: Sequence[SSAValue]) -> None:
        """Gives the carried variables their values at the start of a round."""
        values = self.frame.scope.values
        carried.bind(values, arguments)
        for argument, name in zip(arguments, carried.hints(), strict=True):
            name_value(argument, name)
        # A round runs only while the loop goes on, so inside it the flags are known.
        values[LOOPING] = values[ACTIVE] = True


def live_flag(carried: Carried, arguments: Sequence[SSAValue]) -> bool | Scalar:
    """Whether the loop goes on, as carried: true where no round can end it early."""
    values: dict[str, Any] = {}
    carried.bind(values, arguments)
    return values.get(LOOPING, True)


def _names_of(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
