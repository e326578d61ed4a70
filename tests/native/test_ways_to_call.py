# SPDX-License-Identifier: Apache-2.0
"""A number is accepted or refused, and becomes the same value, whichever way it reaches a kernel.

Compiled functions, direct calls, `kernel[grid, block]`, prepared calls and pickled functions decode it in the
generated wrapper; elements that Python sets, and parameters of a driver's launch, in the extension's extractors.
"""

from __future__ import annotations

import enum
import math
import pickle
import random

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import weft
from tests.sampling import sampled
from weft.cli.functions import numpy_type
from weft.types.dtype import DTYPES


class Color(enum.IntEnum):
    RED = 3


POWERS = [2**bits + off for bits in (7, 8, 15, 16, 31, 32, 63, 64) for off in (-1, 0)]
INTS = [0, 1, 2, -1, *POWERS, *(-p for p in POWERS), *(-p - 1 for p in POWERS), 10**40, 10**400]
# Around the largest value of each float type, and halfway to the next; subnormals; ties.
FLOATS = [
    *(0.0, 1.0, 1.5, 0.1, math.inf, math.nan, 5e-324, 1e-45, 6e-8, 2**-24, 2**-25, 3 * 2**-26),
    *(448.0, 464.0, 465.0, 57344.0, 61439.0, 61440.0, 65504.0, 65519.0, 65520.0),
    *(3.3895e38, 3.3961e38, 3.4028234663852886e38, 3.4028235677973366e38, 3.5e38, 1e300),
    *(1 + 2.0**-bits for bits in (3, 4, 8, 9, 11, 12, 24, 25, 53)),
]
OTHERS = [
    *(True, False, np.bool_(True), np.bool_(False), Color.RED),
    *(np.dtype(code).type(value) for code in "bhilBHIL" for value in (0, 1, 100)),
    *(np.int8(-3), np.int64(-(2**63)), np.uint8(200), np.uint64(2**64 - 1)),
    *(np.float16(1.5), np.float32(0.1), np.float64(0.1), np.float32("inf"), np.float16(6e-8)),
    *(ml_dtypes.bfloat16(1.5), ml_dtypes.float8_e4m3fn(1.5), ml_dtypes.float8_e5m2(3)),
    *("1", b"1", None, 1j, [1], (1,)),
]
VALUES = [*INTS, *FLOATS, *(-x for x in FLOATS), *OTHERS]


def outcome(call, value):
    """What came back, or that the value was refused: an error of the kind or of the range."""
    try:
        found = call(value)
    except (TypeError, ValueError, weft.SignatureError):
        return "refused"
    if isinstance(found, np.generic):
        found = found.item()
    return ("float", found.hex()) if isinstance(found, float) else (type(found).__name__, found)


def ways_to_pass(dtype):
    """Functions of a number that give it back, as a value of the type."""

    @weft.jit
    def echo(x: dtype):
        return x

    @weft.kernel
    def put(out, x: dtype):
        out[0] = x

    compiled = weft.compile(echo, 1.0 if dtype.is_float else dtype.is_bool or 1)
    out = weft.empty((1,), dtype)
    element = weft.empty((1,), dtype)

    def through_kernel(value):
        put[1, 1](out, value)
        return out.tolist()[0]

    def through_element(value):
        element[0] = value
        return element.tolist()[0]

    return {
        "compiled": compiled,
        "direct": echo,
        "kernel": through_kernel,
        "prepared": lambda value: compiled.prepare(value)(),
        "pickled": pickle.loads(pickle.dumps(compiled)),
        "element": through_element,
    }


def expected(dtype, value):
    """The rule of docs/calling.md, in Python; None where ml_dtypes decides what a float becomes."""
    flag = isinstance(value, bool | np.bool_)
    whole = flag or isinstance(value, int | np.integer)
    if dtype.is_float:
        if not whole and not isinstance(value, float | np.floating | ml_dtypes.bfloat16):
            return None if isinstance(value, np.generic) else "refused"
        return None
    if not whole or not dtype.minimum <= int(value) <= dtype.maximum:
        return "refused"
    return ("bool", bool(value)) if dtype.is_bool else ("int", int(value))


@pytest.mark.parametrize("dtype", sampled(DTYPES, 6), ids=str)
def test_a_number_has_one_value_whichever_way_it_is_passed(dtype):
    ways = ways_to_pass(dtype)
    cases = [(way, value) for value in VALUES for way in ways]
    random.Random(dtype.name).shuffle(cases)  # what was passed before decides nothing
    found = {}
    for way, value in cases:
        found[way, id(value)] = outcome(ways[way], value)
    for value in VALUES:
        results = {way: found[way, id(value)] for way in ways}
        # An int beyond 64 bits reaches the wrapper as no number that it can round; an element is set by Python.
        beyond = isinstance(value, int | np.integer) and not -(2**63) <= int(value) < 2**63
        if dtype.is_float and beyond:
            assert {results[way] for way in ways if way != "element"} == {"refused"}, value
            continue
        assert len(set(results.values())) == 1, (value, results)
        wanted = expected(dtype, value)
        assert wanted is None or results["compiled"] == wanted, (value, results)


def _rounded(dtype, value):
    """A float rounded by ml_dtypes or NumPy, which make infinities of what is too large."""
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(numpy_type(dtype)))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float], ids=str)
def test_floats_are_rounded_as_numpy_rounds_them(dtype):
    @weft.jit
    def echo(x: dtype):
        return x

    compiled = weft.compile(echo, 1.0)
    generator = random.Random(7)
    exponents = range(-30, 20) if dtype.bits < 32 else range(-160, 140)
    scaled = [
        math.ldexp(generator.uniform(-2, 2), generator.choice(exponents)) for _ in range(2000)
    ]
    for value in [*FLOATS, *(-x for x in FLOATS), *scaled]:
        found, wanted = outcome(compiled, value), _rounded(dtype, value)
        too_large = not math.isfinite(wanted) and math.isfinite(value)
        vanishes = wanted == 0 and value != 0
        if too_large or vanishes or (math.isinf(value) and not dtype.info.format.has_infinity):
            assert found == "refused", value
        else:
            assert found == ("float", wanted.hex()), value


UNTYPED = (
    *(True, 1, -5, 2**40, 1.5, None, np.bool_(True), np.int8(-3), np.uint8(200), np.int64(7)),
    *(np.float16(1.5), np.float32(0.25), np.float64(0.1), Color.RED),
)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_calls_decides_no_result(seed):
    def make():
        @weft.jit
        def echo(x):
            return x

        return echo

    alone = {id(value): outcome(make(), value) for value in UNTYPED}
    order = [*UNTYPED, *UNTYPED]
    random.Random(seed).shuffle(order)
    together = make()
    for value in order:
        assert outcome(together, value) == alone[id(value)], (value, order)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_every_bit_pattern_of_a_16_bit_scalar_keeps_its_value(kind):
    @weft.jit
    def echo(x: weft.f64):
        return x

    compiled = weft.compile(echo, 1.0)
    for scalar in np.arange(1 << 16, dtype=np.uint16).view(kind):
        found = compiled(scalar)
        assert found == float(scalar) or (math.isnan(found) and math.isnan(float(scalar)))


SIZES = (
    5,
    8,
    2**31 - 1,
    2**31,
    2**40,
    2**63,
    -1,
    True,
    np.int32(4),
    np.uint32(2**31),
    np.int64(2**33),
)


@pytest.mark.parametrize(
    "declared", [weft.sym("n"), weft.sym("n", divisibility=4), weft.sym("n", width=64), weft.i64]
)
def test_the_order_of_calls_decides_no_size(declared):
    def make():
        @weft.jit
        def size(n: declared):
            return n

        return size

    alone = [outcome(make(), value) for value in SIZES]
    for seed in range(3):
        order = [*range(len(SIZES))] * 2
        random.Random(seed).shuffle(order)
        together = make()
        for index in order:
            assert outcome(together, SIZES[index]) == alone[index], (SIZES[index], order)


@pytest.mark.parametrize("width", [32, 64])
def test_the_order_of_calls_decides_no_dim_and_no_stride(width):
    """Dims and strides beyond 32 bits are compiled for in 64: a call with others before decides nothing."""
    declared = [weft.sym(name, width=width) for name in "nms"]
    annotation = weft.fake_tensor(weft.i8, (*declared[:2], 1), strides=(declared[2], "t", 1))

    def make():
        @weft.jit
        def numbers(a: annotation):
            return a.shape[0], a.shape[1], a.strides[0], a.strides[1]

        return numbers

    memory = np.zeros(64, np.int8)  # the elements are never touched
    wide = 2**31
    cases = [
        ((2, 4), (8, 2)), ((2, 4), (wide, 2)), ((2, 4), (8, wide)), ((2, 4), (wide, wide)),
        ((wide, 2), (8, 2)), ((2, wide), (8, 2)), ((wide, wide), (0, 0)), ((1, 1), (wide, wide)),
        ((2, 4), (-wide, 2)), ((2, 4), (-wide - 1, 2)), ((2, 4), (wide - 1, 2)),
    ]  # fmt: skip
    for first in cases[::3]:
        function = make()
        for shape, strides in (first, *cases):
            tensor = as_strided(memory, (*shape, 1), (*strides, 1))
            assert function(tensor) == (*shape, *strides), (first, shape, strides)


def ways_to_pass_tensors(annotation, example):
    """Functions of a tensor: those compiled for a stand-in, and those that compile for what they receive."""

    @weft.jit
    def host(a: annotation):
        pass

    @weft.kernel
    def kernel(a: annotation):
        pass

    compiled = weft.compile(host, example)
    fixed = {
        "compiled": compiled,
        "prepared": lambda a: compiled.prepare(a)(),
        "pickled": pickle.loads(pickle.dumps(compiled)),
    }
    return fixed, {"direct": host, "kernel": kernel[1, 1]}


def refusals(ways, tensor):
    return {way: outcome(call, tensor) == "refused" for way, call in ways.items()}


@pytest.mark.parametrize("dtype", sampled(DTYPES, 3), ids=str)
def test_an_aligned_address_is_accepted_on_every_path(dtype):
    fixed, direct = ways_to_pass_tensors(
        weft.Tensor[dtype, ("n",)], weft.fake_tensor(dtype, ("n",))
    )
    kind = numpy_type(dtype)
    memory = np.zeros(128, np.uint8)
    start = -memory.ctypes.data % 16
    for offset in range(start, start + 16):
        for count in (1, 3):
            tensor = memory[offset : offset + count * kind.itemsize].view(kind)
            wanted = tensor.ctypes.data % kind.itemsize != 0
            assert set(refusals(fixed | direct, tensor).values()) == {wanted}, (offset, count)
        empty = memory[offset : offset + kind.itemsize].view(kind)[:0]
        assert set(refusals(fixed | direct, empty).values()) == {False}, offset


SQUARE = np.zeros((4, 4), np.float32)
TENSORS = [
    *(SQUARE, SQUARE.T, SQUARE[::2], SQUARE[::-1], SQUARE[:, ::2], SQUARE[:0], SQUARE[:, :1]),
    *(SQUARE[0], SQUARE[None], SQUARE.astype("f8"), SQUARE.astype(">f4"), SQUARE.astype("c8")),
    *(SQUARE.astype(object), np.ma.array(SQUARE), np.broadcast_to(np.float32(1), (4, 4))),
    *(weft.empty((4, 4), weft.f32), memoryview(SQUARE), None, 1, [[1.0]], "tensor"),
]


@pytest.mark.parametrize("layout", ["contiguous", "inner", "strided", None])
def test_a_tensor_is_accepted_alike_on_every_path(layout):
    annotation = weft.Tensor[weft.f32, ("n", "m"), layout or "contiguous"]
    if layout is None:
        annotation = weft.Tensor[weft.f32, ("n", "m")]
    example = weft.fake_tensor(weft.f32, ("n", "m"), layout=layout or "contiguous")
    fixed, direct = ways_to_pass_tensors(annotation, example)
    for tensor in [*TENSORS, *reversed(TENSORS)]:
        one = set(refusals(fixed, tensor).values())
        other = set(refusals(direct, tensor).values())
        assert len(one) == len(other) == 1, (type(tensor), getattr(tensor, "strides", None))
        # Without a layout, a direct call compiles for that of the tensor.
        if layout is not None or other == {True}:
            assert one == other, (type(tensor), getattr(tensor, "strides", None))


DIMS = {
    "divisible": (
        weft.Tensor[weft.f32, (weft.sym("n", divisibility=4),)],
        [(n,) for n in range(13)],
    ),
    "equal": (weft.Tensor[weft.f32, ("n", "n")], [(n, m) for n in range(3) for m in range(3)]),
    "fixed": (weft.Tensor[weft.f32, ("n", 8)], [(n, m) for n in (0, 1, 3) for m in (7, 8)]),
}


@pytest.mark.parametrize("name", DIMS)
def test_dims_are_checked_whichever_way_they_are_passed(name):
    annotation, shapes = DIMS[name]
    fixed, direct = ways_to_pass_tensors(annotation, annotation)
    for shape in [*shapes, *reversed(shapes)]:
        found = refusals(fixed | direct, np.zeros(shape, np.float32))
        assert len(set(found.values())) == 1, (shape, found)
