# SPDX-License-Identifier: Apache-2.0
"""Expressions: one method per kind of `ast.expr`.

In: a node and its frame. Out: a Python object if known at compile time, else a staged value.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import CompileError, TypeMismatchError, UnsupportedSyntaxError, WeftError
from weft.frontend.context import LocalFunction
from weft.frontend.events import tell_value
from weft.frontend.expressions import (
    attributes,
    calls,
    comparisons,
)
from weft.frontend.expressions.items import Items, comprehension
from weft.frontend.state import constants
from weft.frontend.structure import PLAIN, contains_staged
from weft.frontend.syntax import refusal
from weft.language.matrix import fragment
from weft.language.memory.arrays import TableRow
from weft.language.numbers.convert import accumulator
from weft.language.numbers.operators import binary, mark_index, mark_product, truth, unary
from weft.language.values import Fragment, Scalar, StagedIndex, Tensor, describe, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.frontend.context import Frame

SIGNS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
_SUMS: Final = (ast.Add, ast.Sub, ast.Mult)
_UNARY: Final[dict[type[ast.unaryop], str]] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


class Expressions:
    """Evaluates expressions of one frame.

    Args:
        frame: with variables and location.
    """

    __slots__ = ("_results", "frame")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._results: dict[ast.AST, Scalar | Fragment | None] = {}

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            WeftError: with the place of the innermost expression that cannot be compiled.
        """
        method = _METHODS.get(type(node))
        try:
            if method is None:
                raise refusal(node)
            return method(self, node)
        except Exception as error:
            self.frame.note(error, node)
            raise

    def condition(self, node: ast.expr) -> bool | Scalar:
        """The truth of an expression: a Python bool if known, else a staged ``bool_``."""
        if isinstance(node, ast.BoolOp):
            return comparisons.boolean_condition(self, node)
        return self.truth_of(self.evaluate(node), node)

    def truth_of(self, value: object, node: ast.AST) -> bool | Scalar:
        """Whether a value counts as true.

        Raises:
            TypeMismatchError: for a tensor, whose elements are known only at run time.
        """
        if isinstance(value, Scalar):
            return truth(self.frame.mark(node), value)
        if is_staged(value):
            raise TypeMismatchError(
                "TYPE_NOT_A_NUMBER",
                f"{describe(value)} is neither true nor false",
                hint="test one of f.values"
                if isinstance(value, Fragment)
                else "test an element, or a dimension such as a.shape[0]",
                location=self.frame.locate(node),
            )
        for name in ("__bool__", "__len__") if type(value) not in PLAIN else ():
            self.frame.mark(node)
            if isinstance(value, TableRow):
                raise value.no_number()
            found = attributes.call(self.frame, value, name)
            if found is not attributes.NONE:
                return self.truth_of(found, node)
        return self.frame.state.ask("bool", bool, value)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        scope, name = self.frame.scope, node.id
        if name not in scope.local_names:
            name = self.frame.source.mangled(name)
        return scope.lookup(name)

    def _binary(self, node: ast.BinOp) -> Any:
        """Iterative, since a sum of a thousand terms nests a thousand levels to the left."""
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        value = self.evaluate(spine[-1].left)
        for inner in reversed(spine):
            try:
                value = self.operate(
                    inner, SIGNS[type(inner.op)], value, self.evaluate(inner.right)
                )
            except WeftError as error:
                self.frame.note(error, inner)
                raise
        return value

    def operate(
        self, node: ast.AST, sign: str, left: Any, right: Any, *, in_place: bool = False
    ) -> Any:
        """``left sign right``, such as ``+``; the operation is located at `node`."""
        state = self.frame.state
        if type(left) not in PLAIN or type(right) not in PLAIN:
            self.frame.mark(node)
            found = attributes.binary(self.frame, sign, left, right, in_place=in_place)
            if found is not attributes.NONE:
                return found
        if isinstance(left, Fragment) or isinstance(right, Fragment):
            return self._operate_on_fragments(node, sign, left, right)
        if is_staged(left) or is_staged(right):
            if sign in ("+", "-"):
                self._mark_products(node, left, right)
            if in_place:
                left = accumulator(self.frame.mark(node), left, right)
            result = binary(self.frame.mark(node), sign, left, right)
            if sign in ("+", "-", "*"):
                # Not where nothing is computed: `p * 1` is `p`, which may be a multiplication of another text.
                is_new = result is not left and result is not right
                self._results[node] = result if is_new else None
            return result
        if in_place and isinstance(left, list | dict | set):
            return constants.in_place(state.run, sign, left, right)
        return self._container(constants.binary(state.ask, sign, left, right), left, right)

    def _operate_on_fragments(self, node: ast.AST, sign: str, left: Any, right: Any) -> Fragment:
        """An elementwise operation; what its text contains of others goes into the same function of elements."""
        texts = getattr(node, "left", None), getattr(node, "right", getattr(node, "value", None))
        parts = [
            value.ssa
            for text, value in zip(texts, (left, right), strict=True)
            if isinstance(value, Fragment) and text is not None and self._results.get(text) is value
        ]
        result = fragment.combined(self.frame.mark(node), sign, left, right, parts)
        self._results[node] = result
        return result

    def _mark_products(self, node: ast.AST, left: Any, right: Any) -> None:
        """Records which operands of a sum are multiplications in its text, for `fuse_multiply_adds`."""
        texts = getattr(node, "left", None), getattr(node, "right", getattr(node, "value", None))
        for text, value in zip(texts, (left, right), strict=True):
            if text is not None and self._results.get(text) is value:
                mark_product(value)

    def index(self, node: ast.expr, owner: Any) -> Any:
        """The value of what stands in the brackets after `owner`."""
        value = self.evaluate(node)
        if isinstance(owner, Tensor):
            self.note_index(node)
            if isinstance(value, tuple):
                return tuple(map(_number, cast("tuple[Any, ...]", value)))
            return _number(value)
        return value

    def note_index(self, node: ast.expr) -> None:
        """Records the source form of the value just computed, for `split_addresses`."""
        waiting = [node]
        while waiting:
            text = waiting.pop()
            if isinstance(text, ast.Tuple):
                waiting += text.elts
            elif isinstance(text, ast.BinOp) and type(text.op) in _SUMS:
                part = self._results.pop(text, None)
                if isinstance(part, Scalar):
                    mark_index(part)
                waiting += text.left, text.right

    def _container(self, result: Any, *sources: Any) -> Any:
        """A newly made list, dict or set, which the program may change."""
        is_new = type(result) in (list, dict, set) and all(result is not part for part in sources)
        return self.frame.state.note(result) if is_new else result

    def _unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            value = self.truth_of(self.evaluate(node.operand), node.operand)
            return comparisons.negated(self, node, value)
        value = self.evaluate(node.operand)
        operator = _UNARY[type(node.op)]
        if type(value) not in PLAIN:
            self.frame.mark(node)
            found = attributes.unary(self.frame, operator, value)
            if found is not attributes.NONE:
                return found
        if isinstance(value, Fragment):
            return fragment.negated(self.frame.mark(node), operator, value)
        if is_staged(value):
            return unary(self.frame.mark(node), operator, value)
        return constants.unary(self.frame.state.ask, operator, value)

    def call_value(
        self, node: ast.AST, callee: Any, arguments: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """The value of calling a compile-time object at `node`."""
        return calls.call_value(self, node, callee, arguments, keywords)

    def _subscript(self, node: ast.Subscript) -> Any:
        value = attributes.subscript(self, node)
        return self._container(value) if isinstance(node.slice, ast.Slice) else value

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.evaluate(part) for part in parts))

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """The values of a list of expressions, with ``*x`` unpacked."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(Items(self.frame, self.evaluate(node.value), node))
            else:
                found.append(self.evaluate(node))
        return found

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.items(node.elts))

    def _list(self, node: ast.List) -> list[Any]:
        return self.frame.state.note(self.items(node.elts))

    def _set(self, node: ast.Set) -> Any:
        items = self.items(node.elts)
        constants.refuse_staged(items, "a set")
        return self.frame.state.note(constants.python("the set", set, items))

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                constants.python("**", found.update, self.evaluate(value))
                continue
            label = self.evaluate(key)
            constants.refuse_staged(label, "a key")
            constants.python("the key", found.__setitem__, label, self.evaluate(value))
        return self.frame.state.note(found)

    def local_function(self, node: ast.FunctionDef | ast.Lambda) -> LocalFunction:
        """The value of a nested `def` or a lambda."""
        arguments = node.args
        defaults = tuple(self.evaluate(default) for default in arguments.defaults)
        keyword_defaults = {
            argument.arg: self.evaluate(default)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        scope = self.frame.comprehension or self.frame.scope
        return LocalFunction(node, self.frame, scope, defaults, keyword_defaults)

    def _walrus(self, node: ast.NamedExpr) -> Any:
        value = self.evaluate(node.value)
        self.frame.scope.assign(node.target.id, value, self.frame.locate(node))
        tell_value(self.frame, "assigned", node, node.target.id, value)
        return value

    def _formatted(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.evaluate(part)) for part in node.values)

    def _formatted_value(self, node: ast.FormattedValue) -> str:
        value = self.evaluate(node.value)
        if contains_staged(value):
            raise UnsupportedSyntaxError(
                "FORMAT_STAGED",
                f"an f-string is made at compile time, where {describe(value)} is not known",
                hint='write weft.printf("%f", value), with %d for integers',
            )
        specification = "" if node.format_spec is None else self.evaluate(node.format_spec)
        conversion = {115: str, 114: repr, 97: ascii}.get(node.conversion)
        if conversion is not None:
            value = self.frame.state.ask("the f-string", conversion, value)
        return self.frame.state.ask("the f-string", format, value, specification)

    def _starred(self, node: ast.Starred) -> Any:
        raise CompileError(
            "SYNTAX", "a starred expression is only allowed in a tuple, a list or a call"
        )


def _number(part: Any) -> Any:
    """An index as a number."""
    return part.index if isinstance(part, StagedIndex) else part


# pyright: reportPrivateUsage=false
_METHODS: Final[dict[type[ast.expr], Callable[[Expressions, Any], Any]]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: comparisons.comparison,
    ast.BoolOp: comparisons.boolean,
    ast.IfExp: comparisons.conditional,
    ast.Call: calls.call,
    ast.Attribute: attributes.attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._list,
    ast.Set: Expressions._set,
    ast.Dict: Expressions._dict,
    ast.ListComp: comprehension,
    ast.SetComp: comprehension,
    ast.GeneratorExp: comprehension,
    ast.DictComp: comprehension,
    ast.Lambda: Expressions.local_function,
    ast.NamedExpr: Expressions._walrus,
    ast.JoinedStr: Expressions._formatted,
    ast.FormattedValue: Expressions._formatted_value,
    ast.Starred: Expressions._starred,
}
