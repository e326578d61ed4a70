# SPDX-License-Identifier: Apache-2.0
"""Patterns of `match`, on subjects whose shape is known at compile time.

In: a pattern and a subject. Out: whether it matches; names are bound as it goes. Next: statements.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, cast

from weft.errors import TypeMismatchError, UnsupportedSyntaxError
from weft.frontend import constants
from weft.frontend.structure import contains_staged
from weft.language.values import describe

if TYPE_CHECKING:
    from weft.frontend.expressions import Expressions


def matches(visitor: Expressions, pattern: ast.pattern, subject: Any) -> bool:
    """Whether a pattern fits.

    Raises:
        TypeMismatchError: where that is only known at run time.
        UnsupportedSyntaxError: for patterns of classes and mappings.
    """
    if isinstance(pattern, ast.MatchValue):
        return _equals(visitor, pattern, subject, visitor.evaluate(pattern.value))
    if isinstance(pattern, ast.MatchSingleton):
        return subject is pattern.value
    if isinstance(pattern, ast.MatchOr):
        return any(matches(visitor, choice, subject) for choice in pattern.patterns)
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None and not matches(visitor, pattern.pattern, subject):
            return False
        if pattern.name is not None:
            visitor.frame.scope.assign(pattern.name, subject, visitor.frame.locate(pattern))
        return True
    if isinstance(pattern, ast.MatchSequence):
        return _matches_sequence(visitor, pattern, subject)
    raise UnsupportedSyntaxError(
        "MATCH",
        "only values, sequences and names are patterns in compiled code",
        hint="use if and elif",
        location=visitor.frame.locate(pattern),
    )


def _matches_sequence(visitor: Expressions, pattern: ast.MatchSequence, subject: Any) -> bool:
    parts = pattern.patterns
    if any(isinstance(part, ast.MatchStar) for part in parts):
        raise UnsupportedSyntaxError(
            "MATCH",
            "a starred pattern cannot be compiled",
            hint="use if and elif",
            location=visitor.frame.locate(pattern),
        )
    if not isinstance(subject, tuple | list):
        return False
    items = cast("list[Any]", subject)
    if len(items) != len(parts):
        return False
    return all(matches(visitor, *pair) for pair in zip(parts, items, strict=True))


def _equals(visitor: Expressions, pattern: ast.pattern, subject: Any, value: Any) -> bool:
    if contains_staged(subject) or contains_staged(value):
        raise TypeMismatchError(
            "MATCH_STAGED",
            f"match compares at compile time, and {describe(subject)} is only known at run time",
            hint="use if and elif",
            location=visitor.frame.locate(pattern),
        )
    return bool(constants.python("the comparison", lambda: subject == value))
