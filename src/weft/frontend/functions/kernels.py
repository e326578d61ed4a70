# SPDX-License-Identifier: Apache-2.0
"""The kernels of a trace: each is traced once per argument kinds and compile-time values; numbers are passed.

In: a kernel function and a launch's values. Out: a `simt.kernel`, its symbol, and its run-time arguments.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from math import prod
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i1,
    i32,
)
from xdsl.ir import Block, Region

from weft._native import constant_key
from weft.arguments.records import is_dataclass
from weft.arguments.scalar import numpy_scalar_dtype
from weft.dialects.access import StartsAsync, trait_of
from weft.dialects.builder import Builder, constant_integer, name_value
from weft.dialects.flow import walk
from weft.dialects.simt.debug import UNDEFINES
from weft.dialects.simt.kernel import (
    KernelOp,
    LaunchExOp,
    ReturnOp,
    sizes_attribute,
)
from weft.dialects.simt.memory import DynamicSharedOp
from weft.dialects.simt.threads import GridBarrierOp
from weft.dialects.simt.types import DYNAMIC, array_bytes
from weft.errors import CompileError, TypeMismatchError, WeftError
from weft.frontend.context import BoundMethod, Context, Frame
from weft.frontend.events import tell_call
from weft.frontend.functions.inlining import bind_arguments
from weft.frontend.functions.launch_arguments import TypedConstant, checked_argument
from weft.frontend.statements.statement import Statements
from weft.frontend.structure import flatten, rebuild, staged_attribute
from weft.frontend.syntax import ARRAY_HINT
from weft.language.control import StaticValue
from weft.language.ir_types import ir_type
from weft.language.memory.access import dim
from weft.language.numbers.convert import constant, floats_beside
from weft.language.numbers.promises import (
    argument_divisor,
    known_multiples,
    promise_tensor,
    promised,
)
from weft.language.threads.each import check_iterations
from weft.language.values import Scalar, Stream, Tensor, TensorMap, describe
from weft.types import dtype as types
from weft.types.dims import Dim
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.arguments.base import DeclaredParameter
    from weft.dialects.simt.threads import MaxClustersOp
    from weft.frontend.context import Session
    from weft.frontend.source import FunctionSource
    from weft.frontend.structure import Shape
    from weft.language.functions import KernelFunction
    from weft.location import SourceLocation

_PATH: Final = re.compile(r"[.\[]")
_UNPRINTABLE: Final = re.compile(r"[^A-Za-z0-9_]")
# Errors about a run-time value where a compile-time one is needed.
_NEEDS_CONSTANT: Final = frozenset(
    (
        *("INDEX_STAGED", "NOT_CONSTANT", "POWER_INTEGER", "SHAPE_NOT_CONSTANT"),
        *("STATIC_ASSERT_DYNAMIC", "STATIC_RANGE", "VECTOR_COUNT", "VIEW_STEP", "WARP_WIDTH"),
    )
)


@dataclass(slots=True, eq=False)
class _Argument:
    """One leaf of a parameter: a passed tensor, tensor map or scalar, or a built-in value.

    Attributes:
        name: the parameter, with the leaf's path inside a container.
        value: passed by the host function.
        multiples: what divides a tensor's dims and its strides, or, by its signature, an integer.
    """

    name: str
    value: Any
    multiples: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def is_passed(self) -> bool:
        """Whether it is an argument of the kernel."""
        return isinstance(self.value, Scalar | Tensor | TensorMap)

    @property
    def key(self) -> tuple[Any, ...]:
        """The part that the kernel's code depends on."""
        value = self.value
        if isinstance(value, Tensor):
            return ("tensor", value.type, value.dtype, self.multiples)
        if isinstance(value, TensorMap):
            source = value.source
            kind = None if source is None else (source.type.dims, source.type.dim_bits.data)
            return ("tensor map", value.type, value.dtype, kind)
        if isinstance(value, Scalar):
            return ("scalar", value.dtype, self.multiples)
        if isinstance(value, TypedConstant):
            return ("constant", value.dtype, constant_key(value.value))
        return constant_key(value)


def _dynamic_bytes(operation: Operation) -> int:
    """The end of a `dynamic_shared` array, in bytes of the launch's own; 0 if unknown or unused."""
    if not isinstance(operation, DynamicSharedOp) or operation.dims:
        return 0
    if operation.result.first_use is None:
        return 0
    start, array = constant_integer(operation.offset), operation.result.type
    return 0 if start is None else start + array_bytes(array.dims, array.element_type)


@dataclass(slots=True, eq=False)
class TracedKernel:
    """A kernel in the module.

    Attributes:
        symbol: its name there.
        function: its source.
        operation: the `simt.kernel`.
        has_iterations: whether it has a `weft.each`, over which launches may choose the grid.
        waits_for_grid: whether it has a grid barrier, so that its launches must be cooperative.
        dynamic_bytes: the least bytes for its `dynamic_shared` arrays, from constant shapes and offsets.
        sizes: its last arguments, dims of the tensors of maps: which of the call's leaves, and which dimension.
    """

    symbol: str
    function: KernelFunction
    operation: KernelOp
    has_iterations: bool
    waits_for_grid: bool
    dynamic_bytes: int
    sizes: list[tuple[int, int]]


@dataclass(slots=True, eq=False)
class Question:
    """A ``kernel.max_clusters(blocks)``, which is answered for the kernels that are launched."""

    operation: MaxClustersOp
    kernel: KernelFunction
    blocks: int
    place: SourceLocation


class Pending(Protocol):
    """A kernel that is called, and may be launched."""

    kernel: KernelFunction
    place: SourceLocation
    is_launched: bool


def launch_missing(kernel: KernelFunction, place: SourceLocation | None = None) -> CompileError:
    """The error for a kernel that is called but not launched."""
    name = kernel.function.__name__
    return CompileError(
        "LAUNCH_MISSING",
        f"{name}(...) alone launches nothing",
        hint=f"write {name}(...).launch(grid=..., block=...)",
        location=place,
    )


class KernelTable:
    """The kernels of a module under construction.

    Args:
        session: the trace.

    Attributes:
        pending: the calls of kernels.
        questions: of the host function about kernels.
        kernels: those that were launched, even if that was discarded.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_key: dict[tuple[Any, ...], TracedKernel] = {}
        self._symbols: set[str] = set()
        self.pending: list[Pending] = []
        self.questions: list[Question] = []
        self.kernels: list[TracedKernel] = []

    def find(
        self,
        caller: Frame,
        kernel: KernelFunction,
        cluster: tuple[int, ...] | None,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> tuple[TracedKernel, list[SSAValue]]:
        """The kernel for these values, and its launch arguments.

        Raises:
            CompileError: if the values do not fit the parameters, or the kernel cannot be compiled.
        """
        source = self._session.source(kernel)
        function = kernel.function
        declared = {parameter.name: parameter for parameter in source.parameters}
        values = bind_arguments(
            source.name,
            source.tree.args,
            arguments,
            keywords,
            function.__defaults__ or (),
            function.__kwdefaults__ or {},
        )
        leaves: list[_Argument] = []
        shapes: dict[str, Shape | None] = {}
        with floats_beside(_element_types(values, declared)):
            for name, value in values.items():
                checked = checked_argument(caller, source, declared[name], value)
                shapes[name], found = flatten(checked)
                leaves += _arguments(caller.builder, source, name, found)
        key = (kernel, cluster, tuple(shapes.items()), tuple(leaf.key for leaf in leaves))
        traced = self._by_key.get(key)
        if traced is None:
            try:
                traced = self._trace(kernel, cluster, source, shapes, leaves)
            except WeftError as error:
                passed = [leaf.name for leaf in leaves if isinstance(leaf.value, Scalar)]
                _hint_at_constants(
                    error, source, [p for p in declared.values() if p.name in passed]
                )
                raise
            self._by_key[key] = traced
            self.kernels.append(traced)
        values = [leaf.value.ssa for leaf in leaves if leaf.is_passed]
        for number, axis in traced.sizes:
            size: Any = dim(caller.builder, leaves[number].value.source, axis)
            values.append(size.ssa)
        return traced, values

    def finish(self, host: Block) -> None:
        """After the host function: drops unlaunched kernels, and renames the rest.

        A loop of the host function is retraced once its types are known; its first trace may have launched a kernel for
        a type that is finally unused.

        Raises:
            CompileError: if a kernel is called but not launched.
        """
        launches = [op for op in walk(host) if isinstance(op, LaunchExOp)]
        launched = {op.kernel.string_value() for op in launches}
        for pending in self.pending:
            if not pending.is_launched:
                raise launch_missing(pending.kernel, pending.place)
        self.kernels = [kernel for kernel in self.kernels if kernel.symbol in launched]
        self._symbols.clear()
        symbols: dict[str, str] = {}
        for kernel in self.kernels:
            source = self._session.source(kernel.function)
            symbols[kernel.symbol] = self._symbol(source.name)
            kernel.symbol = symbols[kernel.symbol]
            kernel.operation.sym_name = StringAttr(kernel.symbol)
        for op in launches:
            op.kernel = SymbolRefAttr(symbols[op.kernel.string_value()])
        for question in self.questions:
            self._answer(question)

    def _answer(self, question: Question) -> None:
        """Names the kernels that a question is about."""
        found = [kernel for kernel in self.kernels if kernel.function is question.kernel]
        fitting = [k.symbol for k in found if prod(k.operation.cluster or (1,)) == question.blocks]
        if not fitting:
            sizes = sorted({prod(kernel.operation.cluster or (1,)) for kernel in found})
            listed = (
                f"launches it in clusters of {' and '.join(map(str, sizes))}"
                if sizes
                else "does not launch it"
            )
            raise CompileError(
                "MAX_CLUSTERS",
                f"{question.kernel.function.__name__}.max_clusters({question.blocks}): this host function {listed}",
                hint="ask for the blocks of the launch's cluster, in the function that launches the kernel",
                location=question.place,
            )
        question.operation.name_kernels(fitting)

    def host_symbol(self, name: str) -> str:
        """The host function's symbol: its name, unless a kernel has it, since profilers show kernels."""
        return self._symbol(f"{name}_host" if name in self._symbols else name)

    def _trace(
        self,
        kernel: KernelFunction,
        cluster: tuple[int, ...] | None,
        source: FunctionSource,
        shapes: dict[str, Shape | None],
        leaves: Sequence[_Argument],
    ) -> TracedKernel:
        passed = [leaf for leaf in leaves if leaf.is_passed]
        restricted = _restricted(source, kernel, passed)
        block = Block(arg_types=[leaf.value.ssa.type for leaf in passed])
        builder = Builder(block, cluster)
        builder.marks_signed = self._session.marks_signed
        builder.architecture = self._session.architecture
        builder.element_types = {} if self._session.tells_events else None
        context = Context(self._session, builder)
        frame = Frame(context, source, source.tree, returns_value=False)
        builder.location = frame.locate(source.tree)
        arguments = iter(block.args)
        inside_leaves = [_inside(builder, leaf, arguments) for leaf in leaves]
        sizes: list[tuple[int, int]] = []
        for number, value in enumerate(inside_leaves):
            if isinstance(value, TensorMap) and leaves[number].value.source is not None:
                value.shape_of = _shape_of_map(block, leaves[number], number, sizes)
        inside = iter(inside_leaves)
        annotations = {parameter.name: parameter.annotation for parameter in source.parameters}
        for name, shape in shapes.items():
            value = rebuild(shape, inside)
            if isinstance(annotation := annotations[name], Dim):
                value = promised(builder, value, annotation.divisibility)
            frame.scope.assign(name, value, builder.location)
        tell_call(frame, source.tree, frame.scope.assigned())
        with floats_beside([leaf.value.dtype for leaf in passed]):
            Statements(frame).function_body(source.tree)
        builder.location = frame.locate(source.tree)
        builder.emit(ReturnOp())
        _keep_undefined(block, cluster)
        operation = KernelOp(
            self._symbol(source.name),
            Region(block),
            [
                *(leaf.name for leaf in passed),
                *(f"{leaves[number].name}_dim{axis}" for number, axis in sizes),
            ],
            _properties(kernel, cluster),
        )
        operation.restrict(restricted)
        operation.location = builder.location_attribute()  # pyright: ignore[reportAttributeAccessIssue]
        return TracedKernel(
            operation.sym_name.data,
            kernel,
            operation,
            has_iterations=check_iterations(operation),
            waits_for_grid=any(isinstance(op, GridBarrierOp) for op in walk(operation)),
            dynamic_bytes=max(map(_dynamic_bytes, walk(operation))),
            sizes=sizes,
        )

    def _symbol(self, name: str) -> str:
        """A readable, unused symbol."""
        stem = _UNPRINTABLE.sub("_", name)
        symbol, number = stem, 0
        while symbol in self._symbols:
            number += 1
            symbol = f"{stem}_{number}"
        self._symbols.add(symbol)
        return symbol


def _element_types(
    values: Mapping[str, Any], declared: Mapping[str, DeclaredParameter]
) -> list[DType]:
    """The types that a launch's arguments have, and those that the kernel's annotations ask for."""
    leaves = [leaf for value in values.values() for leaf in flatten(value)[1]]
    asked = [declared[name].annotation for name in values]
    found = [
        leaf.dtype if isinstance(leaf, Scalar | Tensor | TensorMap) else numpy_scalar_dtype(leaf)
        for leaf in leaves
    ]
    return [dtype for dtype in (*found, *asked) if isinstance(dtype, DType)]


def _keep_undefined(block: Block, cluster: tuple[int, ...] | None) -> None:
    """Removes stores that show undefined elements from a kernel whose barriers are not all that its reads end with.

    Asynchronous copies and other blocks of a cluster may read the old array after a barrier of the block.
    """
    operations = list(walk(block))
    outlast = cluster is not None or any(trait_of(op, StartsAsync) is not None for op in operations)
    for op in operations:
        if op.attributes.pop(UNDEFINES, None) is not None and outlast and op.parent is not None:
            op.detach()
            op.erase()


def _inside(builder: Builder, leaf: _Argument, arguments: Any) -> Any:
    """A leaf's value inside the kernel."""
    value = leaf.value
    if isinstance(value, TypedConstant):
        return constant(builder, value.value, value.dtype)
    if not leaf.is_passed:
        return value
    argument = next(arguments)
    name_value(argument, leaf.name.replace(".", "_"))
    if isinstance(value, Tensor):
        promise_tensor(builder, argument, *leaf.multiples)
    if isinstance(value, Tensor | TensorMap):
        return type(value)(argument, value.dtype, leaf.name)
    return promised(builder, Scalar(argument, value.dtype), *leaf.multiples[0])


def _shape_of_map(
    block: Block, leaf: _Argument, number: int, sizes: list[tuple[int, int]]
) -> Callable[[Builder], tuple[int | Scalar, ...]]:
    """The shape of a map's tensor in a kernel: a dim that is not known becomes an argument when it is asked for."""
    kind = leaf.value.source.type
    dtype = types.i32 if kind.dim_bits.data == 32 else types.i64
    found: dict[int, int | Scalar] = {
        axis: size for axis, size in enumerate(kind.dims) if size != DYNAMIC
    }

    def shape_of(_builder: Builder) -> tuple[int | Scalar, ...]:
        for axis in range(kind.rank):
            if axis not in found:
                argument = block.insert_arg(ir_type(dtype), len(block.args))
                name_value(argument, f"{leaf.name.replace('.', '_')}_dim{axis}")
                sizes.append((number, axis))
                found[axis] = Scalar(argument, dtype)
        return tuple(found[axis] for axis in range(kind.rank))

    return shape_of


def _arguments(
    builder: Builder, source: FunctionSource, name: str, leaves: list[Any]
) -> list[_Argument]:
    found: list[_Argument] = []
    for index, leaf in enumerate(leaves):
        path = name if len(leaves) == 1 else f"{name}.{index}"
        if isinstance(leaf, Stream):
            raise TypeMismatchError(
                "KERNEL_ARGUMENT",
                f"kernel '{source.name}' cannot take a stream as '{path}'",
                hint="give the stream to launch(stream=...)",
            )
        if isinstance(leaf, StaticValue):
            leaf = leaf.value
        if not isinstance(leaf, Scalar | Tensor | TensorMap):
            try:
                hash(leaf)
            except TypeError:
                raise TypeMismatchError(
                    "KERNEL_ARGUMENT",
                    f"kernel '{source.name}' cannot take {describe(leaf)} as '{path}'",
                    hint=ARRAY_HINT
                    if hasattr(leaf, "__dlpack__")
                    else "pass its fields, or write @dataclass(frozen=True): a kernel cannot change the caller's object"
                    if is_dataclass(cast("type[Any]", type(leaf)), frozen=False)
                    else "pass tensors, numbers, tuples of these, or hashable compile-time values",
                ) from None
            is_method = isinstance(leaf, BoundMethod | MethodType)
            owner = getattr(leaf, "owner", getattr(leaf, "__self__", None)) if is_method else leaf
            staged = staged_attribute(owner)
            if staged is not None:
                raise TypeMismatchError(
                    "KERNEL_ARGUMENT",
                    f"kernel '{source.name}' cannot take an object of class {type(owner).__qualname__} as "
                    f"'{path}': its attribute '{staged[1:]}' is known only at run time",
                    hint="pass the attribute, or hold it in a named tuple or a frozen dataclass",
                )
        made = _Argument(path, leaf)
        if isinstance(leaf, Tensor):
            made.multiples = known_multiples(builder, leaf.ssa)
        elif isinstance(leaf, Scalar):
            made.multiples = ((argument_divisor(builder, leaf),), ())
        found.append(made)
    return found


def _hint_at_constants(
    error: WeftError, source: FunctionSource, numbers: Sequence[DeclaredParameter]
) -> None:
    """Names the parameter to annotate, if the compiler needs to know what was computed from a launch's number."""
    place = error.location
    if error.code not in _NEEDS_CONSTANT or place is None:
        return
    wanted: set[str] = set()
    made: dict[str, set[str]] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in _names(target, ast.Store):
                    made.setdefault(name, set()).update(_names(node.value, ast.Load))
        elif isinstance(node, ast.Name):
            at = source.locate(node)
            if at.file == place.file and place.line <= at.line <= (place.end_line or place.line):
                wanted.add(node.id)
    reached: set[str] = set()
    while new := wanted - reached:
        reached |= new
        wanted = {name for one in new for name in made.get(one, ())}
    for parameter in numbers:
        if parameter.name in reached and parameter.location is not None:
            error.hint = (
                f"'{parameter.name}' is passed at run time; annotate it weft.Constexpr in line "
                f"{parameter.location.line} to compile the kernel for each value"
            )
            return


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, context)}


def _restricted(
    source: FunctionSource, kernel: KernelFunction, passed: Sequence[_Argument]
) -> list[int]:
    """The numbers of the arguments of parameters that ``restrict=`` names.

    Raises:
        TypeMismatchError: if such a parameter holds no tensor.
    """
    restrict = kernel.restrict
    tensors = {
        number: _PATH.split(leaf.name)[0]
        for number, leaf in enumerate(passed)
        if isinstance(leaf.value, Tensor)
    }
    if isinstance(restrict, bool):
        return [*tensors] if restrict else []
    for name in restrict:
        if name not in tensors.values():
            parameter = next((one for one in source.parameters if one.name == name), None)
            raise TypeMismatchError(
                "RESTRICT_ARGUMENT",
                f"kernel '{source.name}': restrict names '{name}', which holds no tensor in this launch",
                hint="name parameters for tensors, or write restrict=True for all tensors",
                location=None if parameter is None else parameter.location,
            )
    return [number for number, name in tensors.items() if name in restrict]


def _properties(kernel: KernelFunction, cluster: tuple[int, ...] | None) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name in ("max_threads", "min_blocks", "max_registers"):
        value = getattr(kernel, name)
        if value is not None:
            found[name] = IntegerAttr(value, i32)
    if kernel.fp_contract is not None:
        found["fp_contract"] = IntegerAttr(int(kernel.fp_contract), i1)
    if kernel.math is not None:
        found["math"] = StringAttr(kernel.math)
    if cluster is not None:
        found["cluster"] = sizes_attribute(cluster)
    return found
