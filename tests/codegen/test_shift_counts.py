# SPDX-License-Identifier: Apache-2.0
"""Shifts by counts of every type and size: a GPU's instructions do what the CPU target does, and what Python does.

LLVM 20 takes `select(count < 32, x << trunc(count), 0)`, with a count of 64 bits, for a shift that bounds its count,
and loses the high half of the count.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sampling import sampled
from tools.fuzz.gpu.arrays import Array
from tools.fuzz.gpu.cases import Case
from tools.fuzz.gpu.compare import compared, on_cpu
from tools.fuzz.gpu.emulated import on_emulator

INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
NUMBERS = [1, 3, -1, -2, 0x5A5A5A5A5A5A5A5A, -(2**63), 2**63 - 1, 77]
COUNTS = [
    0,
    1,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    65,
    2**15,
    2**16,
    2**31,
    2**32,
    2**32 + 1,
    2**40,
    2**63,
    -1,
    -32,
    -64,
]
SIZE = len(NUMBERS) * len(COUNTS)


def wrapped(values: list[int], dtype: str) -> tuple[int, ...]:
    """Each number modulo the type."""
    bits, signed = int(dtype[1:]), dtype[0] == "i"
    low = [value & ((1 << bits) - 1) for value in values]
    return tuple(one - (1 << bits) if signed and one >> (bits - 1) else one for one in low)


def shifted(number: int, operator: str, count: int, dtype: str) -> int:
    """As the language says: a negative count is a large one."""
    count = 64 if count < 0 else min(count, 64)
    return wrapped([number << count if operator == "<<" else number >> count], dtype)[0]


def case_of(dtype: str, operator: str) -> Case:
    """One array of numbers, and for each type of counts one of these and one of results."""
    names = [f"{kind}_{count}" for count in INTEGERS for kind in ("by", "out")]
    parameters = ", ".join(f"{name}: weft.Tensor" for name in ("x", *names))
    lines = [f"    out_{count}[i] = x[i] {operator} by_{count}[i]" for count in INTEGERS]
    source = f"""@weft.kernel
def kernel({parameters}):
    i = weft.thread_idx.x
{chr(10).join(lines)}

@weft.jit
def host({parameters}):
    kernel({", ".join(("x", *names))}).launch(grid=1, block={SIZE})
"""
    numbers = [number for number in NUMBERS for _ in COUNTS]
    arrays = [Array(dtype, (SIZE,), (1,), numbers=wrapped(numbers, dtype))]
    for count in INTEGERS:
        arrays.append(Array(count, (SIZE,), (1,), numbers=wrapped(COUNTS * len(NUMBERS), count)))
        arrays.append(Array(dtype, (SIZE,), (1,), numbers=(0,) * SIZE))
    return Case(0, "sums", source, tuple(arrays))


@pytest.mark.parametrize(
    ("dtype", "operator"), sampled(itertools.product(INTEGERS, ["<<", ">>"]), 6, several=True)
)
def test_a_count_of_any_type_and_size_gives_what_python_gives(dtype: str, operator: str):
    case = case_of(dtype, operator)
    numbers, *rest = (array for array in case.arguments if isinstance(array, Array))
    memory = on_cpu(case)
    for place in range(0, len(rest), 2):
        counts, out = rest[place : place + 2]
        pairs = zip(numbers.numbers or (), counts.numbers or (), strict=True)
        expected = [shifted(int(str(n)), operator, int(str(c)), dtype) for n, c in pairs]
        np.testing.assert_array_equal(out.view(memory[place + 2]), expected, err_msg=counts.dtype)
    assert compared(case, on_emulator).kind == "same"


FORMS = {
    "a choice": "out[i] = (x << weft.{dtype}(by[i])) if by[i] < {bits} else weft.{dtype}(0)",
    "where": "out[i] = weft.where(by[i] < {bits}, x >> weft.{dtype}(by[i]), weft.{dtype}(0))",
    "a branch": """r = weft.{dtype}(0)
    if by[i] < {bits}:
        r = x << (weft.{dtype}(by[i]) & ({bits} - 1))
    out[i] = r""",
}


@pytest.mark.parametrize(
    ("form", "dtype"),
    sampled(itertools.product(FORMS, ["u8", "u16", "u32", "u64", "i32"]), 6, several=True),
)
@pytest.mark.parametrize("count", ["u64", "i64"])
def test_a_programs_own_comparison_keeps_the_high_half_of_a_count(form, dtype, count):
    bits = int(dtype[1:])
    source = f"""@weft.kernel
def kernel(by: weft.Tensor, out: weft.Tensor, x: weft.i32):
    i = weft.thread_idx.x
    x = weft.{dtype}(x)
    {FORMS[form].format(dtype=dtype, bits=bits)}

@weft.jit
def host(by: weft.Tensor, out: weft.Tensor, x: weft.i32):
    kernel(by, out, x).launch(grid=1, block={len(COUNTS)})
"""
    counts = Array(count, (len(COUNTS),), (1,), numbers=wrapped(COUNTS, count))
    out = Array(dtype, (len(COUNTS),), (1,), numbers=(0,) * len(COUNTS))
    case = Case(0, "sums", source, (counts, out, 77))
    found = out.view(on_cpu(case)[1])
    for one, result in zip(counts.numbers or (), found.tolist(), strict=True):
        if int(str(one)) >= bits:
            assert result == 0, one
    assert compared(case, on_emulator).text == ""
