# SPDX-License-Identifier: Apache-2.0
"""The front end's entry: one module with the host function and the kernels that it launches.

In: a source, a signature, a target's name. Out: `TracedModule`. Exceptions other than `WeftError` are defects of weft
and become an `InternalCompilerError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from weft.blame import is_the_users
from weft.dialects.builder import Builder
from weft.dialects.ffi.function import RESULT_ATTRIBUTE
from weft.errors import (
    REPORT_HINT,
    CompileError,
    InternalCompilerError,
    ValueRangeError,
    WeftError,
)
from weft.frontend.context import Context, Frame, Session
from weft.frontend.functions.host import call_kernel, check_scratch, configure, max_clusters
from weft.frontend.functions.inlining import inline
from weft.frontend.functions.interface import Results, host_parameters
from weft.frontend.functions.kernels import KernelTable
from weft.frontend.source import read_source
from weft.frontend.statements.statement import Statements
from weft.language.numbers.convert import floats_beside
from weft.language.source_text import SourceTexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute

    from weft.arguments.signature import Signature
    from weft.frontend.functions.interface import RestoredResult
    from weft.frontend.source import FunctionSource
    from weft.frontend.state.captured import CapturedValue, Captures
    from weft.language.functions import KernelFunction


@dataclass(slots=True, eq=False)
class TracedModule:
    """The result of a trace.

    Attributes:
        module: the kernels, then the host function, its only `func.func`.
        kernels: symbols of the kernels, in the order of their first launch.
        captures: everything read, for a cache; `captured` is the part that may change.
        traced: the functions whose text was traced, without the host function.
        captured: globals and closure constants read; direct calls check `is_current()` of each.
        result: the host function's result, as described in `weft.dialects.ffi`; also its attribute `weft.result`.
        restored_result: its conversion in Python.
        returns_objects: whether it returns an argument tensor.
        returns_new: whether it returns a tensor that it makes.
    """

    module: ModuleOp
    kernels: tuple[str, ...]
    captures: Captures
    traced: tuple[Any, ...]
    captured: tuple[CapturedValue, ...]
    result: Attribute
    restored_result: RestoredResult | None
    returns_objects: bool
    returns_new: bool


def trace(
    source: FunctionSource,
    signature: Signature,
    *,
    architecture: str = "cpu",
    marks_signed: bool = False,
    tells_events: bool = False,
    undefines_reused: bool = True,
) -> TracedModule:
    """Traces a host function and the kernels that it launches.

    Args:
        source: of the host function.
        signature: of its parameters.
        architecture: of the target, such as ``"sm_90a"``.
        marks_signed: whether sums of signed integers in kernels are marked, see `Builder`.
        tells_events: whether threads tell what they do, see `weft.frontend.events`.
        undefines_reused: whether on the CPU elements in reused memory begin with all bits set.

    Raises:
        CompileError: if the function cannot be compiled; with the place in its source.
        InternalCompilerError: for a defect of weft, with the place reached.
    """
    session = Session(source.globals.get("__name__", ""), source.texts, inline)
    session.marks_signed = marks_signed
    session.tells_events = tells_events
    session.architecture = architecture
    session.undefines_reused = undefines_reused and architecture == "cpu"
    session.captures.read_code(source.function)
    block = Block()
    builder = Builder(block)
    builder.architecture = architecture
    table = KernelTable(session)
    try:
        return _trace(session, builder, table, source, signature)
    except (WeftError, MemoryError):
        raise
    except RecursionError as error:
        raise CompileError(
            "TOO_DEEP",
            f"'{source.name}' is nested too deeply for the compiler",
            hint="split the expression, or the helpers that call each other",
            location=session.failed_at or builder.location,
        ) from error
    except Exception as error:
        if is_the_users(error):
            raise
        if isinstance(error, ValueError) and "int_max_str_digits" in str(error):
            raise ValueRangeError(
                "CONSTANT_OUT_OF_RANGE",
                "a constant has more digits than Python prints, and does not fit any type",
                location=session.failed_at or builder.location,
            ) from None
        raise InternalCompilerError(
            "INTERNAL",
            f"tracing '{source.name}' failed with {type(error).__name__}: {error}",
            hint=REPORT_HINT,
            location=session.failed_at or builder.location,
        ) from error


def trace_into(builder: Builder, function: Callable[..., Any], *arguments: Any) -> Any:
    """Traces one of weft's own functions at a builder's place, with which passes expand operations.

    Returns:
        The value of ``function(*arguments)``.
    """
    if isinstance(function, MethodType):
        function, arguments = function.__func__, (function.__self__, *arguments)
    assert isinstance(function, FunctionType)
    session = _OwnSession(__name__, _own_texts(), inline)
    source = session.source(function)
    return inline(Frame(Context(session, builder), source, source.tree), function, arguments, {})


class _OwnSession(Session):
    """Reads the text of weft's own functions once per process, since it does not change."""

    def source(self, function: FunctionType | KernelFunction) -> FunctionSource:
        """The source of one of weft's functions."""
        return _own_source(function)


@cache
def _own_texts() -> SourceTexts:
    return SourceTexts(None)


@cache
def _own_source(function: FunctionType | KernelFunction) -> FunctionSource:
    return read_source(function, _own_texts())


def _trace(
    session: Session,
    builder: Builder,
    table: KernelTable,
    source: FunctionSource,
    signature: Signature,
) -> TracedModule:
    hooks = partial(call_kernel, table), configure, partial(max_clusters, table)
    context = Context(session, builder, *hooks)
    frame = Frame(context, source, source.tree)
    place = frame.locate(source.tree)
    builder.location = place
    for name, value in host_parameters(builder, signature):
        frame.scope.assign(name, value, place)
    with floats_beside(signature.element_types()):
        value: Any = Statements(frame).function_body(source.tree)
    builder.location = place
    results = Results(builder, signature)
    try:
        tree, restored = results.describe(value)
    except WeftError as error:
        error.location = error.location or frame.scope.path.result.place or place
        raise
    builder.emit(ReturnOp(*results.values))
    table.finish(builder.entry)
    check_scratch(builder.entry)
    module = ModuleOp([kernel.operation for kernel in table.kernels])
    module.body.block.add_op(_function(table.host_symbol(signature.name), builder, results, tree))
    return TracedModule(
        module,
        tuple(kernel.symbol for kernel in table.kernels),
        session.captures,
        tuple(session.sources),
        session.captures.values(),
        tree,
        restored,
        results.has_tensors,
        results.has_new,
    )


def _function(name: str, builder: Builder, results: Results, tree: Attribute) -> FuncOp:
    block = builder.entry
    types = [argument.type for argument in block.args], [value.type for value in results.values]
    function = FuncOp(name, types, Region(block))
    function.attributes[RESULT_ATTRIBUTE] = tree
    function.location = builder.location_attribute()  # pyright: ignore[reportAttributeAccessIssue]
    return function
