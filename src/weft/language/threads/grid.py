# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a thread: ``thread_idx``, ``block_idx``, ``block_dim``, ``grid_dim``; ``multiprocessors``.

In: a dimension, ``.x``, ``.y`` or ``.z``. Out: an i32, read once per function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.dialects.simt.threads import (
    DIMENSIONS,
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    GridDimOp,
    MultiprocessorsOp,
    ThreadIdxOp,
)
from weft.errors import NameResolutionError
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


class Coordinate(StagedNamespace):
    """One of the four coordinates of a thread, with attributes ``x``, ``y`` and ``z``.

    Attributes:
        name: as written after ``weft.``.
        on_host: False: a host function is not a thread.
    """

    if TYPE_CHECKING:  # the front end uses `attribute`
        x: Any
        y: Any
        z: Any

    def __init__(self, name: str, operation: type[CoordinateOp], text: str) -> None:
        self.name = name
        self.on_host = False
        self._operation = operation
        self.__doc__ = text

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def attribute(self, builder: Builder, name: str) -> Scalar:
        """The coordinate in one dimension, as an i32; emitted once, in the entry block.

        Raises:
            NameResolutionError: for any attribute but ``x``, ``y`` and ``z``.
        """
        if name not in DIMENSIONS:
            raise NameResolutionError(
                "UNKNOWN_ATTRIBUTE",
                f"weft.{self.name} has no attribute {name!r}",
                hint=f"there are {', '.join(f'weft.{self.name}.{d}' for d in DIMENSIONS)}",
            )
        key = (self._operation, name)
        found = builder.shared_operation(key)
        if found is None:
            made = self._operation(name)
            found = builder.entry_operation(made, f"{self.name}_{name}", key=key)
        return Scalar(found.results[0], types.i32)


thread_idx: Final = Coordinate(
    "thread_idx",
    ThreadIdxOp,
    """Index of this thread in its block: ``.x``, ``.y``, ``.z``, each an i32, 0 ≤ value < block_dim.

    Threads with consecutive ``.x`` are adjacent in a warp.

    Example:
        ``i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x``
    """,
)

block_idx: Final = Coordinate(
    "block_idx",
    BlockIdxOp,
    """Index of this block in the grid: ``.x``, ``.y``, ``.z``, each an i32, 0 ≤ value < grid_dim.

    Example:
        ``row = weft.block_idx.y``
    """,
)

block_dim: Final = Coordinate(
    "block_dim",
    BlockDimOp,
    """Threads per block: ``.x``, ``.y``, ``.z``, each an i32 of at least 1, as the launch's ``block=``.

    Example:
        ``i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x``
    """,
)

grid_dim: Final = Coordinate(
    "grid_dim",
    GridDimOp,
    """Blocks in the grid: ``.x``, ``.y``, ``.z``, each an i32 of at least 1, as the launch's ``grid=``.

    Example:
        ``for k in range(i, n, weft.grid_dim.x * weft.block_dim.x): b[k] = a[k]``, a grid-stride loop.
    """,
)


@operation(on_host=True, in_kernels=False)
def multiprocessors(builder: Builder) -> Scalar:
    """How many multiprocessors the call's device has: an i32.

    A persistent kernel takes that many blocks, or a multiple, each of which computes several tiles. On the CPU it is
    what ``WEFT_CPU_MULTIPROCESSORS`` says, 4 by default, so that blocks compute several tiles there too.

    Example:
        ``kernel(a).launch(grid=min(len(a), 2 * weft.multiprocessors()), block=32)``
    """
    found = builder.shared_operation(MultiprocessorsOp)
    if found is None:
        found = builder.entry_operation(
            MultiprocessorsOp(), "multiprocessors", key=MultiprocessorsOp
        )
    return Scalar(found.results[0], types.i32)
