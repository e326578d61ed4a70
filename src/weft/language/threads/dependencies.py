# SPDX-License-Identifier: Apache-2.0
"""Programmatic dependent launches: ``grid_dependency_wait`` and ``grid_dependency_launch``.

In: nothing. Out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.nvgpu.threads import GridDependencyLaunchOp, GridDependencyWaitOp
from weft.language.operation import operation

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation
def grid_dependency_wait(builder: Builder) -> None:
    """Waits until the kernel before this one in the stream has ended, and sees what it wrote.

    A kernel launched with ``programmatic=True`` may begin earlier, as soon as every block of the one before has called
    `grid_dependency_launch` or has ended, and prepares what does not depend on it: barriers, copies of other arrays.
    **Each thread that reads or overwrites what the kernel before touches calls it first.** Where it is missing, results
    are wrong now and then on a GPU, and no tool of weft finds that: on the CPU kernels run one after the other.

    Raises:
        UnavailableError: on a GPU before sm_90.

    Example:
        ``weft.grid_dependency_wait(); x = a[weft.thread_idx.x]``
    """
    builder.emit(GridDependencyWaitOp())


@operation
def grid_dependency_launch(builder: Builder) -> None:
    """Lets the next kernel of the stream begin, if it was launched with ``programmatic=True``, once all blocks said so.

    A block that has ended counts as having said so. What this kernel writes, before or after, the next one sees only
    after its `grid_dependency_wait`. On the CPU it does nothing.

    Raises:
        UnavailableError: on a GPU before sm_90.

    Example:
        ``a[weft.thread_idx.x] = 1; weft.grid_dependency_launch()``
    """
    builder.emit(GridDependencyLaunchOp())
