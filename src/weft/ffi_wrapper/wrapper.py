# SPDX-License-Identifier: Apache-2.0
"""Writes the wrapper of a host function: count, arguments, stream, device, call, result, in that order.

In: the module with the host function, its signature. Out: `ffi.func @__tvm_ffi_<name>` in that module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp as HostOp
from xdsl.ir import Block, Region

from weft.arguments.container import ContainerKind
from weft.arguments.none import NoneKind
from weft.arguments.pointer import PointerKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import ShapeKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.ffi.arguments import DecodeTensorOp, Position
from weft.dialects.ffi.call import EnvironmentStreamOp
from weft.dialects.ffi.function import ENTRY_PREFIX, CheckCountOp, FuncOp, ReturnOp
from weft.dialects.ffi.results import RESULT_ATTRIBUTE, tuple_items
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.ffi_wrapper.body import Argument, WrapperBody
from weft.ffi_wrapper.decode.container import decode_container
from weft.ffi_wrapper.decode.none import decode_none
from weft.ffi_wrapper.decode.pointer import decode_pointer
from weft.ffi_wrapper.decode.scalar import decode_scalar
from weft.ffi_wrapper.decode.shape import decode_shape
from weft.ffi_wrapper.decode.stream import decode_stream
from weft.ffi_wrapper.decode.tensor import decode_tensor
from weft.ffi_wrapper.device_guard import call_host
from weft.types.device import CPU, DEVICE_TYPES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, SSAValue

    from weft.arguments.base import ArgumentKind
    from weft.arguments.signature import Signature
    from weft.ffi_wrapper.body import Decoder

DECODERS: Final[dict[type[ArgumentKind], Decoder]] = {
    TensorKind: decode_tensor,
    ScalarKind: decode_scalar,
    StreamKind: decode_stream,
    NoneKind: decode_none,
    PointerKind: decode_pointer,
    ShapeKind: decode_shape,
    ContainerKind: decode_container,
}
"""How each kind that a caller passes is decoded; a kind without a row is not passed."""


_TARGETS: Final = {number: name for name, number in DEVICE_TYPES.items()}


def attach_ffi_wrapper(module: ModuleOp, signature: Signature) -> FuncOp:
    """Adds `__tvm_ffi_<name>` to the module and returns it.

    Args:
        module: holds the host function, its only `func.func`; its attribute `weft.result` says what it
            returns (see `weft.dialects.ffi`), None without the attribute.
        signature: with every tensor's device chosen (`Signature.for_device`).

    Raises:
        InternalCompilerError: if the host function does not take what the signature says.
    """
    host = _find_host(module, signature)
    body = WrapperBody(DECODERS)
    passed = signature.passed
    body.emit(CheckCountOp(len(passed)))
    decoded: dict[str, list[SSAValue]] = {}
    for index, parameter in enumerate(passed):
        argument = Argument(Position(index, parameter.name), parameter.kind)
        decoded[parameter.name] = body.decode(argument)
    on_cpu = signature.device_type in (None, CPU)
    for parameter in signature.parameters:
        if isinstance(parameter.kind, EnvironmentStreamKind):
            stream = body.emit(EnvironmentStreamOp(body.device), parameter.name)
            decoded[parameter.name] = [stream.result]
    arguments = [value for p in signature.parameters for value in decoded.get(p.name, ())]
    results = call_host(body, host, arguments, on_cpu)
    body.emit(_return(host, results, body.block))
    name = _TARGETS[signature.device_type or CPU]
    wrapper = FuncOp(ENTRY_PREFIX + signature.name, signature.text, name, Region(body.block))
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
            problem = f"the host function takes {taken} values, its signature says {staged}"
            break
    else:
        problem = f"the module has no host function {signature.name}"
    raise InternalCompilerError("WRAPPER_HOST", problem, hint=REPORT_HINT)


def _return(host: HostOp, results: list[SSAValue], block: Block) -> ReturnOp:
    """The terminator: which results and which arguments are returned, in what tree."""
    tree = host.attributes.get(RESULT_ATTRIBUTE)
    names = _arguments_in(tree)
    tensors = [
        operation.result
        for operation in block.ops
        if isinstance(operation, DecodeTensorOp) and operation.argument.data in names
    ]
    return ReturnOp(results, tensors, tree)


def _arguments_in(tree: Attribute | None) -> set[str]:
    """Names of the arguments that a result tree mentions."""
    items = tuple_items(tree)
    if items is not None:
        return {name for item in items for name in _arguments_in(item)}
    if isinstance(tree, DictionaryAttr):
        name = tree.data.get("argument")
        if isinstance(name, StringAttr):
            return {name.data}
    return set()
