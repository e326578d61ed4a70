# SPDX-License-Identifier: Apache-2.0
"""Independent iterations, distributed over the whole grid: ``weft.each``.

In: an extent, or a tuple of them. Out: `Iterations`, which the front end makes a `simt.each`; checks of where it stands
and of its body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation
from xdsl.traits import MemoryWriteEffect

from weft.dialects.builder import source_location
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import origins, sources, walk
from weft.dialects.simt.atomics import AtomicLoadOp
from weft.dialects.simt.memory import LoadOp, StoreOp, StoreVectorOp
from weft.dialects.simt.profiling import MarkOp
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    BlockIdxOp,
    EachOp,
    GridBarrierOp,
    ThreadIdxOp,
)
from weft.dialects.simt.types import TensorType
from weft.errors import CompileError, TypeMismatchError
from weft.language.control import range_dtype
from weft.language.numbers.convert import expect_scalar
from weft.language.operation import operation
from weft.language.values import RunTimeIterable, Scalar, Tensor, describe, item_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


class Iterations(RunTimeIterable):
    """The iterations of ``weft.each``, for a `for` alone.

    Attributes:
        extents: a `Scalar` or a Python int per dimension.
        is_tuple: whether an iteration's index is a tuple.
    """

    __slots__ = ("extents", "is_tuple")

    def __init__(self, extents: Sequence[Scalar | int], *, is_tuple: bool) -> None:
        self.extents = extents
        self.is_tuple = is_tuple

    def __repr__(self) -> str:
        parts = ", ".join(map(item_text, self.extents))
        return f"weft.each(({parts}))" if self.is_tuple else f"weft.each({parts})"

    @property
    def dtypes(self) -> list[DType]:
        """The type of each index: i32, or i64 where the extent is."""
        return [range_dtype(extent) for extent in self.extents]


@operation
def each(builder: Builder, extent: object) -> Iterations:
    """Iterations that are independent of each other, for a `for`: the compiler distributes them over the whole grid.

    It chooses how many a thread runs, which, and how wide their loads and stores are, so that a kernel of a few lines
    reaches the memory's speed; on the CPU it is a loop that vectorizes. Every iteration runs once, whatever the grid;
    ``kernel(...).launch(over=n)`` picks one that suits `n` iterations.

    The promise: no iteration reads what another writes, and no two write the same element, except by atomics. The
    iterations'
    order is not defined, nor is the result of a broken promise: overlapping views of one tensor may break it, the same
    tensor read and written at the same index does not. ``--sanitize=races`` finds it.

    All threads of the grid must reach the loop. Inside, a thread has no identity, so indices of threads and blocks,
    barriers, warp operations, a profiler's marks, and stores to shared memory or to arrays made outside are errors, as
    are `break`, `return` and variables that an iteration leaves for the next. Arrays accessed at the iteration's index
    must be at least as long as the extents: an assertion, which is checked on the CPU, and on a GPU with
    ``--enable-assertions``.

    Args:
        extent: number of iterations, an integer: the index goes from 0 up to it. Or a tuple of extents, such as a
            tensor's shape: the index is a tuple, whose last item changes fastest. A negative extent is 0.

    Raises:
        TypeMismatchError: for anything else, u64 included.

    Example:
        ``for i in weft.each(n): b[i] = a[i] + 1.0`` or ``for i, j in weft.each(a.shape): b[i, j] = a[i, j] * x[j]``
    """
    if isinstance(extent, Tensor):
        text, hint = describe(extent), f"write weft.each({extent.name}.shape)"
        raise _not_an_extent(text, hint)
    is_tuple = isinstance(extent, tuple)
    items = cast("tuple[object, ...]", extent) if isinstance(extent, tuple) else (extent,)
    if not items:
        raise _not_an_extent(
            "()", "a tensor of rank 0 has one element: write a[()], without a loop"
        )
    return Iterations([_extent(builder, item) for item in items], is_tuple=is_tuple)


def _extent(builder: Builder, item: object) -> Scalar | int:
    part = expect_scalar(builder, item, "each: the extent")
    if isinstance(part, Scalar):
        if part.dtype.is_integer and part.dtype is not types.u64:
            return part
        cure = "weft.i64(n)" if part.dtype is types.u64 else "weft.i32(x)"
        raise _not_an_extent(describe(part), f"convert it, such as {cure}")
    if isinstance(part, float) or not types.i64.minimum <= part <= types.i64.maximum:
        raise _not_an_extent(describe(part), "count in integers of at most 64 bits")
    return int(part)


def _not_an_extent(received: str, hint: str) -> TypeMismatchError:
    return TypeMismatchError(
        "EACH_EXTENT",
        f"each: expected a number of iterations or a tuple of them, received {received}",
        hint=hint,
    )


def check_iterations(kernel: Operation) -> bool:
    """Whether a traced kernel has iterations.

    Raises:
        CompileError: if not every thread may reach them, or if the body depends on the thread that runs it.
    """
    found = [op for op in walk(kernel) if isinstance(op, EachOp)]
    for loop in found:
        _check_place(loop)
        for inner in walk(loop):
            if inner is not loop:
                _check_inside(loop, inner)
    return bool(found)


def _check_place(loop: EachOp) -> None:
    """Every thread of the grid arrives, as often as the others, and with the same extents."""
    if any(_is_of_thread(extent) for extent in loop.extents):
        raise _misplaced(loop, "its number of iterations differs from thread to thread")
    inner: Operation = loop
    while (outer := inner.parent_op()) is not None and outer.parent_op() is not None:
        controls = list(outer.operands)
        if isinstance(outer, scf.WhileOp):
            condition = outer.before_region.block.last_op
            controls += condition.operands[:1] if condition is not None else ()
        if not isinstance(outer, EachOp) and any(map(_is_of_thread, controls)):
            raise _misplaced(loop, "the condition or loop around it differs from thread to thread")
        inner = outer


def _misplaced(loop: EachOp, why: str) -> CompileError:
    return CompileError(
        "EACH_DIVERGES",
        f"weft.each must be reached by every thread of the grid in the same way, but {why}",
        hint="move it out of the branch; inside the loop, an if may skip an iteration",
        location=source_location(loop.location),
    )


def _check_inside(loop: EachOp, inner: Operation) -> None:
    text, hint = "", "write a second kernel, or a loop over range with the thread's own index"
    if isinstance(inner, EachOp):
        text, hint = "weft.each stands inside another", "write weft.each((m, n)), or a range inside"
    elif isinstance(inner, BarrierOp | BarrierReduceOp | GridBarrierOp):
        text = "a barrier stands inside weft.each, whose iterations are independent"
    elif inner.has_trait(DependsOnWarps):
        text = "an operation of a warp stands inside weft.each, whose iterations belong to no lane"
    elif isinstance(inner, MarkOp):
        text = "a profiler's mark stands inside weft.each, whose iterations alternate and belong to no thread"
        hint = "mark before and after the loop, as in `with p.range(event):` around it"
    elif isinstance(inner, scf.WhileOp) and _only_waits(inner):
        text = "a loop inside weft.each waits for another thread, but all iterations may run in one thread"
        hint = "write a second launch, which begins when this one has ended"
    elif any(map(_is_of_thread, inner.operands)):
        text = "the index of a thread or block is used inside weft.each, whose iterations may run in any thread"
        hint = "compute with the loop's own index"
    elif isinstance(inner, StoreOp | StoreVectorOp) and not _may_store(loop, inner.tensor):
        text = "weft.each stores to an array of the block or thread, which other iterations use too"
        hint = "make a weft.local array inside the loop, or use atomics"
    if text:
        raise CompileError("EACH_INSIDE", text, hint=hint, location=source_location(inner.location))


def _only_waits(loop: scf.WhileOp) -> bool:
    """Whether only what others write can end a loop: it reads memory, writes none, and carries flags at most."""
    inside = [op for op in walk(loop) if op is not loop]
    return (
        all(value.type == i1 for value in loop.arguments)
        and any(isinstance(op, LoadOp | AtomicLoadOp) for op in inside)
        and not any(op.has_trait(MemoryWriteEffect) for op in inside)
    )


def _may_store(loop: EachOp, tensor: SSAValue) -> bool:
    """Whether an array is in global memory, or a thread's that is used inside the loop alone."""
    for array in origins(tensor):
        kind = array.type
        space = kind.space.data if isinstance(kind, TensorType) else "global"
        own = space == "local" and all(loop.is_ancestor(use.operation) for use in array.uses)
        if space != "global" and not own:
            return False
    return True


def _is_of_thread(value: SSAValue) -> bool:
    """Whether a value may differ between threads, as far as it is computed from where they are."""
    seen, waiting = {value}, [value]
    while waiting:
        one = waiting.pop()
        owner = one.owner
        if isinstance(owner, ThreadIdxOp | BlockIdxOp) or (
            isinstance(owner, Operation) and owner.has_trait(DependsOnWarps)
        ):
            return True
        following = [source for source in sources(one) if source not in seen]
        waiting += following
        seen.update(following)
    return False
