# SPDX-License-Identifier: Apache-2.0
"""Iterations on a CPU: each thread of the grid runs adjacent ones, in a loop that LLVM vectorizes.

In: a `simt.each`. Out: `scf.for`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.dialects.builtin import i32

from weft.dialects.flow import walk
from weft.passes.iterations.body import Body, extent_of

if TYPE_CHECKING:
    from weft.dialects.simt.threads import EachOp
    from weft.passes.iterations.emitter import Emitter

_SHORT_ITERATIONS = 4096
_LONG_ITERATIONS = 64


def iterations_per_block(loop: EachOp) -> int:
    """Of a launch that chooses its grid, whose blocks have one thread: enough work to begin a block for."""
    has_loops = any(isinstance(op, scf.ForOp | scf.WhileOp) for op in walk(loop.body.block))
    return _LONG_ITERATIONS if has_loops else _SHORT_ITERATIONS


def map_on_cpu(emitter: Emitter, loop: EachOp, *, is_row: bool) -> None:
    """Thread t of T runs the iterations from t * share on, `share` of them, row by row."""
    body = Body(emitter, loop)
    extent = extent_of(emitter, loop)
    at = emitter.position(is_row)
    thread = emitter.plus(emitter.times(at.block, at.threads), at.thread)
    threads = emitter.times(at.blocks, at.threads)
    rows, columns = extent
    total = columns if rows is None else emitter.times(rows, columns)
    share = emitter.quotient(emitter.plus(total, emitter.plus(threads, -1)), threads)
    first = emitter.least(emitter.times(thread, share), total)
    last = emitter.least(emitter.plus(first, share), total)
    if rows is None:
        if len(loop.extents) == 1 and loop.extents[0].type == i32:
            # The counter is the index: LLVM need not see that a wider one fits.
            first, last = (emitter.cast(end, i32) for end in (first, last))
        with emitter.counted(first, last) as column:
            body.iterations([(body.leading(None), column)])
        return
    columns = emitter.most(columns, 1)
    end = emitter.quotient(emitter.plus(last, emitter.plus(columns, -1)), columns)
    with emitter.counted(emitter.quotient(first, columns), end) as row:
        start = emitter.times(row, columns)
        begin = emitter.most(emitter.minus(first, start), 0)
        stop = emitter.least(emitter.minus(last, start), columns)
        with emitter.counted(begin, stop) as column:
            body.iterations([(body.leading(row), column)])
