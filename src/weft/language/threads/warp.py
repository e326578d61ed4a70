# SPDX-License-Identifier: Apache-2.0
"""Warp collectives: shuffles, votes, matches, reductions; a thread's lane and warp; warpgroups of 128 threads.

In: a value per lane, and a mask of the lanes that take part, all of which call it with that mask. Out: the combined
value. In: a group, ``weft.warp`` or ``weft.warpgroup``. Out: its number in the block; whether this thread acts for it
(``elect_one``). ``setmaxnreg`` moves registers between warpgroups of different work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.threads import (
    REGISTER_COUNTS,
    ElectOneOp,
    SetmaxnregOp,
    WarpgroupBarrierOp,
    WarpgroupIdOp,
)
from weft.dialects.simt.threads import LaneIdOp, MatchOp, ShuffleOp, VoteOp, WarpIdOp, WarpReduceOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import integer_type
from weft.language.numbers.complex import join, parts
from weft.language.numbers.convert import (
    arithmetic_dtype,
    constant,
    convert,
    default_dtype,
    expect_scalar,
    truth,
)
from weft.language.operation import operation
from weft.language.threads.barrier import FULL_MASK, lane_mask
from weft.language.values import Scalar, describe
from weft.types import dtype as types
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


_BITWISE: Final = ("and", "or", "xor")


@operation
def lane_id(builder: Builder) -> Scalar:
    """This thread's lane in its warp: an i32, 0 to 31.

    Threads of a block are numbered with ``thread_idx.x`` first, then ``.y``, then ``.z``; 32 in a row are a
    warp. The last warp of a block may have fewer lanes.

    Example:
        ``if weft.lane_id() == 0: weft.atomic_add(totals, 0, total)``
    """
    return position(builder, LaneIdOp, "lane")


@operation
def warp_id(builder: Builder) -> Scalar:
    """This thread's warp in its block: an i32, from 0.

    Example:
        ``if weft.lane_id() == 0: totals[weft.warp_id()] = total``
    """
    return position(builder, WarpIdOp, "warp")


def position(
    builder: Builder, kind: type[LaneIdOp | WarpIdOp | WarpgroupIdOp], name: str
) -> Scalar:
    """Index of a thread, an i32; emitted once, in the entry block."""
    found = builder.shared_operation(kind)
    if found is None:
        found = builder.entry_operation(kind(), name, key=kind)
    return Scalar(found.results[0], types.i32)


@operation(takes_complex=True)
def shfl_up(
    builder: Builder, value: object, delta: object, mask: object = FULL_MASK, width: object = 32
) -> Scalar:
    """The value of the lane `delta` lanes before this one; its own if its group has no such lane.

    Every lane of `mask` calls it with the same mask. The lane read must be one of them: otherwise the result is
    undefined on a GPU, and the lane's own value on the CPU.

    Args:
        value: a number of any type.
        delta: an integer, taken modulo 32.
        mask: the lanes that take part, one bit each: a constant, a u32 or an i32.
        width: lanes of a group, a power of two known at compile time, 1 to 32; a warp is cut into groups.

    Raises:
        TypeMismatchError: for a non-number, a non-integer distance, or a width that is not constant.
        ValueRangeError: for a constant distance or mask out of range, or a width that is not a power of two.

    Example:
        ``left = weft.shfl_up(x, 1)``
    """
    return _shuffled(builder, "up", value, delta, mask, width)


@operation(takes_complex=True)
def shfl_down(
    builder: Builder, value: object, delta: object, mask: object = FULL_MASK, width: object = 32
) -> Scalar:
    """The value of the lane `delta` lanes after this one; its own if its group has no such lane.

    Arguments and errors as in `shfl_up`.

    Example:
        ``for step in weft.static_range(5): total += weft.shfl_down(total, 16 >> step)``
    """
    return _shuffled(builder, "down", value, delta, mask, width)


@operation(takes_complex=True)
def shfl_xor(
    builder: Builder, value: object, lanes: object, mask: object = FULL_MASK, width: object = 32
) -> Scalar:
    """The value of lane ``lane_id() ^ lanes``; its own if that lies past its group.

    Lanes before the group can be read. Other arguments and errors as in `shfl_up`.

    Args:
        value: a number of any type.
        lanes: the bits to flip, taken modulo 32.
        mask: as in `shfl_up`.
        width: as in `shfl_up`.

    Example:
        ``partner = weft.shfl_xor(key, 1)``
    """
    return _shuffled(builder, "xor", value, lanes, mask, width)


@operation(takes_complex=True)
def shfl_idx(
    builder: Builder, value: object, lane: object, mask: object = FULL_MASK, width: object = 32
) -> Scalar:
    """The value of a lane given by its number in the group, counted modulo `width`.

    Other arguments and errors as in `shfl_up`.

    Args:
        value: a number of any type.
        lane: an integer, 0 to 31.
        mask: as in `shfl_up`.
        width: as in `shfl_up`.

    Example:
        ``first = weft.shfl_idx(x, 0)``
    """
    return _shuffled(builder, "idx", value, lane, mask, width)


def _shuffled(
    builder: Builder, kind: str, value: object, lane: object, mask: object, width: object
) -> Scalar:
    name = f"shfl_{kind}"
    passed = _number(builder, value, f"{name}: the value")
    other = _lane(builder, lane, name)
    if not isinstance(width, int) or isinstance(width, bool):
        raise TypeMismatchError(
            "WARP_WIDTH",
            f"{name}: the width must be known at compile time, received {describe(width)}",
            hint="use a literal, a global or a weft.Constexpr[int] parameter",
        )
    if not 1 <= width <= WARP_SIZE or width & (width - 1):
        raise ValueRangeError(
            "WARP_WIDTH", f"{name}: the width is {width}; expected 1, 2, 4, 8, 16 or 32"
        )
    lanes = lane_mask(builder, mask, name)
    if passed.dtype.is_complex:
        exchanged = [
            Scalar(
                builder.emit(ShuffleOp(kind, lanes, part.ssa, other.ssa, width)).result, part.dtype
            )
            for part in parts(builder, passed)
        ]
        return join(builder, exchanged[0], exchanged[1])
    made = builder.emit(ShuffleOp(kind, lanes, passed.ssa, other.ssa, width))
    return Scalar(made.result, passed.dtype)


def _lane(builder: Builder, lane: object, name: str) -> Scalar:
    found = expect_scalar(builder, lane, f"{name}: the lane")
    dtype = found.dtype if isinstance(found, Scalar) else default_dtype(found)
    if not dtype.is_integer:
        raise TypeMismatchError(
            "WARP_LANE", f"{name}: the lane is {describe(found)}; expected an integer"
        )
    known = found.constant if isinstance(found, Scalar) else found
    if known is not None and not 0 <= known < WARP_SIZE:
        raise ValueRangeError("WARP_LANE", f"{name}: the lane is {known}; expected 0 to 31")
    return convert(builder, found, types.i32)


@operation
def ballot(builder: Builder, predicate: object, mask: object = FULL_MASK) -> Scalar:
    """The lanes of `mask` whose predicate is true, one bit each: a u32, the same for all of them.

    Every lane of `mask` calls it with the same mask; lanes that have returned, or do not exist, give 0.

    Args:
        predicate: a number; any value but 0 is true.
        mask: the lanes that take part, one bit each: a constant, a u32 or an i32.

    Raises:
        TypeMismatchError: if the value is not a number, or the mask is not a u32.
        ValueRangeError: for a constant mask without lanes, or beyond 32 bits.

    Example:
        ``rank = weft.math.popcount(weft.ballot(keep) & ((1 << weft.lane_id()) - 1))``
    """
    return _voted(builder, "ballot", predicate, mask)


@operation(name="warp.any")
def any(builder: Builder, predicate: object, mask: object = FULL_MASK) -> Scalar:
    """Whether any lane of `mask` has a true predicate: a ``bool_``, the same for all of them.

    Not Python's ``any``, which folds a tuple of values of one thread. Arguments and errors as in `ballot`.

    Example:
        ``if weft.warp.any(x < 0): b[i] = 0``
    """
    return _voted(builder, "any", predicate, mask)


@operation(name="warp.all")
def all(builder: Builder, predicate: object, mask: object = FULL_MASK) -> Scalar:
    """Whether all lanes of `mask` have a true predicate: a ``bool_``, the same for all of them.

    Not Python's ``all``, which folds a tuple of values of one thread. Arguments and errors as in `ballot`.

    Example:
        ``converged = weft.warp.all(abs(step) < 1e-6)``
    """
    return _voted(builder, "all", predicate, mask)


def _voted(builder: Builder, kind: str, predicate: object, mask: object) -> Scalar:
    name = kind if kind == "ballot" else f"warp.{kind}"
    holds = truth(builder, expect_scalar(builder, predicate, f"{name}: the predicate"))
    made = builder.emit(VoteOp(kind, lane_mask(builder, mask, name), holds.ssa))
    return Scalar(made.result, types.u32 if kind == "ballot" else types.bool_)


@operation
def match(builder: Builder, value: object, mask: object = FULL_MASK) -> Scalar:
    """The lanes of `mask` that hold the same value as this one, one bit each: a u32.

    Values are compared bit for bit, so 0.0 differs from −0.0 and a NaN equals itself. Needs sm_70 or later.

    Args:
        value: a number of any type.
        mask: as in `ballot`.

    Raises:
        TypeMismatchError, ValueRangeError: as `ballot`.

    Example:
        ``is_first = weft.math.ctz(weft.match(key)) == weft.lane_id()``
    """
    return _matched(builder, "any", value, mask)


@operation
def match_all(builder: Builder, value: object, mask: object = FULL_MASK) -> Scalar:
    """`mask` if all of its lanes hold the same value, else 0: a u32.

    Arguments and errors as in `match`. Needs sm_70 or later.

    Example:
        ``is_uniform = weft.match_all(row) != 0``
    """
    return _matched(builder, "all", value, mask)


def _matched(builder: Builder, kind: str, value: object, mask: object) -> Scalar:
    name = "match" if kind == "any" else "match_all"
    bits = _bits(builder, _number(builder, value, f"{name}: the value"))
    made = builder.emit(MatchOp(kind, lane_mask(builder, mask, name), bits.ssa))
    return Scalar(made.result, types.u32)


def _bits(builder: Builder, value: Scalar) -> Scalar:
    """The value's bits as an integer of 32 or 64 bits."""
    if value.dtype.is_float:
        kinds = {8: types.u8, 16: types.u16, 32: types.u32, 64: types.u64}
        dtype = kinds[value.dtype.bits]
        made = builder.emit(arith.BitcastOp(value.ssa, integer_type(dtype.bits)))
        value = Scalar(made.result, dtype)
    return convert(builder, value, types.u64 if value.dtype.bits == 64 else types.u32)


_KINDS: Final = {"sum": "add", **{f"bitwise_{kind}": kind for kind in _BITWISE}}


@operation(name="warp.reduce", takes_complex=True)
def over_lanes(builder: Builder, name: str, value: object, mask: object = FULL_MASK) -> Scalar:
    """The ``"sum"``, ``"min"``, ``"max"``, ``"bitwise_and"``, … over the lanes of `mask`, returned to each.

    Raises:
        TypeMismatchError: if the value is not a number, or the mask is not a u32.
        ValueRangeError: for a constant mask without lanes, or beyond 32 bits.
    """
    return _combined(builder, name, _KINDS.get(name, name), value, mask)


def _combined(builder: Builder, name: str, kind: str, value: object, mask: object) -> Scalar:
    given = _number(builder, value, f"warp.{name}: the value")
    if given.dtype.is_complex:
        if kind != "add":
            raise TypeMismatchError(
                "COMPLEX_ARGUMENT",
                f"warp.{name} takes no complex numbers, which have no order and no bits of their own",
                hint="give it abs(x), x.real or x.imag",
            )
        real, imaginary = (
            _combined(builder, name, kind, part, mask) for part in parts(builder, given)
        )
        return join(builder, real, imaginary)
    if kind in _BITWISE and given.dtype.is_float:
        raise TypeMismatchError(
            "WARP_BITWISE",
            f"warp.{name}: the value is {given.dtype}; expected an integer or a bool_",
        )
    result = given.dtype if kind in _BITWISE else arithmetic_dtype(given.dtype)
    passed = convert(builder, given, _register_dtype(result))
    if kind in ("min", "max") and passed.dtype.kind == "uint":
        kind = f"u{kind}"
    made = builder.emit(WarpReduceOp(kind, lane_mask(builder, mask, f"warp.{name}"), passed.ssa))
    return convert(builder, Scalar(made.result, passed.dtype), result)


def _register_dtype(dtype: DType) -> DType:
    """The type in which lanes exchange integers of up to 16 bits, which wrap back unchanged."""
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return types.i32 if dtype.is_signed else types.u32


def _number(builder: Builder, value: object, what: str) -> Scalar:
    found = expect_scalar(builder, value, what)
    if isinstance(found, Scalar):
        return found
    return constant(builder, found, default_dtype(found))


_WARPS: Final = 4  # of a warpgroup


class ThreadGroup:
    """Threads of a block that follow each other."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.__doc__ = text

    def __repr__(self) -> str:
        return f"weft.{self.name}"


warp: Final = ThreadGroup(
    "warp",
    """The 32 threads of a warp; a user names them by the module ``weft.warp``.""",
)

warpgroup: Final = ThreadGroup(
    "warpgroup",
    """The 128 threads of a warpgroup, for `elect_one`.

    Example:
        ``leader = weft.elect_one(weft.warpgroup)``
    """,
)


@operation
def warpgroup_id(builder: Builder) -> Scalar:
    """This thread's warpgroup in its block: an i32, from 0.

    128 threads in a row are a warpgroup, numbered as `warp_id` does. All threads of a warp have it in one register, so
    that a branch on it costs nothing and values computed from it are computed once for the warp.

    Example:
        ``if weft.warpgroup_id() == 0: weft.sync_warpgroup()``
    """
    return position(builder, WarpgroupIdOp, "warpgroup")


@operation
def sync_warpgroup(builder: Builder) -> None:
    """Waits for the 128 threads of this warpgroup, which then see what any of them wrote to memory before.

    All of them must call it, at the same place: on a GPU, a thread that has returned is waited for forever; on the CPU
    it is an error, as is a warpgroup with fewer threads.

    Example:
        ``tile[tid % 32] = a[i]; weft.sync_warpgroup(); b[i] = tile[31 - tid % 32]``
    """
    builder.emit(WarpgroupBarrierOp(position(builder, WarpgroupIdOp, "warpgroup").ssa))


@operation
def elect_one(builder: Builder, group: object = warp) -> Scalar:
    """Whether this thread is the one that acts for its group: a ``bool_``, true for one thread, each time the same.

    All threads of the warp call it together; of a warpgroup, a thread of its first warp is chosen; on the
    CPU, a call by a part of those that have not returned is an error. What only
    one thread should do, such as starting a copy, costs less under `elect_one` than under ``lane_id() == 0``: the
    assembler knows then that it is one.

    Args:
        group: ``weft.warp`` or ``weft.warpgroup``.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        ``if weft.elect_one(): weft.atomic_add(totals, 0, 1.0)``
    """
    name = group.name if isinstance(group, ThreadGroup) else getattr(group, "THREAD_GROUP", None)
    if name not in (warp.name, warpgroup.name):
        raise TypeMismatchError(
            "THREAD_GROUP",
            f"elect_one: expected weft.warp or weft.warpgroup, received {describe(group)}",
        )
    elected = builder.emit(ElectOneOp()).result
    if name == warpgroup.name:
        number = position(builder, WarpIdOp, "warp").ssa
        among = builder.emit(arith.AndIOp(number, builder.constant(i32, _WARPS - 1))).result
        first = builder.emit(arith.CmpiOp(among, builder.constant(i32, 0), "eq")).result
        elected = builder.emit(arith.AndIOp(elected, first)).result
    return Scalar(elected, types.bool_)


@operation
def setmaxnreg(builder: Builder, count: object) -> None:
    """Gives each thread of this warpgroup `count` registers from here on, once there are that many.

    A warpgroup that copies needs few registers, one that multiplies many. Every launch begins with equal shares: with
    384 threads per block 168 each. The compiler compares `count` with the share of the kernel's block, so the block's
    size must be known: constant in every launch, or ``@weft.kernel(max_threads=384)``. All four warps of the
    warpgroup execute it together: with one alone, a GPU's behavior is undefined. That is refused where branches on
    `warpgroup_id` or `warp_id` tell who asks, and so is more than the others gave back, which would wait forever. On
    the CPU a warpgroup's threads meet here, which orders no memory, and nothing else happens.

    Args:
        count: registers per thread: a constant, 24 to 256, a multiple of 8.

    Raises:
        TypeMismatchError: for a count that is not a constant integer.
        ValueRangeError: for another number, or more of all warpgroups together than a block has.
        UnavailableError: on a GPU before sm_90a, or where the block's size is not known.

    Example:
        ``weft.setmaxnreg(40)``, where a warpgroup only copies
    """
    found = expect_scalar(builder, count, "setmaxnreg: the number of registers")
    known = found.constant if isinstance(found, Scalar) else found
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "REGISTER_COUNT",
            f"setmaxnreg: the number of registers is {describe(found)}; expected a constant integer",
            hint="write it as a literal in each branch",
        )
    if known not in REGISTER_COUNTS:
        raise ValueRangeError(
            "REGISTER_COUNT",
            f"setmaxnreg: the number of registers is {known}; expected a multiple of 8 from 24 to 256",
        )
    builder.emit(SetmaxnregOp(known))
