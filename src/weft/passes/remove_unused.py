# SPDX-License-Identifier: Apache-2.0
"""Removes unused parts of kernels: operations without effect, arguments, pointers, dims and strides of tensors.

In: a traced module; for parameters, one whose kernels are ready to print. Out: the same without constants, dims and
arrays that only discarded attempts used, so that they take no shared memory; kernels and launches without unused
arguments, and each tensor argument of a kernel with `weft.parts`, its passed parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.traits import Pure

from weft.dialects.access import NeedsParts, trait_of
from weft.dialects.flow import CARRIERS, origins, walk
from weft.dialects.simt.kernel import PARTS, POINTER, UNIT, KernelOp, LaunchExOp, sizes_attribute
from weft.dialects.simt.memory import AllocaOp, GlobalScratchOp, ScratchOp, SharedOp
from weft.dialects.simt.types import DYNAMIC, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

    from weft.dialects.access import Part


def remove_unused_operations(module: ModuleOp) -> None:
    """Removes unused operations without effect that a trace leaves in each function's entry block.

    Inner blocks are skipped: operations shared by discarded attempts stand in the entry block.
    """
    for function in module.body.block.ops:
        if isinstance(function, KernelOp | FuncOp):
            _tidy(function.body.block)


def _tidy(block: Block) -> None:
    """Backward, so that operands of erased operations are erased too."""
    for operation in reversed(list(block.ops)):
        if _is_removable(operation) and all(not result.first_use for result in operation.results):
            block.erase_op(operation)


def _is_removable(operation: Operation) -> bool:
    if isinstance(operation, arith.ConstantOp | AllocaOp | GlobalScratchOp | SharedOp | ScratchOp):
        return True
    return not operation.regions and bool(operation.results) and operation.has_trait(Pure)


_ADDRESS: Final = NeedsParts(pointer=True, strides="all")
"""An operation without the trait computes an address."""


def remove_unused_parameters(module: ModuleOp) -> None:
    """Removes a kernel's unused parameters, and from launches: arguments, and pointers, dims and strides of tensors."""
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
    uses = _uses(kernel)
    attributes = kernel.arg_attrs or [DictionaryAttr({}) for _ in arguments]
    kernel.arg_attrs = ArrayAttr(
        [
            DictionaryAttr({**known.data, **_parts(argument, uses.get(argument, ()))})
            for known, argument in zip(attributes, arguments, strict=True)
        ]
    )
    return left


def _uses(kernel: KernelOp) -> dict[SSAValue, list[Operation]]:
    """The operations that look into each tensor, be it under its own name or after control flow passed it on."""
    found: dict[SSAValue, list[Operation]] = {}
    for operation in walk(kernel):
        if not isinstance(operation, CARRIERS):
            for operand in operation.operands:
                if isinstance(operand.type, TensorType):
                    for tensor in origins(operand, through_views=False):
                        found.setdefault(tensor, []).append(operation)
    return found


def _parts(argument: BlockArgument, uses: Iterable[Operation]) -> dict[str, Attribute]:
    """The attribute naming the parts of a tensor argument that its uses need."""
    kind = argument.type
    if not isinstance(kind, TensorType):
        return {}
    parts: dict[str, Attribute] = {}
    dims: set[int] = set()
    strides: set[int] = set()
    for use in uses:
        needs = trait_of(use, NeedsParts) or _ADDRESS
        if needs.pointer:
            parts[POINTER] = UNIT
        dims.update(_dimensions(needs.dims, use, kind.rank))
        for dimension in _dimensions(needs.strides, use, kind.rank):
            if dimension < kind.open_strides:
                strides.add(dimension)
            elif kind.layout.data == "contiguous":  # computed from the dims that follow
                dims.update(range(dimension + 1, kind.rank))
    passed = [dimension for dimension in sorted(dims) if kind.dims[dimension] == DYNAMIC]
    for name, dimensions in (("dims", passed), ("strides", sorted(strides))):
        if dimensions:
            parts[name] = sizes_attribute(dimensions)
    return {PARTS: DictionaryAttr(parts)}


def _dimensions(part: Part, use: Any, rank: int) -> Sequence[int]:
    """The dimensions whose sizes, or strides, a use needs."""
    if part == "one":
        return (use.dimension.value.data,)
    return range(rank) if part == "all" else ()
