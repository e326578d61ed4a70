# SPDX-License-Identifier: Apache-2.0
"""Finds the host function's arguments that kernels may write through.

In: a traced module. Out: the host function with `weft.written_arguments`, the numbers of these arguments, which refuse
read-only memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import ub
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import MemoryWriteEffect

from weft.dialects.access import OwnMemory, trait_of, written_by
from weft.dialects.flow import origins, walk
from weft.dialects.nvgpu.tensor_map import CopyMapOp, EditMapOp, TensorMapType
from weft.dialects.simt.kernel import KernelOp, LaunchExOp, sizes_attribute
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import SSAValue

WRITTEN_ARGUMENTS: Final = "weft.written_arguments"
"""Attribute of the host's `func.func`: the numbers of the arguments that kernels may write through, i32."""


_MEMORY: Final = (TensorType, TensorMapType)


def find_written_arguments(module: ModuleOp) -> None:
    """Records on the host function which arguments its launches may write.

    A writing operation counts for all its tensors, unless its class has the trait `Accesses`. A tensor that is not an
    argument counts for all arguments, so that the result errs on the side of writing.
    """
    operations = list(module.body.block.ops)
    written = {
        op.sym_name.data: _written(op, _stored_to(op))
        for op in operations
        if isinstance(op, KernelOp)
    }
    for host in operations:
        if isinstance(host, FuncOp):
            found = sorted(_written(host, _passed_to_writers(host, written)))
            host.attributes[WRITTEN_ARGUMENTS] = sizes_attribute(found)


def written_arguments(module: ModuleOp) -> frozenset[int]:
    """The pass's result: numbers of the host function's arguments.

    All of them if a hook replaced the host function with one that lacks the attribute.
    """
    host = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    found = host.attributes.get(WRITTEN_ARGUMENTS)
    if not isinstance(found, DenseArrayBase):
        return frozenset(range(len(host.body.block.args)))
    return frozenset(cast("DenseArrayBase[IntegerType]", found).get_values())


def _written(function: KernelOp | FuncOp, tensors: Iterator[SSAValue]) -> frozenset[int]:
    """The arguments of a function whose memory these tensors may be, or view."""
    arguments = function.body.block.args
    index_of: dict[SSAValue, int] = {argument: argument.index for argument in arguments}
    found: set[int] = set()
    memory = [o for one in tensors if isinstance(one.type, _MEMORY) for o in origins(one)]
    for tensor in memory:
        if isinstance(tensor.owner, CopyMapOp):
            memory += [o for mapped in _mapped(function, tensor.owner) for o in origins(mapped)]
        elif not _is_own(tensor):
            index = index_of.get(tensor)
            if index is None:
                return frozenset(a.index for a in arguments if isinstance(a.type, _MEMORY))
            found.add(index)
    return frozenset(found)


def _mapped(function: KernelOp | FuncOp, copy: CopyMapOp) -> Iterator[SSAValue]:
    """The tensors that a map in memory may be of: that of the launch's map, and those of its edits."""
    yield copy.tensor_map
    for operation in walk(function):
        if isinstance(operation, EditMapOp) and copy.result in origins(operation.tensor_map):
            yield operation.tensor


def _stored_to(kernel: KernelOp) -> Iterator[SSAValue]:
    for operation in walk(kernel):
        if operation is not kernel and operation.has_trait(MemoryWriteEffect):
            yield from written_by(operation)


def _passed_to_writers(host: Operation, written: dict[str, frozenset[int]]) -> Iterator[SSAValue]:
    """The launch operands for arguments that kernels write; launch-allocated arguments follow them."""
    for operation in walk(host):
        if isinstance(operation, LaunchExOp):
            indices = written[operation.kernel.string_value()]
            yield from (value for index, value in enumerate(operation.args) if index in indices)


def _is_own(tensor: SSAValue) -> bool:
    """Whether a tensor is the function's own memory, a thread's, a block's or a call's, or is never read."""
    owner = tensor.owner
    return isinstance(owner, ub.PoisonOp) or (
        isinstance(owner, Operation) and trait_of(owner, OwnMemory) is not None
    )
