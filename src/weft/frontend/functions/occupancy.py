# SPDX-License-Identifier: Apache-2.0
"""``kernel.max_clusters(blocks)`` in host functions: how many clusters of a kernel the device holds at once.

In: a kernel function and the blocks of a cluster. Out: an i32, of kernels that the host function launches before or
after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.threads import MaxClustersOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.frontend.functions.kernels import Question
from weft.language.values import Scalar, describe
from weft.types import dtype as types
from weft.types.launch_limits import CLUSTER

if TYPE_CHECKING:
    from weft.frontend.context import Frame
    from weft.frontend.functions.kernels import KernelTable
    from weft.language.functions import KernelFunction


def max_clusters(
    table: KernelTable, frame: Frame, kernel: KernelFunction, blocks: object
) -> Scalar:
    """``kernel.max_clusters(blocks)``.

    Raises:
        TypeMismatchError: if the number of blocks is not a constant integer.
        ValueRangeError: if no cluster has so many.
    """
    if not isinstance(blocks, int) or isinstance(blocks, bool):
        raise TypeMismatchError(
            "MAX_CLUSTERS",
            f"max_clusters takes the number of blocks in a cluster, known at compile time; received {describe(blocks)}",
        )
    if not 1 <= blocks <= CLUSTER[2]:
        raise ValueRangeError(
            "MAX_CLUSTERS", f"max_clusters: a cluster has 1 to {CLUSTER[2]} blocks, not {blocks}"
        )
    key = MaxClustersOp, kernel, blocks
    found = frame.builder.shared_operation(key)
    if found is None:
        found = frame.builder.entry_operation(MaxClustersOp(), "max_clusters", key=key)
        table.questions.append(Question(found, kernel, blocks, frame.builder.location))
    return Scalar(found.results[0], types.i32)
