# SPDX-License-Identifier: Apache-2.0
"""The `track` format on the device: each track's records side by side after a header with 64-bit times.

In: markers and a prepared u64 buffer. Out: records of 8 bytes (16 in the wide form) that carry a 32-bit clock.
Where the kernel's loops say how many there can be, room for all is proved once, when a thread takes its track,
and a record is a clock read and a store; else each one asks whether it fits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.dialects.simt.kernel import PROFILE_NAME
from weft.dialects.simt.timing import SmIdOp, TimerOp
from weft.dialects.walk import walk
from weft.errors import CompileError
from weft.language.memory import atomics
from weft.language.memory import local as memory
from weft.language.numbers.convert import truth
from weft.language.profiling import marks
from weft.language.profiling.emit import AXES, Emitter
from weft.language.profiling.marks import INIT, Mark, MarkOp, Marks, most_times, replace
from weft.language.profiling.track_layout import TrackLayout
from weft.language.threads import grid, warp
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.builder import Builder
    from weft.language.profiling.track_layout import TrackOptions

SETUP: Final = -2
"""A mark's kind where the profiler is made."""
_CURSOR, _LIMIT, _FIRST, _HEADER, _ZERO, _COUNT = range(6)
_NO_OVERFLOW: Final = arith.IntegerOverflowAttr(
    (arith.IntegerOverflowFlag.NSW, arith.IntegerOverflowFlag.NUW)
)


class TrackRecorder:
    """Records of one profiler object.

    Args:
        builder: of the kernel, at its top level.
        buffer: u64 words, prepared by the host.
        options: see there.
        events: name → number; grows while the kernel is traced.
    """

    __slots__ = (
        "_buffer",
        "_description",
        "_events",
        "_layout",
        "_marks",
        "_options",
        "_place",
        "_state",
    )

    def __init__(
        self, builder: Builder, buffer: Tensor, options: TrackOptions, events: dict[str, int]
    ) -> None:
        _check_alone(builder, buffer)
        self._buffer = buffer
        self._options = options
        self._events = events
        self._marks = Marks(builder, self._finish)
        self._state: Tensor = memory.local.emit(builder, 6, types.u32)
        # As wide as the buffer's offsets: a conversion in each record would cost more than it is worth.
        wide = buffer.type.offset_bits.data == 64
        self._place: Tensor = memory.local.emit(builder, 1, types.i64 if wide else types.i32)
        self._layout = TrackLayout(buffer, options)
        self._description = b""
        self.add(builder, Mark(SETUP, memory=buffer))

    def add(self, builder: Builder, mark: Mark) -> Scalar | None:
        """Leaves a marker; the value is that of its anchor."""
        return self._marks.add(builder, mark)

    def _finish(self, builder: Builder, kernel: str, placed: list[MarkOp]) -> None:
        names = {number: name for name, number in self._events.items()}
        marks.check_pairs(placed, lambda event: names.get(event, f"event {event}"))
        users = [op for op in placed if op.mark.kind != SETUP]
        marks.check_initialized(users, "Profiler")
        self._layout.capacity = self._needed(placed)
        listed = [names.get(number, "") for number in range(max(names, default=-1) + 1)]
        blocks = self._options.blocks
        described: dict[str, Any] = {
            "kernel": kernel,
            "events": listed,
            "groups": self._options.groups,
        }
        if blocks is not None:
            described["blocks"] = [blocks.start, blocks.step]
        self._description = json.dumps(described, separators=(",", ":")).encode()
        self._layout.text_bytes = len(self._description)
        if self._buffer.ssa is builder.hidden_arguments.get(PROFILE_NAME):
            builder.profile_words = self._layout.launch_words
        # The end of the kernel ends every track that is still open.
        self.add(builder, Mark(wire.FINALIZE))
        final = builder.entry.last_op
        assert isinstance(final, MarkOp)
        expanders = {SETUP: self._emit_setup, INIT: self._emit_init, wire.FINALIZE: self._emit_end}
        for op in [*placed, final]:
            expand = expanders.get(op.mark.kind, self._emit_record)
            replace(builder, op, expand)

    def _needed(self, placed: Sequence[MarkOp]) -> int | None:
        """Words that a track can need at most; None where only the run can tell, or the user has said."""
        if self._options.records is not None or self._options.is_ring:
            return None
        total = 0
        for op in placed:
            if op.mark.kind in (SETUP, INIT, wire.FINALIZE):
                continue
            times = most_times(op)
            if times is None:
                return None
            total += times * (self._layout.words + self._extra(op.mark))
        # One more for the record that ends them. More than a few megabytes per track are rather cut than asked for.
        return total + self._layout.words if total <= 1 << 20 else None

    def _extra(self, mark: Mark) -> int:
        """Words after a record for a payload that it has no room for."""
        return int(
            not self._options.is_wide and mark.payload is not None and _is_long(mark.payload)
        )

    # ---- expansions

    def _emit_setup(self, emitter: Emitter, mark: Mark) -> None:
        """The first thread describes the launch; no thread has a track yet."""
        del mark
        for word in range(6):
            emitter.store(self._state, word, 0)
        emitter.store(self._place, 0, 0)
        places = [emitter.coordinate(of, axis) for of in _PLACES for axis in AXES]
        first = emitter.is_zero(*places)
        self._layout.when_prepared(
            emitter, self._switched(emitter, first), self._describing(emitter)
        )

    def _switched(self, emitter: Emitter, condition: Scalar) -> Scalar:
        enabled = self._options.enabled
        if enabled is True:
            return condition
        return emitter.bit_and(condition, truth(emitter.builder, enabled))

    def _describing(self, emitter: Emitter) -> Any:
        def describe(size: Scalar) -> None:
            records, capacity, needed, fits = self._layout.places(emitter, size)
            options = self._options
            flags = wire.FLAG_WIDE * options.is_wide | wire.FLAG_RING * options.is_ring
            flags |= wire.FLAG_NANOSECONDS * emitter.builder.on_host
            text = len(self._description) << 32 | wire.PROLOGUE_WORDS
            grid_x, grid_y, grid_z = (emitter.coordinate(grid.grid_dim, axis) for axis in AXES)
            block_x, block_y, block_z = (emitter.coordinate(grid.block_dim, axis) for axis in AXES)
            refusal = emitter.chosen(fits, emitter.u32(0), wire.REFUSED_SIZE)
            blocks = self._layout.recorded_blocks(emitter)
            epoch = emitter.load(self._buffer, wire.WORD_EPOCH)
            launches = emitter.add(emitter.load(self._buffer, wire.WORD_LAUNCHES), 1)
            for word, value in (
                (wire.WORD_LAUNCHES, launches),
                (wire.WORD_TRACKS, emitter.packed(len(options.groups), blocks)),
                (wire.WORD_LAYOUT, emitter.packed(capacity, flags)),
                (wire.WORD_TEXT, text),
                (wire.WORD_HEADERS, emitter.packed(records, self._layout.first_header)),
                (wire.WORD_NEEDED, needed),
                (wire.WORD_GRID_XY, emitter.packed(grid_y, grid_x)),
                (wire.WORD_GRID_Z, emitter.packed(block_x, grid_z)),
                (wire.WORD_BLOCK_YZ, emitter.packed(block_z, block_y)),
                (wire.WORD_REFUSAL, refusal),
                (wire.WORD_ECHO, epoch),
            ):
                emitter.store(self._buffer, word, value)
            enough = emitter.is_at_most(self._layout.first_header, size)
            emitter.when(enough, lambda: self._emit_text(emitter))

        return describe

    def _emit_text(self, emitter: Emitter) -> None:
        padded = self._description.ljust(-(-len(self._description) // 8) * 8, b" ")
        for index in range(0, len(padded), 8):
            word = int.from_bytes(padded[index : index + 8], "little")
            emitter.store(self._buffer, wire.PROLOGUE_WORDS + index // 8, word)

    def _emit_init(self, emitter: Emitter, mark: Mark) -> None:
        """One thread of each group takes the track."""
        leader = self._options.leader if mark.leader is None else mark.leader
        number, records_here = self._layout.block_number(emitter)
        groups = len(self._options.groups)
        group = emitter.u32(mark.group)
        is_known = emitter.is_below(group, groups)
        asked = [] if records_here is None else [records_here]
        if leader is not None:
            asked.append(truth(emitter.builder, leader))
        may = self._switched(emitter, emitter.all_of(is_known, *asked))
        track = emitter.add(emitter.multiply(number, groups), group)

        def take(size: Scalar) -> None:
            records, capacity, _, fits = self._layout.places(emitter, size)
            emitter.when(fits, lambda: self._emit_claim(emitter, track, records, capacity, leader))

        self._layout.when_prepared(emitter, may, take)
        if isinstance(mark.group, Scalar):
            outside = emitter.all_of(_not(emitter, is_known), *asked)
            self._layout.when_prepared(
                emitter, self._switched(emitter, outside), self._say_outside(emitter)
            )

    def _say_outside(self, emitter: Emitter) -> Any:
        def say(size: Scalar) -> None:
            del size  # there is a prologue
            emitter.store(
                self._buffer, wire.WORD_OUTSIDE, emitter.load(self._buffer, wire.WORD_EPOCH)
            )

        return say

    def _emit_claim(
        self,
        emitter: Emitter,
        track: Scalar,
        records: Scalar,
        capacity: Scalar,
        leader: Scalar | bool | None,
    ) -> None:
        builder, buffer = emitter.builder, self._buffer
        header = emitter.add(emitter.multiply(track, wire.HEADER_WORDS), self._layout.first_header)
        epoch = emitter.load(buffer, wire.WORD_EPOCH)
        before = atomics.atomic_exchange.emit(
            builder, buffer, emitter.as_type(header, types.i64), epoch
        )
        is_mine = _not(emitter, emitter.is_equal(before, epoch))

        def begin() -> None:
            start = emitter.add(records, emitter.multiply(track, capacity))
            for word, value in (
                (_CURSOR, start),
                *(((_FIRST, start),) if self._options.is_ring else ()),
                (_LIMIT, emitter.add(start, capacity)),
                (_HEADER, header),
                # The host's epochs are below 2⁶³, which no compiler knows: a zero that stays a number.
                (_ZERO, emitter.u32(emitter.shifted_right(emitter.u64(epoch), 63))),
            ):
                emitter.store(self._state, word, value)
            emitter.store(self._place, 0, start)
            here = emitter.u32(warp.warp_id.emit(builder))
            word = emitter.packed(start, here)
            emitter.store(buffer, emitter.add(header, wire.HEADER_WARP), word)
            emitter.store(buffer, emitter.add(header, wire.HEADER_BEGIN_NS), _now_ns(emitter))
            unit = emitter.u64(Scalar(builder.emit(SmIdOp()).result, types.i32))
            clock = emitter.bit_and(_clock64(emitter), (1 << 48) - 1)
            word = emitter.bit_or(emitter.shifted_left(unit, 48), clock)
            emitter.store(buffer, emitter.add(header, wire.HEADER_BEGIN_CLOCK), word)

        emitter.when(is_mine, begin)
        if leader is not None:
            doubled = emitter.add(header, wire.HEADER_DOUBLED)
            emitter.when(_not(emitter, is_mine), lambda: emitter.store(buffer, doubled, epoch))

    def _emit_record(self, emitter: Emitter, mark: Mark) -> Scalar | None:
        cursor = self._cursor(emitter)
        may = self._may(emitter, cursor)
        anchor = mark.anchor
        if anchor is not None and mark.kind == wire.END:
            # The condition needs the anchor, so that the clock is read after it was computed.
            bits = emitter.bit_and(_bits(emitter, anchor), emitter.load(self._state, _ZERO))
            may = emitter.bit_and(may, emitter.is_equal(bits, 0))
        if self._options.is_wide:
            self._emit_wide(emitter, mark, cursor, may)
        else:
            emitter.record("clock32", may, self._tag(emitter, mark), self._buffer, cursor)
        if self._extra(mark):
            self._emit_extension(emitter, mark, cursor)
        self._advance(emitter, cursor, self._layout.words + self._extra(mark))
        if anchor is None or mark.kind == wire.END:
            return anchor
        # All threads read a clock after the record; what is computed from the anchor waits for it.
        now = Scalar(emitter.builder.emit(TimerOp("clock32")).result, types.u32)
        return _tied(emitter, anchor, emitter.bit_and(now, emitter.load(self._state, _ZERO)))

    def _tag(self, emitter: Emitter, mark: Mark) -> Scalar:
        """The low word of a record: kind, event, and a payload of 16 bits."""
        tag = mark.kind | mark.event << wire.TRACK_EVENT_SHIFT
        if mark.payload is None:
            return emitter.u32(tag)
        tag |= wire.TRACK_HAS_PAYLOAD
        if self._extra(mark):
            return emitter.u32(tag)
        shifted = emitter.shifted_left(emitter.u32(mark.payload), wire.TRACK_PAYLOAD_SHIFT)
        return emitter.bit_or(shifted, emitter.u32(tag))

    def _emit_wide(self, emitter: Emitter, mark: Mark, cursor: Scalar, may: Scalar) -> None:
        """A 64-bit clock, then tag and payload."""

        def write() -> None:
            tag = mark.kind | mark.event << wire.TRACK_EVENT_SHIFT
            payload = mark.payload
            if payload is not None:
                tag |= wire.TRACK_HAS_PAYLOAD
            emitter.store(self._buffer, cursor, _clock64(emitter))
            word = emitter.packed(0 if payload is None else payload, tag)
            emitter.store(self._buffer, emitter.add(cursor, 1), word)

        emitter.when(may, write)

    def _may(self, emitter: Emitter, cursor: Scalar) -> Scalar:
        """Whether this thread leads and the record fits."""
        limit = emitter.load(self._state, _LIMIT)
        if self._layout.capacity is not None:
            # Room for every record was proved when the track was taken; other threads have a limit of 0.
            return emitter.is_below(0, limit)
        return emitter.is_below(cursor, limit)

    def _cursor(self, emitter: Emitter) -> Scalar:
        """The word that the next record goes to."""
        if self._layout.capacity is not None:
            return emitter.load(self._place, 0)
        return emitter.load(self._state, _CURSOR)

    def _advance(self, emitter: Emitter, cursor: Scalar, words: int) -> None:
        if self._layout.capacity is not None:
            # Free of overflow, a loop's cursor becomes one pointer that moves along.
            step = emitter.as_type(words, cursor.dtype)
            added = arith.AddiOp(cursor.ssa, step.ssa, overflow=_NO_OVERFLOW)
            emitter.store(self._place, 0, Scalar(emitter.builder.emit(added).result, cursor.dtype))
            return
        after = emitter.add(cursor, words)
        if self._options.is_ring:
            count = emitter.add(emitter.load(self._state, _COUNT), words)
            emitter.store(self._state, _COUNT, count)
            inside = emitter.is_below(after, emitter.load(self._state, _LIMIT))
            after = emitter.chosen(inside, after, emitter.load(self._state, _FIRST))
        emitter.store(self._state, _CURSOR, after)

    def _emit_extension(self, emitter: Emitter, mark: Mark, cursor: Scalar) -> None:
        """A second word with the 32 bits of a payload; a ring may have to wrap before it."""
        assert mark.payload is not None
        payload = emitter.u32(mark.payload)
        place = emitter.add(cursor, 1)
        if self._options.is_ring:
            inside = emitter.is_below(place, emitter.load(self._state, _LIMIT))
            place = emitter.chosen(inside, place, emitter.load(self._state, _FIRST))
        word = emitter.packed(payload, wire.EXTENSION)
        may = self._may(emitter, place)
        emitter.when(may, lambda: emitter.store(self._buffer, place, word))

    def _emit_end(self, emitter: Emitter, mark: Mark) -> None:
        """The leader completes its track's header; records that follow are not stored."""
        del mark
        leads = emitter.is_below(0, emitter.load(self._state, _LIMIT))

        def end() -> None:
            header = emitter.load(self._state, _HEADER)
            cursor = self._cursor(emitter)
            if self._options.is_ring:
                attempted = emitter.load(self._state, _COUNT)
            elif self._layout.capacity is None:
                # Kept in the header and not in a register that no record needs.
                word = emitter.load_at(self._buffer, emitter.add(header, wire.HEADER_WARP))
                first = emitter.u32(emitter.shifted_right(emitter.u64(word), 32))
                attempted = emitter.subtract(cursor, first)
            else:
                # A count would be a second variable in every loop; a last record needs only the place.
                attempted = emitter.u32(wire.COUNT_BY_FINALIZE)
                place = emitter.add(cursor, 1) if self._options.is_wide else cursor
                emitter.store(self._buffer, place, wire.FINALIZE)
            clock = Scalar(emitter.builder.emit(TimerOp("clock32")).result, types.u32)
            epoch = emitter.load(self._buffer, wire.WORD_EPOCH)
            for word, value in (
                (wire.HEADER_END, emitter.packed(clock, attempted)),
                (wire.HEADER_END_NS, _now_ns(emitter)),
                (wire.HEADER_DONE, epoch),
            ):
                emitter.store(self._buffer, emitter.add(header, word), value)
            emitter.store(self._state, _LIMIT, 0)

        emitter.when(leads, end)


def _check_alone(builder: Builder, buffer: Tensor) -> None:
    """Raises if another profiler of the kernel has the buffer: each would write over the other's prologue.

    Raises:
        CompileError: naming where the other was made.
    """
    for op in walk(builder.entry):
        if not isinstance(op, MarkOp) or op.mark.memory is None:
            continue
        if op.mark.memory.ssa is buffer.ssa:
            hidden = buffer.name == PROFILE_NAME
            raise CompileError(
                "PROFILER_BUFFER_SHARED",
                f"another Profiler of this kernel, made in line {op.place.line}, records into the same buffer"
                + (": the one of weft.profiler.capture" if hidden else ""),
                hint="give one Profiler more events and groups, or the second a buffer= of its own",
            )


_PLACES: Final = (grid.block_idx, grid.thread_idx)


def _is_long(payload: Scalar | int) -> bool:
    """Whether a payload may need more than 16 bits."""
    if isinstance(payload, Scalar):
        return payload.dtype.bits > 16
    return payload > 0xFFFF


def _not(emitter: Emitter, condition: Scalar) -> Scalar:
    return emitter.is_equal(emitter.u32(condition), 0)


def _now_ns(emitter: Emitter) -> Scalar:
    return Scalar(emitter.builder.emit(TimerOp("globaltimer")).result, types.i64)


def _clock64(emitter: Emitter) -> Scalar:
    return emitter.u64(Scalar(emitter.builder.emit(TimerOp("clock64")).result, types.i64))


def _bits(emitter: Emitter, value: Scalar) -> Scalar:
    """The bits of a 32-bit scalar."""
    if value.dtype.is_float:
        from xdsl.dialects.builtin import i32

        return Scalar(emitter.builder.emit(arith.BitcastOp(value.ssa, i32)).result, types.u32)
    return emitter.u32(value)


def _tied(emitter: Emitter, value: Scalar, zero: Scalar) -> Scalar:
    """The value, which now cannot be computed with before `zero` is known."""
    bits = emitter.bit_or(_bits(emitter, value), zero)
    if value.dtype.is_float:
        made = arith.BitcastOp(bits.ssa, value.ssa.type)
        return Scalar(emitter.builder.emit(made).result, value.dtype)
    return emitter.as_type(bits, value.dtype)
