# SPDX-License-Identifier: Apache-2.0
"""Where a track's header and records lie in a buffer, computed by the threads that need to know.

In: how the profiler was made, and the buffer's size at run time. Out: places in words, and whether all fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.language.memory import access
from weft.language.numbers.operators import binary
from weft.language.threads import grid
from weft.types import dtype as types
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.language.profiling.emit import Emitter
    from weft.language.values import Scalar, Tensor

_MOST_WORDS: Final = wire.TRACK_MOST_WORDS - 1


class TrackOptions:
    """How a `TrackRecorder` records.

    Attributes:
        groups: names of the tracks of a block.
        leader: which threads may lead; None for the first thread of its group that comes to init().
        records: most records per track, or None for what the kernel needs or the buffer holds.
        is_wide: 16-byte records with 64-bit clocks.
        is_ring: keep the last records and not the first.
        blocks: which blocks of the grid record.
        enabled: a staged switch, or True.
    """

    __slots__ = ("blocks", "enabled", "groups", "is_ring", "is_wide", "leader", "records")

    def __init__(
        self,
        groups: Sequence[str],
        leader: Scalar | bool | None,
        records: int | None,
        is_wide: bool,
        is_ring: bool,
        blocks: range | None,
        enabled: Scalar | bool,
    ) -> None:
        self.groups = list(groups)
        self.leader = leader
        self.records = records
        self.is_wide = is_wide
        self.is_ring = is_ring
        self.blocks = blocks
        self.enabled = enabled


class TrackLayout:
    """The places of one launch.

    Args:
        buffer: u64 words.
        options: see there.

    Attributes:
        capacity: words that a track can need at most; None where only the run can tell.
        text_bytes: of the description.
    """

    __slots__ = ("_buffer", "_options", "capacity", "text_bytes")

    def __init__(self, buffer: Tensor, options: TrackOptions) -> None:
        self._buffer = buffer
        self._options = options
        self.capacity: int | None = None
        self.text_bytes = 0

    @property
    def words(self) -> int:
        """Words per record."""
        return 2 if self._options.is_wide else 1

    @property
    def first_header(self) -> int:
        """The first word of the tracks' headers."""
        return wire.PROLOGUE_WORDS + (self.text_bytes + 7) // 8

    @property
    def launch_words(self) -> tuple[int, ...]:
        """What a launch needs for all records, as `KernelOp.profile_words`; empty where only the run can tell."""
        if self.capacity is None:
            return ()
        chosen = self._options.blocks or range(wire.TRACK_MOST_WORDS)
        bounds = (
            min(part, wire.TRACK_MOST_WORDS) for part in (chosen.start, chosen.stop, chosen.step)
        )
        block = len(self._options.groups) * (wire.HEADER_WORDS + self.capacity)
        return (self.first_header, block, *bounds)

    def size(self, emitter: Emitter) -> Scalar:
        """Words of the buffer, at most 2³¹ − 1."""
        size = access.dim(emitter.builder, self._buffer, 0)
        if isinstance(size, int):
            return emitter.u32(min(size, _MOST_WORDS))
        if size.dtype.bits == 32:
            return emitter.u32(size)
        small = emitter.is_below(size, _MOST_WORDS)
        return emitter.chosen(small, emitter.u32(size), _MOST_WORDS)

    def recorded_blocks(self, emitter: Emitter) -> Scalar:
        """How many blocks of the grid record, u32."""
        blocks = emitter.count(grid.grid_dim)
        chosen = self._options.blocks
        if chosen is None:
            return blocks
        end = emitter.chosen(
            emitter.is_below(blocks, min(chosen.stop, _MOST_WORDS)), blocks, chosen.stop
        )
        start = emitter.u32(chosen.start)
        span = emitter.add(emitter.subtract(end, start), chosen.step - 1)
        count = emitter.u32(binary(emitter.builder, "//", span, chosen.step))
        return emitter.chosen(emitter.is_below(start, end), count, 0)

    def block_number(self, emitter: Emitter) -> tuple[Scalar, Scalar | None]:
        """This block's place among those that record, and whether it is one; None for always."""
        block = emitter.linear(grid.block_idx, grid.grid_dim)
        chosen = self._options.blocks
        if chosen is None:
            return block, None
        offset = emitter.subtract(block, chosen.start)
        number = emitter.u32(binary(emitter.builder, "//", offset, chosen.step))
        exact = emitter.is_equal(emitter.multiply(number, chosen.step), offset)
        above = emitter.is_at_most(chosen.start, block)
        below = emitter.is_below(block, min(chosen.stop, _MOST_WORDS))
        return number, emitter.all_of(exact, above, below)

    def places(self, emitter: Emitter, size: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """First word of the records, words per track, words needed (u64), and whether they are there."""
        groups = len(self._options.groups)
        tracks = emitter.multiply(emitter.u64(self.recorded_blocks(emitter)), groups)
        records = emitter.add(emitter.multiply(tracks, wire.HEADER_WORDS), self.first_header)
        wide_size = emitter.u64(size)
        smallest = self.words if self.capacity is None else self.capacity
        needed = emitter.add(records, emitter.multiply(tracks, smallest))
        fits = emitter.all_of(
            emitter.is_at_most(needed, wide_size), emitter.is_below(emitter.u64(0), tracks)
        )
        if self.capacity is not None:
            return emitter.u32(records), emitter.u32(self.capacity), needed, fits
        room = emitter.subtract(size, emitter.u32(records))
        divisor = emitter.chosen(fits, emitter.u32(tracks), 1)
        share = emitter.u32(binary(emitter.builder, "//", room, divisor))
        if self._options.records is not None:
            most = self._options.records * self.words
            share = emitter.chosen(emitter.is_below(share, most), share, most)
        if self.words == 2:
            share = emitter.bit_and(share, emitter.u32(~1 & 0xFFFFFFFF))
        return emitter.u32(records), share, needed, fits

    def when_prepared(
        self, emitter: Emitter, condition: Scalar, body: Callable[[Scalar], None]
    ) -> None:
        """Emits `body(size)` where the buffer is one that the host has prepared."""
        size = self.size(emitter)
        long_enough = emitter.is_at_most(wire.PROLOGUE_WORDS, size)

        def check() -> None:
            magic = emitter.load(self._buffer, wire.WORD_MAGIC)
            known = emitter.as_type(wire.TRACK_MAGIC, types.u64)
            same = emitter.is_equal(emitter.u64(magic), known)
            emitter.when(same, lambda: body(size))

        emitter.when(emitter.bit_and(condition, long_enough), check)
