# SPDX-License-Identifier: Apache-2.0
"""Digests of many short messages: SHA-256, one thread each, all rounds unrolled.

Shapes: `words` is count x 16, uint32: a padded message of at most 55 bytes, as big-endian words; `digests` is
count x 8, uint32. The constants are computed by Python while the kernel is compiled, and the message schedule is
a list of run-time values, so every index is known and nothing is kept in memory.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal, localcontext

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 128
LONGEST = 55  # bytes; with the padding it fills one block of 64


def _first_primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _root_bits(number: int, degree: int) -> int:
    """The first 32 bits of the fraction of a square or cube root."""
    with localcontext() as context:
        context.prec = 50
        return int(Decimal(number) ** (1 / Decimal(degree)) % 1 * 2**32)


ROUND_CONSTANTS = [_root_bits(prime, 3) for prime in _first_primes(64)]
START = [_root_bits(prime, 2) for prime in _first_primes(8)]


def rotated(x, by):
    """Rotate a 32-bit word right."""
    return (x >> by) | (x << (32 - by))


def mixed(x, first, second, third):
    """Xor of a word rotated three ways."""
    return rotated(x, first) ^ rotated(x, second) ^ rotated(x, third)


def extended(words):
    """The next word of the message schedule, from the sixteen before it."""
    early, late = words[-15], words[-2]
    small = rotated(early, 7) ^ rotated(early, 18) ^ (early >> 3)
    large = rotated(late, 17) ^ rotated(late, 19) ^ (late >> 10)
    return words[-16] + small + words[-7] + large


@weft.kernel
def sha256_kernel(messages: weft.Tensor, digests: weft.Tensor):
    """One thread: one message."""
    number = weft.block_idx.x * THREADS + weft.thread_idx.x
    if number >= messages.shape[0]:
        return
    schedule = [messages[number, position] for position in range(16)]
    state = tuple(weft.u32(word) for word in START)
    for turn, constant in enumerate(ROUND_CONSTANTS):  # unrolled
        if turn >= 16:
            schedule.append(extended(schedule))
        a, b, c, d, e, f, g, h = state
        chosen = (e & f) ^ (~e & g)
        majority = (a & b) ^ (a & c) ^ (b & c)
        added = h + mixed(e, 6, 11, 25) + chosen + constant + schedule[turn]
        state = (added + mixed(a, 2, 13, 22) + majority, a, b, c, d + added, e, f, g)
    for position, (first, last) in enumerate(zip(START, state, strict=True)):
        digests[number, position] = first + last


@weft.jit
def sha256(
    words: weft.Tensor[weft.u32, ("count", 16)],
    digests: weft.Tensor[weft.u32, ("count", 8)],
):
    """Write each message's digest."""
    sha256_kernel(words, digests).launch(grid=weft.ceil_div(words.shape[0], THREADS), block=THREADS)


def padded(message: bytes) -> np.ndarray:
    """A message of at most 55 bytes as the block of 16 words that SHA-256 reads."""
    assert len(message) <= LONGEST
    zeros = bytes(LONGEST - len(message))
    block = message + b"\x80" + zeros + (8 * len(message)).to_bytes(8, "big")
    return np.frombuffer(block, ">u4").astype(np.uint32)


def message_of(words: np.ndarray) -> bytes:
    """The message that was padded."""
    block = words.astype(">u4").tobytes()
    return block[: int.from_bytes(block[-8:], "big") // 8]


def make_arguments(count: int) -> Arguments:
    """Messages of random bytes and lengths."""
    random = np.random.default_rng(256)
    lengths = random.integers(0, LONGEST + 1, count)
    return {
        "words": np.stack([padded(random.bytes(int(length))) for length in lengths]),
        "digests": np.zeros((count, 8), np.uint32),
    }


def fake_arguments():
    """Any number of messages."""
    count = weft.sym("count")
    return weft.fake_tensor(weft.u32, (count, 16)), weft.fake_tensor(weft.u32, (count, 8))


def reference(words: np.ndarray, digests: np.ndarray) -> Arrays:
    """What Python's hashlib says."""
    found = [hashlib.sha256(message_of(row)).digest() for row in words]
    return {"digests": np.frombuffer(b"".join(found), ">u4").reshape(-1, 8).astype(np.uint32)}


EXAMPLE = Example(
    name="sha256",
    function=sha256,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda count: f"{count:,} messages of up to {LONGEST} bytes",
    size=100_000,
    test_size=301,
    instructions=("shf.l.wrap.b32", "xor.b32"),
)

if __name__ == "__main__":
    show(EXAMPLE)
