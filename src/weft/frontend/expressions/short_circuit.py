# SPDX-License-Identifier: Apache-2.0
"""Short-circuit expressions: `and`, `or`, the conditional; combining truths.

In: their nodes. Out: values; a region only if the skippable part does more than compute.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1

from weft.errors import TypeMismatchError
from weft.frontend.control_flow.branches import Fork
from weft.frontend.control_flow.joins import Mismatch, describe_side
from weft.language.numbers.operators import logical_not
from weft.language.values import Scalar
from weft.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.context import Evaluator


def boolean(visitor: Evaluator, node: ast.BoolOp) -> Any:
    """``a and b``, ``a or b``: the deciding value, as in Python; later operands are evaluated if needed."""
    is_and = isinstance(node.op, ast.And)
    thunks = [lambda operand=operand: visitor.evaluate(operand) for operand in node.values]
    return _chain(visitor, node, thunks, list(node.values), is_and)


def boolean_condition(visitor: Evaluator, node: ast.BoolOp) -> bool | Scalar:
    """The same for its truth only, so that operands may have different types."""
    is_and = isinstance(node.op, ast.And)
    thunks = [lambda operand=operand: visitor.condition(operand) for operand in node.values]
    return visitor.truth_of(_chain(visitor, node, thunks, list(node.values), is_and), node)


def _chain(
    visitor: Evaluator,
    node: ast.expr,
    thunks: list[Callable[[], Any]],
    nodes: list[ast.expr],
    is_and: bool,
) -> Any:
    value = thunks[0]()
    if len(thunks) == 1:
        return value
    decides = visitor.truth_of(value, nodes[0])
    if not isinstance(decides, Scalar):
        # A deciding constant is the value; any other is skipped.
        return _chain(visitor, node, thunks[1:], nodes[1:], is_and) if decides is is_and else value

    def rest() -> Any:
        return _chain(visitor, node, thunks[1:], nodes[1:], is_and)

    return _both(visitor, node, value, decides, rest, is_and)


def _both(
    visitor: Evaluator,
    node: ast.expr,
    value: Any,
    decides: Scalar,
    rest: Callable[[], Any],
    is_and: bool,
) -> Any:
    """One step: `value`, or the rest if it does not decide."""
    frame = visitor.frame
    builder = frame.mark(node)
    fork = Fork(frame, decides)
    names = frame.source.analysis.assigned([node])
    taken = 0 if is_and else 1
    later = fork.trace(taken, rest)
    if not names and isinstance(value, Scalar) and value.dtype is bool_:
        operand = _as_bool(visitor, later)
        if operand is not None and not fork.changed[taken] and fork.inline(taken):
            # The skippable part has no effect, so it is computed always, without a branch.
            builder = frame.mark(node)
            kind = arith.AndIOp if is_and else arith.OrIOp
            return Scalar(builder.emit(kind(value.ssa, operand.ssa)).result, bool_)
    pair = (later, value) if is_and else (value, later)
    try:
        return fork.finish(names, pair, evaluated=taken)
    except Mismatch as mismatch:
        word = "and" if is_and else "or"
        raise TypeMismatchError(
            "TYPE_JOIN",
            f"'{word}' yields one of its operands, {describe_side(value)} or {describe_side(later)}",
            hint=mismatch.hint,
        ) from None


def _as_bool(visitor: Evaluator, value: object) -> Scalar | None:
    if isinstance(value, bool):
        return Scalar(visitor.frame.builder.constant(i1, value), bool_)
    return value if isinstance(value, Scalar) and value.dtype is bool_ else None


def conditional(visitor: Evaluator, node: ast.IfExp) -> Any:
    """``a if condition else b``."""
    condition = visitor.condition(node.test)
    if not isinstance(condition, Scalar):
        return visitor.evaluate(node.body if condition else node.orelse)
    frame = visitor.frame
    frame.mark(node)
    fork = Fork(frame, condition)
    one = fork.trace(0, lambda: visitor.evaluate(node.body))
    other = fork.trace(1, lambda: visitor.evaluate(node.orelse))
    try:
        return fork.finish(frame.source.analysis.assigned([node]), (one, other))
    except Mismatch as mismatch:
        raise TypeMismatchError(
            "TYPE_JOIN",
            f"this is {describe_side(one)} if the condition holds and {describe_side(other)} otherwise",
            hint=mismatch.hint,
        ) from None


def both(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """``left and right`` of two evaluated truths."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        found = visitor.frame.mark(node).emit(arith.AndIOp(left.ssa, right.ssa))
        return Scalar(found.result, bool_)
    if isinstance(left, Scalar):
        return left if right else False
    return right if left else False


def either(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """``left or right`` of two evaluated truths."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        found = visitor.frame.mark(node).emit(arith.OrIOp(left.ssa, right.ssa))
        return Scalar(found.result, bool_)
    if isinstance(left, Scalar):
        return True if right else left
    return True if left else right


def negated(visitor: Evaluator, node: ast.AST, value: Any) -> Any:
    """``not value`` of a truth."""
    return logical_not(visitor.frame.mark(node), value) if isinstance(value, Scalar) else not value


def guarded(visitor: Evaluator, node: ast.expr, flag: Scalar, condition: Callable[[], Any]) -> Any:
    """``flag and condition``, where `condition` is evaluated only if the flag holds."""
    return _both(visitor, node, flag, flag, condition, is_and=True)
