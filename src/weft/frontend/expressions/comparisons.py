# SPDX-License-Identifier: Apache-2.0
"""Comparisons, one and in a chain: of numbers, staged values, containers, and objects with methods of their own.

In: their nodes. Out: a bool, or a staged one. What a container's items are compared with comes back here, by the
visitor.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from weft.errors import TypeMismatchError
from weft.frontend.expressions import methods, short_circuit
from weft.frontend.expressions.containers import compare_items, contains
from weft.frontend.structure import PLAIN, contains_staged
from weft.language.numbers.operators import compare
from weft.language.values import Scalar, describe, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.context import Evaluator

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_PYTHON: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def comparison(visitor: Evaluator, node: ast.Compare) -> Any:
    """``a < b <= c``: each operand is evaluated at most once, later ones only if needed."""
    left = visitor.evaluate(node.left)
    if len(node.ops) == 1:
        return compare_one(visitor, node, node.ops[0], left, visitor.evaluate(node.comparators[0]))
    return _compare_from(visitor, node, 0, left)


def _compare_from(visitor: Evaluator, node: ast.Compare, position: int, left: Any) -> Any:
    right = visitor.evaluate(node.comparators[position])
    value = compare_one(visitor, node, node.ops[position], left, right)
    if position + 1 == len(node.ops):
        return value

    def rest() -> Any:
        return _compare_from(visitor, node, position + 1, right)

    if isinstance(value, Scalar):
        return short_circuit.guarded(visitor, node, value, rest)
    return rest() if value else value


def compare_one(
    visitor: Evaluator, node: ast.AST, operator: ast.cmpop, left: Any, right: Any
) -> Any:
    """One comparison of a chain."""
    if isinstance(operator, ast.Is | ast.IsNot):
        same = _is_same(left, right)
        return same if isinstance(operator, ast.Is) else not same
    if isinstance(operator, ast.In | ast.NotIn):
        return contains(visitor, node, left, right, negated=isinstance(operator, ast.NotIn))
    sign = _COMPARISONS[type(operator)]
    if type(left) not in PLAIN or type(right) not in PLAIN:
        visitor.frame.mark(node)
        found = methods.compare(visitor.frame, sign, left, right)
        if found is methods.NONE and sign == "!=":
            # Without a method of its own, it is the contrary of ==.
            found = methods.compare(visitor.frame, "==", left, right)
            if found is not methods.NONE:
                return short_circuit.negated(visitor, node, visitor.truth_of(found, node))
        if found is not methods.NONE:
            return found
        if any(contains_staged(one) and not is_staged(one) for one in (left, right)):
            return compare_items(visitor, node, sign, left, right)
    if is_staged(left) or is_staged(right):
        return compare(visitor.frame.mark(node), sign, left, right)
    return visitor.frame.state.ask("the comparison", _PYTHON[type(operator)], left, right)


def _is_same(left: object, right: object) -> bool:
    for value, other in ((left, right), (right, left)):
        if is_staged(value) and other is not None:
            raise TypeMismatchError(
                "IDENTITY",
                f"'is' compares objects, and {describe(value)} is not one",
                hint="write ==",
            )
    return left is right
