# SPDX-License-Identifier: Apache-2.0
"""`while`: traced round by round as long as Python knows the condition, else `scf.while` with one live flag.

In: the statement. Out: operations, and the variables as the loop leaves them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf
from xdsl.ir import Block, Region

from weft.frontend.control_flow.branches import discard
from weft.frontend.control_flow.carried import MOST_ROUNDS, Carried
from weft.frontend.expressions import short_circuit
from weft.frontend.scope import Undefined, WhenDecided
from weft.frontend.source.names import ACTIVE, LIVE, LOOPING
from weft.frontend.statements.loop import Loop, live_flag
from weft.frontend.structure import flatten, rebuild
from weft.language.numbers.convert import constant
from weft.language.values import Scalar
from weft.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.frontend.source.names import Names
    from weft.frontend.statements.loop import Tracer

_MOST_UNROLLED: Final = 64
_MOST_ROUNDS_WITHOUT_CODE: Final = 10_000
_CONDITION: Final = "%condition"


def trace_while(statements: Tracer, node: ast.While, live_after: Names) -> Loop:
    """The rounds of a `while`: they are traced one by one as long as Python knows the condition, else at run time."""
    loop = Loop(statements, node, live_after)
    loop.enter()
    if not _run_at_compile_time(loop):
        _staged_while(loop)
    return loop


def _run_at_compile_time(loop: Loop) -> bool:
    """Unrolls the loop; where that turns out impossible, or long, leaves everything as it was."""
    frame = loop.frame
    scope, state, block = frame.scope, frame.context.state, frame.builder.block
    values, places, last = dict(scope.values), dict(scope.places), block.last_op
    state.begin_trial()
    is_done = _unroll(loop)
    if not is_done:
        frame.builder.roll_back(last)
        scope.values.clear()
        scope.values.update(values)
        scope.places.clear()
        scope.places.update(places)
    state.end_trial(keep=is_done)
    return is_done


def _unroll(loop: Loop) -> bool:
    """Traces the rounds as long as Python knows whether there is one; whether that was so until the last."""
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    scope, block = frame.scope, frame.builder.block
    emitted = 0
    for _ in range(_MOST_ROUNDS_WITHOUT_CODE):
        scope.values[LIVE] = True
        condition = loop.statements.expressions.condition(node.test)
        if condition is False:
            return True
        if condition is not True or emitted >= _MOST_UNROLLED:
            return False
        before = block.last_op
        loop.round()
        emitted += block.last_op is not before
        looping = scope.values[LOOPING]
        if looping is not True:
            return looping is False
    return False


def _staged_while(loop: Loop) -> None:
    carried = Carried(loop.frame, loop.node, loop.candidates(), always_runs=False)
    for _ in range(MOST_ROUNDS):
        operation, forwarded = _emit_while(loop, carried)
        if operation is not None:
            break
    else:
        raise carried.unstable()
    carried.remember()
    count = len(carried.types())
    loop.finish(carried, operation.results[:count])
    forwarded.bind_behind(loop.frame.scope.values, operation.results[count:])


class _Forwarded:
    """Variables that the condition assigns anew in each round, such as by a walrus."""

    __slots__ = ("_found", "_only_in_body", "operands")

    def __init__(self, names: Sequence[str], values: dict[str, Any], condition: SSAValue) -> None:
        self._only_in_body: list[str] = []
        self._found: list[tuple[str, Any, list[Any]]] = []
        self.operands: list[SSAValue] = []
        for name in names:
            value = values.get(name)
            # What only a part of the condition assigns has a value in the body, and none after the loop.
            if isinstance(value, WhenDecided) and value.holds and value.condition is condition:
                self._only_in_body.append(name)
                value = value.value
            if name not in values or isinstance(value, Undefined):
                continue
            leaves: list[Any] = []
            shape = flatten(value, leaves)
            self._found.append((name, shape, leaves))
            self.operands += [leaf.ssa for leaf in leaves if isinstance(leaf, Scalar)]

    def bind_behind(self, values: dict[str, Any], results: Sequence[SSAValue]) -> None:
        """Gives the variables their values after the loop."""
        self.bind(values, results)
        for name in self._only_in_body:
            values[name] = Undefined(
                "is assigned only in a part of the loop's condition", "assign it before the loop"
            )

    def bind(self, values: dict[str, Any], arguments: Sequence[SSAValue]) -> None:
        """Gives the variables the values of block arguments or results."""
        remaining = iter(arguments)
        for name, shape, leaves in self._found:
            found = [
                Scalar(next(remaining), leaf.dtype) if isinstance(leaf, Scalar) else leaf
                for leaf in leaves
            ]
            values[name] = rebuild(shape, iter(found))


def _emit_while(loop: Loop, carried: Carried) -> tuple[Operation | None, _Forwarded]:
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    builder = frame.mark(node)
    before = Block(arg_types=carried.types())
    tested, places = loop.trace_in(before, lambda: _test(loop, carried, before))
    condition = tested.pop(_CONDITION)
    extra = frame.source.analysis.assigned([node.test]) - set(carried.names)
    forwarded = _Forwarded(sorted(extra), tested, condition)
    if carried.update(tested, places):
        discard(before)
        return None, forwarded
    passed = [*carried.last_values(builder, tested), *forwarded.operands]
    types = [value.type for value in passed]
    before.add_op(scf.ConditionOp(condition, *passed))
    after = Block(arg_types=types)
    count = len(before.args)

    def body() -> None:
        loop.bind(carried, after.args[:count])
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


def _test(loop: Loop, carried: Carried, block: Block) -> None:
    """Evaluates the condition at the start of a round; after a break it is not looked at."""
    node = loop.node
    assert isinstance(node, ast.While)
    expressions = loop.statements.expressions
    loop.bind(carried, block.args)
    values = loop.frame.scope.values
    flag = live_flag(carried, block.args)
    values[LIVE] = True

    def condition() -> bool | Scalar:
        holds = expressions.condition(node.test)
        loop.endless = holds is True
        return holds

    if isinstance(flag, Scalar):
        found = short_circuit.guarded(expressions, node.test, flag, condition)
    else:
        found = condition()
    builder = loop.frame.builder
    typed = found if isinstance(found, Scalar) else constant(builder, bool(found), bool_)
    values = loop.frame.scope.values
    values[_CONDITION] = typed.ssa
    rebound: dict[str, Any] = {}
    carried.bind(rebound, block.args)
    for name in (LOOPING, ACTIVE):
        if name in rebound:
            values[name] = rebound[name]
