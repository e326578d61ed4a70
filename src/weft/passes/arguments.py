# SPDX-License-Identifier: Apache-2.0
"""Arguments that the program does not write: blocks' arrays in global memory; and those that kernels may write through.

In: a traced module. Out: each `simt.global_scratch` as an argument after all others, with one row per block, and in its
place a view of the block's own row (the kernel's `scratch_arguments` says which these are); the host function with
`weft.written_arguments`, the numbers of the arguments that refuse read-only memory. Accesses say which restricted
arguments they reach, and launches are preceded by checks of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, ub
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import MemoryWriteEffect

from weft.dialects.access import OwnMemory, trait_of, written_by
from weft.dialects.builder import Builder, source_location
from weft.dialects.flow import origins, walk
from weft.dialects.nvgpu.tensor_map import CopyMapOp, EditMapOp, MakeTensorMapOp, TensorMapType
from weft.dialects.nvgpu.threads import GridDependencyWaitOp
from weft.dialects.simt.kernel import (
    CONSTANT,
    DISTINCT,
    RESTRICTED,
    UNIT,
    KernelOp,
    LaunchExOp,
    sizes_attribute,
)
from weft.dialects.simt.memory import (
    CheckDistinctOp,
    GlobalScratchOp,
    LoadOp,
    LoadVectorOp,
    ScratchOp,
    StoreOp,
    StoreVectorOp,
    ViewOp,
)
from weft.dialects.simt.threads import DIMENSIONS, BlockIdxOp, GridDimOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.errors import CompileError
from weft.location import UNKNOWN_LOCATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import SSAValue


def add_scratch_arguments(module: ModuleOp) -> None:
    """Makes arguments of the arrays in global memory that blocks have of their own, which launches allocate.

    The launches' arguments do not change.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            arrays = [op for op in walk(kernel) if isinstance(op, GlobalScratchOp)]
            if arrays:
                _add_arguments(kernel, arrays)


def _add_arguments(kernel: KernelOp, arrays: list[GlobalScratchOp]) -> None:
    builder = Builder(kernel.body.block)
    builder.location = source_location(arrays[0].location) or UNKNOWN_LOCATION
    block_number = _block_number(builder)
    zero = builder.constant(i32, 0)
    added: list[int] = []
    for number, array in enumerate(arrays):
        own: TensorType = array.result.type
        all_blocks = TensorType.get(
            own.element_type,
            (DYNAMIC, *own.dims),
            dim_bits=own.dim_bits.data,
            alignment_bytes=own.alignment_bytes.data,
        )
        argument = kernel.add_argument(f"scratch_{number}", all_blocks)
        added.append(argument.index)
        starts, steps = [block_number, *[zero] * own.rank], [1] * own.rank
        view = ViewOp(argument, starts, [], range(1, own.rank + 1), steps, own)
        view.location = array.location
        block = array.parent
        assert block is not None
        block.insert_op_before(view, array)
        array.result.replace_all_uses_with(view.result)
        block.erase_op(array)
    kernel.scratch_arguments_attr = sizes_attribute(added)


def _block_number(builder: Builder) -> SSAValue:
    """The block's place in the grid, as an i64."""

    def wide(coordinate: BlockIdxOp | GridDimOp) -> SSAValue:
        return builder.entry_operation(
            arith.ExtSIOp(builder.entry_operation(coordinate).result, i64)
        ).result

    number = wide(BlockIdxOp(DIMENSIONS[-1]))
    for name in reversed(DIMENSIONS[:-1]):
        scaled = builder.entry_operation(arith.MuliOp(number, wide(GridDimOp(name)))).result
        number = builder.entry_operation(arith.AddiOp(scaled, wide(BlockIdxOp(name)))).result
    return number


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


def use_restrictions(module: ModuleOp) -> None:
    """Notes on accesses which restricted arguments they reach, and checks at launches that no other argument does.

    An argument is constant if nothing writes through it, and the kernel does not begin while what another kernel writes
    is awaited.

    Raises:
        CompileError: for a launch whose memory cannot be compared: a pointer's has no known end.
    """
    operations = list(module.body.block.ops)
    kernels = [op for op in operations if isinstance(op, KernelOp) and op.restricted_arguments]
    written = {kernel.sym_name.data: _written(kernel, _stored_to(kernel)) for kernel in kernels}
    for kernel in kernels:
        _note_accesses(kernel, written[kernel.sym_name.data])
    by_name = {kernel.sym_name.data: kernel for kernel in kernels}
    for host in operations:
        for launch in list(walk(host)) if by_name and isinstance(host, FuncOp) else ():
            if isinstance(launch, LaunchExOp) and launch.kernel.string_value() in by_name:
                kernel = by_name[launch.kernel.string_value()]
                _check_launch(launch, kernel, written[kernel.sym_name.data])


_ACCESSES: Final = (LoadOp, LoadVectorOp, StoreOp, StoreVectorOp)


def _note_accesses(kernel: KernelOp, written: frozenset[int]) -> None:
    restricted: dict[SSAValue, int] = {one: one.index for one in kernel.restricted_arguments}
    waits = any(isinstance(op, GridDependencyWaitOp) for op in walk(kernel))
    constant: frozenset[int] = frozenset(() if waits else restricted.values()) - written
    for op in walk(kernel):
        if not isinstance(op, _ACCESSES):
            continue
        memory = origins(op.tensor)
        if not all(one in kernel.body.block.args or _is_own(one) for one in memory):
            continue
        reached = {restricted[one] for one in memory if one in restricted}
        apart = set(restricted.values()) - reached
        if len(reached) == len(memory) == 1:
            op.attributes[RESTRICTED] = sizes_attribute([*reached])
        if apart:
            op.attributes[DISTINCT] = sizes_attribute(sorted(apart))
        is_volatile = not isinstance(op, LoadVectorOp) and op.properties.get("volatile") is not None
        is_load = isinstance(op, LoadOp | LoadVectorOp) and not is_volatile
        if is_load and len(reached) == len(memory) and reached <= constant:
            op.attributes[CONSTANT] = UNIT


def _check_launch(launch: LaunchExOp, kernel: KernelOp, written: frozenset[int]) -> None:
    """Checks a launch's restricted arguments against all others, unless neither is written."""
    restricted = [argument.index for argument in kernel.restricted_arguments]
    memory = [
        argument
        for argument in kernel.body.block.args[: len(launch.args)]
        if isinstance(argument.type, _MEMORY)
    ]
    pairs = {
        (min(one, other.index), max(one, other.index))
        for one in restricted
        for other in memory
        if one != other.index and not written.isdisjoint((one, other.index))
    }
    for one, other in sorted(pairs):
        first, second = (_launched_memory(launch, kernel, number) for number in (one, other))
        if _is_apart(first, second):
            continue
        if first is second:
            raise CompileError(
                "RESTRICT_SAME",
                f"kernel '{kernel.sym_name.data}': arguments '{_name(kernel, one)}' and '{_name(kernel, other)}' are "
                "the same tensor, which the kernel writes; restrict= promises that no other argument reaches it",
                hint="pass another tensor, or leave the names out of restrict=",
                location=source_location(launch.location),
            )
        first_name, second_name = _name(kernel, one), _name(kernel, other)
        check = CheckDistinctOp(first, second, kernel.sym_name.data, first_name, second_name)
        check.location = launch.location
        block = launch.parent
        assert block is not None
        block.insert_op_before(check, launch)


def _launched_memory(launch: LaunchExOp, kernel: KernelOp, number: int) -> SSAValue:
    """The tensor that a launch passes, or makes the map of that it passes."""
    value = launch.args[number]
    if isinstance(value.owner, MakeTensorMapOp):
        value = value.owner.source
    kind = value.type
    if isinstance(kind, TensorType) and not kind.is_pointer:
        return value
    what = "a pointer" if isinstance(kind, TensorType) else "one of several tensor maps"
    raise CompileError(
        "RESTRICT_EXTENT",
        f"kernel '{kernel.sym_name.data}': '{_name(kernel, number)}' is {what}, whose memory cannot be compared "
        "with that of the arguments in restrict=",
        hint="pass a tensor, or leave out restrict=",
        location=source_location(launch.location),
    )


def _is_apart(one: SSAValue, other: SSAValue) -> bool:
    """Whether one of two tensors is scratch memory of the call, which the other is not."""
    first, second = origins(one), origins(other)
    own = (
        all(isinstance(tensor.owner, ScratchOp) for tensor in found) for found in (first, second)
    )
    return first.isdisjoint(second) and any(own)


def _name(kernel: KernelOp, number: int) -> str:
    """An argument's name in the source."""
    known = kernel.arg_attrs
    found = known and known.data[number].data.get("weft.name")
    return found.data if isinstance(found, StringAttr) else f"argument {number}"
