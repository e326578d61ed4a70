# SPDX-License-Identifier: Apache-2.0
"""Loops: unrolled where their course is known at compile time, else `scf.for`, or `scf.while` with one live flag.

In: a `for` or `while`. Out: operations, and the variables as the loop leaves them. Next: host.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region

from weft.frontend import ranges, short_circuit
from weft.frontend.carried import MOST_ROUNDS, Carried
from weft.frontend.comprehensions import iterate
from weft.frontend.context import HOST
from weft.frontend.control_flow import Fork, discard
from weft.frontend.names import ACTIVE, LIVE, LOOPING, NONE, RESULT
from weft.frontend.scope import Undefined
from weft.frontend.structure import flatten, rebuild
from weft.language.control import StagedRange, make_range
from weft.language.convert import constant
from weft.language.values import Scalar
from weft.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.names import Exits, Names
    from weft.frontend.ranges import Course
    from weft.frontend.statements import Statements

_MOST_UNROLLED: Final = 64
_MOST_ROUNDS_WITHOUT_CODE: Final = 10_000
_ABSENT: Final = object()


class _Loop:
    """What all kinds of loops have in common: who needs which variables, and how control leaves.

    Args:
        statements: the visitor of the frame.
        node: the loop.
        live_after: names that may be read behind it.
    """

    __slots__ = (
        "_outer_exit_names",
        "_outer_looping",
        "assigned",
        "body_live",
        "exits",
        "frame",
        "head",
        "live_after",
        "node",
        "statements",
    )

    def __init__(
        self, statements: Statements, node: ast.For | ast.While, live_after: Names
    ) -> None:
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
        # Names that are read in a later round, or behind the loop.
        self.head: Names = behind | again | (analysis.live_before(node.body, behind) - killed)
        self.assigned: Names = analysis.assigned([*first, *node.body])
        flags: set[str] = set()
        if self.exits.leave_loop:
            flags.add(LOOPING)
        if self.exits.returns:
            flags |= {ACTIVE, RESULT}
        self.body_live: Names = self.head | flags

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
        frame.exit_names = self.body_live
        frame.scope.values[LOOPING] = True

    def leave(self) -> None:
        """Behind the last round: runs the loop's `else`, and gives the flags back to the outer loop."""
        frame = self.frame
        values = frame.scope.values
        frame.exit_names = self._outer_exit_names
        looping = values.pop(LOOPING)
        if self.exits.returns and not self.exits.breaks:
            values[ACTIVE] = looping
        active = values[ACTIVE]
        values[LIVE] = active
        if self._outer_looping is not _ABSENT:
            values[LOOPING] = active
        if self.node.orelse and looping is not False:
            self._trace_else(looping)

    def _trace_else(self, looping: bool | Scalar) -> None:
        statements, orelse, live = self.statements, self.node.orelse, self.live_after
        if not isinstance(looping, Scalar):
            statements.block(orelse, live)
            return
        self.frame.mark(self.node)
        fork = Fork(self.frame, looping)
        scope = self.frame.scope

        def completed() -> None:
            self._set_flags(lambda _: True)
            statements.block(orelse, live)

        def broken() -> None:
            same = looping.ssa
            self._set_flags(
                lambda value: False if isinstance(value, Scalar) and value.ssa is same else value
            )

        fork.trace(0, completed)
        fork.trace(1, broken)
        fork.finish(live | ({LIVE} if isinstance(scope.values[LIVE], Scalar) else NONE))

    def _set_flags(self, change: Callable[[Any], Any]) -> None:
        values = self.frame.scope.values
        for flag in (LIVE, LOOPING, ACTIVE):
            if flag in values:
                values[flag] = change(values[flag])

    def round(self) -> None:
        """Traces the body once."""
        values = self.frame.scope.values
        values[LIVE] = True
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
        """Gives the variables their values behind a staged loop."""
        values = self.frame.scope.values
        hint = "assign it before the loop"
        reason = (
            f"is assigned only inside the loop in line {self.frame.locate(self.node).line}, "
            "which may not run"
        )
        for name in self.assigned:
            values[name] = Undefined(reason, hint)
        carried.bind(values, results)
        for result, name in zip(results, carried.hints(), strict=True):
            _name(result, name)


def _names_of(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


def _name(value: SSAValue, name: str) -> None:
    if not name.startswith("%"):
        value.name_hint = name


# ---- for


def trace_for(statements: Statements, node: ast.For, live_after: Names) -> None:
    """A `for`: over a `range` at run time, over any other compile-time sequence unrolled."""
    found = _range_of(statements, node.iter)
    loop = _Loop(statements, node, live_after)
    if isinstance(found, StagedRange):
        _staged_for(loop, _course(loop, found))
        return
    if isinstance(found, range):
        if found:
            staged = StagedRange(found.start, found.stop, found.step)
            _staged_for(loop, _course(loop, staged), always_runs=True)
            return
        items: list[Any] = []
    else:
        items = iterate(statements.frame, statements.expressions.evaluate(node.iter), node.iter)
    loop.enter()
    _unroll(loop, items)
    loop.leave()


def _course(loop: _Loop, found: StagedRange) -> Course:
    builder = loop.frame.mark(loop.node)
    return ranges.course(builder, found, on_host=loop.frame.context.role == HOST)


def _range_of(statements: Statements, node: ast.expr) -> range | StagedRange | None:
    """The range that a loop runs over, if it is written as one; a variable may hold a staged one too."""
    expressions = statements.expressions
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if expressions.evaluate(node.func) is builtins.range:
            arguments = expressions.items(node.args)
            return make_range(statements.frame.mark(node), *arguments)
    elif isinstance(node, ast.Name):
        value = expressions.evaluate(node)
        return value if isinstance(value, StagedRange) else None
    return None


def _unroll(loop: _Loop, items: Sequence[Any]) -> None:
    """One round after the other; behind a round that may have been the last, the others are guarded."""
    assert isinstance(loop.node, ast.For)
    for index, item in enumerate(items):
        scope = loop.frame.scope
        looping = scope.values[LOOPING]
        if looping is False:
            return
        if isinstance(looping, Scalar):
            _guard_rounds(loop, looping, items[index:])
            return
        loop.statements.store(loop.node.target, item)
        loop.round()
    loop.frame.scope.values[LIVE] = True


def _guard_rounds(loop: _Loop, looping: Scalar, items: Sequence[Any]) -> None:
    frame = loop.frame
    frame.mark(loop.node)
    fork = Fork(frame, looping)

    def going() -> None:
        frame.scope.values[LOOPING] = frame.scope.values[LIVE] = True
        frame.scope.values[ACTIVE] = True
        _unroll(loop, items)

    def ended() -> None:
        values = frame.scope.values
        values[LIVE] = values[LOOPING] = False
        active = values[ACTIVE]
        if isinstance(active, Scalar) and active.ssa is looping.ssa:
            values[ACTIVE] = False

    fork.trace(0, going)
    fork.trace(1, ended)
    fork.finish(loop.body_live)


def _staged_for(loop: _Loop, course: Course, *, always_runs: bool = False) -> None:
    loop.enter()
    carried = Carried(loop.frame, loop.candidates(), always_runs=always_runs)
    emit = _emit_while_range if loop.exits.leave_loop else _emit_for
    for _ in range(MOST_ROUNDS):
        operation = emit(loop, course, carried)
        if operation is not None:
            break
    else:
        raise carried.unstable()
    results = operation.results
    loop.finish(carried, results[1:] if loop.exits.leave_loop else results)
    loop.leave()


def _emit_for(loop: _Loop, course: Course, carried: Carried) -> Operation | None:
    """The loop as `scf.for`; None if the variables' types were not yet the right ones."""
    builder = loop.frame.mark(loop.node)
    block = Block(arg_types=[course.type, *carried.types()])
    values, places = loop.trace_in(block, lambda: _round_of(loop, course, carried, block))
    if carried.update(values, places):
        discard(block)
        return None
    block.add_op(scf.YieldOp(*carried.last_values(builder, values)))
    bounds = course.lower, course.upper, course.step
    firsts = carried.first_values(builder)
    builder = loop.frame.mark(loop.node)
    return builder.emit(scf.ForOp(*bounds, firsts, Region(block)))


def _round_of(loop: _Loop, course: Course, carried: Carried, block: Block) -> None:
    assert isinstance(loop.node, ast.For)
    counter, *arguments = block.args
    _bind(loop, carried, arguments)
    target = loop.node.target
    _name(counter, target.id if isinstance(target, ast.Name) else "index")
    loop.statements.store(target, course.variable(loop.frame.mark(loop.node), counter))
    loop.round()


def _bind(loop: _Loop, carried: Carried, arguments: Sequence[SSAValue]) -> None:
    values = loop.frame.scope.values
    carried.bind(values, arguments)
    for argument, name in zip(arguments, carried.hints(), strict=True):
        _name(argument, name)
    # A round runs only while the loop goes on, so inside it the flags are known.
    values[LOOPING] = values[ACTIVE] = True


def _emit_while_range(loop: _Loop, course: Course, carried: Carried) -> Operation | None:
    """The loop as `scf.while`, since a break or return may end it early."""
    frame = loop.frame
    types = [course.type, *carried.types()]
    before, after = Block(arg_types=types), Block(arg_types=types)
    builder = frame.mark(loop.node)
    with builder.at(before):
        goes_on = course.goes_on(builder, before.args[0])
        flag = _flag(carried, before.args[1:])
        if isinstance(flag, Scalar):
            goes_on = builder.emit(arith.AndIOp(flag.ssa, goes_on)).result
        before.add_op(scf.ConditionOp(goes_on, *before.args))
    values, places = loop.trace_in(after, lambda: _round_of(loop, course, carried, after))
    if carried.update(values, places):
        discard(before, after)
        return None
    builder = frame.mark(loop.node)
    with builder.at(after):
        following = course.following(builder, after.args[0])
    after.add_op(scf.YieldOp(following, *carried.last_values(builder, values)))
    firsts = [course.lower, *carried.first_values(builder)]
    return builder.emit(scf.WhileOp(firsts, types, Region(before), Region(after)))


def _flag(carried: Carried, arguments: Sequence[SSAValue]) -> Any:
    values: dict[str, Any] = {}
    carried.bind(values, arguments)
    return values.get(LOOPING, True)


# ---- while


def trace_while(statements: Statements, node: ast.While, live_after: Names) -> None:
    """A `while`: its rounds are traced one by one as long as Python knows the condition, else at run time."""
    loop = _Loop(statements, node, live_after)
    loop.enter()
    if not _run_at_compile_time(loop):
        _staged_while(loop)
    loop.leave()


def _run_at_compile_time(loop: _Loop) -> bool:
    """Unrolls the loop; where that turns out impossible, or long, leaves everything as it was."""
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    scope, block = frame.scope, frame.builder.block
    values, places, last = dict(scope.values), dict(scope.places), block.last_op
    emitted = 0
    for _ in range(_MOST_ROUNDS_WITHOUT_CODE):
        scope.values[LIVE] = True
        condition = loop.statements.expressions.condition(node.test)
        if condition is False:
            return True
        if condition is not True or emitted >= _MOST_UNROLLED:
            break
        before = block.last_op
        loop.round()
        emitted += block.last_op is not before
        looping = scope.values[LOOPING]
        if looping is False:
            return True
        if looping is not True:
            break
    frame.builder.roll_back(last)
    scope.values.clear()
    scope.values.update(values)
    scope.places.clear()
    scope.places.update(places)
    return False


def _staged_while(loop: _Loop) -> None:
    carried = Carried(loop.frame, loop.candidates(), always_runs=False)
    for _ in range(MOST_ROUNDS):
        operation, forwarded = _emit_while(loop, carried)
        if operation is not None:
            break
    else:
        raise carried.unstable()
    count = len(carried.types())
    loop.finish(carried, operation.results[:count])
    forwarded.bind(loop.frame.scope.values, operation.results[count:])


class _Forwarded:
    """Variables that the condition assigns anew in each round, such as by a walrus."""

    __slots__ = ("_found", "operands")

    def __init__(self, names: Sequence[str], values: dict[str, Any]) -> None:
        self._found: list[tuple[str, Any, list[Any]]] = []
        self.operands: list[SSAValue] = []
        for name in names:
            if name not in values or isinstance(values[name], Undefined):
                continue
            leaves: list[Any] = []
            shape = flatten(values[name], leaves)
            self._found.append((name, shape, leaves))
            self.operands += [leaf.ssa for leaf in leaves if isinstance(leaf, Scalar)]

    def bind(self, values: dict[str, Any], arguments: Sequence[SSAValue]) -> None:
        """Gives the variables the values of block arguments or results."""
        remaining = iter(arguments)
        for name, shape, leaves in self._found:
            found = [
                Scalar(next(remaining), leaf.dtype) if isinstance(leaf, Scalar) else leaf
                for leaf in leaves
            ]
            values[name] = rebuild(shape, iter(found))


def _emit_while(loop: _Loop, carried: Carried) -> tuple[Operation | None, _Forwarded]:
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    builder = frame.mark(node)
    before = Block(arg_types=carried.types())
    tested, places = loop.trace_in(before, lambda: _test(loop, carried, before))
    condition = tested.pop(_CONDITION)
    extra = frame.source.analysis.assigned([node.test]) - set(carried.names)
    forwarded = _Forwarded(sorted(extra), tested)
    if carried.update(tested, places):
        discard(before)
        return None, forwarded
    passed = [*carried.last_values(builder, tested), *forwarded.operands]
    types = [value.type for value in passed]
    before.add_op(scf.ConditionOp(condition, *passed))
    after = Block(arg_types=types)
    count = len(before.args)

    def body() -> None:
        _bind(loop, carried, after.args[:count])
        forwarded.bind(frame.scope.values, after.args[count:])
        loop.round()

    values, places = loop.trace_in(after, body)
    if carried.update(values, places):
        discard(before, after)
        return None, forwarded
    after.add_op(scf.YieldOp(*carried.last_values(builder, values)))
    firsts = carried.first_values(builder)
    builder = frame.mark(node)
    operation = builder.emit(scf.WhileOp(firsts, types, Region(before), Region(after)))
    return operation, forwarded


_CONDITION: Final = "%condition"


def _test(loop: _Loop, carried: Carried, block: Block) -> None:
    """Evaluates the condition at the start of a round; behind a break it is not looked at."""
    node = loop.node
    assert isinstance(node, ast.While)
    expressions = loop.statements.expressions
    _bind(loop, carried, block.args)
    values = loop.frame.scope.values
    flag = _flag(carried, block.args)
    values[LIVE] = True
    if isinstance(flag, Scalar):
        found = short_circuit.guarded(
            expressions, node.test, flag, lambda: expressions.condition(node.test)
        )
    else:
        found = expressions.condition(node.test)
    builder = loop.frame.builder
    typed = found if isinstance(found, Scalar) else constant(builder, bool(found), bool_)
    values = loop.frame.scope.values
    values[_CONDITION] = typed.ssa
    rebound: dict[str, Any] = {}
    carried.bind(rebound, block.args)
    for name in (LOOPING, ACTIVE):
        if name in rebound:
            values[name] = rebound[name]
