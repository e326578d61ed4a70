# SPDX-License-Identifier: Apache-2.0
"""What the decorators make of a user's function, as far as the front end needs to know it.

In: a Python function and the decorator's arguments. Out: objects that a traced function can meet among its
globals. The api room subclasses them; nothing here imports the compiler. Next: the families of operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class StagedFunction:
    """A Python function that weft compiles instead of running it.

    Attributes:
        function: the user's function, unchanged.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class KernelFunction(StagedFunction):
    """A function made by ``@weft.kernel``: the code of one thread, launched by a host function.

    Attributes:
        max_threads: threads per block that the kernel is compiled for, or None.
        min_blocks: blocks per multiprocessor that must fit, or None.
        max_registers: registers per thread, or None.
        cluster: blocks per cluster in x, y, z, or None.
    """

    __slots__ = ("cluster", "max_registers", "max_threads", "min_blocks")

    def __init__(
        self,
        function: Callable[..., Any],
        max_threads: int | None = None,
        min_blocks: int | None = None,
        max_registers: int | None = None,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(function)
        self.max_threads = max_threads
        self.min_blocks = min_blocks
        self.max_registers = max_registers
        self.cluster = cluster


class HostFunction(StagedFunction):
    """A function made by ``@weft.jit``: computes with scalars and launches kernels."""

    __slots__ = ()
