# SPDX-License-Identifier: Apache-2.0
"""Patterns of `match`: decided at compile time if known, equality of run-time values at run time.

In: a pattern and a subject. Out: whether it matches, a bool or a staged one, and the names that it binds.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.expressions import attributes, short_circuit
from weft.frontend.expressions.comparisons import compare_values
from weft.frontend.state import constants
from weft.frontend.structure import contains_staged
from weft.language.values import Scalar, describe, is_instance, is_staged

if TYPE_CHECKING:
    from weft.frontend.context import Evaluator

    Truth = bool | Scalar

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
            found = short_circuit.both(self._visitor, pattern, found, self.matches(part, subject))
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
            found = short_circuit.either(self._visitor, pattern, found, this)
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
