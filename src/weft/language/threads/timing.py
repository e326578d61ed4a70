# SPDX-License-Identifier: Apache-2.0
"""Clocks, and the multiprocessor of a thread: ``globaltimer``, ``clock64``, ``clock32``, ``sm_id``.

Out: integers that differ from run to run. Each call reads anew and is never moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.profiling import SmIdOp, TimerOp
from weft.language.operation import operation
from weft.language.values import Scalar
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


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
