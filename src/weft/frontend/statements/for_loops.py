# SPDX-License-Identifier: Apache-2.0
"""`for`: over a run-time `range`, as `scf.for` or, with exits, `scf.while`; over `weft.each`; else unrolled.

In: the statement. Out: operations, and the variables after the loop.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region

from weft.dialects.builder import name_value
from weft.dialects.flow import set_unroll_factor
from weft.frontend.control_flow.branches import Fork, discard
from weft.frontend.control_flow.carried import MOST_ROUNDS
from weft.frontend.events import tell
from weft.frontend.expressions.items import Items
from weft.frontend.statements import ranges
from weft.frontend.statements.each_loops import trace_each
from weft.frontend.statements.loop import Loop, flags_of
from weft.language.control import StagedRange, make_range, staged
from weft.language.numbers.promises import CountedBlock
from weft.language.threads.each import Rounds
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.frontend.control_flow.carried import Carried
    from weft.frontend.source.names import Names
    from weft.frontend.statements.loop import Tracer
    from weft.frontend.statements.ranges import Course


def trace_for(statements: Tracer, node: ast.For, live_after: Names) -> Loop:
    """Traces a `for`: over a `range` at run time, over other compile-time sequences unrolled."""
    value = _iterated(statements, node.iter)
    loop = Loop(statements, node, live_after)
    if isinstance(value, StagedRange):
        known = value.known
        if known is None or known:
            builder = loop.frame.mark(node)
            course = ranges.course(builder, value, on_host=loop.frame.context.is_host)
            _staged_for(loop, course, value.factor, always_runs=known is not None)
            return loop
        value = ()
    if isinstance(value, Rounds):
        trace_each(loop, value)
        return loop
    items = Items(statements.frame, value, node.iter)
    loop.enter()
    _unroll(loop, items)
    return loop


def _iterated(statements: Tracer, node: ast.expr) -> Any:
    """The iterable of a loop; a range that it names itself is staged even if it is known."""
    expressions = statements.expressions
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if expressions.evaluate(node.func) is builtins.range:
            arguments = expressions.items(node.args)
            return staged(make_range(statements.frame.mark(node), *arguments))
    return expressions.evaluate(node)


def _unroll(loop: Loop, items: Items) -> bool:
    """Unrolls the rounds; those after a possibly last round are guarded.

    Returns:
        Whether there was an iteration.
    """
    assert isinstance(loop.node, ast.For)
    scope = loop.frame.scope
    has_round = False
    for item in items:
        has_round = True
        tell(loop.frame, "round", loop.node)
        loop.statements.store(loop.node.target, item)
        loop.unrolled_round()
        looping = scope.path.looping
        if looping is False:
            return True
        if isinstance(looping, Scalar):
            _guard_rounds(loop, looping, items)
            return True
    scope.path.live = True
    return has_round


def _guard_rounds(loop: Loop, looping: Scalar, items: Items) -> None:
    frame = loop.frame
    frame.mark(loop.node)
    fork = Fork(frame, looping)

    def going() -> bool:
        frame.scope.path.resume(None)
        items.adopt()
        # Requesting an item may have emitted operations even if there was none.
        return _unroll(loop, items) or frame.builder.block.last_op is not None

    def ended() -> None:
        frame.scope.path.end(looping)
        frame.scope.path.live = False

    if not fork.trace(0, going):
        # There was no other round.
        frame.scope.path.live = True
        return
    fork.trace(1, ended)
    fork.finish(loop.head, live=False)


def _staged_for(loop: Loop, course: Course, factor: int | None, *, always_runs: bool) -> None:
    loop.enter()
    carried = loop.carried(always_runs=always_runs)
    emit = _emit_while_range if loop.exits.leave_loop else _emit_for
    for _ in range(MOST_ROUNDS):
        operation = emit(loop, course, carried)
        if operation is not None:
            break
    else:
        raise carried.unstable()
    set_unroll_factor(operation, factor)
    carried.remember()
    results = operation.results
    loop.finish(carried, results[len(results) - len(carried.types()) :])


def _emit_for(loop: Loop, course: Course, carried: Carried) -> Operation | None:
    """The loop as `scf.for`; None if the variables' types were not yet right."""
    builder = loop.frame.mark(loop.node)
    block = CountedBlock(builder, [course.type, *carried.types()], course.lower, course.step)
    counter, *arguments = block.args
    before = loop.frame.scope.path.copy()
    _, path = loop.frame.trace_in(
        block,
        before,
        lambda: _round_of(loop, course, carried, counter, arguments),
        repeats=True,
    )
    if carried.update(path) or carried.learns((path, block)):
        discard(block)
        return None
    block.add_op(scf.YieldOp(*carried.last_values(builder, path, block)))
    bounds = course.lower, course.upper, course.step
    firsts = carried.first_values(builder)
    builder = loop.frame.mark(loop.node)
    return builder.emit(scf.ForOp(*bounds, firsts, Region(block)))


def _round_of(
    loop: Loop,
    course: Course,
    carried: Carried,
    counter: SSAValue,
    arguments: Sequence[SSAValue],
) -> None:
    assert isinstance(loop.node, ast.For)
    loop.bind(carried, arguments)
    target = loop.node.target
    tell(loop.frame, "round", loop.node)
    name_value(counter, target.id if isinstance(target, ast.Name) else "index")
    loop.statements.store(target, course.variable(loop.frame.mark(loop.node), counter))
    loop.round()


def _emit_while_range(loop: Loop, course: Course, carried: Carried) -> Operation | None:
    """The loop as `scf.while`, since a break or return may end it early."""
    frame = loop.frame
    own = len(course.state_types)
    types = [*course.state_types, *carried.types()]
    before, after = (
        Block(arg_types=types),
        CountedBlock(frame.builder, types, course.lower, course.step),
    )
    builder = frame.mark(loop.node)
    with builder.at(before):
        goes_on = course.goes_on(builder, before.args)
        flag = flags_of(carried, before.args[own:]).looping
        if isinstance(flag, Scalar):
            goes_on = builder.emit(arith.AndIOp(flag.ssa, goes_on)).result
        before.add_op(scf.ConditionOp(goes_on, *before.args))
    counter, arguments = after.args[0], after.args[own:]
    _, path = frame.trace_in(
        after,
        frame.scope.path.copy(),
        lambda: _round_of(loop, course, carried, counter, arguments),
        repeats=True,
    )
    if carried.update(path) or carried.learns((path, after)):
        discard(before, after)
        return None
    builder = frame.mark(loop.node)
    with builder.at(after):
        following = course.following(builder, after.args)
    after.add_op(scf.YieldOp(*following, *carried.last_values(builder, path, after)))
    firsts = [*course.first(builder), *carried.first_values(builder)]
    return builder.emit(scf.WhileOp(firsts, types, Region(before), Region(after)))
