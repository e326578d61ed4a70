# SPDX-License-Identifier: Apache-2.0
"""`weft.PipelineState`: where a thread is in a ring of stages, for loops that fill and empty it.

In: the number of stages. Out: an index, and the parity of the barriers' phase in this round of the ring.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.errors import NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, StagedIndex, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

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
        if name in _METHODS:
            return functools.partial(_METHODS[name], self)
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"a PipelineState has no attribute {name!r}",
            hint=f"there are {', '.join((*_FACTS, *_METHODS))}",
        )


@operation(name="PipelineState")
def PipelineState(builder: Builder, stages: object, producer: object = False) -> State:
    """A place in a ring of `stages` buffers, with the parity of the barriers' phase there: the first stage.

    It is the index of an `mbarrier`, whose `wait` then knows the parity, and of shared arrays. A producer, which
    fills the buffers, starts where all are free: its first round of waits passes at once.

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


_METHODS: Final = {"next": _next, "previous": _previous}
