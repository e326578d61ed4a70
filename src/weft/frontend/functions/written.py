# SPDX-License-Identifier: Apache-2.0
"""Which arguments a kernel may write through.

In: a traced kernel. Out: indices of its arguments; read-only memory is refused for these alone. Next: kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.traits import MemoryWriteEffect

from weft.dialects.simt.memory import AllocaOp
from weft.dialects.simt.shared import DynamicSharedOp, SharedOp
from weft.dialects.simt.types import TensorType
from weft.dialects.simt.views import ViewOp
from weft.dialects.walk import walk

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.simt.kernel import KernelOp


def written_tensors(kernel: KernelOp) -> frozenset[int]:
    """Indices of the tensor arguments that an operation of the kernel may write to.

    An operation that writes counts for every tensor that it takes, and a tensor that is no argument for
    all of them, so that the answer errs on the side of writing.
    """
    index_of = {argument: index for index, argument in enumerate(kernel.body.block.args)}
    tensors = frozenset(i for a, i in index_of.items() if isinstance(a.type, TensorType))
    found: set[int] = set()
    for operation in walk(kernel):
        if operation is kernel or not operation.has_trait(MemoryWriteEffect):
            continue
        for operand in operation.operands:
            root = viewed(operand)
            if not isinstance(root.type, TensorType) or _is_own(root):
                continue
            index = index_of.get(root)  # pyright: ignore[reportArgumentType, reportCallIssue]
            if index is None:
                return tensors
            found.add(index)
    return frozenset(found)


def viewed(tensor: SSAValue) -> SSAValue:
    """The tensor whose memory a view shows part of; the tensor itself where it is no view."""
    while isinstance(tensor.owner, ViewOp):
        tensor = tensor.owner.source
    return tensor


def _is_own(tensor: SSAValue) -> bool:
    """Whether a tensor is memory of the kernel's own: the thread's, or the block's."""
    return isinstance(tensor.owner, AllocaOp | SharedOp | DynamicSharedOp)
