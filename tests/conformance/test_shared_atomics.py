# SPDX-License-Identifier: Apache-2.0
"""Every atomic operation on every type in shared memory, from all threads of a block, against its model.

In: small integers, which every type holds, so that no order of threads can be told from the sums. Out: what is
left, and how often compare-and-swap found what it expected. Next: test_cuda.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define

THREADS = 96
INTEGERS = (weft.i32, weft.u32, weft.i64, weft.u64)
FLOATS = (weft.f16, weft.bf16, weft.f32, weft.f64)
ARITHMETIC = ("add", "sub", "max", "min")
BITWISE = ("and", "or", "xor")
FIRST = 100


def left_by(kind: str, values: list[int]) -> int:
    steps = {
        "add": lambda old, value: old + value,
        "sub": lambda old, value: old - value,
        "max": max,
        "min": min,
        "and": lambda old, value: old & value,
        "or": lambda old, value: old | value,
        "xor": lambda old, value: old ^ value,
    }
    return reduce(steps[kind], values, FIRST)


def source(kinds: tuple[str, ...], name: str) -> str:
    calls = "\n        ".join(
        f"weft.atomic_{kind}(cells, {place}, values[t])" for place, kind in enumerate(kinds)
    )
    return f"""
    @weft.kernel
    def kernel(values: weft.Tensor, out: weft.Tensor, won: weft.Tensor):
        cells = weft.shared({len(kinds) + 2}, weft.{name})
        t = weft.thread_idx.x
        if t < {len(kinds) + 2}:
            cells[t] = {FIRST}
        weft.sync_threads()
        {calls}
        weft.atomic_exchange(cells, {len(kinds)}, values[t])
        if weft.atomic_cas(cells, {len(kinds) + 1}, {FIRST}, values[t]) == {FIRST}:
            weft.atomic_add(won, 0, 1)
        weft.sync_threads()
        if t < {len(kinds) + 2}:
            out[t] = cells[t]

    @weft.jit
    def host(values: weft.Tensor, out: weft.Tensor, won: weft.Tensor):
        kernel(values, out, won).launch(grid=1, block={THREADS})
    """


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_every_thread_of_a_block_is_counted_once(dtype: weft.DType):
    kinds = ARITHMETIC + (BITWISE if dtype in INTEGERS else ())
    values = [thread % 3 for thread in range(THREADS)]
    # A sum that stays below what the smallest type counts exactly; a difference that stays positive for u32.
    values = [value if thread < 48 else 0 for thread, value in enumerate(values)]
    numpy_type = NUMPY_TYPES[dtype]
    given, out = np.array(values).astype(numpy_type), np.zeros(len(kinds) + 2, numpy_type)
    won = np.zeros(1, np.int32)
    wrap = Exported if dtype is weft.bf16 else lambda array: array
    define(source(kinds, dtype.name))["host"](wrap(given), wrap(out), won)
    found = [int(value) for value in out]
    assert found[: len(kinds)] == [left_by(kind, values) for kind in kinds]
    assert found[len(kinds)] in values
    assert found[len(kinds) + 1] in values
    assert won.tolist() == [1]
