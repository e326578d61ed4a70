# SPDX-License-Identifier: Apache-2.0
"""`weft.mbarrier`: barriers in shared memory, where threads arrive and copies deliver bytes, and others wait.

In: how many barriers, and how many arrivals complete a phase of each. Out: an object whose items arrive, release and
wait. `weft.st_async` stores into another block of the cluster, done for those who wait for a barrier there.
`weft.PipelineState` says where a thread is in a ring of stages, for loops that fill and empty it: an index, and the
parity of the barriers' phase in this pass through the ring.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.mbarrier import (
    MOST_ARRIVALS,
    MOST_BYTES,
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.nvgpu.threads import MapSharedOp, StAsyncOp
from weft.dialects.simt.memory import SharedOp
from weft.errors import CompileError, NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.asynchronous.cluster import checked_rank
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.access import index_values
from weft.language.memory.vectors import vector_element, vector_place
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import (
    Scalar,
    SharedSequence,
    StagedIndex,
    StagedNamespace,
    Tensor,
    describe,
)
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


_WORD_BYTES: Final = 8
_METHODS: Final = "Mbarrier."
_STATES: Final = "indexed by a weft.PipelineState, it knows the parity"


@dataclass(frozen=True, eq=False)
class Mbarrier(StagedNamespace):
    """One barrier.

    Attributes:
        words: the array that it is in.
        index: in the array, an i32.
        parity: of the phase to wait for, an i32, if a `PipelineState` gave it.
    """

    words: Tensor
    index: Scalar
    parity: Scalar | None

    on_host = False

    def __repr__(self) -> str:
        return f"a barrier of '{self.words.name}'"

    def attribute(self, builder: Builder, name: str) -> object:
        """A method, which is called with the barrier first.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        del builder
        if f"{_METHODS}{name}" in LANGUAGE:
            return functools.partial(resolve(f"{_METHODS}{name}"), self)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        methods = [row.removeprefix(_METHODS) for row in LANGUAGE if row.startswith(_METHODS)]
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{self!r} has no attribute {name!r}",
            hint=f"there are {', '.join(methods)}",
        )


@dataclass(frozen=True, eq=False)
class Mbarriers(SharedSequence):
    """The barriers of one `weft.mbarrier`.

    Attributes:
        array: of their words, one for each.
    """

    array: Tensor

    on_host = False

    def __repr__(self) -> str:
        return f"the mbarriers '{self.array.name}'"

    @property
    def count(self) -> int:
        """Number of barriers."""
        return self.array.type.dims[0]

    def attribute(self, builder: Builder, name: str) -> object:
        """Raises NameResolutionError: the methods are those of an item."""
        del builder
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{self!r} have no attribute {name!r}",
            hint=f"write {self.array.name}[i].{name}, of one of them",
        )

    def item(self, builder: Builder, index: object) -> Mbarrier:
        """``barriers[index]``, by a number or a `PipelineState`.

        Raises:
            TypeMismatchError: for any other index.
            ValueRangeError: for a constant that there is no barrier of, or a state of a ring of another length.
        """
        if isinstance(index, StagedIndex):
            stages = cast("int", index.attribute(builder, "stages"))
            if stages > self.count:
                raise ValueRangeError(
                    "MBARRIER_INDEX",
                    f"{self!r} are {self.count}, indexed by a PipelineState of {stages} stages",
                )
            parity = cast("Scalar", index.attribute(builder, "parity"))
            return Mbarrier(self.array, index.index, parity)
        return Mbarrier(self.array, self._number(builder, index), None)

    def _number(self, builder: Builder, index: object) -> Scalar:
        found = expect_scalar(builder, index, f"{self.array.name}[...]: the index")
        known = found.constant if isinstance(found, Scalar) else found
        if isinstance(found, Scalar) and known is None and found.dtype.is_integer:
            return convert(builder, found, types.i32)
        if not isinstance(known, int) or isinstance(known, bool):
            raise TypeMismatchError(
                "MBARRIER_INDEX",
                f"{self!r} are indexed by an integer or a weft.PipelineState, received {describe(index)}",
            )
        if not 0 <= known < self.count:
            raise ValueRangeError(
                "MBARRIER_INDEX", f"{self!r} are {self.count}; there is no number {known}"
            )
        return Scalar(builder.constant(i32, known), types.i32)


@operation
def mbarrier(builder: Builder, count: object = 1, *, arrivals: object = 1) -> Mbarriers:
    """`count` barriers in shared memory, at which some threads arrive and others wait, and copies deliver bytes.

    A barrier goes through phases, of parities 0, 1, 0 and so on. A phase is complete when `arrivals` threads have
    arrived and all bytes that they expected have come; then the next one begins. `Mbarrier.wait` waits for a phase by
    its
    parity: for the barrier not to be in that phase any more. So the wait for parity 1 passes at once in the
    beginning.

    An item is indexed by a number, ``full[0].wait(0)``, or by a `PipelineState`, which knows the parity:
    ``full[state].wait()``. Its methods are `Mbarrier.arrive`, `Mbarrier.release`, `Mbarrier.wait` and
    `Mbarrier.try_wait`.

    It stands at the top level of a kernel, before any return: the block initializes all its barriers at once and
    meets, where the first is made; with clusters, the whole cluster meets. Needs sm_90 or later. On the CPU, a wait
    that nothing ends is an error, which names the barrier, its phase, and where all threads are.

    Args:
        count: how many, a constant.
        arrivals: of a phase, a constant. A copy that reports to the barrier does not arrive: the thread that starts it
        arrives
            with the bytes that it expects.

    Raises:
        TypeMismatchError: for arguments that are not constants.
        ValueRangeError: for less than 1, or more than 1048575 arrivals.
        CompileError: inside a branch or loop.

    Example:
        ``full = weft.mbarrier(4, arrivals=32); full[0].arrive(); full[0].wait(0)``
    """
    number = _constant(count, "count", MOST_ARRIVALS)
    needed = _constant(arrivals, "arrivals", MOST_ARRIVALS)
    if builder.block is not builder.entry:
        raise CompileError(
            "MBARRIER_PLACE",
            "mbarrier: every thread makes the barriers, but this is inside a branch or loop, or after a return",
            hint="move it to the kernel's beginning",
        )
    kind = ir_tensor_type(
        types.u64, (number,), space="shared", offset_bits=32, alignment_bytes=_WORD_BYTES
    )
    words = builder.entry_operation(SharedOp(kind), "mbarrier").result
    _initialize(builder, words, needed)
    return Mbarriers(Tensor(words, types.u64, "mbarrier"))


def _constant(value: object, name: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeMismatchError(
            "MBARRIER_COUNT", f"mbarrier: {name} is {describe(value)}; expected a constant integer"
        )
    if not 1 <= value <= most:
        raise ValueRangeError(
            "MBARRIER_COUNT", f"mbarrier: {name} is {value}; expected 1 to {most}"
        )
    return value


def _initialize(builder: Builder, words: SSAValue, arrivals: int) -> None:
    """One operation initializes all barriers of the kernel, where the first ones are made."""
    found = next((op for op in builder.entry.ops if isinstance(op, MbarrierInitOp)), None)
    if found is None:
        builder.emit(MbarrierInitOp([words], [arrivals]))
        return
    whole = MbarrierInitOp([*found.words, words], [*found.counts, arrivals])
    whole.location = found.location
    builder.entry.insert_op_before(whole, found)
    found.detach()
    found.erase()


@operation(name="Mbarrier.arrive")
def arrive(builder: Builder, barrier: Mbarrier, expect_bytes: object = 0) -> None:
    """Arrives at a barrier: what this thread wrote to memory before is seen by those who wait for the phase.

    Args:
        barrier: any; ``full[state].arrive()`` passes it.
        expect_bytes: that copies will deliver in this phase, which is not complete before; an integer of less than
        2**20.
            Copies may be started before or after.

    Raises:
        TypeMismatchError: for a number of bytes that is not an integer.
        ValueRangeError: for a constant beyond.

    Example:
        ``full = weft.mbarrier(1, arrivals=32); full[0].arrive(); full[0].wait(0)``
    """
    found = expect_scalar(builder, expect_bytes, "arrive: expect_bytes")
    known = found.constant if isinstance(found, Scalar) else found
    size: SSAValue | None = None
    if isinstance(found, Scalar) and known is None and found.dtype.is_integer:
        size = convert(builder, found, types.i32).ssa
    elif not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "MBARRIER_BYTES",
            f"arrive: expect_bytes is {describe(expect_bytes)}; expected an integer",
        )
    elif not 0 <= known <= MOST_BYTES:
        raise ValueRangeError(
            "MBARRIER_BYTES",
            f"arrive: expect_bytes is {known}; a phase expects 0 to {MOST_BYTES} bytes",
        )
    elif known:
        size = builder.constant(i32, known)
    builder.emit(MbarrierArriveOp(barrier.words.ssa, barrier.index.ssa, size))


@operation(name="Mbarrier.release")
def release(builder: Builder, barrier: Mbarrier, ranks: object = None) -> None:
    """Arrives once for the 32 threads of a warp, after `sync_warp`: all have read the buffer that the barrier frees.

    All threads of the warp call it together, so the barrier's `arrivals` count warps.

    Args:
        barrier: any; ``empty[state].release()`` passes it.
        ranks: a rank or a tuple of ranks in the cluster, constants or not: arrives at this barrier of each of these
            blocks, instead of its own. None of them may have returned; see `map_shared`. Those who wait there also see
            the warp's writes to shared memory by `map_shared`.

    Raises:
        TypeMismatchError, ValueRangeError: for ranks, as `map_shared`.

    Example:
        ``empty = weft.mbarrier(4, arrivals=1); empty[0].release(); empty[0].wait(0)``
    """
    several = isinstance(ranks, tuple | list | range)
    listed = cast("Iterable[object]", ranks) if several else (ranks,)
    blocks = [checked_rank(builder, rank, "release") for rank in listed if rank is not None]
    builder.emit(MbarrierReleaseOp(barrier.words.ssa, barrier.index.ssa, blocks))


@operation(name="Mbarrier.wait")
def wait(builder: Builder, barrier: Mbarrier, parity: object = None) -> None:
    """Waits until the phase of this parity is complete.

    It then sees earlier writes to memory by all threads that arrived, and the copied elements.

    Args:
        barrier: any; ``full[state].wait()`` passes it.
        parity: 0 or 1; of an integer known at run time the lowest bit. Omitted if the barrier was indexed by a
            `PipelineState`.

    Raises:
        TypeMismatchError: without a parity, or with two.
        ValueRangeError: for another constant.

    Example:
        ``full = weft.mbarrier(1, arrivals=32); full[0].arrive(); full[0].wait(0)``
    """
    number = _parity(builder, barrier, parity, "wait")
    builder.emit(MbarrierWaitOp(barrier.words.ssa, barrier.index.ssa, number))


@operation(name="Mbarrier.try_wait")
def try_wait(builder: Builder, barrier: Mbarrier, parity: object = None) -> Scalar:
    """Whether the phase of this parity is complete: a ``bool_``, after a short time at most.

    Where it is true, the thread sees what `Mbarrier.wait` would show it.

    Args:
        barrier: as there.
        parity: as there.

    Raises:
        TypeMismatchError, ValueRangeError: as there.

    Example:
        ``full = weft.mbarrier(1, arrivals=32); full[0].arrive(); is_complete = full[0].try_wait(0)``
    """
    number = _parity(builder, barrier, parity, "try_wait")
    made = MbarrierTryWaitOp(barrier.words.ssa, barrier.index.ssa, number)
    return Scalar(builder.emit(made).result, types.bool_)


def _parity(builder: Builder, barrier: Mbarrier, parity: object, name: str) -> SSAValue:
    place = f"{barrier.words.name}[...]"
    if barrier.parity is not None:
        if parity is not None:
            raise TypeMismatchError(
                "MBARRIER_PARITY", f"{place}.{name}: {_STATES}", hint=f"write {place}.{name}()"
            )
        return barrier.parity.ssa
    if parity is None:
        raise TypeMismatchError(
            "MBARRIER_PARITY",
            f"{place}.{name}: the parity of the phase is missing",
            hint=f"write {place}.{name}(0); {_STATES}",
        )
    found = expect_scalar(builder, parity, f"{name}: the parity")
    known = found.constant if isinstance(found, Scalar) else found
    if isinstance(found, Scalar) and known is None and found.dtype.is_integer:
        number = convert(builder, found, types.i32).ssa
        return builder.compute(arith.AndIOp, number, builder.constant(i32, 1))
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "MBARRIER_PARITY", f"{name}: the parity is {describe(parity)}; expected 0 or 1"
        )
    if known not in (0, 1):
        raise ValueRangeError("MBARRIER_PARITY", f"{name}: the parity is {known}; expected 0 or 1")
    return builder.constant(i32, known)


_FACTS: Final = ("index", "parity", "stages")


@dataclass(frozen=True, eq=False)
class State(StagedIndex):
    """A place in a ring; a container of two numbers, which loops carry.

    Attributes:
        index: of the stage, an i32.
        parity: of the phase to wait for there, an i32, 0 or 1.
        stages: of the ring.
    """

    index: Scalar
    parity: Scalar
    stages: int

    on_host = False

    def __repr__(self) -> str:
        return f"PipelineState({self.stages})"

    def attribute(self, builder: Builder, name: str) -> object:
        """Its numbers and methods.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        del builder
        if name in _FACTS:
            return getattr(self, name)
        if name in _STATE_METHODS:
            return functools.partial(_STATE_METHODS[name], self)
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"a PipelineState has no attribute {name!r}",
            hint=f"there are {', '.join((*_FACTS, *_STATE_METHODS))}",
        )


@operation(name="PipelineState")
def PipelineState(builder: Builder, stages: object, producer: object = False) -> State:
    """A place in a ring of `stages` buffers, with the parity of the barriers' phase there: the first stage.

    It is the index of an `mbarrier`, whose `wait` then knows the parity, and of shared arrays. A producer, which
    fills the buffers, starts where all are free: the waits of its first pass return at once.

    ``state.next(count=1)`` is the state `count` stages further, ``state.previous(count=1)`` that before: a count is an
    integer, not negative. ``state.index`` and ``state.parity`` are i32, ``state.stages`` is the constant. Loops carry
    it.

    Args:
        stages: of the ring, a constant of at least 1.
        producer: whether it waits for buffers to be free, not for them to be full; a constant.

    Raises:
        TypeMismatchError: for arguments that are not constants.
        ValueRangeError: for fewer than 1 stages.

    Example:
        ``state = weft.PipelineState(4, producer=True); state = state.next()``
    """
    if not isinstance(stages, int) or isinstance(stages, bool):
        raise TypeMismatchError(
            "PIPELINE_STAGES",
            f"PipelineState: the number of stages is {describe(stages)}; expected a constant integer",
        )
    if stages < 1:
        raise ValueRangeError("PIPELINE_STAGES", f"PipelineState: a ring of {stages} stages")
    if not isinstance(producer, bool):
        raise TypeMismatchError(
            "PIPELINE_PRODUCER",
            f"PipelineState: producer is {describe(producer)}; expected True or False",
        )
    numbers = (builder.constant(i32, number) for number in (0, int(producer)))
    index, parity = (Scalar(number, types.i32) for number in numbers)
    return State(index, parity, stages)


def _moved(builder: Builder, state: State, count: object, name: str) -> State:
    """The place `count` stages further or before.

    Raises:
        TypeMismatchError: for a count that is not an integer.
        ValueRangeError: for a negative constant.
    """
    found = expect_scalar(builder, count, f"{name}: the count")
    known = found.constant if isinstance(found, Scalar) else found
    if isinstance(found, Scalar) and known is None and found.dtype.is_integer:
        stages = builder.constant(i32, state.stages)
        total = convert(builder, found, types.i32).ssa
        laps = builder.compute(arith.DivUIOp, total, stages)
        rest = builder.compute(arith.RemUIOp, total, stages)
    elif isinstance(known, int) and not isinstance(known, bool):
        if known < 0:
            raise ValueRangeError(
                "PIPELINE_COUNT",
                f"{name}: {known} stages",
                hint="next goes forward, previous back",
            )
        whole, part = divmod(known, state.stages)
        laps, rest = builder.constant(i32, whole & 1), builder.constant(i32, part)
    else:
        raise TypeMismatchError(
            "PIPELINE_COUNT", f"{name}: the count is {describe(count)}; expected an integer"
        )
    index, wraps = _stepped(builder, state, rest, forward=name == "next")
    parity = builder.compute(arith.XOrIOp, state.parity.ssa, wraps)
    if known is None or (isinstance(known, int) and known // state.stages % 2):
        odd = builder.compute(arith.AndIOp, laps, builder.constant(i32, 1))
        parity = builder.compute(arith.XOrIOp, parity, odd)
    return State(Scalar(index, types.i32), Scalar(parity, types.i32), state.stages)


def _stepped(
    builder: Builder, state: State, rest: SSAValue, *, forward: bool
) -> tuple[SSAValue, SSAValue]:
    """The index less than an iteration further or before, and 1 if the ring begins anew in between, else 0."""
    stages = builder.constant(i32, state.stages)
    if forward:
        moved = builder.emit(arith.AddiOp(state.index.ssa, rest)).result
        back = builder.emit(arith.SubiOp(moved, stages)).result
        wraps = builder.emit(arith.CmpiOp(moved, stages, "sge")).result
    else:
        moved = builder.emit(arith.SubiOp(state.index.ssa, rest)).result
        back = builder.emit(arith.AddiOp(moved, stages)).result
        wraps = builder.emit(arith.CmpiOp(moved, builder.constant(i32, 0), "slt")).result
    index = builder.emit(arith.SelectOp(wraps, back, moved)).result
    return index, builder.compute(arith.ExtUIOp, wraps, to=i32)


@operation(name="PipelineState.next")
def _next(builder: Builder, state: State, count: object = 1) -> State:
    return _moved(builder, state, count, "next")


@operation(name="PipelineState.previous")
def _previous(builder: Builder, state: State, count: object = 1) -> State:
    return _moved(builder, state, count, "previous")


_STATE_METHODS: Final = {"next": _next, "previous": _previous}


_SIZES: Final = (4, 8, 16)


@operation
def st_async(
    builder: Builder, array: object, index: object, value: object, barrier: object, rank: object
) -> None:
    """Writes adjacent elements of this array in another block asynchronously; the bytes come to the barrier there.

    Who waits for that block's barrier sees them: neither side needs a `sync_cluster` for it. One of its threads has
    arrived with ``expect_bytes=`` of all that come in the phase. On the CPU the write is done when a thread waits for
    the barrier, so that a missing wait shows, and a block that ends with one in flight is an error.

    Args:
        array: in shared memory, of this block; the one at the same place in the other is written.
        index: of the element: an integer, or a tuple with one per dimension. For several adjacent ones, a multiple
            of their number, as for `store_vector`.
        value: a number, or a tuple for adjacent elements along the last dimension: 4, 8 or 16 bytes.
        barrier: of `mbarrier`: ``full[0]``, which stands for the other block's.
        rank: of the other block in the cluster, or of this one; as for `map_shared`.

    Raises:
        TypeMismatchError: for an array that is not in shared memory, an object other than a barrier, or as
        `store_vector` and
            `map_shared`.
        ValueRangeError: for another number of bytes, or as these.

    Example:
        ``full[0].arrive(expect_bytes=4); weft.st_async(tile, tid, 1.0, full[0], other); full[0].wait(0)``
    """
    if not isinstance(array, Tensor) or array.type.space.data != "shared":
        where = f"a tensor in {array.type.space.data} memory" if isinstance(array, Tensor) else ""
        raise TypeMismatchError(
            "ST_ASYNC",
            f"st_async: expected an array in shared memory, received {where or describe(array)}",
            hint="give the block's own array; rank says whose is written",
        )
    if not isinstance(barrier, Mbarrier):
        raise TypeMismatchError(
            "ST_ASYNC",
            f"st_async: the barrier is {describe(barrier)}; expected one of weft.mbarrier, such as full[0]",
        )
    items = cast("tuple[object, ...]", value if isinstance(value, tuple | list) else (value,))
    size = len(items) * array.dtype.itemsize
    if size not in _SIZES:
        raise ValueRangeError(
            "ST_ASYNC",
            f"st_async: {len(items)} {array.dtype} take {size} bytes; expected 4, 8 or 16",
            hint="write several adjacent elements at once, as a tuple" if size < _SIZES[0] else "",
        )
    block = checked_rank(builder, rank, "st_async")
    if len(items) == 1:
        places = index_values(builder, array, index)
    else:
        _, places, _ = vector_place(builder, "st_async", array, index, len(items))
    elements = [vector_element(builder, "st_async", array, *item) for item in enumerate(items)]
    there, words = (
        builder.emit(MapSharedOp(own.ssa, block)).result for own in (array, barrier.words)
    )
    builder.emit(StAsyncOp(elements, there, places, words, barrier.index.ssa))
