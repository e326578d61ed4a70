# SPDX-License-Identifier: Apache-2.0
"""The bits of the profiler's buffers, which kernels write and hosts read; nothing but numbers.

In: nothing. Out: constants of the two wire formats, `tirx` and `track`.
"""

from __future__ import annotations

from typing import Final

# ---- kinds of records, in both formats. Those above 3 exist in the track format only.

START: Final = 0
END: Final = 1
INSTANT: Final = 2
FINALIZE: Final = 3
COUNTER: Final = 4
ASYNC_BEGIN: Final = 5
ASYNC_END: Final = 6
EXTENSION: Final = 7
"""Follows a record and holds 32 more bits of its payload where a timestamp would be."""
KIND_NAMES: Final = (
    *("start", "end", "instant", "finalize"),
    *("counter", "async begin", "async end", "extension"),
)

# ---- tirx: one stream of 64-bit words; tracks are interleaved with a stride that the user chooses.
#
#   word 0   63..32 groups per block    31..0 blocks
#   record   63..32 nanoseconds, low 32 bits    31..12 track    11..2 event    1..0 kind
#
# Where the launch was refused, the top byte of word 0 says why; a run that recorded as it should has 0 there.
# A track's first word holds a finalize from the moment that a leader takes it until its first record.

TIRX_MOST_EVENTS: Final = 1 << 10
TIRX_MOST_TRACKS: Final = 1 << 20
TIRX_EVENT_SHIFT: Final = 2
TIRX_TRACK_SHIFT: Final = 12
TIRX_REFUSAL_SHIFT: Final = 56

REFUSED_TRACKS: Final = 1
REFUSED_STRIDE: Final = 2
REFUSED_GROUP: Final = 3
REFUSED_SIZE: Final = 4
TAKEN_TWICE: Final = 5
"""No refusal: tracks that two threads took have records, and the report says that they cannot be trusted."""
REFUSED_STRIDE_RANGE: Final = 6
TIRX_MOST_STRIDE: Final = (1 << 31) - 1
REFUSALS: Final = {
    REFUSED_TRACKS: "the grid has more than 2^20 tracks (blocks x num_groups), which the format cannot tell apart",
    REFUSED_STRIDE: "write_stride is smaller than blocks x num_groups, so that tracks would overwrite each other",
    REFUSED_GROUP: "a thread called init() with a group_id outside 0 .. num_groups - 1",
    REFUSED_SIZE: "the buffer is too small",
    REFUSED_STRIDE_RANGE: "write_stride is not in 1 .. 2^31 - 1, as a negative one",
}
TAKEN_TWICE_TEXT: Final = (
    "a track was taken twice: it has two leaders, a leader called init() twice, or the buffer was not zeroed before "
    "the launch"
)

# ---- track: a prologue, then a header of 8 words per track, then each track's records side by side.

TRACK_MAGIC: Final = 0x31_66_72_70_74_66_65_77  # "weftprf1", read as bytes
PROLOGUE_WORDS: Final = 16
# Written by the host before a launch:
WORD_MAGIC: Final = 0
WORD_EPOCH: Final = 1
"""Any number that differs from launch to launch; it tells this launch's headers from what lay there."""
# Written by the first thread of the grid:
WORD_ECHO: Final = 2
"""The epoch again: the kernel has run."""
WORD_TRACKS: Final = 3  # 63..32 groups per block    31..0 blocks
WORD_LAYOUT: Final = 4  # 63..32 capacity of a track in words    31..0 flags
WORD_TEXT: Final = 5  # 63..32 bytes of the description    31..0 its first word
WORD_HEADERS: Final = 6  # 63..32 first word of the records    31..0 first word of the headers
WORD_NEEDED: Final = 7  # words that the buffer must have
WORD_GRID_XY: Final = 8  # 63..32 grid_dim.y    31..0 grid_dim.x
WORD_GRID_Z: Final = 9  # 63..32 block_dim.x    31..0 grid_dim.z
WORD_BLOCK_YZ: Final = 10  # 63..32 block_dim.z    31..0 block_dim.y
WORD_REFUSAL: Final = 11
WORD_LAUNCHES: Final = 12
"""Number of launches that have used the buffer since the host prepared it; only the first records."""
WORD_OUTSIDE: Final = 13
"""The epoch, once a thread has come to init() with a group that there is not one of."""

FLAG_WIDE: Final = 1  # records of two words
FLAG_RING: Final = 2  # the last records are kept, and not the first
FLAG_NANOSECONDS: Final = 4  # record times are nanoseconds and not cycles

HEADER_WORDS: Final = 8
HEADER_CLAIM: Final = 0  # the epoch, once a leader has taken the track
HEADER_BEGIN_NS: Final = 1
HEADER_BEGIN_CLOCK: Final = 2  # 63..48 multiprocessor    47..0 clock
HEADER_END_NS: Final = 3
HEADER_END: Final = 4  # 63..32 clock    31..0 words that were attempted
COUNT_BY_FINALIZE: Final = 0xFFFFFFFF
"""Stands for the number of words where a record of the kind FINALIZE ends them."""
HEADER_DOUBLED: Final = 5  # the epoch, once a second leader has tried to take the track
HEADER_WARP: Final = 6  # 63..32 first word of the track's records    31..0 warp
HEADER_DONE: Final = 7  # the epoch, once the track is final

# A track's record:  63..32 clock    31..16 payload    15..4 event    3 has payload    2..0 kind
# A wide one:       clock, 64 bits; then 63..32 payload    31..16 zero    15..0 as above
TRACK_HAS_PAYLOAD: Final = 1 << 3
TRACK_MOST_EVENTS: Final = 1 << 12
TRACK_EVENT_SHIFT: Final = 4
TRACK_PAYLOAD_SHIFT: Final = 16
TRACK_MOST_WORDS: Final = 1 << 31
