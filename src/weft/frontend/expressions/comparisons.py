# SPDX-License-Identifier: Apache-2.0
"""Truths: comparisons, `in`, `and`, `or`, the conditional, patterns of `match`.

In: their nodes, or two values; a pattern and a subject. Out: a bool, or a staged one; containers are compared item by
item. Of short-circuit expressions, values, and a region only if the skippable part does more than compute. Patterns are
decided at compile time if known, else equality of run-time values is; they bind names.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1

from weft.arguments.records import is_dataclass
from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.control_flow.branches import Fork
from weft.frontend.control_flow.joins import Mismatch, describe_side
from weft.frontend.expressions import attributes
from weft.frontend.expressions.items import Items
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_iterator
from weft.frontend.structure import PLAIN, contains_staged
from weft.language.matrix import fragment
from weft.language.memory.arrays import TableRow
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import binary, compare, logical_not
from weft.language.values import Fragment, Scalar, describe, is_instance, is_staged
from weft.types.dtype import bool_, i32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.frontend.context import Evaluator

    Lookup = Callable[[Evaluator, ast.AST, Any, list[Any]], Any]
    Truth = bool | Scalar


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
        return guarded(visitor, node, value, rest)
    if isinstance(value, Fragment):
        raise TypeMismatchError(
            "TYPE_NOT_A_NUMBER",
            f"a chain of comparisons asks whether the first holds, and {describe(value)} is neither true nor false",
            hint="write (a < f) & (f < b)",
        )
    return rest() if value else value


def _compare_one(visitor: Evaluator, node: ast.AST, kind: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(kind, ast.Is | ast.IsNot):
        return _is_same(left, right) is isinstance(kind, ast.Is)
    if isinstance(kind, ast.In | ast.NotIn):
        found = contains(visitor, node, left, right)
        return negated(visitor, node, found) if isinstance(kind, ast.NotIn) else found
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
        for row in (left, right):
            if isinstance(row, TableRow):
                raise row.no_number()
        found = attributes.compare(visitor.frame, sign, left, right)
        if found is attributes.NONE and sign == "!=":
            # Without its own method, it negates ==.
            found = attributes.compare(visitor.frame, "==", left, right)
            if found is not attributes.NONE:
                return negated(visitor, node, visitor.truth_of(found, node))
        if found is not attributes.NONE:
            return found
        if any(contains_staged(one) and not is_staged(one) for one in (left, right)):
            return _compare_items(visitor, node, sign, left, right)
    if isinstance(left, Fragment) or isinstance(right, Fragment):
        return fragment.combined(visitor.frame.mark(node), sign, left, right)
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
        return negated(visitor, node, value) if sign == "!=" else value
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
        value = both(visitor, node, value, _same(visitor, node, one, other))
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
    return either(visitor, node, strict, both(visitor, node, equal, rest))


def contains(visitor: Evaluator, node: ast.AST, left: Any, right: Any) -> Any:
    """``left in right``.

    Raises:
        TypeMismatchError: for a container whose items are only known at run time.
    """
    visitor.frame.mark(node)
    found = attributes.call(visitor.frame, right, "__contains__", left)
    if found is not attributes.NONE:
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
        value = either(visitor, node, value, _same(visitor, node, left, item))
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
        value = both(visitor, node, value, holds)
    step = abs(right.step)
    if step == 1:
        return value
    if step > left.dtype.maximum:
        return compare(visitor.frame.mark(node), "==", left, right[0])
    builder = visitor.frame.mark(node)
    phase = compare(builder, "==", binary(builder, "%", left, step), right[0] % step)
    return both(visitor, node, value, phase)


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
    """Number of items equal to a value."""
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
        value = either(visitor, node, value, found)
    return negated(visitor, node, value)


# Classes → method → its implementation, and its numbers of arguments.
_SEARCHES: Final[list[tuple[tuple[type, ...], dict[str, tuple[Lookup, int, int]]]]] = [
    ((dict,), {"get": (_get, 1, 2)}),
    ((tuple, list), {"count": (_count, 1, 1)}),
    ((set, frozenset), {"isdisjoint": (_is_disjoint, 1, 1)}),
]


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


# Classes whose single positional pattern is matched against the subject itself.
_WHOLE: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


class Matcher:
    """Matches patterns of one `case`.

    Args:
        visitor: evaluates names in patterns.

    Attributes:
        bound: name → value bound by the pattern, for the statement to assign if it matches.
    """

    __slots__ = ("_visitor", "bound")

    def __init__(self, visitor: Evaluator) -> None:
        self._visitor = visitor
        self.bound: dict[str, tuple[ast.pattern, Any]] = {}

    def matches(self, pattern: ast.pattern, subject: Any) -> Truth:
        """Whether a pattern matches.

        Raises:
            TypeMismatchError: if a staged value would have to be destructured.
        """
        if isinstance(pattern, ast.MatchValue):
            return self._equals(pattern, subject, self._visitor.evaluate(pattern.value))
        if isinstance(pattern, ast.MatchSingleton):
            if isinstance(subject, Scalar) and isinstance(pattern.value, bool):
                is_bool = subject.dtype.is_bool
                return self._equals(pattern, subject, pattern.value) if is_bool else False
            return subject is pattern.value
        if isinstance(pattern, ast.MatchAs):
            found = pattern.pattern is None or self.matches(pattern.pattern, subject)
            if pattern.name is not None:
                self.bound[pattern.name] = pattern, subject
            return found
        if isinstance(pattern, ast.MatchOr):
            return self._any(pattern, subject)
        if isinstance(pattern, ast.MatchSequence):
            return self._sequence(pattern, subject)
        if isinstance(pattern, ast.MatchMapping):
            return self._mapping(pattern, subject)
        return self._class(cast("ast.MatchClass", pattern), subject)

    def _all(self, pattern: ast.AST, pairs: Sequence[tuple[ast.pattern, Any]]) -> Truth:
        found: Truth = True
        for part, subject in pairs:
            found = both(self._visitor, pattern, found, self.matches(part, subject))
            if found is False:
                return False
        return found

    def _any(self, pattern: ast.MatchOr, subject: Any) -> Truth:
        found: Truth = False
        for choice in pattern.patterns:
            before = dict(self.bound)
            this = self.matches(choice, subject)
            if this is False:
                self.bound = before
                continue
            if this is True and found is False:
                return True
            if self.bound.keys() != before.keys():
                raise TypeMismatchError(
                    "MATCH_STAGED",
                    "which of these patterns binds the names is only known at run time",
                    hint="write one case for each",
                    location=self._visitor.frame.locate(pattern),
                )
            found = either(self._visitor, pattern, found, this)
            if found is True:
                return True
        return found

    def _sequence(self, pattern: ast.MatchSequence, subject: Any) -> Truth:
        self._refuse_tensor(pattern, subject)
        if not isinstance(subject, Sequence) or isinstance(subject, str | bytes | bytearray):
            return False
        items = list(cast("Sequence[Any]", subject))
        parts = pattern.patterns
        star = next((i for i, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
        if star is None:
            if len(items) != len(parts):
                return False
            return self._all(pattern, list(zip(parts, items, strict=True)))
        behind = len(parts) - star - 1
        if len(items) < len(parts) - 1:
            return False
        end = len(items) - behind
        rest = cast("ast.MatchStar", parts[star])
        if rest.name is not None:
            middle: Any = self._visitor.frame.state.note(items[star:end])
            self.bound[rest.name] = rest, middle
        pairs = [
            *zip(parts[:star], items[:star], strict=True),
            *zip(parts[star + 1 :], items[end:], strict=True),
        ]
        return self._all(pattern, pairs)

    def _mapping(self, pattern: ast.MatchMapping, subject: Any) -> Truth:
        self._refuse_tensor(pattern, subject)
        if not isinstance(subject, Mapping):
            return False
        table = cast("Mapping[Any, Any]", subject)
        keys = [self._visitor.evaluate(key) for key in pattern.keys]
        if any(key not in table for key in keys):
            return False
        if pattern.rest is not None:
            rest: Any = {key: value for key, value in table.items() if key not in keys}
            created = self._visitor.frame.state.note(rest)
            self.bound[pattern.rest] = pattern, created
        pairs = [(part, table[key]) for part, key in zip(pattern.patterns, keys, strict=True)]
        return self._all(pattern, pairs)

    def _class(self, pattern: ast.MatchClass, subject: Any) -> Truth:
        kind = self._visitor.evaluate(pattern.cls)
        if not isinstance(kind, type):
            raise TypeMismatchError(
                "MATCH_CLASS",
                f"a pattern with parentheses must name a class, received {constants.kind(kind)}",
                hint="compare with a dotted name, such as Mode.FAST, or in a guard",
                location=self._visitor.frame.locate(pattern),
            )
        if not is_instance(subject, kind):
            return False
        names: list[str] = list(pattern.kwd_attrs)
        parts = list(pattern.patterns)
        pairs: list[tuple[ast.pattern, Any]] = []
        if parts and kind in _WHOLE:
            pairs.append((parts.pop(0), subject))
        arguments: tuple[str, ...] = getattr(kind, "__match_args__", ())
        if len(parts) > len(arguments):
            raise TypeMismatchError(
                "MATCH_CLASS",
                f"{kind.__name__}() accepts {len(arguments)} positional patterns, received {len(parts)}",
                location=self._visitor.frame.locate(pattern),
            )
        names = [*arguments[: len(parts)], *names]
        for name, part in zip(names, [*parts, *pattern.kwd_patterns], strict=True):
            try:
                pairs.append((part, attributes.read(self._visitor.frame, subject, name, pattern)))
            except NameResolutionError:
                return False
        return self._all(pattern, pairs)

    def _equals(self, pattern: ast.pattern, subject: Any, value: Any) -> Truth:
        self._refuse_tensor(pattern, subject)
        if not contains_staged(subject) and not contains_staged(value):
            ask = self._visitor.frame.state.ask
            return bool(ask("the comparison", operator.eq, subject, value))
        if is_staged(subject) and not isinstance(value, int | float | Scalar):
            return False
        return compare_values(self._visitor, pattern, "==", subject, value)

    def _refuse_tensor(self, pattern: ast.pattern, subject: Any) -> None:
        if is_staged(subject) and not isinstance(subject, Scalar):
            raise TypeMismatchError(
                "MATCH_STAGED",
                f"match compares numbers and unpacks containers, and {describe(subject)} is neither",
                hint="match an element, or a dimension such as a.shape[0]",
                location=self._visitor.frame.locate(pattern),
            )
