# SPDX-License-Identifier: Apache-2.0
"""Functions of a fragment's elements, which are traced once, into a region.

In: a call whose second argument is such a function. Out: the call's arguments, with what traces it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from weft.errors import TypeMismatchError
from weft.frontend.events import untold

if TYPE_CHECKING:
    from xdsl.ir import Block

    from weft.frontend.context import Evaluator


def with_region(
    visitor: Evaluator, node: ast.AST, arguments: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, with the function as one of a block and its elements; a number stays one."""
    if "function" in keywords:
        function = keywords["function"]
        return arguments, {**keywords, "function": _into_region(visitor, node, function)}
    if len(arguments) < 2:
        return arguments, keywords
    fragment, function, *others = arguments
    return [fragment, _into_region(visitor, node, function), *others], keywords


def _into_region(visitor: Evaluator, node: ast.AST, function: Any) -> Any:
    if not callable(function):
        return function
    frame = visitor.frame

    def traced(block: Block, *elements: Any) -> Any:
        def body() -> Any:
            return visitor.call_value(node, function, list(elements), {})

        with untold(frame):
            value, path = frame.trace_in(block, frame.scope.path.copy(), body)
        frame.mark(node)
        if path.changed:
            changed = ", ".join(str(slot) for slot in path.changed)
            raise TypeMismatchError(
                "FRAGMENT_FUNCTION",
                f"the function of a fragment's elements changes {changed}, but is traced once for all elements",
                hint="let it return a value",
            )
        return value

    return traced
