# SPDX-License-Identifier: Apache-2.0
"""Comparisons of numbers, staged values, containers, and objects with methods for them; `in`; methods that search.

In: their nodes, or two values. Out: a bool, or a staged one; containers are compared item by item.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_dataclass
from weft.errors import TypeMismatchError
from weft.frontend.control_flow.branches import Fork
from weft.frontend.control_flow.joins import Mismatch, describe_side
from weft.frontend.expressions import methods, short_circuit
from weft.frontend.expressions.items import Items
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_iterator
from weft.frontend.structure import PLAIN, contains_staged
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import binary, compare
from weft.language.values import Scalar, describe, is_staged
from weft.types.dtype import i32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.frontend.context import Evaluator

    Lookup = Callable[[Evaluator, ast.AST, Any, list[Any]], Any]

_SIGNS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_VALUES: Final[type[Any]] = type(dict[str, str]().values())
# Up to this length a range is compared item by item; longer ones by their bounds.
_LONGEST_COMPARED: Final = 16


def comparison(visitor: Evaluator, node: ast.Compare) -> Any:
    """``a < b <= c``: each operand is evaluated at most once, later ones only if needed."""
    return _compare_from(visitor, node, 0, visitor.evaluate(node.left))


def _compare_from(visitor: Evaluator, node: ast.Compare, position: int, left: Any) -> Any:
    right = visitor.evaluate(node.comparators[position])
    value = _compare_one(visitor, node, node.ops[position], left, right)
    if position + 1 == len(node.ops):
        return value

    def rest() -> Any:
        return _compare_from(visitor, node, position + 1, right)

    if isinstance(value, Scalar):
        return short_circuit.guarded(visitor, node, value, rest)
    return rest() if value else value


def _compare_one(visitor: Evaluator, node: ast.AST, kind: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(kind, ast.Is | ast.IsNot):
        return _is_same(left, right) is isinstance(kind, ast.Is)
    if isinstance(kind, ast.In | ast.NotIn):
        found = contains(visitor, node, left, right)
        return short_circuit.negated(visitor, node, found) if isinstance(kind, ast.NotIn) else found
    return compare_values(visitor, node, _SIGNS[type(kind)], left, right)


def _is_same(left: object, right: object) -> bool:
    for value, other in ((left, right), (right, left)):
        if is_staged(value) and other is not None:
            raise TypeMismatchError(
                "IDENTITY",
                f"'is' compares objects, and {describe(value)} is not one",
                hint="write ==",
            )
    return left is right


def compare_values(visitor: Evaluator, node: ast.AST, sign: str, left: Any, right: Any) -> Any:
    """``left sign right``, such as ``==``."""
    if type(left) not in PLAIN or type(right) not in PLAIN:
        visitor.frame.mark(node)
        found = methods.compare(visitor.frame, sign, left, right)
        if found is methods.NONE and sign == "!=":
            # Without its own method, it negates ==.
            found = methods.compare(visitor.frame, "==", left, right)
            if found is not methods.NONE:
                return short_circuit.negated(visitor, node, visitor.truth_of(found, node))
        if found is not methods.NONE:
            return found
        if any(contains_staged(one) and not is_staged(one) for one in (left, right)):
            return _compare_items(visitor, node, sign, left, right)
    if is_staged(left) or is_staged(right):
        return compare(visitor.frame.mark(node), sign, left, right)
    return visitor.frame.state.ask("the comparison", constants.COMPARISONS[sign], left, right)


def _compare_items(visitor: Evaluator, node: ast.AST, sign: str, left: Any, right: Any) -> Any:
    """``left sign right``, item by item as Python does.

    Tuples, lists, dicts and dataclasses can be equal; tuples and lists also have an order.

    Raises:
        TypeMismatchError: for an order of unordered values.
    """
    if sign in ("==", "!="):
        value = _equal(visitor, node, left, right)
        return short_circuit.negated(visitor, node, value) if sign == "!=" else value
    sequences = _sequences(left, right)
    if sequences is not None:
        return _ordered(visitor, node, sign, *sequences)
    raise TypeMismatchError(
        "OPERATOR_UNKNOWN",
        f"{constants.kind(left)} and {constants.kind(right)} have no order at run time",
        hint="compare their items",
    )


def _equal(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    pairs = _pairs(left, right)
    value: Any = pairs is not None
    for one, other in pairs or ():
        value = short_circuit.both(visitor, node, value, _same(visitor, node, one, other))
        if value is False:
            break
    return value


def _same(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """Whether two items are equal; a number never equals a non-number."""
    if is_staged(left) != is_staged(right):
        other = right if is_staged(left) else left
        if type(other) in PLAIN and not isinstance(other, int | float):
            return False
        if type(other) not in PLAIN and not hasattr(other, "dtype"):
            return False
    return compare_values(visitor, node, "==", left, right)


def _pairs(left: object, right: object) -> list[tuple[Any, Any]] | None:
    """The items that must be equal; None if the containers differ regardless."""
    sequences = _sequences(left, right)
    if sequences is not None:
        ones, others = sequences
        return list(zip(ones, others, strict=True)) if len(ones) == len(others) else None
    if is_dataclass(type(left), frozen=True):
        return _compared_fields(left, right)
    return _entries(left, right)


def _compared_fields(left: object, right: object) -> list[tuple[Any, Any]] | None:
    """The fields compared between two instances of a frozen dataclass."""
    if type(left) is not type(right):
        return None
    kind: Any = type(left)
    fields: dict[str, Any] = kind.__dataclass_fields__
    names = [name for name, field in fields.items() if field.compare]
    return [(getattr(left, name), getattr(right, name)) for name in names]


def _entries(left: Any, right: Any) -> list[tuple[Any, Any]] | None:
    """The values of two dicts under equal keys."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return None
    one, other = cast("dict[Any, Any]", left), cast("dict[Any, Any]", right)
    return [(one[key], other[key]) for key in one] if one.keys() == other.keys() else None


def _sequences(left: Any, right: Any) -> tuple[list[Any], list[Any]] | None:
    """The items of two tuples, or of two lists."""
    for kind in (tuple, list):
        if isinstance(left, kind) and isinstance(right, kind):
            return list(cast("list[Any]", left)), list(cast("list[Any]", right))
    return None


def _ordered(
    visitor: Evaluator, node: ast.AST, sign: str, left: list[Any], right: list[Any]
) -> Any:
    """Whether a sequence comes before another one: the first pair of different items decides."""
    if not left or not right:
        return constants.python(
            "the comparison", constants.COMPARISONS[sign], len(left), len(right)
        )
    (one, *ones), (other, *others) = left, right
    rest = _ordered(visitor, node, sign, ones, others)
    strict = compare_values(visitor, node, sign[0], one, other)
    equal = _same(visitor, node, one, other)
    return short_circuit.either(
        visitor, node, strict, short_circuit.both(visitor, node, equal, rest)
    )


def contains(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """``left in right``.

    Raises:
        TypeMismatchError: for a container whose items are only known at run time.
    """
    visitor.frame.mark(node)
    found = methods.call(visitor.frame, right, "__contains__", left)
    if found is not methods.NONE:
        return visitor.truth_of(found, node)
    if not contains_staged(left) and not contains_staged(right):
        return visitor.frame.state.ask("the comparison", operator.contains, right, left)
    if isinstance(right, range) and isinstance(left, Scalar) and len(right) > _LONGEST_COMPARED:
        return _in_range(visitor, node, left, right)
    if isinstance(right, Mapping):
        right = cast("Mapping[Any, Any]", right).keys()
    items: Any = Items(visitor.frame, right, node) if is_iterator(right) else right
    if not isinstance(items, Items | tuple | list | range | Set) and type(items) is not _VALUES:
        raise TypeMismatchError(
            "CONTAINS",
            f"'in' searches a tuple, a list, a set, a dict or a range, received {constants.kind(right)}",
            hint="write the comparisons, or a loop over the elements",
        )
    value: Any = False
    for item in cast("Iterable[Any]", items):
        value = short_circuit.either(visitor, node, value, _same(visitor, node, left, item))
        if value is True:
            break  # Python stops at the first equal item
    if isinstance(items, Items) and isinstance(value, Scalar):
        items.leave()
    return value


def _in_range(visitor: Evaluator, node: ast.AST, left: Scalar, right: range) -> Any:
    """Whether a number is in a range: between its ends, and on one of its steps."""
    if not left.dtype.is_integer:
        raise TypeMismatchError(
            "CONTAINS",
            f"a long range holds integers, and {left.dtype} is not one",
            hint="write int(x)",
        )
    ends = sorted((right[0], right[-1]))
    value: Any = True
    for sign, bound in ((">=", ends[0]), ("<=", ends[1])):
        outside = not left.dtype.minimum <= bound <= left.dtype.maximum
        if outside:
            if (bound > left.dtype.maximum) == (sign == ">="):
                return False
            continue
        holds = compare(visitor.frame.mark(node), sign, left, bound)
        value = short_circuit.both(visitor, node, value, holds)
    step = abs(right.step)
    if step == 1:
        return value
    if step > left.dtype.maximum:
        return compare(visitor.frame.mark(node), "==", left, right[0])
    builder = visitor.frame.mark(node)
    phase = compare(builder, "==", binary(builder, "%", left, step), right[0] % step)
    return short_circuit.both(visitor, node, value, phase)


def find_lookup(owner: object, name: str, count: int) -> Lookup | None:
    """The implementation of a method for staged values, if it takes that many arguments."""
    for kinds, rows in _SEARCHES:
        if isinstance(owner, kinds) and name in rows:
            lookup, least, most = rows[name]
            return lookup if least <= count <= most else None
    return None


def _get(visitor: Evaluator, node: ast.AST, owner: Any, given: list[Any]) -> Any:
    """``table.get(key, default)``: the value under the equal key."""
    key, default = (*given, None)[:2]
    value: Any = default
    frame = visitor.frame
    for label, item in reversed(cast("dict[Any, Any]", owner).items()):
        same = _same(visitor, node, key, label)
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
        same: Any = _same(visitor, node, item, given[0])
        if isinstance(same, Scalar):
            same = convert(visitor.frame.mark(node), same, i32)
        total = visitor.operate(node, "+", total, same)
    return total


def _is_disjoint(visitor: Evaluator, node: ast.AST, owner: Any, given: list[Any]) -> Any:
    """Whether no item of one container is in another."""
    value: Any = False
    for item in Items(visitor.frame, given[0], node):
        found = contains(visitor, node, item, owner)
        value = short_circuit.either(visitor, node, value, found)
    return short_circuit.negated(visitor, node, value)


# Classes → method → its implementation, and its numbers of arguments.
_SEARCHES: Final[list[tuple[tuple[type, ...], dict[str, tuple[Lookup, int, int]]]]] = [
    ((dict,), {"get": (_get, 1, 2)}),
    ((tuple, list), {"count": (_count, 1, 1)}),
    ((set, frozenset), {"isdisjoint": (_is_disjoint, 1, 1)}),
]
