# SPDX-License-Identifier: Apache-2.0
"""The wrapper of a host function: count, arguments, stream, device, call, result, in that order.

In: the module with the host function, its signature. Out: `ffi.func @__tvm_ffi_<name>` in that module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.func import FuncOp as HostOp
from xdsl.ir import Block, Region

from weft.arguments.stream import EnvironmentStreamKind
from weft.dialects.ffi.function import (
    ENTRY_PREFIX,
    RESULT_ATTRIBUTE,
    CheckCountOp,
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
from weft.ffi_wrapper.decode import WrapperBody, decode
from weft.types.device import CPU, device_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, SSAValue

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
    )
    return list(body.emit(guard).values)


def takes_scratch(host: HostOp, on_host: bool) -> bool:
    """Whether the call takes memory of its own, or for a launch on the CPU; a device's launches have theirs."""
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
