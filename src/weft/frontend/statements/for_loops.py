# SPDX-License-Identifier: Apache-2.0
"""`for`: over a run-time `range`, as `scf.for` or, with exits, `scf.while`; `weft.each`, as `simt.each`; else unrolled.

In: the statement. Out: operations, and the variables after the loop. Of a `range` any step becomes a counter that
increases: `Course`, bounds, a positive step, and the variable's value for a counter. Flipping all bits reverses the
order, and flipping the sign bit makes unsigned order signed; neither can overflow. Before a loop over `weft.each` stand
assertions that the arrays that iterations access at its index are long enough.
"""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region

from weft.dialects.builder import constant_integer, name_value
from weft.dialects.flow import is_positive, set_unroll_factor
from weft.dialects.simt.debug import AssertOp
from weft.dialects.simt.memory import LoadOp, StoreOp
from weft.dialects.simt.threads import EachOp
from weft.errors import CompileError, TypeMismatchError, ValueRangeError
from weft.frontend.control_flow.branches import Fork, discard
from weft.frontend.control_flow.carried import MOST_ITERATIONS
from weft.frontend.events import tell
from weft.frontend.expressions.items import Items
from weft.frontend.statements.loop import Loop, flags_of
from weft.language.control import StagedRange, make_range, staged
from weft.language.debug import emit_assert
from weft.language.ir_types import ir_type
from weft.language.memory.access import dim
from weft.language.numbers.convert import to_common
from weft.language.numbers.operators import compare
from weft.language.numbers.promises import CountedBlock
from weft.language.threads.each import Iterations
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.dialects.builder import Builder
    from weft.frontend.control_flow.carried import Carried
    from weft.frontend.statements.loop import Tracer
    from weft.frontend.syntax import Names
    from weft.types.dtype import DType


def trace_for(statements: Tracer, node: ast.For, live_after: Names) -> Loop:
    """Traces a `for`: over a `range` at run time, over other compile-time sequences unrolled."""
    value = _iterated(statements, node.iter)
    loop = Loop(statements, node, live_after)
    if isinstance(value, StagedRange):
        known = value.known
        if known is None or known:
            builder = loop.frame.mark(node)
            taken = course(builder, value, on_host=loop.frame.context.is_host)
            _staged_for(loop, taken, value.factor, always_runs=known is not None)
            return loop
        value = ()
    if isinstance(value, Iterations):
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
    """Unrolls the iterations; those after a possibly last iteration are guarded.

    Returns:
        Whether there was an iteration.
    """
    assert isinstance(loop.node, ast.For)
    scope = loop.frame.scope
    has_iteration = False
    for item in items:
        has_iteration = True
        tell(loop.frame, "iteration", loop.node)
        loop.statements.store(loop.node.target, item)
        loop.unrolled_iteration()
        looping = scope.path.looping
        if looping is False:
            return True
        if isinstance(looping, Scalar):
            _guard_iterations(loop, looping, items)
            return True
    scope.path.live = True
    return has_iteration


def _guard_iterations(loop: Loop, looping: Scalar, items: Items) -> None:
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
        # There was no other iteration.
        frame.scope.path.live = True
        return
    fork.trace(1, ended)
    fork.finish(loop.head, live=False)


def _staged_for(loop: Loop, course: Course, factor: int | None, *, always_runs: bool) -> None:
    loop.enter()
    carried = loop.carried(always_runs=always_runs)
    emit = _emit_while_range if loop.exits.leave_loop else _emit_for
    for _ in range(MOST_ITERATIONS):
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
        lambda: _iteration_of(loop, course, carried, counter, arguments),
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


def _iteration_of(
    loop: Loop,
    course: Course,
    carried: Carried,
    counter: SSAValue,
    arguments: Sequence[SSAValue],
) -> None:
    assert isinstance(loop.node, ast.For)
    loop.bind(carried, arguments)
    target = loop.node.target
    tell(loop.frame, "iteration", loop.node)
    name_value(counter, target.id if isinstance(target, ast.Name) else "index")
    loop.statements.store(target, course.variable(loop.frame.mark(loop.node), counter))
    loop.iteration()


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
        lambda: _iteration_of(loop, course, carried, counter, arguments),
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


@dataclass(slots=True, eq=False)
class Course:
    """The counter of a loop.

    Attributes:
        dtype: of counter and variable, i32, i64 or u64.
        lower, upper: of the counter, which increases in signed order.
        step: of the counter; positive as an unsigned number.
        flipped: the bits in which variable and counter differ, or None.
        may_pass_the_limit: whether the last iteration's counter plus the step may overflow.
    """

    dtype: DType
    lower: SSAValue
    upper: SSAValue
    step: SSAValue
    flipped: SSAValue | None
    may_pass_the_limit: bool = True

    @property
    def type(self) -> Attribute:
        """The counter's type in the IR."""
        return ir_type(self.dtype)

    def variable(self, builder: Builder, counter: SSAValue) -> Scalar:
        """The loop's variable for this value of the counter."""
        return Scalar(_flip(builder, counter, self.flipped), self.dtype)

    @property
    def state_types(self) -> list[Attribute]:
        """The state carried by a loop with exits: the counter, and whether it runs if it may overflow."""
        return [self.type, i1] if self.may_pass_the_limit else [self.type]

    def first(self, builder: Builder) -> list[SSAValue]:
        """The state of the first iteration."""
        if not self.may_pass_the_limit:
            return [self.lower]
        return [self.lower, builder.emit(arith.CmpiOp(self.lower, self.upper, "slt")).result]

    def goes_on(self, builder: Builder, state: Sequence[SSAValue]) -> SSAValue:
        """Whether an iteration follows, as an i1."""
        if self.may_pass_the_limit:
            return state[1]
        return builder.emit(arith.CmpiOp(state[0], self.upper, "slt")).result

    def following(self, builder: Builder, state: Sequence[SSAValue]) -> list[SSAValue]:
        """The state of the next iteration."""
        counter = state[0]
        if not self.may_pass_the_limit:
            flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
            return [builder.emit(arith.AddiOp(counter, self.step, overflow=flags)).result]
        # An iteration ran, so the rest is positive, as an unsigned number.
        left = builder.emit(arith.SubiOp(self.upper, counter)).result
        more = builder.emit(arith.CmpiOp(left, self.step, "ugt")).result
        return [builder.emit(arith.AddiOp(counter, self.step)).result, more]
        # An iteration ran, so the rest is positive, as an unsigned number.
        left = builder.emit(arith.SubiOp(self.upper, counter)).result
        more = builder.emit(arith.CmpiOp(left, self.step, "ugt")).result
        # The sum after the last iteration may overflow, and is not read.
        rises = (constant_integer(self.step) or 0) > 0
        flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW] if rises else "none")
        return [builder.emit(arith.AddiOp(counter, self.step, overflow=flags)).result, more]


def course(builder: Builder, staged: StagedRange, *, on_host: bool = False) -> Course:
    """The counter of a range; a signed run-time step may have either sign.

    Raises:
        TypeMismatchError: for a run-time step in a host function that may be 0, which cannot be asserted there.
    """
    if isinstance(staged.step, int):
        return _constant_course(builder, staged, staged.step)
    dtype = staged.dtype
    start, stop, typed = (end.ssa for end in staged.bounds(builder))
    sign = None if dtype.is_signed else builder.constant(ir_type(dtype), dtype.maximum // 2 + 1)
    if is_positive(typed):
        lower, upper = (_flip(builder, end, sign) for end in (start, stop))
        return Course(dtype, lower, upper, typed, sign)
    if on_host:
        raise TypeMismatchError(
            "HOST_STEP",
            "the step of a range in a host function must be known at compile time",
            hint="count with a step of 1 and multiply, or make it a weft.Constexpr[int] parameter",
        )
    zero = builder.constant(ir_type(dtype), 0)
    builder.emit(
        AssertOp(builder.emit(arith.CmpiOp(typed, zero, "ne")).result, "range: the step is 0")
    )
    flipped, step_up = sign, typed
    if dtype.is_signed:
        goes_down = builder.emit(arith.CmpiOp(typed, zero, "slt")).result
        negated = builder.emit(arith.SubiOp(zero, typed)).result
        step_up = builder.emit(arith.SelectOp(goes_down, negated, typed)).result
        ones = builder.constant(ir_type(dtype), -1)
        flipped = builder.emit(arith.SelectOp(goes_down, ones, zero)).result
    lower, upper = (_flip(builder, end, flipped) for end in (start, stop))
    # Without assertions, a step of 0 makes the loop empty rather than endless.
    is_zero = builder.emit(arith.CmpiOp(typed, zero, "eq")).result
    upper = builder.emit(arith.SelectOp(is_zero, lower, upper)).result
    return Course(dtype, lower, upper, step_up, flipped)


def _constant_course(builder: Builder, staged: StagedRange, step: int) -> Course:
    dtype = staged.dtype
    ends = (to_common(builder, end, dtype).ssa for end in (staged.start, staged.stop))
    bits = 0 if dtype.is_signed else dtype.maximum // 2 + 1
    bits = ~bits if step < 0 else bits
    flipped = builder.constant(ir_type(dtype), bits) if bits else None
    lower, upper = (_flip(builder, end, flipped) for end in ends)
    last = constant_integer(upper)
    most = (1 << (dtype.bits - 1)) - 1
    size = abs(step)
    may_pass = size != 1 and (last is None or size > most or last + size - 1 > most)
    step_up = builder.constant(ir_type(dtype), size)
    return Course(dtype, lower, upper, step_up, flipped, may_pass_the_limit=may_pass)


def _flip(builder: Builder, value: SSAValue, bits: SSAValue | None) -> SSAValue:
    if bits is None:
        return value
    known, mask = constant_integer(value), constant_integer(bits)
    if known is not None and mask is not None:
        return builder.constant(value.type, known ^ mask)
    return builder.emit(arith.XOrIOp(value, bits)).result


def trace_each(loop: Loop, iterations: Iterations) -> None:
    """Traces the body once.

    Raises:
        CompileError: for a `break` or `return`, or a variable that an iteration leaves for later code.
    """
    assert isinstance(loop.node, ast.For)
    target = loop.node.target
    _refuse_exits(loop)
    frame = loop.frame
    loop.enter()
    carried = loop.carried()
    for name in carried.names:
        raise _carried(loop, f"'{name}' has a value before weft.each and is assigned in it")
    builder = frame.mark(loop.node)
    extents = [
        to_common(builder, extent, dtype).ssa
        for extent, dtype in zip(iterations.extents, iterations.dtypes, strict=True)
    ]
    block = Block(arg_types=[extent.type for extent in extents])

    def trace_iteration() -> None:
        tell(frame, "iteration", loop.node)
        indices = tuple(map(Scalar, block.args, iterations.dtypes))
        names: Sequence[ast.expr] = (
            target.elts if isinstance(target, ast.Tuple) else [target] * len(indices)
        )
        for argument, name in zip(block.args, names, strict=False):
            name_value(argument, name.id if isinstance(name, ast.Name) else "index")
        loop.statements.store(target, indices if iterations.is_tuple else indices[0])
        loop.iteration()

    _, path = frame.trace_in(block, frame.scope.path.copy(), trace_iteration)
    for slot in path.changed:
        raise _carried(loop, f"{slot} changes in weft.each")
    builder = frame.mark(loop.node)
    _assert_lengths(builder, iterations, block)
    builder.emit(EachOp(extents, Region(block)))
    loop.finish(carried, ())


def _refuse_exits(loop: Loop) -> None:
    """Raises at the first `break` or `return` that would end the iterations."""
    analysis = loop.frame.source.analysis
    nodes: Sequence[ast.AST] = loop.node.body
    while left := [node for node in nodes if analysis.exits([node]).leave_loop]:
        node = left[0]
        nodes = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Break | ast.Return):
            word = "break" if isinstance(node, ast.Break) else "return"
            raise CompileError(
                "EACH_EXIT",
                f"{word} inside weft.each, whose iterations run in any order",
                hint="write continue, which ends this iteration",
                location=loop.frame.locate(node),
            )


def _carried(loop: Loop, what: str) -> CompileError:
    return CompileError(
        "EACH_CARRIED",
        f"{what}, but iterations are independent: none sees what another assigns",
        hint="assign it inside the loop before it is read, or add up with weft.atomic_add",
        location=loop.frame.locate(loop.node),
    )


def _assert_lengths(builder: Builder, iterations: Iterations, block: Block) -> None:
    """Asserts that the arrays accessed at an iteration's index, whatever the iteration, have an element for each."""
    indices = tuple(block.args)
    arrays: dict[SSAValue, None] = {}
    for op in block.ops:
        if isinstance(op, LoadOp | StoreOp) and tuple(op.indices) == indices:
            if op.tensor.owner is builder.entry:
                arrays[op.tensor] = None
    for array in arrays:
        # Of the array, only its dims are asked for.
        tensor = Tensor(array, types.u8, array.name_hint or "an array")
        for number, extent in enumerate(iterations.extents if not tensor.type.is_pointer else ()):
            _assert_length(builder, tensor, number, extent)


def _assert_length(builder: Builder, tensor: Tensor, number: int, extent: Scalar | int) -> None:
    size, name = dim(builder, tensor, number), f"{tensor.name}.shape[{number}]"
    least = extent.constant if isinstance(extent, Scalar) else extent
    if isinstance(size, int) and least is not None and size < least:
        raise ValueRangeError(
            "EACH_LENGTH",
            f"weft.each: {name} is {size}, expected at least {least}, the number of iterations",
            hint="use the length of the shortest array as the extent",
        )
    is_same = isinstance(size, Scalar) and isinstance(extent, Scalar) and size.ssa is extent.ssa
    if is_same or (isinstance(size, int) and least is not None):
        return
    said = extent.ssa.name_hint if isinstance(extent, Scalar) and least is None else least
    said = re.sub(r"_dim(\d)$", r".shape[\1]", str(said or "the number of iterations"))
    wide = [to_common(builder, part, types.i64) for part in (size, extent)]
    emit_assert(builder, compare(builder, ">=", *wide), f"weft.each: {name} >= {said}")
