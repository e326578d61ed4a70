# SPDX-License-Identifier: Apache-2.0
"""Comparisons of containers that hold staged values, and `in`: one comparison per item.

In: two compile-time values of which one holds staged ones. Out: a bool, or a staged one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import TypeMismatchError
from weft.frontend.expressions import methods, short_circuit
from weft.frontend.expressions.items import Items
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_iterator
from weft.frontend.structure import PLAIN, contains_staged, is_frozen_dataclass
from weft.language.numbers.operators import binary, compare
from weft.language.values import Scalar, is_staged

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from weft.frontend.context import Evaluator

_ORDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VALUES: Final[type[Any]] = type(dict[str, str]().values())
_LONGEST_COMPARED: Final = (
    16  # of a range, one comparison per item; a longer one is asked for its bounds
)


def compare_items(visitor: Evaluator, node: ast.AST, sign: str, left: Any, right: Any) -> Any:
    """``left sign right``, item by item as Python does.

    Tuples, lists, dicts and dataclasses are equal or not; tuples and lists are in an order too.

    Raises:
        TypeMismatchError: for an order of what has none.
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
        value = short_circuit.both(visitor, node, value, same(visitor, node, one, other))
        if value is False:
            break
    return value


def same(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """Whether two items are equal; a number and what is none are not."""
    if is_staged(left) != is_staged(right):
        other = right if is_staged(left) else left
        if type(other) in PLAIN and not isinstance(other, int | float):
            return False
        if type(other) not in PLAIN and not hasattr(other, "dtype"):
            return False
    return visitor.equal(node, left, right)


def _pairs(left: object, right: object) -> list[tuple[Any, Any]] | None:
    """The items that must be equal; None where the containers differ whatever their items are."""
    sequences = _sequences(left, right)
    if sequences is not None:
        ones, others = sequences
        return list(zip(ones, others, strict=True)) if len(ones) == len(others) else None
    if is_frozen_dataclass(left):
        return _compared_fields(left, right)
    return _entries(left, right)


def _compared_fields(left: object, right: object) -> list[tuple[Any, Any]] | None:
    """The fields by which two instances of one frozen dataclass are compared."""
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
        return constants.python("the comparison", _ORDERS[sign], len(left), len(right))
    (one, *ones), (other, *others) = left, right
    rest = _ordered(visitor, node, sign, ones, others)
    strict = _compare(visitor, node, sign[0], one, other)
    equal = same(visitor, node, one, other)
    return short_circuit.either(
        visitor, node, strict, short_circuit.both(visitor, node, equal, rest)
    )


def _compare(visitor: Evaluator, node: ast.AST, sign: str, left: Any, right: Any) -> Any:
    if is_staged(left) or is_staged(right):
        return compare(visitor.frame.mark(node), sign, left, right)
    return visitor.frame.state.ask("the comparison", _ORDERS[sign], left, right)


def contains(visitor: Evaluator, node: ast.AST, left: Any, right: Any, *, negated: bool) -> Any:
    """``left in right``, or with `negated` ``left not in right``.

    Raises:
        TypeMismatchError: for a container whose items are only known at run time.
    """
    value = _contains(visitor, node, left, right)
    return short_circuit.negated(visitor, node, value) if negated else value


def _contains(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
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
    if is_iterator(right):
        return _in_items(visitor, node, left, Items(visitor.frame, right, node))
    if not isinstance(right, tuple | list | range | Set) and type(right) is not _VALUES:
        raise TypeMismatchError(
            "CONTAINS",
            f"'in' looks into a tuple, a list, a set, a dict or a range, received {constants.kind(right)}",
            hint="write the comparisons, or a loop over the elements",
        )
    value: Any = False
    for item in cast("Sequence[Any]", right):
        value = short_circuit.either(visitor, node, value, same(visitor, node, left, item))
        if value is True:
            break
    return value


def _in_items(visitor: Evaluator, node: ast.AST, left: Any, items: Items) -> Any:
    """Whether a value is among those that an iterator still has; Python stops at the first that is equal."""
    value: Any = False
    for item in items:
        value = short_circuit.either(visitor, node, value, same(visitor, node, left, item))
        if value is True:
            break
    if isinstance(value, Scalar):
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
