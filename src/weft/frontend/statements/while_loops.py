# SPDX-License-Identifier: Apache-2.0
"""`while`: unrolled while the condition is known, else `scf.while` with one live flag.

In: the statement. Out: operations, and the variables after the loop.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf
from xdsl.ir import Block, Region

from weft.dialects.simt.debug import EventOp
from weft.frontend.control_flow.branches import discard
from weft.frontend.control_flow.carried import MOST_ROUNDS
from weft.frontend.events import tell
from weft.frontend.expressions import short_circuit
from weft.frontend.paths import Assigned, Undefined, WhenDecided
from weft.frontend.statements.loop import Loop, flags_of
from weft.frontend.structure import flatten, with_values
from weft.language.numbers.convert import constant
from weft.language.numbers.promises import ForwardedBlock
from weft.language.values import Fragment, Scalar, Tensor
from weft.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.frontend.control_flow.carried import Carried
    from weft.frontend.paths import Path
    from weft.frontend.source.names import Names
    from weft.frontend.statements.loop import Tracer

_MOST_UNROLLED: Final = 64
_MOST_ROUNDS_WITHOUT_CODE: Final = 10_000


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
    """Traces rounds while the condition is known; returns whether it was known to the end."""
    frame, node = loop.frame, loop.node
    assert isinstance(node, ast.While)
    scope, block = frame.scope, frame.builder.block
    emitted = 0
    for _ in range(_MOST_ROUNDS_WITHOUT_CODE):
        scope.path.live = True
        condition = loop.statements.expressions.condition(node.test)
        if condition is False:
            return True
        if condition is not True or emitted >= _MOST_UNROLLED:
            return False
        before = block.last_op
        tell(frame, "round", node)
        loop.unrolled_round()
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
    for _ in range(MOST_ROUNDS):
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
        tell(frame, "round", node)
        loop.round()

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
        found = short_circuit.guarded(expressions, node.test, flags.looping, condition)
    else:
        found = condition()
    # The body, or the code after the loop, receives the flags unchanged.
    path = loop.frame.scope.path
    path.looping, path.active = flags.looping, flags.active
    typed = found if isinstance(found, Scalar) else constant(loop.frame.builder, bool(found), bool_)
    return typed.ssa
