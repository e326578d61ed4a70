# SPDX-License-Identifier: Apache-2.0
"""Loops: carried variables, exits, `else`; `while`, unrolled while the condition is known, else `scf.while`.

In: a loop's node and the names read after it. Out: `Loop`; of `while` operations with one live flag, and the variables
after the loop.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from xdsl.dialects import scf
from xdsl.ir import Block, Region

from weft.dialects.simt.debug import EventOp
from weft.frontend.control_flow.branches import discard
from weft.frontend.control_flow.carried import MOST_ITERATIONS, Carried
from weft.frontend.control_flow.joins import widened
from weft.frontend.events import tell
from weft.frontend.expressions import comparisons
from weft.frontend.paths import Assigned, Conflict, EnclosingLoop, Path, Undefined, WhenDecided
from weft.frontend.structure import flatten, with_values
from weft.frontend.syntax import NONE
from weft.language.numbers.convert import constant
from weft.language.numbers.promises import ForwardedBlock
from weft.language.values import Fragment, Scalar, Tensor
from weft.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.expressions.expression import Expressions
    from weft.frontend.syntax import Names


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
        """The variables that may change between iterations and are read again, in a fixed order."""
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
        """Before the first iteration: breaks and continues now belong to this loop."""
        self._outer, self.frame.loop = self.frame.loop, self
        self.frame.scope.path.looping = True

    def leave(self, rest: Rest) -> bool:
        """After the last iteration: traces the loop's `else`, and restores the outer loop's flags.

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

    def iteration(self) -> None:
        """Traces the body once."""
        self.frame.scope.path.resume(self)
        self.statements.block(self.node.body, self.head, is_body=True)

    def unrolled_iteration(self) -> None:
        """Traces one of several iterations; what was a literal before it is wide after it, as in a loop at run time."""
        variables, wanted = self.frame.scope.path.variables, self.assigned & self.head
        before = [(name, variables[name]) for name in sorted(wanted) if name in variables]
        self.iteration()
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
    """The loop-carried flags; true if no iteration can end it early."""
    path = Path()
    carried.bind(path, arguments, slots=False)
    return path


def _names_of(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


_MOST_UNROLLED: Final = 64
_MOST_ITERATIONS_WITHOUT_CODE: Final = 10_000


def trace_while(statements: Tracer, node: ast.While, live_after: Names) -> Loop:
    """Traces a `while`: unrolled while the condition is known, else at run time."""
    loop = Loop(statements, node, live_after)
    loop.enter()
    if not _run_at_compile_time(loop):
        _staged_while(loop)
    return loop


def _run_at_compile_time(loop: Loop) -> bool:
    """Unrolls the loop; undoes everything if that proves impossible or too long."""
    frame = loop.frame
    scope, state, block = frame.scope, frame.state, frame.builder.block
    path, last = scope.path.copy(), block.last_op
    state.begin_trial()
    is_done = _unroll(loop)
    if not is_done:
        frame.builder.roll_back(last)
        scope.path = path
    state.end_trial(keep=is_done)
    return is_done


def _unroll(loop: Loop) -> bool:
    """Traces iterations while the condition is known; returns whether it was known to the end."""
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    scope, block = frame.scope, frame.builder.block
    emitted = 0
    for _ in range(_MOST_ITERATIONS_WITHOUT_CODE):
        scope.path.live = True
        condition = loop.statements.expressions.condition(node.test)
        if condition is False:
            return True
        if condition is not True or emitted >= _MOST_UNROLLED:
            return False
        before = block.last_op
        tell(frame, "iteration", node)
        loop.unrolled_iteration()
        emitted += _has_code(block, before)
        looping = scope.path.looping
        if looping is not True:
            return looping is False
    return False


def _has_code(block: Block, last: Operation | None) -> bool:
    """Whether a block has operations after one, those that only tell of events aside."""
    found = block.last_op
    while found is not last and isinstance(found, EventOp):
        found = found.prev_op
    return found is not last


def _staged_while(loop: Loop) -> None:
    carried = loop.carried()
    for _ in range(MOST_ITERATIONS):
        operation, forwarded = _emit_while(loop, carried)
        if operation is not None:
            break
    else:
        raise carried.unstable()
    carried.remember()
    count = len(carried.types())
    loop.finish(carried, operation.results[:count])
    forwarded.bind_after(loop.frame.scope.path, operation.results[count:])


class _Forwarded:
    """Variables that the condition assigns in each iteration, for example by a walrus."""

    __slots__ = ("_found", "_only_in_body", "operands")

    def __init__(self, names: Sequence[str], path: Path, condition: SSAValue) -> None:
        self._only_in_body: list[str] = []
        self._found: list[tuple[str, Assigned | WhenDecided]] = []
        self.operands: list[SSAValue] = []
        for name in names:
            binding = path.variables.get(name)
            # A variable assigned in only part of the condition has a value in the body, but not after the loop.
            if isinstance(binding, WhenDecided) and binding.holds:
                if binding.condition is not condition:
                    continue
                self._only_in_body.append(name)
            elif not isinstance(binding, Assigned):
                continue
            _, leaves = flatten(binding.value)
            self._found.append((name, binding))
            self.operands += [
                leaf.ssa for leaf in leaves if isinstance(leaf, Scalar | Tensor | Fragment)
            ]

    def bind_after(self, path: Path, results: Sequence[SSAValue]) -> None:
        """Binds the variables after the loop."""
        self.bind(path, results)
        for name in self._only_in_body:
            path.variables[name] = Undefined(
                "is assigned only in a part of the loop's condition",
                "assign it before the loop",
                path.place(name),
            )

    def bind(self, path: Path, arguments: Sequence[SSAValue]) -> None:
        """Binds the variables to block arguments or results."""
        remaining = iter(arguments)
        for name, binding in self._found:
            value = with_values(binding.value, remaining)
            path.variables[name] = Assigned(value, binding.place)


def _emit_while(loop: Loop, carried: Carried) -> tuple[Operation | None, _Forwarded]:
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    builder = frame.mark(node)
    scope = frame.scope
    before = Block(arg_types=carried.types())
    condition, tested = frame.trace_in(
        before, scope.path.copy(), lambda: _test(loop, carried, before), repeats=True
    )
    extra = frame.source.analysis.assigned([node.test]) - set(carried.names)
    forwarded = _Forwarded(sorted(extra), tested, condition)
    if carried.update(tested):
        discard(before)
        return None, forwarded
    passed = [*carried.last_values(builder, tested, before), *forwarded.operands]
    before.add_op(scf.ConditionOp(condition, *passed))
    after = ForwardedBlock(passed)
    count = len(before.args)

    def body() -> None:
        loop.bind(carried, after.args[:count])
        forwarded.bind(scope.path, after.args[count:])
        tell(frame, "iteration", node)
        loop.iteration()

    _, path = frame.trace_in(after, scope.path.copy(), body, repeats=True)
    if carried.update(path) or carried.learns((tested, before), (path, after)):
        discard(before, after)
        return None, forwarded
    after.add_op(scf.YieldOp(*carried.last_values(builder, path, after)))
    firsts = carried.first_values(builder)
    builder = frame.mark(node)
    operation = builder.emit(scf.WhileOp(firsts, after.arg_types, Region(before), Region(after)))
    return operation, forwarded


def _test(loop: Loop, carried: Carried, block: Block) -> SSAValue:
    """Evaluates the condition at the start of an iteration; after a break it is ignored."""
    node = loop.node
    assert isinstance(node, ast.While)
    expressions = loop.statements.expressions
    loop.bind(carried, block.args)
    flags = flags_of(carried, block.args)

    def condition() -> bool | Scalar:
        holds = expressions.condition(node.test)
        loop.endless = holds is True
        return holds

    if isinstance(flags.looping, Scalar):
        found = comparisons.guarded(expressions, node.test, flags.looping, condition)
    else:
        found = condition()
    # The body, or the code after the loop, receives the flags unchanged.
    path = loop.frame.scope.path
    path.looping, path.active = flags.looping, flags.active
    typed = found if isinstance(found, Scalar) else constant(loop.frame.builder, bool(found), bool_)
    return typed.ssa
