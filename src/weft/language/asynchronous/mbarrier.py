# SPDX-License-Identifier: Apache-2.0
"""`weft.mbarrier`: barriers in shared memory, where threads arrive and copies deliver bytes, and others wait.

In: how many barriers, and how many arrivals complete a phase of each. Out: an object whose items arrive, release and
wait.
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
from weft.dialects.simt.memory import SharedOp
from weft.errors import (
    CompileError,
    NameResolutionError,
    TypeMismatchError,
    ValueRangeError,
)
from weft.language import LANGUAGE, resolve
from weft.language.asynchronous.cluster import checked_rank
from weft.language.ir_types import ir_tensor_type
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
        """How many there are."""
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
    """Arrives once for the 32 threads of a warp, after `sync_warp`: all of them have read what the barrier frees.

    All threads of the warp call it together, so the barrier's `arrivals` count warps.

    Args:
        barrier: any; ``empty[state].release()`` passes it.
        ranks: a rank or a tuple of ranks in the cluster, constants or not: arrives at this barrier of each of these
            blocks, instead of its own. None of them may have returned; see `map_shared`. Those who wait there also see
            what the warp wrote to shared memory by `map_shared`.

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

    It then sees what all threads that arrived wrote to memory before, and what the copies brought.

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
