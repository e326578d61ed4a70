# SPDX-License-Identifier: Apache-2.0
"""The `tirx` format on the device: one stream of words, tracks interleaved with the user's stride.

In: markers and a u64 buffer. Out: records, word for word those of TIRx's CudaProfiler, and no store outside
the buffer. A thread's cursor and the end that it may not reach live in two local words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.barrier import FenceOp
from weft.errors import ValueRangeError
from weft.language.memory import access, atomics
from weft.language.memory import local as memory
from weft.language.numbers.convert import truth
from weft.language.profiling import marks
from weft.language.profiling.emit import Emitter
from weft.language.profiling.marks import INIT, Mark, MarkOp, Marks, replace
from weft.language.threads import grid
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
_CURSOR, _LIMIT, _TAG = 0, 1, 2


class TirxRecorder:
    """Records of one profiler object.

    Args:
        builder: of the kernel, at its top level.
        buffer: u64 words.
        write_stride: words between two records of a track.
        num_groups: groups per block.
        default_leader: which threads record where a call does not say.
        enabled: a staged switch, or True.
        fence: whether start and end wait for the memory accesses of the block, as the original's do.
    """

    __slots__ = (
        "_buffer",
        "_default",
        "_enabled",
        "_fence",
        "_groups",
        "_marks",
        "_state",
        "_stride",
    )

    def __init__(
        self,
        builder: Builder,
        buffer: Tensor,
        write_stride: Scalar | int,
        num_groups: Scalar | int,
        default_leader: Scalar | bool | None,
        enabled: Scalar | bool,
        fence: bool,
    ) -> None:
        self._buffer = buffer
        self._stride = write_stride
        self._groups = num_groups
        self._default = default_leader
        self._enabled = enabled
        self._fence = fence
        self._marks = Marks(builder, self._finish)
        builder.launch_checks.append(self._check_launch)
        self._state: Tensor = memory.local.emit(builder, 3, types.u32)
        emitter = Emitter(builder)
        for word in (_CURSOR, _LIMIT, _TAG):
            # A thread that never calls init() has a limit of 0, which no cursor is below.
            emitter.store(self._state, word, 0)

    def add(self, builder: Builder, mark: Mark) -> None:
        """Leaves a marker."""
        self._marks.add(builder, mark)

    def _check_launch(self, blocks: int) -> None:
        """Refuses a launch with a constant grid that the constants of the profiler do not fit.

        Raises:
            ValueRangeError: with both.
        """
        groups, stride = self._groups, self._stride
        if not isinstance(groups, int):
            return
        tracks = blocks * groups
        launch = f"this launch has {blocks} x {groups} = {tracks} tracks (blocks x num_groups)"
        if tracks > wire.TIRX_MOST_TRACKS:
            raise ValueRangeError(
                "PROFILER_RANGE",
                f"CudaProfiler: {launch}; the format tells {wire.TIRX_MOST_TRACKS} apart",
                hint="launch fewer blocks, or use weft.profiler.Profiler, which records blocks=range(...) alone",
            )
        if isinstance(stride, int) and stride < tracks:
            raise ValueRangeError(
                "PROFILER_STRIDE",
                f"CudaProfiler: write_stride is {stride}, and {launch}, which would overwrite each other",
                hint=f"write write_stride={tracks}",
            )
        length = self._buffer.type.dims[0]
        if 0 <= length <= tracks:
            raise ValueRangeError(
                "PROFILER_BUFFER",
                f"CudaProfiler: '{self._buffer.name}' has {length} words, and {launch}, which need {tracks + 1} "
                "for one record each",
                hint="it holds 1 word, and then one per record of every track",
            )

    def _finish(self, builder: Builder, kernel: str, placed: list[MarkOp]) -> None:
        del kernel  # this format has no names
        marks.check_initialized(placed, "CudaProfiler")
        marks.check_pairs(placed, lambda event: f"event {event}")
        for op in placed:
            replace(builder, op, self._emit_init if op.mark.kind == INIT else self._emit_record)

    # ---- init

    def _emit_init(self, emitter: Emitter, mark: Mark) -> None:
        """Points the thread at its track, if the launch fits the format; else says why it does not."""
        size = self._size(emitter)
        blocks = emitter.count(grid.grid_dim)
        groups, group, stride = (
            emitter.u32(value) for value in (self._groups, mark.group, self._stride)
        )
        tracks = emitter.multiply(blocks, groups)
        refusal = self._refusal(emitter, blocks, mark.group, tracks, size)
        fits = emitter.is_equal(refusal, 0)
        usable = fits if self._enabled is True else emitter.bit_and(fits, self._on(emitter))
        self._emit_header(emitter, blocks, groups, refusal, size)
        block = emitter.linear(grid.block_idx, grid.grid_dim)
        track = emitter.add(emitter.multiply(block, groups), group)
        emitter.store(self._state, _CURSOR, emitter.add(track, 1))
        emitter.store(self._state, _TAG, emitter.shifted_left(track, wire.TIRX_TRACK_SHIFT))
        # A cursor below the limit can be advanced once more without passing 2³².
        most = emitter.subtract(emitter.u32(0), stride)
        limit = emitter.chosen(emitter.is_below(size, most), size, most)
        emitter.store(self._state, _LIMIT, emitter.chosen(usable, limit, 0))
        if self._default is not None:
            leads = emitter.bit_and(usable, truth(emitter.builder, self._default))
            header = emitter.packed(groups, blocks)
            emitter.when(leads, lambda: self._emit_claim(emitter, track, header))

    def _emit_claim(self, emitter: Emitter, track: Scalar, header: Scalar) -> None:
        """The leader puts a finalize where its first record goes; whoever finds one there is not alone."""
        builder = emitter.builder
        tag = emitter.bit_or(emitter.shifted_left(track, wire.TIRX_TRACK_SHIFT), wire.FINALIZE)
        place = emitter.as_type(emitter.add(track, 1), types.i64)
        claim = emitter.as_type(tag, self._buffer.dtype)
        before = emitter.u64(atomics.atomic_exchange.emit(builder, self._buffer, place, claim))
        self._emit_flag(
            emitter, emitter.is_below(emitter.u64(0), before), header, emitter.u32(wire.TAKEN_TWICE)
        )

    def _emit_first_claim(self, emitter: Emitter, cursor: Scalar, leads: Scalar) -> None:
        """Where only calls name leaders, init knows none: each claims its track before its first record."""
        tag = emitter.load(self._state, _TAG)
        track = emitter.shifted_right(tag, wire.TIRX_TRACK_SHIFT)
        first = emitter.bit_and(leads, emitter.is_equal(cursor, emitter.add(track, 1)))

        def claim() -> None:
            blocks = emitter.count(grid.grid_dim)
            self._emit_claim(emitter, track, emitter.packed(self._groups, blocks))

        emitter.when(first, claim)

    def _emit_flag(
        self, emitter: Emitter, condition: Scalar, header: Scalar, reason: Scalar
    ) -> None:
        """Word 0 with a reason in its top byte, which no later header without one replaces."""
        flag = emitter.shifted_left(emitter.u64(reason), wire.TIRX_REFUSAL_SHIFT)
        word = emitter.as_type(emitter.bit_or(header, flag), self._buffer.dtype)

        def write() -> None:
            first = emitter.as_type(0, types.i64)
            atomics.atomic_max.emit(emitter.builder, self._buffer, first, word)

        emitter.when(condition, write)

    def _on(self, emitter: Emitter) -> Scalar:
        return truth(emitter.builder, self._enabled)

    def _size(self, emitter: Emitter) -> Scalar:
        """Words of the buffer, at most 2³² − 1."""
        size = access.dim(emitter.builder, self._buffer, 0)
        if isinstance(size, int):
            return emitter.u32(min(size, types.u32.maximum))
        if size.dtype.bits == 32:
            return emitter.u32(size)
        small = emitter.is_below(size, types.u32.maximum)
        return emitter.chosen(small, emitter.u32(size), types.u32.maximum)

    def _refusal(
        self, emitter: Emitter, blocks: Scalar, group: Scalar | int, tracks: Scalar, size: Scalar
    ) -> Scalar:
        """Why this launch cannot record, a number of `REFUSALS`; 0 where it can."""
        # In 64 bits, where a negative number is too large instead of wrapping into the range.
        groups, number, stride = (
            emitter.u64(value) for value in (self._groups, group, self._stride)
        )
        most = emitter.as_type(wire.TIRX_MOST_TRACKS, types.u64)
        farthest = emitter.as_type(wire.TIRX_MOST_STRIDE, types.u64)
        product = emitter.multiply(emitter.u64(blocks), groups)
        too_many = emitter.bit_or(emitter.is_below(most, groups), emitter.is_below(most, product))
        reasons = (
            (emitter.is_below(farthest, stride), wire.REFUSED_STRIDE_RANGE),
            (too_many, wire.REFUSED_TRACKS),
            (emitter.is_below(stride, emitter.u64(tracks)), wire.REFUSED_STRIDE),
            (emitter.is_at_most(groups, number), wire.REFUSED_GROUP),
            (emitter.is_at_most(size, tracks), wire.REFUSED_SIZE),
        )
        found = emitter.u32(0)
        for holds, reason in reversed(reasons):
            found = emitter.chosen(holds, emitter.u32(reason), found)
        return found

    def _emit_header(
        self, emitter: Emitter, blocks: Scalar, groups: Scalar, refusal: Scalar, size: Scalar
    ) -> None:
        """Word 0: by the first thread, as the original; and by any thread that is refused."""
        places = [emitter.coordinate(grid.block_idx, axis) for axis in "xyz"]
        first = emitter.is_zero(*places, emitter.coordinate(grid.thread_idx, "x"))
        refused = emitter.is_below(0, refusal)
        writes = emitter.bit_and(emitter.bit_or(first, refused), emitter.is_below(0, size))
        if self._enabled is not True:
            writes = emitter.bit_and(writes, self._on(emitter))
        self._emit_flag(emitter, writes, emitter.packed(groups, blocks), refusal)

    # ---- records

    def _emit_record(self, emitter: Emitter, mark: Mark) -> None:
        if self._fence and mark.kind in (wire.END, wire.FINALIZE):
            emitter.builder.emit(FenceOp("block"))
        cursor = emitter.load(self._state, _CURSOR)
        may = emitter.is_below(cursor, emitter.load(self._state, _LIMIT))
        leader = self._default if mark.leader is None else mark.leader
        may = emitter.bit_and(may, truth(emitter.builder, leader))  # pyright: ignore[reportArgumentType]
        if self._default is None:
            self._emit_first_claim(emitter, cursor, may)

        bits = mark.event << wire.TIRX_EVENT_SHIFT | mark.kind
        tag = emitter.bit_or(emitter.load(self._state, _TAG), emitter.u32(bits))
        emitter.record("globaltimer", may, tag, self._buffer, cursor)
        # Only a track that still has room advances, so that a cursor never wraps back into the buffer.
        after = emitter.add(cursor, emitter.u32(self._stride))
        emitter.store(self._state, _CURSOR, emitter.chosen(may, after, cursor))
        if self._fence and mark.kind == wire.START:
            emitter.builder.emit(FenceOp("block"))
