# SPDX-License-Identifier: Apache-2.0
"""Texts of the sanitizer's reports on a place in the source, which machine code holds.

In: the place of an access. Out: its calls as data, which `weft.sanitizer.report` reads; the array's name.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.location import SourceLocation


def places_text(place: SourceLocation | None) -> str:
    """The place and the calls that inlined it, innermost first, for `weft.sanitizer.report`."""
    lines: list[str] = []
    while place is not None:
        span = (place.line, place.column, place.end_line, place.end_column)
        lines.append("\t".join([*map(str, span), place.function, place.file]))
        place = place.caller
    return "\n".join(lines)


def array_text(text: str, argument: int = 0) -> str:
    """The array in the text of an access: `a` of `a[i, j]`, `a[i] = x` and `atomic_add(a, i, x)`; empty if unknown.

    Args:
        text: of the access.
        argument: of a call, which one is the array.

    Example:
        >>> array_text("self.tile[i] += 1"), array_text("weft.atomic_add(counts[0], i, 1)")
        ('self.tile', 'counts[0]')
    """
    try:
        (found,) = ast.parse(text.strip()).body
    except (SyntaxError, ValueError):
        return ""
    node: ast.AST = found
    if isinstance(node, ast.Assign):
        node = node.targets[0]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        node = node.target
    elif isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value)
    if isinstance(node, ast.Call) and len(node.args) > argument:
        return ast.unparse(node.args[argument])
    return ""
