# SPDX-License-Identifier: Apache-2.0
"""Launches that overlap: ``wait_for_dependencies`` and ``launch_dependents``, for launches with ``programmatic=True``.

In: nothing. Out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.nvgpu.dependencies import LaunchDependentsOp, WaitForDependenciesOp
from weft.language.operation import operation

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation
def wait_for_dependencies(builder: Builder) -> None:
    """Waits until the kernel before this one in the stream has ended, and sees what it wrote.

    A kernel launched with ``programmatic=True`` may begin earlier, as soon as every block of the one before has called
    `launch_dependents` or has ended, and prepares what does not depend on it: barriers, copies of other arrays. **Each
    thread that reads or overwrites what the kernel before touches calls it first.** Where it is missing, results are
    wrong now and then on a GPU, and no tool of weft finds that: on the CPU kernels run one after the other.

    Raises:
        UnavailableError: on a GPU before sm_90.

    Example:
        ``weft.wait_for_dependencies(); x = a[weft.thread_idx.x]``
    """
    builder.emit(WaitForDependenciesOp())


@operation
def launch_dependents(builder: Builder) -> None:
    """Lets the next kernel of the stream begin, if it was launched with ``programmatic=True``, once all blocks said so.

    A block that has ended counts as having said so. What this kernel writes, before or after, the next one sees only
    after its `wait_for_dependencies`. On the CPU it does nothing.

    Raises:
        UnavailableError: on a GPU before sm_90.

    Example:
        ``a[weft.thread_idx.x] = 1; weft.launch_dependents()``
    """
    builder.emit(LaunchDependentsOp())
