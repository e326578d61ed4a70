# SPDX-License-Identifier: Apache-2.0
"""Traces a thread, statement by statement, for `weft.testing.trace_thread`.

In: a frame, a node, a value of the front end. Out: `simt.event`; nothing in other kernels, nor in weft's
own functions, whose lines mean nothing to a user.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from weft.dialects.definition import text_attribute
from weft.dialects.simt.debug import EventOp
from weft.frontend.structure import PLAIN, children
from weft.language.numbers.complex import parts
from weft.language.values import Scalar, Staged, describe, item_text
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from weft.frontend.context import Frame

_LONGEST: Final = 60
"""Characters of a value known at compile time."""
_PLAIN: Final = frozenset((*PLAIN, complex, range, slice, type(...), DType))
# They do nothing when they run.
_SILENT: Final = (ast.Pass, ast.Global, ast.Nonlocal, ast.FunctionDef)


@contextmanager
def untraced(frame: Frame) -> Generator[None]:
    """Inside the `with` nothing is traced: the code runs once for each element of a fragment, in no order."""
    builder = frame.builder
    types, builder.element_types = builder.element_types, None
    try:
        yield
    finally:
        builder.element_types = types


def tell_line(frame: Frame, node: ast.stmt) -> None:
    """A statement begins."""
    if frame.builder.element_types is None or isinstance(node, _SILENT):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Return) and node.value is None and frame.returns_value:
        return  # the end of a helper
    if type(node).__module__ == ast.__name__ or type(node).__module__ == "_ast":
        _tell(frame, "line", node)


def tell_value(frame: Frame, event: str, node: ast.AST, name: str, value: object) -> None:
    """A variable has a new value, a function returns one, a condition has been decided."""
    if frame.builder.element_types is not None:
        scalars: list[Scalar] = []
        _tell(frame, event, node, name, _shown(value, scalars), scalars)


def tell_call(frame: Frame, node: ast.AST, parameters: Mapping[str, object]) -> None:
    """A function is inlined with these arguments."""
    if frame.builder.element_types is None:
        return
    scalars: list[Scalar] = []
    texts = [f"{name}={_shown(value, scalars)}" for name, value in parameters.items()]
    _tell(frame, "called", node, frame.name, ", ".join(texts), scalars)


def tell(frame: Frame, event: str, node: ast.AST) -> None:
    """An iteration of a loop begins, or the loop has ended."""
    if frame.builder.element_types is not None:
        _tell(frame, event, node)


def _tell(
    frame: Frame,
    event: str,
    node: ast.AST,
    name: str = "",
    shown: str = "",
    scalars: list[Scalar] | None = None,
) -> None:
    if frame.is_own:
        return
    found: list[Scalar] = []
    for scalar in scalars or []:
        found += parts(frame.mark(node), scalar) if scalar.dtype.is_complex else [scalar]
    types = [scalar.dtype.name for scalar in found]
    shown = text_attribute(shown).data
    frame.mark(node).emit(EventOp(event, name, shown, types, [scalar.ssa for scalar in found]))


def _shown(value: object, scalars: list[Scalar]) -> str:
    """The text of a value, with ``{}`` for each scalar of it, two for a complex one, which are appended."""
    if isinstance(value, Scalar):
        scalars.append(value)
        return "complex({}, {})" if value.dtype.is_complex else "{}"
    found = children(value)
    if found is None or isinstance(value, Staged):
        return _escaped(_constant_text(value))
    labels, items = found
    texts = [_shown(item, scalars) for item in items]
    if isinstance(value, tuple | list):
        begin, end = "[]" if isinstance(value, list) else "()"
        return f"{begin}{', '.join(texts)}{end}"
    if isinstance(value, dict):
        keys = [_escaped(_constant_text(label)) for label in labels]
        return f"{{{{{', '.join(map(': '.join, zip(keys, texts, strict=True)))}}}}}"
    fields = map("=".join, zip(labels, texts, strict=True))
    return f"{type(value).__name__}({', '.join(fields)})"


def _constant_text(value: object) -> str:
    """A value without items; of objects the class alone: a `__repr__` is the user's, and may hold an address."""
    if isinstance(value, Staged):
        return describe(value)
    return item_text(value) if type(value) in _PLAIN else f"a {type(value).__name__}"


def _escaped(text: str) -> str:
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return short.replace("{", "{{").replace("}", "}}")
