# SPDX-License-Identifier: Apache-2.0
"""Checksums of many messages: CRC-32, as in zip files and Ethernet.

Shapes: `messages` is count x length, uint8; `checksums` has one uint32 per message. Each block first
computes the table of the 256 possible bytes into shared memory, then each thread walks one message.
"""

from __future__ import annotations

import zlib

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 64
POLYNOMIAL = 0xEDB88320  # bit-reversed, as the bits are sent lowest first


@weft.kernel
def crc32_kernel(messages: weft.Tensor, checksums: weft.Tensor):
    """One thread: one message."""
    table = weft.shared(256, weft.u32)
    for byte in range(weft.thread_idx.x, 256, THREADS):
        entry = weft.u32(byte)
        for _ in weft.static_range(8):
            entry = (entry >> 1) ^ ((entry & 1) * POLYNOMIAL)
        table[byte] = entry
    weft.sync_threads()

    number = weft.block_idx.x * THREADS + weft.thread_idx.x
    if number >= len(checksums):
        return
    message = messages[number]
    state = weft.u32(0xFFFFFFFF)
    for position in range(len(message)):
        state = (state >> 8) ^ table[(state ^ message[position]) & 0xFF]
    checksums[number] = ~state


@weft.jit
def crc32(
    messages: weft.Tensor[weft.u8, ("count", "length")],
    checksums: weft.Tensor[weft.u32, ("count",)],
):
    """Write each message's checksum."""
    crc32_kernel(messages, checksums).launch(
        grid=weft.ceil_div(len(checksums), THREADS), block=THREADS
    )


def make_arguments(count: int) -> Arguments:
    """Messages of random bytes."""
    random = np.random.default_rng(24)
    return {
        "messages": random.integers(0, 256, (count, 500), np.uint8),
        "checksums": np.empty(count, np.uint32),
    }


def fake_arguments():
    """Any messages of one length."""
    messages = weft.fake_tensor(weft.u8, (weft.sym("count"), weft.sym("length")))
    return messages, weft.fake_tensor(weft.u32, ("count",))


def reference(messages: np.ndarray, checksums: np.ndarray) -> Arrays:
    """What Python's zlib says."""
    found = [zlib.crc32(message.tobytes()) for message in messages]
    return {"checksums": np.array(found, np.uint32)}


EXAMPLE = Example(
    name="crc32",
    function=crc32,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda count: f"{count:,} messages of 500 bytes",
    size=20_000,
    test_size=201,
    instructions=("ld.shared", "bar.sync", "xor.b32"),
)

if __name__ == "__main__":
    show(EXAMPLE)
