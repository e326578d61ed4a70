# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a thread, clocks, sleep, and programmatic dependent launches.

In: for ``thread_idx``, ``block_idx``, ``block_dim``, ``grid_dim`` a dimension, ``.x``, ``.y`` or ``.z``. Out: an i32,
read once per function. ``globaltimer``, ``clock64``, ``clock32``, ``sm_id`` give integers that differ from run to run;
each call reads anew and is never moved. ``grid_dependency_wait`` and ``grid_dependency_launch`` order a grid and the
next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.dialects.nvgpu.inline_ptx import NanosleepOp
from weft.dialects.nvgpu.threads import GridDependencyLaunchOp, GridDependencyWaitOp
from weft.dialects.simt.profiling import SmIdOp, TimerOp
from weft.dialects.simt.threads import (
    DIMENSIONS,
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    GridDimOp,
    MultiprocessorsOp,
    ThreadIdxOp,
)
from weft.errors import NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import expect_scalar, materialize
from weft.language.numbers.operators import binary
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


_LONGEST_SLEEP: Final = 1_000_000
_SEVERAL: Final = ("xy", "xyz")


class Coordinate(StagedNamespace):
    """One of the four coordinates of a thread, with attributes ``x``, ``y``, ``z``, and the pairs and triples of these.

    Attributes:
        name: as written after ``weft.``.
        on_host: False: a host function is not a thread.
    """

    if TYPE_CHECKING:  # the front end uses `attribute`
        x: Any
        y: Any
        z: Any
        xy: tuple[Any, Any]
        xyz: tuple[Any, Any, Any]

    def __init__(self, name: str, operation: type[CoordinateOp], text: str) -> None:
        self.name = name
        self.on_host = False
        self._operation = operation
        self.__doc__ = text

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def attribute(self, builder: Builder, name: str) -> Scalar | tuple[Scalar, ...]:
        """The coordinate in one dimension, an i32, or several, as ``.xy``; emitted once, in the entry block.

        Raises:
            NameResolutionError: for any attribute but ``x``, ``y``, ``z``, ``xy`` and ``xyz``.
        """
        if name in _SEVERAL:
            return tuple(self._one(builder, dimension) for dimension in name)
        if name in DIMENSIONS:
            return self._one(builder, name)
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"weft.{self.name} has no attribute {name!r}",
            hint=f"there are {', '.join(f'weft.{self.name}.{d}' for d in (*DIMENSIONS, *_SEVERAL))}",
        )

    def _one(self, builder: Builder, name: str) -> Scalar:
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


@operation
def grid(builder: Builder, dimensions: object = 1) -> Scalar | tuple[Scalar, ...]:
    """The index of this thread in the whole grid: ``block_idx.x * block_dim.x + thread_idx.x``, an i32.

    Args:
        dimensions: 1, or 2 or 3 for a tuple of that many indices, x first.

    Raises:
        ValueRangeError: for another number, or one known only at run time.

    Example:
        ``i = weft.grid(1); x, y = weft.grid(2)``
    """
    if type(dimensions) is not int or not 1 <= dimensions <= 3:
        raise ValueRangeError(
            "GRID_DIMENSIONS",
            f"grid: the number of dimensions is {describe(dimensions)}; expected 1, 2 or 3",
            hint="write i = weft.grid(1), or x, y = weft.grid(2); weft.grid_dim.x is the number of blocks",
        )
    indices: list[Scalar] = []
    for name in DIMENSIONS[:dimensions]:
        first = binary(
            builder, "*", block_idx.attribute(builder, name), block_dim.attribute(builder, name)
        )
        indices.append(binary(builder, "+", first, thread_idx.attribute(builder, name)))
    return indices[0] if dimensions == 1 else tuple(indices)


@operation
def nanosleep(builder: Builder, duration: object) -> None:
    """Lets this thread sleep for about `duration` nanoseconds, at most twice as many: for loops that wait for memory.

    Threads that sleep take no issue slots from others. The time is a hint: before sm_70 and on the CPU, where other
    threads run whenever a loop waits for memory, nothing sleeps.

    Args:
        duration: an integer from 0 to 1,000,000, the most that a GPU sleeps.

    Raises:
        TypeMismatchError: for a number that is not an integer of at most 32 bits.
        ValueRangeError: for a constant out of range.

    Example:
        ``while weft.atomic_load(busy, 0) == 1: weft.nanosleep(100)``
    """
    found = expect_scalar(builder, duration, "nanosleep: the duration")
    if isinstance(found, float) or (isinstance(found, Scalar) and found.dtype.is_float):
        raise TypeMismatchError(
            "NANOSLEEP_DURATION",
            f"nanosleep: the duration is {describe(duration)}; expected an integer",
            hint="it is in nanoseconds",
        )
    known = found.constant if isinstance(found, Scalar) else found
    if known is not None and not 0 <= known <= _LONGEST_SLEEP:
        raise ValueRangeError(
            "NANOSLEEP_DURATION",
            f"nanosleep: the duration is {known}; expected 0 to {_LONGEST_SLEEP} nanoseconds",
        )
    dtype = types.u32 if isinstance(found, Scalar) and found.dtype is types.u32 else types.i32
    builder.emit(NanosleepOp(materialize(builder, found, dtype).ssa))


@operation(on_host=True, in_kernels=False)
def multiprocessors(builder: Builder) -> Scalar:
    """Number of multiprocessors of the call's device: an i32.

    A persistent kernel takes that many blocks, or a multiple, and each computes several tiles. On the CPU it is
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


@operation
def grid_dependency_wait(builder: Builder) -> None:
    """Waits until the kernel before this one in the stream has ended, and sees its writes.

    A kernel launched with ``programmatic=True`` may begin earlier, as soon as every block of the one before has called
    `grid_dependency_launch` or has ended, and prepares what does not depend on it: barriers, copies of other arrays.
    **Each thread that accesses memory of the kernel before calls it first.** Where it is missing, results
    are wrong now and then on a GPU. On the CPU they are wrong each time: all blocks run up to this wait before the
    kernel before begins, where the host function launches one directly after the other and the blocks fit 256 MiB.

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
    after its `grid_dependency_wait`. On the CPU it does nothing: the next kernel begins early without it too.

    Raises:
        UnavailableError: on a GPU before sm_90.

    Example:
        ``a[weft.thread_idx.x] = 1; weft.grid_dependency_launch()``
    """
    builder.emit(GridDependencyLaunchOp())


@operation
def globaltimer(builder: Builder) -> Scalar:
    """The time in nanoseconds, on one clock for the whole device: an i64.

    On a GPU it moves in steps of 32 ns or more (1 µs on some); on the CPU it is the monotonic clock. Only differences
    are meaningful.

    Example:
        ``begin = weft.globaltimer()``
    """
    return Scalar(builder.emit(TimerOp("globaltimer")).result, types.i64)


@operation
def clock64(builder: Builder) -> Scalar:
    """Cycles of this multiprocessor's clock: an i64; only differences on one multiprocessor are meaningful.

    On the CPU it counts nanoseconds of the monotonic clock.

    Example:
        ``begin = weft.clock64(); b[i] = weft.math.sin(x); cycles = weft.clock64() - begin``
    """
    return Scalar(builder.emit(TimerOp("clock64")).result, types.i64)


@operation
def clock32(builder: Builder) -> Scalar:
    """The low 32 bits of `clock64`: a u32, so that differences below 2³² are right even if it wraps.

    Cheaper than `clock64` on a GPU.

    Example:
        ``begin = weft.clock32(); b[i] = weft.math.sin(x); cycles = weft.clock32() - begin``
    """
    return Scalar(builder.emit(TimerOp("clock32")).result, types.u32)


@operation
def sm_id(builder: Builder) -> Scalar:
    """The number of the multiprocessor that runs this thread: an i32; on the CPU, of the worker thread.

    Example:
        ``busy[weft.sm_id()] = 1``
    """
    return Scalar(builder.emit(SmIdOp()).result, types.i32)
