# SPDX-License-Identifier: Apache-2.0
"""Methods of containers that look for a staged value: `get`, `count`, `isdisjoint` compare it with each item.

In: a method of a dict, tuple, list or set, and its arguments. Out: a value where the comparisons have one; what
cannot be said in the kernel, such as which item to remove, a staged value itself refuses.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import TypeMismatchError
from weft.frontend.control_flow.branches import Fork
from weft.frontend.control_flow.joins import Mismatch, describe_side
from weft.frontend.expressions import containers, short_circuit
from weft.frontend.expressions.items import Items
from weft.language.numbers.convert import convert
from weft.language.values import Scalar
from weft.types.dtype import i32

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.context import Evaluator

    Lookup = Callable[[Evaluator, ast.AST, Any, list[Any]], Any]


def find(owner: object, name: str, count: int) -> Lookup | None:
    """What a method means for staged values, if it means something with that many arguments."""
    for kinds, rows in _LOOKUPS:
        if isinstance(owner, kinds) and name in rows:
            lookup, least, most = rows[name]
            return lookup if least <= count <= most else None
    return None


def _get(visitor: Evaluator, node: ast.AST, owner: Any, given: list[Any]) -> Any:
    """``table.get(key, default)``: the value under the key that is equal."""
    key, default = (*given, None)[:2]
    value: Any = default
    frame = visitor.frame
    for label, item in reversed(cast("dict[Any, Any]", owner).items()):
        same = containers.same(visitor, node, key, label)
        if not isinstance(same, Scalar):
            value = item if same else value
            continue
        frame.mark(node)
        try:
            value = Fork(frame, same).finish((), (item, value))
        except Mismatch as mismatch:
            raise TypeMismatchError(
                "TYPE_JOIN",
                f"this is {describe_side(item)} for one key and {describe_side(value)} otherwise",
                hint=mismatch.hint,
            ) from None
    return value


def _count(visitor: Evaluator, node: ast.AST, owner: Any, given: list[Any]) -> Any:
    """How many items are equal to a value."""
    total: Any = 0
    for item in owner:
        same: Any = containers.same(visitor, node, item, given[0])
        if isinstance(same, Scalar):
            same = convert(visitor.frame.mark(node), same, i32)
        total = visitor.operate(node, ast.Add, total, same)
    return total


def _is_disjoint(visitor: Evaluator, node: ast.AST, owner: Any, given: list[Any]) -> Any:
    """Whether no item of one container is in another."""
    value: Any = False
    for item in Items(visitor.frame, given[0], node):
        found = containers.contains(visitor, node, item, owner, negated=False)
        value = short_circuit.either(visitor, node, value, found)
    return short_circuit.negated(visitor, node, value)


# Classes → method → what it means, and how many arguments it may have.
_LOOKUPS: Final[list[tuple[tuple[type, ...], dict[str, tuple[Lookup, int, int]]]]] = [
    ((dict,), {"get": (_get, 1, 2)}),
    ((tuple, list), {"count": (_count, 1, 1)}),
    ((set, frozenset), {"isdisjoint": (_is_disjoint, 1, 1)}),
]
