# SPDX-License-Identifier: Apache-2.0
"""Buffers written in plain Python, from what the formats' drawings say: the other side of the decoders.

In: per track a list of (time, kind, event, payload). Out: u64 words. Nothing here is shared with weft but numbers.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np


class Entry(NamedTuple):
    """One record: nanoseconds since the launch began, kind, event, payload or None."""

    time: int
    kind: int
    event: int
    payload: int | None = None


def tirx_buffer(tracks: list[list[Entry]], groups: int, *, start_ns: int = 0, extra: int = 0):
    """The `tirx` format: word 0, then records interleaved with a stride of all tracks."""
    assert len(tracks) % groups == 0
    longest = max((len(track) for track in tracks), default=0)
    words = np.zeros(1 + len(tracks) * longest + extra, np.uint64)
    words[0] = groups << 32 | len(tracks) // groups
    for number, track in enumerate(tracks):
        for place, entry in enumerate(track):
            low = number << 12 | entry.event << 2 | entry.kind
            time = (start_ns + entry.time) & 0xFFFFFFFF
            words[1 + number + place * len(tracks)] = time << 32 | low
    return words


def track_buffer(
    tracks: list[list[Entry]],
    groups: int,
    *,
    names: list[str],
    capacity: int,
    start_ns: int = 1 << 50,
    start_clock: int = 0,
    ratio: int = 1,
    lasts_ns: int = 1 << 20,
    flags: int = 4,
    epoch: int = 12345,
    ring: bool = False,
):
    """The `track` format; clocks run `ratio` ticks per nanosecond from `start_clock`."""
    text = json.dumps(
        {"kernel": "written", "events": names, "groups": [f"g{i}" for i in range(groups)]}
    ).encode()
    padded = text.ljust(-(-len(text) // 8) * 8)
    headers = 16 + len(padded) // 8
    records = headers + 8 * len(tracks)
    words = np.full(records + capacity * len(tracks), 0xDEADBEEF, np.uint64)
    words[headers:records] = 0xFEED
    blocks = len(tracks) // groups
    words[:16] = 0
    words[0] = int.from_bytes(b"weftprf1", "little")
    words[1] = words[2] = epoch
    words[3] = groups << 32 | blocks
    words[4] = capacity << 32 | flags | (2 if ring else 0)
    words[5] = len(text) << 32 | 16
    words[6] = records << 32 | headers
    words[7] = len(words)
    words[8] = 1 << 32 | blocks
    words[9] = 32 << 32 | 1
    words[10] = 1 << 32 | 1
    words[16:headers] = np.frombuffer(padded, "<u8")
    for number, track in enumerate(tracks):
        header = words[headers + 8 * number : headers + 8 * number + 8]
        stream = [word for entry in track for word in track_words(entry, start_clock, ratio)]
        header[0] = header[7] = epoch
        header[1], header[3] = start_ns, start_ns + lasts_ns
        header[2] = 7 << 48 | start_clock & (1 << 48) - 1
        end_clock = start_clock + lasts_ns * ratio & 0xFFFFFFFF
        header[4] = end_clock << 32 | len(stream)
        header[6] = number
        base = records + number * capacity
        for place, word in enumerate(stream):
            if ring:
                words[base + place % capacity] = word
            elif place < capacity:
                words[base + place] = word
    return words


def track_words(entry: Entry, start_clock: int, ratio: int) -> list[int]:
    """One record, and the extension that a payload of more than 16 bits takes."""
    clock = start_clock + entry.time * ratio & 0xFFFFFFFF
    low = entry.event << 4 | entry.kind
    if entry.payload is None:
        return [clock << 32 | low]
    if entry.payload < 1 << 16:
        return [clock << 32 | entry.payload << 16 | 8 | low]
    return [clock << 32 | 8 | low, entry.payload << 32 | 7]
