# SPDX-License-Identifier: Apache-2.0
"""Removes unused operations without effect that a trace leaves in each function's entry block.

In: a traced module. Out: the same without constants, dims and arrays that only discarded attempts used, so that they
take no shared memory and no parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.traits import Pure

from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import AllocaOp, GlobalScratchOp, ScratchOp, SharedOp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation


def remove_unused_operations(module: ModuleOp) -> None:
    """Erases them in the entry blocks of kernels and the host function.

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
