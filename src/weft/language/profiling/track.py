# SPDX-License-Identifier: Apache-2.0
"""The recorder of the `track` format, in weft's own language: the code of `Profiler`'s markers in a kernel.

The pass `expand_profiler_events` inlines its methods at the events, as a user's helpers. In: a buffer that the host
has prepared. Out: each track's records side by side, 8 bytes each (16 in the wide form), after a header with 64-bit
times. Where the kernel's loops say how many there can be, room for all is proved once, when a thread takes its track,
and a record is a clock read and a store; else each one asks whether it fits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from weft.language.memory.atomics import atomic_exchange
from weft.language.numbers.convert import bitcast
from weft.language.profiling.device import (
    advanced,
    block_count,
    block_number,
    fill,
    is_constant,
    packed,
    record,
)
from weft.language.threads.grid import (
    block_dim,
    block_idx,
    clock32,
    clock64,
    globaltimer,
    grid_dim,
    sm_id,
    thread_idx,
)
from weft.language.threads.warp import warp_id
from weft.types import record_format as wire
from weft.types.dtype import i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_WORDS: Final = wire.TRACK_MOST_WORDS - 1
CURSOR, LIMIT, FIRST, HEADER, ZERO, COUNT = STATE = tuple(range(6))


class TrackLayout:
    """Layout of a launch's headers and records, known when compiling.

    Args:
        groups: tracks of a block.
        blocks: which blocks of the grid record; None for all.
        words: per record.
        capacity: words that a track needs at most; None where only the run can tell.
        described: the kernel's description for the decoder, as JSON.

    Attributes:
        first_header: the first word of the tracks' headers.
        least: words of a track that a launch cannot do without.
    """

    def __init__(
        self,
        groups: int,
        blocks: range | None,
        words: int,
        capacity: int | None,
        described: dict[str, Any],
    ) -> None:
        self.groups = groups
        self.blocks = blocks
        self.words = words
        self.capacity = capacity
        text = json.dumps(described, separators=(",", ":")).encode()
        self.text: Sequence[int] = [
            int.from_bytes(text[i : i + 8].ljust(8), "little") for i in range(0, len(text), 8)
        ]
        self.text_bytes = len(text)
        self.first_header = wire.PROLOGUE_WORDS + len(self.text)
        self.least = words if capacity is None else capacity

    def recording_blocks(self, blocks: Any) -> Any:
        """Number of recording blocks in a grid of that many."""
        if self.blocks is None:
            return blocks
        start, stop, step = self.blocks.start, self.blocks.stop, self.blocks.step
        return (max(min(blocks, stop), start) - start + (step - 1)) // step

    def words_needed(self, blocks: Any) -> Any:
        """Numbers of a launch's tracks: how many, the first word of their records, and the words of a buffer, all u64.

        The buffer's size, the kernel's checks and its description for the decoder are computed here.
        """
        tracks = u64(self.recording_blocks(blocks)) * self.groups
        records = tracks * wire.HEADER_WORDS + self.first_header
        return tracks, records, records + tracks * self.least

    def launch_words(self, x: Any, y: Any, z: Any) -> Any:
        """The words of a buffer for a launch with this grid, i64."""
        return i64(self.words_needed(u64(x) * u64(y) * u64(z))[2])


class TrackRecorder:
    """Recorder of one profiler's events. Its attributes are known when compiling, but for the tensors and `enabled`.

    Args:
        layout: see there.
        buffer: u64 words.
        state: `STATE` words of the thread's own, u32. A thread without a track has a limit of 0.
        place: one more, as wide as the buffer's offsets: the cursor where the layout has a capacity, since a
            conversion in each record would cost more than it is worth.
        records: most records per track that the user wants, or None.
        is_ring: whether the last records are kept and not the first.
        enabled: a switch.
    """

    def __init__(
        self,
        layout: TrackLayout,
        buffer: Any,
        state: Any,
        place: Any,
        records: int | None,
        is_ring: bool,
        enabled: Any,
    ) -> None:
        self.layout = layout
        self.buffer = buffer
        self.state = state
        self.place = place
        self.records = records
        self.is_ring = is_ring
        self.enabled = enabled
        self.flags = wire.FLAG_WIDE * (layout.words == 2) | wire.FLAG_RING * is_ring

    # ---- the launch, and a thread's track

    def begin(self) -> None:
        """Code of the profiler's construction: no thread has a track, and the first one describes the launch."""
        fill(self.state, 0, [0] * len(STATE))
        self.place[0] = 0
        block = block_idx.x | block_idx.y | block_idx.z
        first = (block | thread_idx.x | thread_idx.y | thread_idx.z) == 0
        if self.is_prepared(first & self.enabled):
            self.describe()

    def is_prepared(self, asked: Any) -> Any:
        """Whether that holds, and the buffer is one that the host has prepared."""
        size, buffer = self.buffer.shape[0], self.buffer
        if is_constant(size) and size < wire.PROLOGUE_WORDS:
            return False
        long_enough = size >= wire.PROLOGUE_WORDS
        return (asked & long_enough) and buffer[wire.WORD_MAGIC] == wire.TRACK_MAGIC

    def describe(self) -> None:
        """Describes the records for the decoder."""
        buffer, layout = self.buffer, self.layout
        records, capacity, needed, fits = self.places()
        blocks = u32(layout.recording_blocks(block_count()))
        # On the CPU all clocks are one.
        before, clock = globaltimer(), clock64()
        is_one = (before <= clock) & (clock <= globaltimer())
        flags = self.flags | (wire.FLAG_NANOSECONDS if is_one else 0)
        buffer[wire.WORD_LAUNCHES] = buffer[wire.WORD_LAUNCHES] + 1
        buffer[wire.WORD_TRACKS] = packed(layout.groups, blocks)
        buffer[wire.WORD_LAYOUT] = packed(capacity, flags)
        buffer[wire.WORD_TEXT] = layout.text_bytes << 32 | wire.PROLOGUE_WORDS
        buffer[wire.WORD_HEADERS] = packed(records, layout.first_header)
        buffer[wire.WORD_NEEDED] = needed
        buffer[wire.WORD_GRID_XY] = packed(grid_dim.y, grid_dim.x)
        buffer[wire.WORD_GRID_Z] = packed(block_dim.x, grid_dim.z)
        buffer[wire.WORD_BLOCK_YZ] = packed(block_dim.z, block_dim.y)
        buffer[wire.WORD_REFUSAL] = u64(0 if fits else wire.REFUSED_SIZE)
        buffer[wire.WORD_ECHO] = buffer[wire.WORD_EPOCH]
        if layout.first_header <= buffer.shape[0]:
            fill(buffer, wire.PROLOGUE_WORDS, layout.text)

    def places(self) -> Any:
        """First word of the records, words per track, words needed (u64), and whether they are there."""
        layout = self.layout
        tracks, records, needed = layout.words_needed(block_count())
        size = u32(min(self.buffer.shape[0], _MOST_WORDS))
        fits = (needed <= size) & (tracks > 0)
        if layout.capacity is not None:
            return u32(records), u32(layout.capacity), needed, fits
        share = (size - u32(records)) // (u32(tracks) if fits else 1)
        if self.records is not None:
            share = min(share, self.records * layout.words)
        if layout.words == 2:
            share &= 0xFFFFFFFE
        return u32(records), share, needed, fits

    def init(self, group: Any, leader: Any) -> None:
        """One thread of each group takes the track: one that leads, or without a leader the first that comes."""
        layout, buffer = self.layout, self.buffer
        number, records_here = block_number(), True
        if layout.blocks is not None:
            start, stop, step = layout.blocks.start, layout.blocks.stop, layout.blocks.step
            offset = number - start
            records_here = ((offset // step) * step == offset) & (start <= number) & (number < stop)
            number = offset // step
        asked = records_here & (leader is None or leader) & self.enabled
        is_known = u32(group) < layout.groups
        if self.is_prepared(is_known & asked):
            records, capacity, _, fits = self.places()
            if fits:
                self.take(number * layout.groups + u32(group), records, capacity, leader)
        if not is_constant(group) and self.is_prepared(not is_known and asked):
            buffer[wire.WORD_OUTSIDE] = buffer[wire.WORD_EPOCH]

    def take(self, track: Any, records: Any, capacity: Any, leader: Any) -> None:
        """Takes a track, unless another thread has."""
        buffer, state = self.buffer, self.state
        header = track * wire.HEADER_WORDS + self.layout.first_header
        epoch = buffer[wire.WORD_EPOCH]
        is_mine = atomic_exchange(buffer, header, epoch) != epoch
        if is_mine:
            start = records + track * capacity
            # A ring's cursor counts up to zero, from the track's end; see `after`.
            state[CURSOR] = start
            if self.is_ring:
                state[CURSOR] = u32(0) - capacity
                state[FIRST] = u32(0) - capacity
            state[LIMIT] = start + capacity
            state[HEADER] = header
            # The host's epochs are below 2⁶³, which no compiler knows: a zero that stays a number.
            state[ZERO] = u32(epoch >> 63)
            self.place[0] = self.place.dtype(start)
            buffer[header + wire.HEADER_WARP] = packed(start, warp_id())
            buffer[header + wire.HEADER_BEGIN_NS] = u64(globaltimer())
            clock = u64(clock64()) & (1 << 48) - 1
            buffer[header + wire.HEADER_BEGIN_CLOCK] = u64(sm_id()) << 48 | clock
        if leader is not None and not is_mine:
            buffer[header + wire.HEADER_DOUBLED] = epoch

    # ---- records

    def mark(self, tag: Any, payload: Any, is_long: bool, anchor: Any, ends: bool) -> Any:
        """Records a clock, kind and event, which are the tag, and a payload; the value is the anchor's."""
        cursor = self.cursor()
        may = self.may(cursor)
        if anchor is not None and ends:
            # The condition needs the anchor, so that the clock is read after it was computed.
            may &= bitcast(anchor, u32) & self.state[ZERO] == 0
        extra = is_long and self.layout.words == 1
        self.write(tag, payload, extra, self.word(cursor), may)
        if extra:
            cursor = self.after(cursor, 1)
            if self.may(cursor):
                self.buffer[self.word(cursor)] = packed(payload, wire.EXTENSION)
        self.advance(cursor, self.layout.words, self.layout.words + extra)
        if anchor is None or ends:
            return anchor
        # All threads read a clock after the record; code computed from the anchor waits for it.
        zero = clock32() & self.state[ZERO]
        return bitcast(bitcast(anchor, u32) | zero, anchor.dtype)

    def write(self, tag: Any, payload: Any, extra: bool, word: Any, may: Any) -> None:
        """Stores a record's first word, in the wide form both."""
        if self.layout.words == 2:
            if may:
                self.buffer[word] = u64(clock64())
                self.buffer[word + 1] = packed(0 if payload is None else payload, tag)
        elif payload is None or extra:
            record("clock32", may, tag, self.buffer, word)
        else:
            record("clock32", may, payload << wire.TRACK_PAYLOAD_SHIFT | tag, self.buffer, word)

    def cursor(self) -> Any:
        """Position of the next record: a word of the buffer, in a ring the distance to the track's end, negated."""
        return self.state[CURSOR] if self.layout.capacity is None else self.place[0]

    def word(self, cursor: Any) -> Any:
        """The cursor as a word of the buffer."""
        if not self.is_ring:
            return cursor
        # As wide as offsets, so that the sum of the buffer's pointer and the track's end leaves the loop.
        wide = self.place.dtype
        return wide(self.state[LIMIT]) + wide(bitcast(cursor, i32))

    def may(self, cursor: Any) -> Any:
        """Tells whether this thread leads and the record fits."""
        limit = self.state[LIMIT]
        # With a capacity, room for every record was proved when the track was taken; in a ring there always is.
        is_checked = self.layout.capacity is None and not self.is_ring
        return cursor < limit if is_checked else limit > 0

    def after(self, cursor: Any, words: int) -> Any:
        """Returns the cursor advanced by that many words.

        A ring's wraps to zero at the end of the track, and the maximum makes that its start: on a GPU, addition
        and maximum are one instruction.
        """
        if self.layout.capacity is not None:
            return advanced(cursor, words)
        return max(cursor + words, self.state[FIRST]) if self.is_ring else cursor + words

    def advance(self, cursor: Any, words: int, recorded: int) -> None:
        """Moves the cursor past a record's last words, and counts all of its words."""
        if self.layout.capacity is not None:
            self.place[0] = self.after(cursor, words)
        else:
            if self.is_ring:
                self.state[COUNT] += recorded
            self.state[CURSOR] = self.after(cursor, words)

    def finalize(self) -> None:
        """The leader completes its track's header; records that follow are not stored."""
        buffer, state = self.buffer, self.state
        if state[LIMIT] > 0:
            header = state[HEADER]
            cursor = self.cursor()
            if self.is_ring:
                attempted = state[COUNT]
            elif self.layout.capacity is None:
                # Kept in the header and not in a register that no record needs.
                attempted = cursor - u32(buffer[header + wire.HEADER_WARP] >> 32)
            else:
                # A count would be a second variable in every loop; a last record needs only the place.
                attempted = wire.COUNT_BY_FINALIZE
                buffer[cursor + (self.layout.words - 1)] = wire.FINALIZE
            buffer[header + wire.HEADER_END] = packed(clock32(), attempted)
            buffer[header + wire.HEADER_END_NS] = u64(globaltimer())
            buffer[header + wire.HEADER_DONE] = buffer[wire.WORD_EPOCH]
            state[LIMIT] = 0
