# SPDX-License-Identifier: Apache-2.0
"""The context of a trace: the session, the function receiving IR, the call being inlined.

In: a source. Out: `Frame`, held by every visitor: builder, scope, locations.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft.errors import CompileError, TypeMismatchError, UnavailableError, WeftError
from weft.frontend.paths import Scope
from weft.frontend.source import read_source
from weft.frontend.state.captured import Captures
from weft.frontend.state.changes import State

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
    from types import FunctionType

    from xdsl.ir import Block

    from weft.dialects.builder import Builder
    from weft.frontend.paths import EnclosingLoop, Path
    from weft.frontend.source import FunctionNode, FunctionSource
    from weft.language.functions import KernelFunction
    from weft.language.source_text import SourceTexts
    from weft.language.values import Scalar, StagedContext
    from weft.location import SourceLocation

_DEEPEST_CALL: Final = 64
_NO_KEYWORDS: Final[Mapping[str, Any]] = {}


@dataclass(slots=True, eq=False)
class LocalFunction:
    """A function or lambda defined inside traced code; calling it inlines it.

    Attributes:
        node: its `def` or `lambda`.
        frame: the call in which it was defined.
        scope: its enclosing variables: that call's, or the surrounding comprehension's.
        defaults, keyword_defaults: of its parameters, evaluated at its definition.
    """

    node: FunctionNode
    frame: Frame
    scope: Scope
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name; ``lambda`` for a lambda."""
        return getattr(self.node, "name", "lambda")

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Inlines it when Python calls it at compile time, as for ``sorted(items, key=function)``."""
        return self.frame.inline(self, arguments, keywords)


@dataclass(slots=True, eq=False)
class BoundMethod:
    """A method of an object that holds staged values; calling it inlines it.

    Attributes:
        function: the method's function in the class.
        owner: its first argument.
    """

    function: Any
    owner: Any


class FrontendCallable:
    """A compile-time object called by the front end, such as ``kernel(a).launch``."""

    __slots__ = ()

    def call(self, frame: Frame, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The value of ``self(*arguments, **keywords)`` in traced code.

        Raises:
            TypeMismatchError: if it cannot be called.
        """
        raise TypeMismatchError(
            "NOT_CALLABLE",
            "kernel(...) already has its arguments and cannot be called",
            hint="write kernel(...).launch(grid=..., block=...)",
        )

    def check_used(self) -> None:
        """Raises if a statement of just this object is incomplete."""


class OverIterations:
    """The configuration of ``kernel.over(iterations)``."""

    __slots__ = ("iterations",)

    def __init__(self, iterations: Any) -> None:
        self.iterations = iterations


class Session:
    """One trace, shared by its functions.

    Attributes:
        program: name of the compiled function's module.
        texts: of the compiled functions' files; the host function's.
        inline: inlines a Python function into a frame; passed in, since it needs the statement visitor.
        captures: reads of Python's state.
        failed_at: the place of a failure of the front end itself, or None.
        sources: of each function traced so far.
        loop_types: the types that loops carried, and what divided them, with which a retraced loop begins.
        marks_signed: whether kernels mark sums of signed integers, see `Builder`.
        architecture: of the target; ``"cpu"``.
        tells_events: whether kernels trace a thread's events, see `weft.frontend.events`.
        undefines_reused: whether the elements of an array in reused memory begin with all bits set.
    """

    def __init__(self, program: str, texts: SourceTexts, inline: Callable[..., Any]) -> None:
        self.program = program
        self.texts = texts
        self.inline = inline
        self.marks_signed = False
        self.tells_events = False
        self.undefines_reused = False
        self.architecture = "cpu"
        self.captures = Captures()
        self.failed_at: SourceLocation | None = None
        self.loop_types: dict[
            Hashable, dict[Any, tuple[Any, tuple[Any, ...], tuple[Any, ...]]]
        ] = {}
        self.sources: dict[FunctionType | KernelFunction, FunctionSource] = {}

    def source(self, function: FunctionType | KernelFunction) -> FunctionSource:
        """The source of a kernel or a helper, read once per trace."""
        found = self.sources.get(function)
        if found is None:
            self.captures.read_staged(function)
            found = self.sources[function] = read_source(function, self.texts)
        return found


def _refuse_launch(frame: Frame, kernel: KernelFunction, *_: Any) -> None:
    raise UnavailableError(
        "LAUNCH_IN_KERNEL",
        f"kernel '{kernel.function.__name__}' cannot be launched from a kernel",
        hint="launch it in the host function; share code through a plain function",
    )


def _refuse_question(frame: Frame, kernel: KernelFunction, *_: Any) -> None:
    raise UnavailableError(
        "KERNEL_OPERATION",
        f"{kernel.function.__name__}.max_clusters works in a host function; this is a kernel",
        hint="pass its result as an argument",
    )


class Context:
    """The IR function that receives operations: a kernel, or the host function.

    Attributes:
        session: the trace.
        builder: inserts operations.
        call_kernel, configure, max_clusters: implement ``kernel(arguments)``, ``kernel[configuration]`` and
            ``kernel.max_clusters(n)``, passed in like `Session.inline`; errors in a kernel.
        state: the compile-time state that may change here, and the regions being traced.
        calls: the functions being inlined, each with the number of regions at its call.
    """

    def __init__(
        self,
        session: Session,
        builder: Builder,
        call_kernel: Callable[..., Any] = _refuse_launch,
        configure: Callable[..., Any] = _refuse_launch,
        max_clusters: Callable[..., Any] = _refuse_question,
    ) -> None:
        self.session = session
        self.builder = builder
        self.call_kernel = call_kernel
        self.configure = configure
        self.max_clusters = max_clusters
        self.state = State(session.program, session.captures)
        self.calls: list[tuple[object, int]] = []

    @property
    def is_host(self) -> bool:
        """Whether it is a host function, which has no threads and launches kernels."""
        return self.call_kernel is not _refuse_launch


class Frame:
    """One call being traced: the function itself, or a helper being inlined.

    Attributes:
        context: its IR function.
        builder, state: the context's.
        source: the text of its nodes.
        scope: its variables.
        contexts: of the `with`s being traced, each with its innermost loop.
        comprehension: the variables of the comprehension being evaluated, or None.
        name: of the function, for messages.
        caller: the place of the call being inlined, or None.
        returns_value: whether `return` has a value; not in kernels.
        loop: the innermost loop being traced, or None.
        is_own: whether it is a function of weft's own, located where the user calls it.
    """

    def __init__(
        self,
        context: Context,
        source: FunctionSource,
        node: FunctionNode,
        *,
        caller: SourceLocation | None = None,
        parent: Scope | None = None,
        is_foreign: bool = False,
        returns_value: bool = True,
        is_own: bool = False,
    ) -> None:
        self.context = context
        self.builder = context.builder
        self.state = context.state
        self.source = source
        captures = context.session.captures
        self.scope = Scope(source, source.local_names(node), captures, parent, is_foreign)
        self.comprehension: Scope | None = None
        self.contexts: list[tuple[StagedContext, EnclosingLoop | None]] = []
        self.name: str = getattr(node, "name", "lambda")
        self.caller = caller
        self.returns_value = returns_value
        self.loop: EnclosingLoop | None = None
        self.is_own = is_own
        self._locations: dict[ast.AST, SourceLocation] = {}

    def locate(self, node: ast.AST) -> SourceLocation:
        """A node's location, with its chain of calls; in weft's own functions, that of the user's call."""
        if self.is_own and self.caller is not None:
            return self.caller
        found = self._locations.get(node)
        if found is None:
            found = self.source.locate(node, self.name, self.caller)
            self._locations[node] = found
        return found

    def mark(self, node: ast.AST) -> Builder:
        """Locates the following operations at this node; returns the builder."""
        self.builder.location = self.locate(node)
        return self.builder

    def note(self, error: Exception, node: ast.AST) -> None:
        """Adds the innermost node's location to an error: to a user's, and for weft's own defects."""
        session = self.context.session
        if isinstance(error, WeftError):
            error.location = error.location or self.locate(node)
        elif session.failed_at is None:
            session.failed_at = self.locate(node)

    def inline(
        self,
        function: FunctionType | LocalFunction,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] = _NO_KEYWORDS,
    ) -> Any:
        """The value of ``function(*arguments, **keywords)``, inlined here."""
        return self.context.session.inline(self, function, arguments, keywords)

    def trace_in(
        self, block: Block, path: Path, body: Callable[[], Any], *, repeats: bool = False
    ) -> tuple[Any, Path]:
        """Traces `body` at the end of a region's block, on that path; returns its value and the resulting path.

        `repeats` says that the block runs once per iteration of a loop.
        """
        scope, builder, state = self.scope, self.builder, self.state
        outer, scope.path = scope.path, path
        builder.loops += repeats
        state.enter(block)
        try:
            with builder.at(block):
                return body(), scope.path
        finally:
            scope.path.changed = state.leave()
            builder.loops -= repeats
            scope.path = outer

    @contextmanager
    def called(self, function: object, name: str) -> Generator[None]:
        """The context of inlining `function`; later operations are located at the call again.

        Raises:
            CompileError: for recursion that ends only at run time, or never.
        """
        calls, depth = self.context.calls, len(self.state.regions)
        outer = [regions for called, regions in calls if called is function]
        if outer and depth > outer[-1]:
            raise CompileError(
                "RECURSION",
                f"'{name}' calls itself under a condition known only at run time",
                hint="write a loop; calls are inlined, so recursion must end at compile time",
            )
        if len(calls) >= _DEEPEST_CALL:
            raise CompileError(
                "RECURSION",
                f"calls are nested more than {_DEEPEST_CALL} deep at '{name}'",
                hint="calls are inlined, so recursion must end at compile time",
            )
        calls.append((function, depth))
        place = self.builder.location
        try:
            yield
        finally:
            calls.pop()
            self.builder.location = place


class Evaluator(Protocol):
    """The interface to other kinds of expressions, implemented by `Expressions`."""

    @property
    def frame(self) -> Frame:
        """The frame, with variables and location."""
        ...

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression."""
        ...

    def index(self, node: ast.expr, owner: Any) -> Any:
        """The value of what stands in the brackets after `owner`."""
        ...

    def note_index(self, node: ast.expr) -> None:
        """Records the source form of the value just computed."""
        ...

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """The values of a list of expressions, with ``*x`` unpacked."""
        ...

    def condition(self, node: ast.expr) -> bool | Scalar:
        """The truth of an expression."""
        ...

    def truth_of(self, value: object, node: ast.AST) -> bool | Scalar:
        """Whether a value counts as true."""
        ...

    def operate(self, node: ast.AST, sign: str, left: Any, right: Any) -> Any:
        """``left sign right``, such as ``+``."""
        ...

    def call_value(
        self, node: ast.AST, callee: Any, arguments: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """The value of calling a compile-time object."""
        ...
