# SPDX-License-Identifier: Apache-2.0
"""The wrapper with the TVM-FFI ABI: how a compiled host function is reached from any language.

In: a module with a host function, its signature. Out: the same module with `ffi.func @__tvm_ffi_<name>`, which checks
every argument before it calls: count, arguments, stream, device, call, result, in that order. A decoder for each kind
of argument, in one table, makes the operations that check it, and its values for the host function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.func import FuncOp as HostOp
from xdsl.ir import Block, Operation, Region, SSAValue

from weft.arguments.complex import ComplexKind
from weft.arguments.constant import NoneKind
from weft.arguments.container import ContainerKind
from weft.arguments.pointer import PointerKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import ShapeKind, SizeKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.builder import name_value
from weft.dialects.ffi.checks import (
    AsDimOp,
    AsTensorOp,
    BindDeviceOp,
    BindDimOp,
    BindStrideOp,
    CheckDeviceOp,
    CheckDimOp,
    CheckLayoutOp,
    CheckOp,
    CheckStrideOp,
)
from weft.dialects.ffi.function import (
    ENTRY_PREFIX,
    RESULT_ATTRIBUTE,
    CheckCountOp,
    DecodeArrayOp,
    DecodeNoneOp,
    DecodePointerOp,
    DecodeScalarOp,
    DecodeShapeOp,
    DecodeSizeOp,
    DecodeStreamOp,
    DecodeTensorOp,
    DeviceGuardOp,
    EnvironmentStreamOp,
    FuncOp,
    Position,
    ReturnOp,
    argument_numbers,
    tuple_items,
)
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import ScratchOp
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.language.ir_types import integer_type, ir_type, ir_type_of
from weft.types.device import CPU, device_name
from weft.types.dims import CONTIGUOUS, INNER, Dim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from weft.arguments.base import ArgumentKind
    from weft.arguments.signature import Signature


def attach_ffi_wrapper(module: ModuleOp, signature: Signature) -> FuncOp:
    """Adds `__tvm_ffi_<name>` to the module and returns it.

    Args:
        module: holds the host function, its only `func.func`; its attribute `weft.result` describes its result (see
            `weft.dialects.ffi`), None without it.
        signature: with every tensor's device chosen (`Signature.for_device`).

    Raises:
        InternalCompilerError: if the host function does not fit the signature.
    """
    host = _find_host(module, signature)
    body = WrapperBody()
    passed = signature.passed
    body.emit(CheckCountOp(len(passed)))
    decoded: dict[str, list[SSAValue]] = {}
    for index, parameter in enumerate(passed):
        position = Position(index, parameter.name)
        decoded[parameter.name] = decode(body, parameter.kind, position)
    device_type = signature.device_type or CPU
    for parameter in signature.parameters:
        if isinstance(parameter.kind, EnvironmentStreamKind):
            stream = body.emit(EnvironmentStreamOp(body.device), parameter.name)
            decoded[parameter.name] = [stream.result]
    arguments = [value for p in signature.parameters for value in decoded.get(p.name, ())]
    results = _call_host(body, host, arguments, on_host=device_type == CPU)
    body.emit(_return(host, results, body.block))
    wrapper = FuncOp(
        ENTRY_PREFIX + signature.name, signature.text, device_name(device_type), Region(body.block)
    )
    wrapper.location = host.location
    module.body.block.add_op(wrapper)
    return wrapper


def _find_host(module: ModuleOp, signature: Signature) -> HostOp:
    for operation in module.body.block.ops:
        if isinstance(operation, HostOp):
            staged = len(signature.host_arguments())
            taken = len(operation.function_type.inputs.data)
            if staged == taken:
                return operation
            problem = f"the host function takes {taken} values, its signature has {staged}"
            break
    else:
        problem = f"the module has no host function {signature.name}"
    raise InternalCompilerError("WRAPPER_HOST", problem, hint=REPORT_HINT)


def _call_host(
    body: WrapperBody, host: HostOp, arguments: Sequence[SSAValue], on_host: bool
) -> list[SSAValue]:
    """Emits the guarded call.

    The stream is the one that the caller passed first, else that of the first tensor's library, else
    the environment's. On the CPU there is none.
    """
    taken = host.function_type.inputs.data
    if [argument.type for argument in arguments] != list(taken):
        raise InternalCompilerError(
            "WRAPPER_DECODE",
            f"the host function takes {taken}, decoded was {[a.type for a in arguments]}",
            hint=REPORT_HINT,
        )
    stream = body.stream
    if stream is None and not on_host:
        stream = body.emit(EnvironmentStreamOp(body.device), "stream").result
    guard = DeviceGuardOp(
        host.sym_name.data,
        arguments,
        None if on_host else body.device,
        None if on_host else stream,
        host.function_type.outputs.data,
        scratch=takes_scratch(host, on_host),
        tensors=any(isinstance(op, ScratchOp) and op.kept is not None for op in walk(host)),
    )
    return list(body.emit(guard).values)


def takes_scratch(host: HostOp, on_host: bool) -> bool:
    """Whether the call takes memory of its own, kept or not, or for a launch on the CPU; a device's have theirs."""
    block = host.parent
    kernels = [op for op in block.ops if isinstance(op, KernelOp)] if on_host and block else []
    return any(isinstance(op, ScratchOp) for op in walk(host)) or any(
        kernel.scratch_arguments for kernel in kernels
    )


def _return(host: HostOp, results: list[SSAValue], block: Block) -> ReturnOp:
    """The terminator: the tree of returned results and arguments."""
    tree = host.attributes.get(RESULT_ATTRIBUTE)
    names = _arguments_in(tree)
    tensors = [
        operation.result
        for operation in block.ops
        if isinstance(operation, DecodeTensorOp) and operation.argument.data in names
    ]
    return ReturnOp(results, tensors, tree)


def _arguments_in(tree: Attribute | None) -> set[str]:
    """Names of the arguments in a result tree."""
    items = tuple_items(tree)
    if items is not None:
        return {name for item in items for name in _arguments_in(item)}
    return set(argument_numbers(tree)) if isinstance(tree, DictionaryAttr) else set()


OperationT = TypeVar("OperationT", bound=Operation)


class WrapperBody:
    """The body of a wrapper under construction: its block, and the facts known so far.

    Attributes:
        block: the operations so far.
        device: ordinal of the first tensor's device, or None while there is none.
        stream: the first stream that the caller passes, or None.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.device: SSAValue | None = None
        self.stream: SSAValue | None = None
        self._symbols: dict[str, SSAValue] = {}

    def emit(self, operation: OperationT, name: str | None = None) -> OperationT:
        """Appends an operation; `name` becomes its result's name in printed IR."""
        self.block.add_op(operation)
        if name is not None:
            name_value(operation.results[0], name)
        return operation

    def emit_dim(self, tensor: SSAValue, index: int, size: int | Dim) -> None:
        """Checks a dimension of a decoded tensor or shape; the first mention of a symbol gives it a value.

        A nameless dimension is checked for range and divisibility.
        """
        self._bind_or_check(BindDimOp, CheckDimOp, tensor, index, size)

    def emit_stride(self, tensor: SSAValue, index: int, stride: int | Dim) -> None:
        """The same for a stride named in a signature."""
        self._bind_or_check(BindStrideOp, CheckStrideOp, tensor, index, stride)

    def _bind_or_check(
        self,
        bind: type[BindDimOp | BindStrideOp],
        check: type[CheckDimOp | CheckStrideOp],
        tensor: SSAValue,
        index: int,
        size: int | Dim,
    ) -> None:
        known = size if isinstance(size, int) else self._symbols.get(size.name or "")
        if known is not None:
            bound, constant = (None, known) if isinstance(known, int) else (known, None)
            self.emit(check(tensor, index, bound, constant))
            return
        assert not isinstance(size, int)  # a constant is always known
        bound = bind(tensor, index, size.name or "", size.width, size.divisibility)
        self.emit(bound, size.name)
        if size.name is not None:
            self._symbols[size.name] = bound.result


def decode(body: WrapperBody, kind: ArgumentKind, position: Position) -> list[SSAValue]:
    """Emits the decoding of an argument; returns its values for the host function, in order.

    Args:
        body: the wrapper's.
        kind: of the argument.
        position: among the arguments, or among the items of a container.
    """
    return DECODERS[type(kind)](body, kind, position)


def decode_tensor(body: WrapperBody, kind: TensorKind, position: Position) -> list[SSAValue]:
    """Kind, data, rank, dtype, device, alignment, each dim, each stride, in that order."""
    tensor_type = ir_type_of(kind)
    assert tensor_type is not None  # tensors are staged
    tensor = body.emit(DecodeTensorOp(*position), position.name).result
    body.emit(CheckOp(tensor, "data"))
    body.emit(CheckOp(tensor, "rank", kind.rank))
    body.emit(CheckOp(tensor, "dtype", text=kind.dtype.name))
    _check_device(body, tensor, kind)
    if kind.alignment_bytes > 1:
        body.emit(CheckOp(tensor, "alignment", kind.alignment_bytes))
    for index, size in enumerate(kind.dims):
        body.emit_dim(tensor, index, size)
    _check_strides(body, tensor, kind)
    return [body.emit(AsTensorOp(tensor, tensor_type), f"{position.name}_tensor").result]


def _check_device(body: WrapperBody, tensor: SSAValue, kind: TensorKind) -> None:
    assert kind.device_type is not None  # Signature.for_device was called
    body.emit(CheckOp(tensor, "device_type", kind.device_type))
    if kind.device_type == CPU:
        return  # it has no number
    if kind.device_index is not None:
        body.emit(CheckDeviceOp(tensor, None, kind.device_index))
    if body.device is None:
        body.device = body.emit(BindDeviceOp(tensor), "device").result
    else:
        body.emit(CheckDeviceOp(tensor, body.device, None))


def _check_strides(body: WrapperBody, tensor: SSAValue, kind: TensorKind) -> None:
    strides = kind.strides
    if strides is None:
        if kind.layout != "strided":
            body.emit(CheckLayoutOp(tensor, kind.layout, kind.text))
        return
    for index, stride in enumerate(strides):
        if stride is not None:
            body.emit_stride(tensor, index, stride)
    # The layout class guarantees facts that the strides leave open.
    if kind.layout == CONTIGUOUS or (kind.layout == INNER and strides[-1] is None):
        body.emit(CheckLayoutOp(tensor, kind.layout, kind.text))


def decode_scalar(body: WrapperBody, kind: ScalarKind, position: Position) -> list[SSAValue]:
    """A number: kind and range."""
    operation = DecodeScalarOp(*position, kind.dtype.name, ir_type(kind.dtype))
    return [body.emit(operation, position.name).result]


def decode_stream(body: WrapperBody, kind: StreamKind, position: Position) -> list[SSAValue]:
    """A stream; a function's first one is that of its launches."""
    stream = body.emit(DecodeStreamOp(*position), position.name).result
    if body.stream is None:
        body.stream = stream
    return [stream]


def decode_none(body: WrapperBody, kind: NoneKind, position: Position) -> list[SSAValue]:
    """None is checked but not passed to the host function."""
    body.emit(DecodeNoneOp(*position))
    return []


def decode_pointer(body: WrapperBody, kind: PointerKind, position: Position) -> list[SSAValue]:
    """An address: kind and alignment. It becomes an unbounded tensor."""
    pointer_type = ir_type_of(kind)
    assert pointer_type is not None  # pointers are staged
    operation = DecodePointerOp(*position, kind.text, pointer_type)
    return [body.emit(operation, position.name).result]


def decode_shape(body: WrapperBody, kind: ShapeKind, position: Position) -> list[SSAValue]:
    """Kind, number of sizes, each size, in that order; run-time sizes are passed."""
    shape = body.emit(DecodeShapeOp(*position, len(kind.dims)), position.name).result
    for index, size in enumerate(kind.dims):
        body.emit_dim(shape, index, size)
    return [
        body.emit(AsDimOp(shape, index, integer_type(size.width))).result
        for index, size in enumerate(kind.dims)
        if isinstance(size, Dim)
    ]


def decode_size(body: WrapperBody, kind: SizeKind, position: Position) -> list[SSAValue]:
    """An int, then as a dimension; passed if it is known only at run time."""
    size = body.emit(DecodeSizeOp(*position), position.name).result
    body.emit_dim(size, 0, kind.dim)
    if not isinstance(kind.dim, Dim):
        return []
    return [body.emit(AsDimOp(size, 0, integer_type(kind.dim.width))).result]


def decode_container(body: WrapperBody, kind: ContainerKind, position: Position) -> list[SSAValue]:
    """Kind, number of items, then each item as an argument of its own."""
    return _decode_items(body, kind, position, kind.text)


def _decode_items(
    body: WrapperBody, kind: ContainerKind, position: Position, text: str
) -> list[SSAValue]:
    passed = kind.passed_parts
    array = body.emit(DecodeArrayOp(*position, len(passed), text), position.name).result
    values: list[SSAValue] = []
    for index, (label, item) in enumerate(passed):
        values += decode(body, item, Position(index, position.name + label, array))
    return values


def decode_complex(body: WrapperBody, kind: ComplexKind, position: Position) -> list[SSAValue]:
    """A pair of floats, as a container's items."""
    return _decode_items(body, kind, position, f"{kind.text}: a complex number")


DECODERS: Final[
    dict[type[ArgumentKind], Callable[[WrapperBody, Any, Position], list[SSAValue]]]
] = {
    TensorKind: decode_tensor,
    ScalarKind: decode_scalar,
    StreamKind: decode_stream,
    NoneKind: decode_none,
    PointerKind: decode_pointer,
    ShapeKind: decode_shape,
    SizeKind: decode_size,
    ComplexKind: decode_complex,
    ContainerKind: decode_container,
}
"""The decoder of each passed kind; kinds without a row are not passed."""
