# SPDX-License-Identifier: Apache-2.0
"""How a row is spread over threads: those of a warp, of a block, or of the blocks of a cluster.

In: the length of rows, their alignment and the device. Out: a `Spread`, the rule for all kernels that keep rows in
registers; traced in kernels, a thread's elements of its row, and what all threads of a row have together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.dialects.simt.views import VECTOR_BYTES
from weft.kernels.device import row as rows
from weft.kernels.device.row import SHORT, elements, put_elements, row_count, threads_for
from weft.kernels.host.devices import capabilities, multiprocessors_of
from weft.language.asynchronous.cluster import cluster_rank
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.asynchronous.st_async import st_async
from weft.language.control import ceil_div, static_range
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives.items import is_list
from weft.primitives.warp import reductions as of_warp
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from weft.ffi.device import Device
    from weft.types.dtype import DType

_WHOLE: Final = 64  # multiprocessors, of which parts of a GPU have fewer
_BLOCK: Final = 256  # threads of a block whose rows stream
_LARGE: Final = (
    32768  # bytes of the largest part of a row that streams: two of it, and three of smaller ones
)


class Limits(NamedTuple):
    """By what a kernel's rows are spread.

    Attributes:
        items: elements that a thread keeps of each array; half as many of 64 bits.
        threads: of a block, at most.
        streams_from: elements of rows that stream, more than these.
        arrays: that come through rings then; 0: rows never stream.
    """

    items: int
    threads: int
    streams_from: int = 0
    arrays: int = 0


class Spread(NamedTuple):
    """How a row is spread; a constant of kernels.

    Attributes:
        blocks: that take it, a cluster; 1: a block or a warp.
        threads: of each block that take it.
        items: elements that a thread keeps in registers; 0: it reads them in rounds, once for each sum.
        width: neighbors of an access.
        is_whole: whether rows are as long as this holds, so that no thread has less.
        stages: of `row_rings`, for blocks and clusters that take row after row; 0: they take one.
    """

    blocks: int
    threads: int
    items: int
    width: int
    is_whole: bool = False
    stages: int = 0


def spread_for(columns: int, width: int, dtype: DType, device: Device, limits: Limits) -> Spread:
    """How rows are spread: over a warp, a block, or a cluster, where rows are long and the device has clusters.

    The rule was found by measurement on an H200: threads keep as much as they can, so that more of the rows is on its
    way; long rows stream through clusters with blocks of 256 threads. GPUs from sm_120 on have too little shared memory
    for that.

    Args:
        columns: elements of a row.
        width: neighbors of an access.
        dtype: of the elements.
        device: that the rows are on.
        limits: of the kernel.
    """

    def spread(blocks: int, threads: int, items: int, stages: int = 0) -> Spread:
        held = blocks * threads * items
        return Spread(
            blocks, threads, items if held >= columns else 0, width, held == columns, stages
        )

    most = most_blocks(device)
    items = limits.items * 4 // max(dtype.itemsize, 4)
    if columns <= SHORT:
        return spread(1, WARP_SIZE, SHORT // WARP_SIZE)
    is_streamed = limits.arrays and most > 1 and capabilities(device).clusters_16
    if is_streamed and columns > limits.streams_from and width * dtype.itemsize == VECTOR_BYTES:
        if columns <= _BLOCK * items:
            items = max(items // 2, width)
            return spread(1, threads_for(columns, items), items, 2)
        for threads in (_BLOCK, 2 * _BLOCK):
            part = threads * items
            size = part * dtype.itemsize
            if columns <= most * part and size <= _LARGE:
                return spread(_power(columns, part), threads, items, 2 if size == _LARGE else 3)
    if columns <= limits.threads * items or most == 1:
        return spread(1, min(threads_for(columns, items), limits.threads), items)
    threads = min(
        2 * _BLOCK if columns <= most * 2 * _BLOCK * items else MOST_THREADS, limits.threads
    )
    return spread(min(_power(columns, threads * items), most), threads, items)


def most_blocks(device: Device) -> int:
    """Of a cluster: 16 where a GPU has whole groups of multiprocessors, 8 on any from sm_90 on, 1 elsewhere."""
    machine = capabilities(device)
    if not machine.clusters:
        return 1
    return 16 if machine.clusters_16 and multiprocessors_of(device) >= _WHOLE else 8


def _power(columns: int, part: int) -> int:
    """The least power of two of parts that hold so many."""
    return 1 << (-(-columns // part) - 1).bit_length()


def grid_of(shape: Any, spread: Any) -> Any:
    """Blocks for the rows of an array; traced in host functions."""
    return rows.grid_of(shape, spread.threads) * spread.blocks


def block_of(spread: Any) -> Any:
    """The shape of a block."""
    return rows.block_of(spread.threads)


def cluster_of(spread: Any) -> Any:
    """The blocks of a cluster; None without one."""
    return spread.blocks if spread.blocks > 1 else None


def row_number(spread: Any) -> Any:
    """The number of this thread's row; traced in kernels."""
    return rows.row_number(spread.threads) // spread.blocks


def is_beyond(number: Any, shape: Any, spread: Any) -> Any:
    """Whether there is no row of that number, where the last block may have more warps than there are rows."""
    return number >= row_count(shape) if spread.threads == WARP_SIZE else False


def part_of(row: Any, spread: Any) -> Any:
    """What this block takes of a row: a view."""
    if spread.blocks == 1:
        return row
    first, end = _part(len(row), spread)
    return row[spread.width * first : spread.width * end]


def first_of(columns: Any, spread: Any) -> Any:
    """The index of the first element of a row that this block takes."""
    return spread.width * _part(columns, spread)[0]


def _part(columns: Any, spread: Any) -> Any:
    """Which accesses of a row are this block's."""
    accesses = columns // spread.width
    share = ceil_div(accesses, spread.blocks)
    first = min(cluster_rank() * share, accesses)
    return first, min(first + share, accesses)


def places(spread: Any) -> Any:
    """Where in its part of a row the accesses begin of a thread that keeps its elements."""
    return rows.places(spread.items, spread.threads, spread.width)


def has(part: Any, place: Any, spread: Any) -> Any:
    """Whether the access that begins at a place of a thread is within the block's part of a row."""
    return True if spread.is_whole else place < len(part)


def rounds(part: Any, spread: Any) -> Any:
    """The same of a thread that reads its elements in rounds."""
    return range(thread_idx.x * spread.width, len(part), spread.threads * spread.width)


def load_row(row: Any, spread: Any, fill: Any = 0) -> Any:
    """A thread's elements of its block's part of a row; `fill` beyond the end."""
    found: Any = []
    for place in places(spread):
        if has(row, place, spread):
            part = tuple(elements(row, place, spread.width))
        else:
            part = tuple(row.dtype(fill) for _ in static_range(spread.width))
        found += part
    return found


def store_row(row: Any, values: Any, spread: Any) -> None:
    """Writes a thread's elements of a row, those that are within it."""
    width = spread.width
    for k, place in enumerate(places(spread)):
        if has(row, place, spread):
            put_elements(row, place, values[k * width : (k + 1) * width])


def meetings(spread: Any, count: Any) -> Any:
    """Where the blocks of a cluster wait for each other's values, so many times for each row; None without a cluster.

    Traced at the beginning of a kernel, where the whole cluster meets once.
    """
    return [mbarrier(2, arrivals=1) if spread.blocks > 1 else None for _ in range(count)]


def over_row(kind: Any, value: Any, spread: Any, meeting: Any = None, turn: Any = 0) -> Any:
    """The ``"sum"`` or ``"max"`` of what all threads of the row have: a number, a tuple of them, or a list.

    Args:
        kind: ``"sum"`` or ``"max"``.
        value: of this thread.
        spread: of the row.
        meeting: one of `meetings`, of this call alone.
        turn: of the loop over rows that this is in.
    """
    value = getattr(of_warp, kind)(folded(kind, value))
    if spread.threads == WARP_SIZE:
        return value
    if isinstance(value, tuple):
        boards = of_warps(value, spread, meeting, turn)
        return tuple(over_lanes(kind, of_lane(board), spread) for board in boards)
    (board,) = of_warps((value,), spread, meeting, turn)
    return over_lanes(kind, of_lane(board), spread)


def folded(kind: Any, value: Any) -> Any:
    """The sum or the maximum of a thread's list, neighbors first; another value as it is."""
    values: Any = value
    if not is_list(values):
        return values
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[len(values) & ~1 :]
        values = [one + other if kind == "sum" else max(one, other) for one, other in pairs] + rest
    return values[0]


def of_warps(values: Any, spread: Any, meeting: Any = None, turn: Any = 0) -> Any:
    """What each warp of the row has, in shared memory: an array for each of the values, one element for each warp.

    Two sets of them take turns: all have read the one when the values of the turn after the next come to it, since
    each has given those of the next turn after that.
    """
    warps, side = spread.threads // WARP_SIZE, turn & 1
    boards = [shared((2, warps * spread.blocks), value.dtype) for value in values]
    lane, warp = lane_id(), warp_id()
    if spread.blocks > 1:
        if thread_idx.x == 0:
            meeting[side].arrive(expect_bytes=sum(board.nbytes for board in boards) // 2)
        if lane < spread.blocks:
            for board, value in zip(boards, values, strict=True):
                place = side, cluster_rank() * warps + warp
                st_async(board, place, value, meeting[side], lane)
        meeting[side].wait(turn >> 1 & 1)
    else:
        if lane == 0:
            for board, value in zip(boards, values, strict=True):
                board[side, warp] = value
        sync_threads()
    return [board[side] for board in boards]


def of_lane(board: Any) -> Any:
    """What some warps have: those of this lane's number, of 32 more and so on. Few warps are those of several lanes."""
    warps = len(board)
    if warps < WARP_SIZE:
        return [board[lane_id() & (warps - 1)]]
    return [board[lane_id() + k] for k in range(0, warps, WARP_SIZE)]


def over_lanes(kind: Any, values: Any, spread: Any) -> Any:
    """The sum or the maximum of all lanes' values `of_lane`."""
    warps = spread.blocks * spread.threads // WARP_SIZE
    return getattr(of_warp, kind)(folded(kind, values), width=min(warps, WARP_SIZE))
