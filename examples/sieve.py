# SPDX-License-Identifier: Apache-2.0
"""Which numbers are prime: the sieve of Eratosthenes.

Shapes: `is_prime` has one uint8 per number from 0 on; it becomes 1 for primes. Each thread takes one
number up to the square root and, if that is prime, strikes out its multiples. Threads that strike out the
same number write the same byte.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 128


@weft.kernel
def begin_kernel(is_prime: weft.Tensor):
    """Mark one number per iteration as prime, until struck out."""
    for number in weft.each(len(is_prime)):
        is_prime[number] = number >= 2


def has_divisor(number):
    """Whether a number above 1 is not prime, by trial."""
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return True
        divisor += 1
    return False


@weft.kernel
def strike_kernel(is_prime: weft.Tensor, root: weft.i32):
    """One thread: the multiples of one number."""
    number = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if 2 <= number <= root and not has_divisor(number):
        for multiple in range(number * number, len(is_prime), number):
            is_prime[multiple] = 0


@weft.jit
def sieve(is_prime: weft.Tensor[weft.u8, ("n",)]):
    """Mark the primes below n, which is at most 2^31 - 2^17."""
    n = len(is_prime)
    root = 1
    while (root + 1) * (root + 1) < n:
        root += 1
    begin_kernel(is_prime).launch(over=n)
    strike_kernel(is_prime, root).launch(grid=weft.ceil_div(root + 1, THREADS), block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Room for the answers."""
    return {"is_prime": np.full(n, 7, np.uint8)}


def fake_arguments():
    """Any number of numbers."""
    return (weft.fake_tensor(weft.u8, ("n",)),)


def reference(is_prime: np.ndarray) -> Arrays:
    """What NumPy says: strided assignments, one per prime."""
    expected = np.ones_like(is_prime)
    expected[:2] = 0
    for number in range(2, int(len(expected) ** 0.5) + 1):
        if expected[number]:
            expected[number * number :: number] = 0
    return {"is_prime": expected}


EXAMPLE = Example(
    name="sieve",
    function=sieve,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} numbers",
    size=10_000_000,
    test_size=10_007,
    instructions=("st.global",),
)

if __name__ == "__main__":
    show(EXAMPLE)
