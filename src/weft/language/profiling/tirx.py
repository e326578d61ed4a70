# SPDX-License-Identifier: Apache-2.0
"""The recorder of the `tirx` format, in weft's own language: the code of `CudaProfiler`'s markers in a kernel.

The pass `expand_profiler_events` inlines its methods at the events. In: a u64 buffer. Out: records, word for word those
of TIRx's CudaProfiler, tracks interleaved with the user's stride, and no store outside the buffer.
"""

from __future__ import annotations

from typing import Any

from weft.language.memory.atomics import atomic_exchange, atomic_max
from weft.language.profiling.device import (
    block_count,
    block_number,
    fill,
    is_constant,
    packed,
    record,
)
from weft.language.threads.barrier import fence_block
from weft.language.threads.grid import block_idx, thread_idx
from weft.types import record_format as wire
from weft.types.dtype import u32, u64

CURSOR, LIMIT, TAG = STATE = tuple(range(3))


class TirxRecorder:
    """Recorder of one profiler's events.

    Args:
        buffer: u64 words.
        state: `STATE` words of the thread's own, u32. Until its init() a limit of 0, which no cursor is below.
        stride: words between two records of a track.
        groups: per block.
        leader: which threads record where a mark does not say; or None.
        enabled: a switch.
        fence: whether start and end wait for the memory accesses of the block, as the original's do.
    """

    def __init__(
        self,
        buffer: Any,
        state: Any,
        stride: Any,
        groups: Any,
        leader: Any,
        enabled: Any,
        fence: bool,
    ) -> None:
        self.buffer = buffer
        self.state = state
        self.stride = stride
        self.groups = groups
        self.leader = leader
        self.enabled = enabled
        self.fence = fence

    def begin(self) -> None:
        """Code of the profiler's construction: no thread has a track."""
        fill(self.state, 0, [0] * len(STATE))

    def size(self) -> Any:
        """Words of the buffer, at most 2³² − 1, u32."""
        size = self.buffer.shape[0]
        if is_constant(size) or size.dtype.bits > 32:
            size = min(size, 0xFFFFFFFF)
        return u32(size)

    def init(self, group: Any) -> None:
        """Points the thread at its track, if the launch fits the format; else says why it does not."""
        state, size, blocks = self.state, self.size(), block_count()
        groups, stride = u32(self.groups), u32(self.stride)
        refusal = self.refusal(group, blocks, size)
        usable = (refusal == 0) & self.enabled
        # By the first thread, as in the original; and by any thread that is refused.
        first = (block_idx.x | block_idx.y | block_idx.z | thread_idx.x) == 0
        if (first | (refusal > 0)) & (size > 0) & self.enabled:
            self.flag(refusal)
        track = block_number() * groups + u32(group)
        state[CURSOR] = track + 1
        state[TAG] = track << wire.TIRX_TRACK_SHIFT
        # A cursor below the limit can be advanced once more without passing 2³².
        limit = min(size, u32(0) - stride)
        state[LIMIT] = limit if usable else 0
        if self.leader is not None:
            if usable & self.leader:
                self.claim(track)

    def refusal(self, group: Any, blocks: Any, size: Any) -> Any:
        """Why this launch cannot record, a number of `REFUSALS`; 0 where it can."""
        # In 64 bits, where a negative number is too large instead of wrapping into the range.
        groups, group, stride = u64(self.groups), u64(group), u64(self.stride)
        tracks, most = blocks * u32(self.groups), wire.TIRX_MOST_TRACKS
        too_many = (groups > most) | (u64(blocks) * groups > most)
        found = u32(wire.REFUSED_SIZE) if size <= tracks else u32(0)
        found = u32(wire.REFUSED_GROUP) if groups <= group else found
        found = u32(wire.REFUSED_STRIDE) if stride < u64(tracks) else found
        found = u32(wire.REFUSED_TRACKS) if too_many else found
        return u32(wire.REFUSED_STRIDE_RANGE) if stride > wire.TIRX_MOST_STRIDE else found

    def flag(self, reason: Any) -> None:
        """Word 0 with a reason in its top byte, which no later header without one replaces."""
        header = packed(self.groups, block_count())
        atomic_max(self.buffer, 0, u64(reason) << wire.TIRX_REFUSAL_SHIFT | header)

    def claim(self, track: Any) -> None:
        """The leader puts a finalize where its first record goes; a thread that finds one there is not alone."""
        final = u64(track << wire.TIRX_TRACK_SHIFT | wire.FINALIZE)
        if atomic_exchange(self.buffer, track + 1, final) > 0:
            self.flag(wire.TAKEN_TWICE)

    def mark(self, bits: Any, leads: Any, opens: bool, ends: bool) -> None:
        """Records an event and a kind, which are `bits`."""
        if self.fence and ends:
            fence_block()
        state = self.state
        cursor = state[CURSOR]
        may = (cursor < state[LIMIT]) & leads
        if self.leader is None:
            # Where only calls name leaders, init knows none: each claims its track before its first record.
            track = state[TAG] >> wire.TIRX_TRACK_SHIFT
            if may & (cursor == track + 1):
                self.claim(track)
        record("globaltimer", may, state[TAG] | bits, self.buffer, cursor)
        # Only a track that still has room advances, so that a cursor never wraps back into the buffer.
        state[CURSOR] = cursor + u32(self.stride) if may else cursor
        if self.fence and opens:
            fence_block()
