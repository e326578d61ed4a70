# SPDX-License-Identifier: Apache-2.0
"""Leftovers of tracing: shared operations of the entry block that nobody uses.

In: a traced function's entry block. Out: the same without constants, dims and arrays that only discarded
attempts used. Next: kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.traits import Pure

from weft.dialects.simt.memory import AllocaOp
from weft.dialects.simt.shared import SharedOp

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation


def tidy_entry(block: Block) -> None:
    """Erases operations without effect whose results are unused, at the top level of a function."""
    for operation in reversed(list(block.ops)):
        if _is_removable(operation) and all(not result.first_use for result in operation.results):
            block.erase_op(operation)


def _is_removable(operation: Operation) -> bool:
    if isinstance(operation, arith.ConstantOp | AllocaOp | SharedOp):
        return True
    return not operation.regions and bool(operation.results) and operation.has_trait(Pure)
