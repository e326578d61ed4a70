# SPDX-License-Identifier: Apache-2.0
"""Statements: one method per kind of `ast.stmt`; assignments to elements, items and attributes.

In: a block of statements and the names read after it. Out: operations, or a change of compile-time state, and the
variables in the frame's scope. If a branch of an `if` ends the block, the rest goes into the other branch.
"""

from __future__ import annotations

import ast
import inspect
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.ir import BlockArgument

from weft.dialects.builder import name_value
from weft.errors import (
    CompileError,
    NameResolutionError,
    TypeMismatchError,
    UnsupportedSyntaxError,
    WeftError,
)
from weft.frontend.context import FrontendCallable
from weft.frontend.control_flow.branches import Fork, guard
from weft.frontend.events import tell_line, tell_value
from weft.frontend.expressions import attributes, comparisons
from weft.frontend.expressions.attributes import item, refuse_elements
from weft.frontend.expressions.expression import SIGNS, Expressions
from weft.frontend.expressions.items import unpack
from weft.frontend.paths import Assigned, Conflict, Undefined
from weft.frontend.state import constants
from weft.frontend.state.reachable import Slot, is_plain_object
from weft.frontend.statements import for_loops, loop
from weft.frontend.statements.loop import Rest
from weft.frontend.structure import contains_staged
from weft.frontend.syntax import NONE, outer_assignment, refusal
from weft.language.debug import emit_assert
from weft.language.memory import access
from weft.language.numbers.convert import materialize
from weft.language.operation import Operation
from weft.language.values import Scalar, SharedSequence, StagedContext, Tensor, is_staged
from weft.types.dtype import DType, library_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.frontend.context import Frame
    from weft.frontend.paths import EnclosingLoop, Scope
    from weft.frontend.source import FunctionNode
    from weft.frontend.syntax import Names


class _Leave(ast.stmt):
    """The end of a `with`'s body, as a statement: reached unless control has left the body before."""

    contexts: list[tuple[StagedContext, EnclosingLoop | None]]


# The name of an array not assigned to a variable yet.
_NAMES_OF_NEW_ARRAYS: Final = ("shared", "local", "dynamic_shared", "global_scratch", "mbarrier")


class Statements:
    """Traces statements of one frame.

    Args:
        frame: with variables and location.
    """

    __slots__ = ("expressions", "frame")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.expressions = Expressions(frame)

    # ---- blocks

    def function_body(self, node: FunctionNode) -> Any:
        """Traces a function's body; returns its result."""
        if isinstance(node, ast.Lambda):
            return self.expressions.evaluate(node.body)
        if not self.frame.returns_value:
            self.block(node.body, NONE, is_body=True)
            return None
        # If control reaches the end, a function returns None.
        end = ast.copy_location(ast.Return(value=None), node.body[-1])
        self.block([*node.body, end], NONE, is_body=True)
        result = self.frame.scope.path.result
        if isinstance(result, Conflict):
            raise result.result_error(self.frame.name)
        return result.value if isinstance(result, Assigned) else None

    def block(
        self, statements: Sequence[ast.stmt], live_out: Names, *, is_body: bool = False
    ) -> None:
        """Traces statements in order, as long as control flows."""
        scope = self.frame.scope
        for index, statement in enumerate(statements):
            rest = Rest(statements[index + 1 :], live_out, is_body)
            if self.statement(statement, rest):
                return
            if scope.path.live is not True:
                self.rest(rest)
                return

    def rest(self, rest: Rest) -> None:
        """Traces the statements after one that may have ended the block."""
        live = self.frame.scope.path.live
        if live is False or not rest.statements:
            return

        def go_on() -> None:
            self.block(rest.statements, rest.live_out, is_body=rest.is_body)

        if live is True:
            go_on()
        else:
            self.frame.mark(rest.statements[0])
            guard(self.frame, go_on, rest.live_out, live=not rest.is_body)

    def statement(self, node: ast.stmt, rest: Rest) -> bool:
        """Traces one statement.

        Returns:
            Whether the rest of its block was traced too.
        """
        try:
            tell_line(self.frame, node)
            compound = _COMPOUND.get(type(node))
            if compound is not None:
                return compound(self, node, rest)
            method = _SIMPLE.get(type(node))
            if method is None:
                raise refusal(node)
            method(self, node)
        except Exception as error:
            self.frame.note(error, node)
            raise
        return False

    def live_after(self, node: ast.stmt, rest: Rest) -> Names:
        """Names that may be read after a statement, however control leaves it."""
        analysis = self.frame.source.analysis
        live = analysis.live_before(rest.statements, rest.live_out)
        return live | rest.live_out if analysis.exits([node]) else live

    # ---- branches

    def _if(self, node: ast.If, rest: Rest) -> bool:
        condition = self.expressions.condition(node.test)
        tell_value(self.frame, "branch", node, "", condition)
        live = self.live_after(node, rest)
        if not isinstance(condition, Scalar):
            self.block(node.body if condition else node.orelse, live)
            return False
        self.frame.mark(node)
        bodies = (lambda: self.block(node.body, live), lambda: self.block(node.orelse, live))
        return self.branch(condition, bodies, rest, live)

    def branch(
        self,
        condition: Scalar,
        bodies: tuple[Callable[[], None], Callable[[], None]],
        rest: Rest,
        live: Names,
    ) -> bool:
        """Two branches, one of which is taken; whether the rest of the block has been traced with them."""
        fork = Fork(self.frame, condition)
        for side, body in enumerate(bodies):
            fork.trace(side, body)
        ends = [fork.path(side).live is False for side in (0, 1)]
        if ends[0] != ends[1]:
            # One branch ends the block, so the rest belongs to the other one.
            fork.trace(0 if ends[1] else 1, lambda: self.rest(rest))
            fork.finish(rest.live_out, live=not rest.is_body)
            return True
        fork.finish(live)
        return False

    def _match(self, node: ast.Match, rest: Rest) -> bool:
        live = self.live_after(node, rest)
        subject = self.expressions.evaluate(node.subject)
        return self._cases(subject, node.cases, rest, live)

    def _cases(
        self, subject: Any, cases: Sequence[ast.match_case], rest: Rest, live: Names
    ) -> bool:
        """Tries cases in order, as a chain of ifs if decided at run time."""
        frame = self.frame
        for index, case in enumerate(cases):
            matcher = comparisons.Matcher(self.expressions)
            found = matcher.matches(case.pattern, subject)
            if found is not False and case.guard is not None:
                found = self._guarded(matcher, found, case.guard)
            if found is False:
                continue
            if found is True:
                self._bind(matcher)
                self.block(case.body, live)
                return False
            frame.mark(case.pattern)
            others = cases[index + 1 :]

            def chosen(case: ast.match_case = case, matcher: comparisons.Matcher = matcher) -> None:
                self._bind(matcher)
                self.block(case.body, live)

            def not_chosen(others: Sequence[ast.match_case] = others) -> None:
                self._cases(subject, others, Rest((), live), live)

            return self.branch(found, (chosen, not_chosen), rest, live)
        return False

    def _guarded(
        self, matcher: comparisons.Matcher, found: bool | Scalar, condition: ast.expr
    ) -> bool | Scalar:
        """Whether a case's guard holds; it sees the names bound by the pattern."""

        def guard() -> bool | Scalar:
            self._bind(matcher)
            return self.expressions.condition(condition)

        if isinstance(found, Scalar):
            return comparisons.guarded(self.expressions, condition, found, guard)
        return guard()

    def _bind(self, matcher: comparisons.Matcher) -> None:
        for name, (pattern, value) in matcher.bound.items():
            self.frame.scope.assign(name, value, self.frame.locate(pattern))
            tell_value(self.frame, "assigned", pattern, name, value)

    def _while(self, node: ast.While, rest: Rest) -> bool:
        return loop.trace_while(self, node, self.live_after(node, rest)).leave(rest)

    def _for(self, node: ast.For, rest: Rest) -> bool:
        return for_loops.trace_for(self, node, self.live_after(node, rest)).leave(rest)

    def _with(self, node: ast.With, rest: Rest) -> bool:
        live = self.live_after(node, rest)
        frame = self.frame
        outer = len(frame.contexts)
        for entry in node.items:
            expression = entry.context_expr
            # Nothing else may be called: opening a file at compile time would be surprising.
            is_ours = not isinstance(expression, ast.Call) or isinstance(
                self.expressions.evaluate(expression.func), Operation
            )
            context = self.expressions.evaluate(expression) if is_ours else None
            if not isinstance(context, StagedContext):
                raise refusal(node)
            value = context.enter(frame.mark(entry.context_expr))
            frame.contexts.append((context, frame.loop))
            if entry.optional_vars is not None:
                self.store(entry.optional_vars, value)
        end = ast.copy_location(_Leave(), node)
        end.contexts = frame.contexts[outer:]
        try:
            self.block([*node.body, end], live)
        finally:
            del frame.contexts[outer:]
        return False

    def _leave(self, node: _Leave) -> None:
        for context, _ in reversed(node.contexts):
            context.leave(self.frame.mark(node))

    def _leave_contexts(self, node: ast.stmt, loop: EnclosingLoop | None = None) -> None:
        """Leaves the contexts around an exit: of a loop, those inside it."""
        for context, within in reversed(self.frame.contexts):
            if loop is not None and within is not loop:
                return
            context.leave(self.frame.mark(node))

    # ---- exits

    def _break(self, node: ast.Break) -> None:
        self._leave_contexts(node, self.frame.loop)
        path = self.frame.scope.path
        path.live = path.looping = False
        path.broken = True

    def _continue(self, node: ast.Continue) -> None:
        self._leave_contexts(node, self.frame.loop)
        self.frame.scope.path.live = False

    def _return(self, node: ast.Return) -> None:
        frame = self.frame
        value = None if node.value is None else self.expressions.evaluate(node.value)
        if not frame.returns_value and value is not None:
            raise CompileError(
                "KERNEL_RETURNS",
                f"kernel '{frame.name}' returns a value; kernels cannot return values",
                hint="store the value in a tensor",
            )
        if node.value is not None:
            tell_value(frame, "returned", node, "", value)
        self._leave_contexts(node)
        path = frame.scope.path
        path.result = Assigned(value, frame.locate(node))
        path.live = path.looping = path.active = False

    # ---- assignments

    def _assign(self, node: ast.Assign) -> None:
        value = self.expressions.evaluate(node.value)
        for target in node.targets:
            self.store(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        value = self.expressions.evaluate(node.value)
        annotation = self._annotation(node.annotation)
        if isinstance(annotation, DType):
            value = materialize(self.frame.mark(node), value, annotation)
        self.store(node.target, value)

    def _annotation(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        found = self.expressions.evaluate(node)
        return library_dtype(found) or found

    def store(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target: a name, elements, items of a list, a nested tuple of these."""
        frame = self.frame
        if isinstance(target, ast.Name):
            frame.scope.assign(target.id, value, frame.locate(target))
            tell_value(frame, "assigned", target, target.id, value)
            if isinstance(value, Scalar) and value.ssa.name_hint is None:
                name_value(value.ssa, target.id)
            array = value.array if isinstance(value, SharedSequence) else value
            if isinstance(array, Tensor) and array.name in _NAMES_OF_NEW_ARRAYS:
                if not isinstance(array.ssa, BlockArgument):  # of a parameter that has such a name
                    array.name = target.id
                    name_value(array.ssa, target.id)
            return
        try:
            if isinstance(target, ast.Tuple | ast.List):
                for part, found in unpack(frame, target, value):
                    self.store(part, found)
            elif isinstance(target, ast.Subscript):
                owner = self.expressions.evaluate(target.value)
                index = self.expressions.index(target.slice, owner)
                store_item(frame, target, owner, index, value)
            elif isinstance(target, ast.Attribute):
                store_attribute(frame, target, self.expressions.evaluate(target.value), value)
            else:
                raise UnsupportedSyntaxError("TARGET", "only one starred target can be assigned")
        except WeftError as error:
            frame.note(error, target)
            raise

    def _augmented(self, node: ast.AugAssign) -> None:
        frame, expressions = self.frame, self.expressions
        target, sign = node.target, SIGNS[type(node.op)]
        if isinstance(target, ast.Subscript):
            owner = expressions.evaluate(target.value)
            index = expressions.index(target.slice, owner)
            if isinstance(owner, Tensor):
                refuse_elements(frame, owner)
                before = access.load(frame.mark(target), owner, index)
            else:
                before = item(frame, owner, index)
            after = expressions.operate(
                node, sign, before, expressions.evaluate(node.value), in_place=True
            )
            store_item(frame, target, owner, index, after)
            return
        if isinstance(target, ast.Attribute):
            owner = expressions.evaluate(target.value)
            before = attributes.read(frame, owner, frame.source.mangled(target.attr), target)
            value = expressions.evaluate(node.value)
            after = expressions.operate(node, sign, before, value, in_place=True)
            store_attribute(frame, target, owner, after)
            return
        before = frame.scope.lookup(target.id)
        value = expressions.evaluate(node.value)
        after = expressions.operate(node, sign, before, value, in_place=True)
        self.store(target, after)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise UnsupportedSyntaxError(
                    "DELETE", "only variables can be deleted", location=self.frame.locate(target)
                )
            self.frame.scope.lookup(target.id)
            path, line = self.frame.scope.path, self.frame.locate(node).line
            reason = f"was deleted in line {line}"
            path.variables[target.id] = Undefined(reason, place=path.place(target.id))

    # ---- the others

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or an ellipsis
        value = self.expressions.evaluate(node.value)
        if isinstance(value, FrontendCallable):
            value.check_used()
        if isinstance(value, Operation):
            raise TypeMismatchError(
                "NOT_CALLED",
                f"{value!r} alone does nothing; operations must be called",
                hint=f"write {value!r}(...)",
            )

    def _assert(self, node: ast.Assert) -> None:
        condition = self.expressions.evaluate(node.test)
        if not is_staged(condition) and not contains_staged(condition) and condition:
            return
        text = ast.unparse(node.test) if node.msg is None else self.expressions.evaluate(node.msg)
        if not isinstance(text, str):
            raise TypeMismatchError(
                "ASSERT_TEXT",
                f"an assertion's text must be a string known at compile time, received {text!r}",
            )
        if not is_staged(condition) and (
            not self.frame.state.regions or self.frame.context.is_host
        ):
            raise CompileError("ASSERTION_FAILED", f"this assertion is false: {text}")
        if self.frame.context.is_host:
            raise UnsupportedSyntaxError(
                "HOST_ASSERT",
                "a host function can only assert a condition known at compile time",
                hint="check the value before the call, or in the kernel",
            )
        emit_assert(self.frame.mark(node), condition, text)

    def _function(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise UnsupportedSyntaxError(
                "DECORATOR",
                f"'{node.name}' has a decorator; functions inside compiled code cannot have decorators",
                hint="decorate it outside",
            )
        value = self.expressions.local_function(node)
        self.frame.scope.assign(node.name, value, self.frame.locate(node))

    def _outer(self, node: ast.Global | ast.Nonlocal) -> None:
        """A declaration, which is redundant if the function only reads the variable."""
        scope: Scope | None = self.frame.scope
        while scope is not None:
            if not scope.local_names.isdisjoint(node.names):
                raise outer_assignment()
            scope = scope.parent if isinstance(node, ast.Global) else None

    def _pass(self, node: ast.Pass) -> None:
        """Does nothing."""


# pyright: reportPrivateUsage=false
_COMPOUND: Final[dict[type[ast.stmt], Callable[[Statements, Any, Rest], bool]]] = {
    ast.If: Statements._if,
    ast.While: Statements._while,
    ast.For: Statements._for,
    ast.Match: Statements._match,
    ast.With: Statements._with,
}

_SIMPLE: Final[dict[type[ast.stmt], Callable[[Statements, Any], None]]] = {
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Expr: Statements._expression,
    ast.Return: Statements._return,
    ast.Break: Statements._break,
    ast.Continue: Statements._continue,
    ast.Assert: Statements._assert,
    ast.Delete: Statements._delete,
    ast.FunctionDef: Statements._function,
    ast.Pass: Statements._pass,
    _Leave: Statements._leave,
    ast.Global: Statements._outer,
    ast.Nonlocal: Statements._outer,
}


def store_item(frame: Frame, target: ast.Subscript, owner: Any, index: Any, value: Any) -> None:
    """``owner[index] = value``.

    Raises:
        TypeMismatchError: if `owner` has no items to assign, or the index of a container is known only at run time.
        UnsupportedSyntaxError: if the container must not change here.
    """
    if isinstance(owner, Tensor):
        refuse_elements(frame, owner)
        access.store(frame.mark(target), owner, index, value)
        return
    if not isinstance(owner, list | dict):
        raise TypeMismatchError(
            "TARGET",
            f"items of {constants.kind(owner)} cannot be assigned",
            hint="elements of tensors and of weft.local arrays can",
        )
    items: Any = cast("Any", owner)
    if contains_staged(index):
        raise TypeMismatchError(
            "NOT_CONSTANT",
            f"an index of a {type(items).__name__} must be known at compile time, "
            f"received {constants.kind(index)}",
            hint="keep the values in a weft.local array, or unroll with weft.static_range",
        )
    tell_value(frame, "assigned", target, ast.unparse(target), value)
    slot = _slot_of(items, index)
    if slot is not None:
        frame.state.assign(slot, value)
        return
    if type(cast("Any", owner)) is not list or isinstance(index, slice):
        frame.state.change(items, "an assignment")
    constants.python("the assignment", items.__setitem__, index, value)


def store_attribute(frame: Frame, target: ast.Attribute, owner: Any, value: Any) -> None:
    """``owner.name = value``.

    Raises:
        UnsupportedSyntaxError: unless `owner` is a plain object that may change here.
    """
    name = frame.source.mangled(target.attr)
    kind = cast("Any", type(owner))
    described = inspect.getattr_static(kind, name, None)
    is_plain = kind.__setattr__ is object.__setattr__
    if is_plain and isinstance(described, property) and isinstance(described.fset, FunctionType):
        frame.context.session.captures.read_member(kind, name, target)
        frame.inline(described.fset, [owner, value], {})
        return
    is_slot = isinstance(described, MemberDescriptorType)
    if not is_slot and is_plain_object(owner) and not hasattr(owner, "__dict__"):
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{kind.__name__!r} object has no attribute {name!r}",
            hint="name it in __slots__",
        )
    if not is_plain_object(owner) or (hasattr(described, "__set__") and not is_slot):
        raise UnsupportedSyntaxError(
            "TARGET",
            f"attribute {name!r} of {constants.kind(owner)} cannot be assigned in compiled code",
            hint="plain attributes of objects made in compiled code can; or use variables",
        )
    tell_value(frame, "assigned", target, ast.unparse(target), value)
    frame.state.assign(Slot(owner, name), value)


def _slot_of(owner: Any, index: Any) -> Slot | None:
    """The item that an index or a key names; None if there is no such item, or several."""
    if type(owner) is dict:
        return Slot(owner, index) if index in owner else None
    if type(owner) is not list or not isinstance(index, int):
        return None
    count = len(cast("Any", owner))
    return Slot(owner, index % count) if -count <= index < count else None
