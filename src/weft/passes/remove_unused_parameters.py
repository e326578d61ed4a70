# SPDX-License-Identifier: Apache-2.0
"""Removes a kernel's unused parameters: whole arguments, and pointers, dims and strides of tensors.

In: a module with kernels ready to print. Out: kernels and launches without these arguments, and each tensor argument of
a kernel with `weft.parts`, its passed parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp

from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.dialects.simt.kernel import (
    PARTS,
    POINTER,
    UNIT,
    KernelOp,
    LaunchExOp,
    sizes_attribute,
)
from weft.dialects.simt.memory import DimOp, StrideOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.dialects.walk import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, BlockArgument, Operation


def remove_unused_parameters(module: ModuleOp) -> None:
    """Removes them from every kernel and its launches."""
    operations = list(module.body.block.ops)
    passed = {op.sym_name.data: _reduce(op) for op in operations if isinstance(op, KernelOp)}
    for host in operations:
        for op in walk(host) if isinstance(host, FuncOp) else ():
            if isinstance(op, LaunchExOp):
                op.keep_arguments(passed[op.kernel.string_value()])


def _reduce(kernel: KernelOp) -> list[int]:
    """Removes a kernel's unused arguments; returns the numbers of the launch values still used."""
    hidden = (*kernel.scratch_arguments, kernel.profile_argument)
    passed = [argument for argument in kernel.body.block.args if argument not in hidden]
    left = [number for number, argument in enumerate(passed) if argument.first_use]
    kernel.keep_arguments([one.index for one in kernel.body.block.args if one.first_use])
    arguments = kernel.body.block.args
    attributes = kernel.arg_attrs or [DictionaryAttr({}) for _ in arguments]
    kernel.arg_attrs = ArrayAttr(
        [
            DictionaryAttr({**known.data, **_parts(argument)})
            for known, argument in zip(attributes, arguments, strict=True)
        ]
    )
    return left


def _parts(argument: BlockArgument) -> dict[str, Attribute]:
    """The attribute naming the parts of a tensor argument that its uses need."""
    kind = argument.type
    if not isinstance(kind, TensorType):
        return {}
    parts: dict[str, Attribute] = {}
    dims: set[int] = set()
    strides: set[int] = set()
    for use in argument.uses:
        if isinstance(use.operation, DimOp):
            dims.add(use.operation.dimension.value.data)
            continue
        if not isinstance(use.operation, StrideOp):
            parts[POINTER] = UNIT
        for dimension in _strides(use.operation, kind.rank):
            if kind.layout.data == "contiguous":  # products of the dims that follow
                dims.update(range(dimension + 1, kind.rank))
            elif kind.layout.data == "strided" or dimension < kind.rank - 1:
                strides.add(dimension)
    passed = [dimension for dimension in sorted(dims) if kind.dims[dimension] == DYNAMIC]
    for name, dimensions in (("dims", passed), ("strides", sorted(strides))):
        if dimensions:
            parts[name] = sizes_attribute(dimensions)
    return {PARTS: DictionaryAttr(parts)}


def _strides(operation: Operation, rank: int) -> Sequence[int]:
    """The dimensions whose strides a use of a tensor needs: all if it computes an address."""
    if isinstance(operation, StrideOp):
        return (operation.dimension.value.data,)
    return () if isinstance(operation, InlinePtxOp) else range(rank)
