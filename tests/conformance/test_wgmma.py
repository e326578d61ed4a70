# SPDX-License-Identifier: Apache-2.0
"""wgmma against NumPy: every type, order and swizzle; when they are computed, what they add to."""

from __future__ import annotations

import itertools
import os

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.types.fragment_layout import FragmentLayout

NUMPY = {
    weft.bf16: ml_dtypes.bfloat16,
    weft.f16: np.float16,
    weft.f32: np.float32,
    weft.i8: np.int8,
    weft.u8: np.uint8,
    weft.f8e4m3: ml_dtypes.float8_e4m3fn,
    weft.f8e5m2: ml_dtypes.float8_e5m2,
}
INTEGERS = (weft.i8, weft.u8)


def values_of(dtype, shape, rng):
    if dtype in INTEGERS:
        return rng.integers(0 if dtype is weft.u8 else -128, 128, shape).astype(NUMPY[dtype])
    found = rng.standard_normal(shape).astype(NUMPY[dtype])
    # The tensor cores read the 19 highest bits of an f32.
    return (
        (found.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)
        if dtype is weft.f32
        else found
    )


def copy_in(tile, source):
    for number in range(weft.thread_idx.x % 128, tile.shape[0] * tile.shape[1], 128):
        row, column = divmod(number, tile.shape[1])
        tile[row, column] = source[row, column]


def write_out(c, fragment):
    values = fragment.values
    for number in weft.static_range(len(values)):
        c[weft.thread_idx.x, number] = values[number]


def gathered(c, shape):
    """The matrix of which row `thread` of `c` has the thread's elements."""
    layout = FragmentLayout(shape, 4, "wgmma", "c")
    matrix = np.full(shape, -1, c.dtype)
    for thread in range(128):
        for number, place in enumerate(layout.coordinates(thread % 32, thread // 32)):
            matrix[place] = c[thread, number]
    return matrix


def multiplied(body, a, b, types, shape, swizzle=128, dtype=None):
    """What `body(a tile, b tile)`, run by a warpgroup, returns; the tiles hold `a` and `b` as they are stored."""
    left, right = types
    a_shape, b_shape = a.shape, b.shape

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
        a_tile = weft.shared(a_shape, left, swizzle=swizzle)
        b_tile = weft.shared(b_shape, right, swizzle=swizzle)
        copy_in(a_tile, a)
        copy_in(b_tile, b)
        weft.fence_proxy()
        weft.sync_threads()
        write_out(c, body(a_tile, b_tile))

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
        kernel(a, b, c).launch(grid=1, block=128)

    sums = np.int32 if left in INTEGERS else np.float32
    c = np.zeros((128, shape[0] * shape[1] // 128), dtype or sums)
    host(a, b, c)
    return gathered(c, shape)


def check(found, *pairs):
    """Compares with the sum of products."""
    wide = np.int64 if found.dtype == np.int32 else np.float64
    expected = sum(a.astype(wide) @ b.astype(wide) for a, b in pairs)
    if wide is np.int64:
        np.testing.assert_array_equal(found, expected)
    else:
        size = sum(np.abs(a).astype(wide) @ np.abs(b).astype(wide) for a, b in pairs)
        # Hopper's tensor cores keep some 14 bits of sums of 8-bit floats.
        is_rounded = os.environ.get("WEFT_TEST_TARGET") == "cuda" and any(
            a.dtype.itemsize == 1 for a, _ in pairs
        )
        assert np.all(np.abs(found - expected) <= (2**-13 if is_rounded else 1e-5) * size)


# With every change, each size of elements with each swizzle.
@pytest.mark.parametrize(
    ("types", "swizzle"),
    sampled(itertools.product([(one, one) for one in NUMPY], [32, 64, 128]), 2, several=True),
    ids=str,
)
def test_every_type_and_swizzle(types, swizzle):
    rng = np.random.default_rng(1)
    a, b = values_of(types[0], (64, 128), rng), values_of(types[1], (24, 128), rng)
    body = lambda a, b: weft.wgmma.wait(weft.wgmma.mma(a, b.T))
    check(multiplied(body, a, b, types, (64, 24), swizzle), (a, b.T))


@pytest.mark.parametrize(
    "types",
    [
        (weft.f8e4m3, weft.f8e5m2),
        (weft.f8e5m2, weft.f8e4m3),
        (weft.i8, weft.u8),
        (weft.u8, weft.i8),
    ],
)
def test_8_bit_types_mix(types):
    rng = np.random.default_rng(2)
    a, b = values_of(types[0], (64, 64), rng), values_of(types[1], (40, 64), rng)

    def body(a, b):
        return weft.wgmma.wait(weft.wgmma.mma(a, b.T))

    check(multiplied(body, a, b, types, (64, 40), 64), (a, b.T))


@pytest.mark.parametrize("dtype", [weft.f16, weft.f8e4m3, weft.f8e5m2], ids=str)
def test_sums_in_f16_are_rounded_after_each_instruction(dtype):
    """2048 + 1 is 2048, as often as it happens; two ones in one instruction are 2050."""
    step = 16 if dtype is weft.f16 else 32
    a, b = np.ones((128, 128), NUMPY[dtype]), np.zeros((40, 128), NUMPY[dtype])
    # The largest f8e4m3 is 448.
    b[:, :5], b[0, :5], b[0, 5] = 0, 384, 128
    b[0, step], b[0, 2 * step], b[1, step : step + 2], b[2] = 1, 1, 1, 0.5

    def body(a, b):
        acc = weft.wgmma.full((128, 40), 1.0, weft.f16)
        for k in range(2):
            acc = weft.wgmma.mma(
                a.tile((128, 64), (0, k)), b.tile((40, 64), (0, k)).T, acc, accumulate=k > 0
            )
            acc = weft.wgmma.wait(acc)
        one = weft.wgmma.accumulator((128, 40), weft.f16)
        one = weft.wgmma.wait(weft.wgmma.mma(a, b.T, one, accumulate=False))
        return acc.map(lambda x, y: (x - y) * 8192 + x, one)

    found = multiplied(body, a, b, (dtype, dtype), (128, 40), dtype=np.float16)
    np.testing.assert_array_equal(found[:, :4], [[2048, 2, 64, 0]] * 128)


@pytest.mark.parametrize("role", ["a", "c"])
def test_sums_in_f16_of_a_fragment(role):
    """The sums of one product are an operand, or are added to, of another."""
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))

    def body(a, b):
        zeros = weft.wgmma.zeros((64, 64), weft.f16)
        sums = weft.wgmma.wait(weft.wgmma.mma(a, b, zeros))
        if role == "c":
            return weft.wgmma.wait(weft.wgmma.mma(a, b.T, sums + 1))
        return weft.wgmma.wait(weft.wgmma.mma((sums * 0.125).as_operand_a(), b, sums * 0))

    found = multiplied(body, a, b, (weft.f16, weft.f16), (64, 64), dtype=np.float16)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    if role == "c":
        expected = wide @ other + 1 + wide @ other.T
        np.testing.assert_array_equal(found, expected)
    else:
        expected = wide @ other / 8 @ other
        assert np.abs(found - expected).max() < 0.5


@pytest.mark.parametrize(
    ("a_is_transposed", "b_is_transposed", "swizzle"),
    sampled(itertools.product([False, True], [False, True], [32, 64, 128]), 4, several=True),
)
def test_16_bit_operands_have_either_order(swizzle, a_is_transposed, b_is_transposed):
    rng = np.random.default_rng(3)
    a, b = values_of(weft.bf16, (128, 64), rng), values_of(weft.bf16, (64, 192), rng)

    def body(a, b):
        left, right = a.T if a_is_transposed else a, b.T if b_is_transposed else b
        return weft.wgmma.wait(weft.wgmma.mma(left, right))

    stored = (
        np.ascontiguousarray(a.T if a_is_transposed else a),
        np.ascontiguousarray(b.T if b_is_transposed else b),
    )
    found = multiplied(body, *stored, (weft.bf16, weft.bf16), (128, 192), swizzle)
    check(found, (a, b))


def test_tiles_of_a_larger_array():
    rng = np.random.default_rng(4)
    a, b = values_of(weft.f16, (128, 128), rng), values_of(weft.f16, (128, 64), rng)

    def body(a, b):
        acc = weft.wgmma.accumulator((64, 32), weft.f32)
        for k in range(4):
            acc = weft.wgmma.mma(
                a.tile((64, 32), (1, k)), b.tile((32, 32), (k, 1)), acc, accumulate=k > 0
            )
            acc = weft.wgmma.wait(acc)
        return acc

    found = multiplied(body, a, b, (weft.f16, weft.f16), (64, 32))
    check(found, (a[64:], b[:, 32:]))


def test_products_accumulate_and_restart():
    rng = np.random.default_rng(5)
    a, b = values_of(weft.bf16, (64, 64), rng), values_of(weft.bf16, (64, 64), rng)

    def body(a, b):
        acc = weft.wgmma.mma(a, b)
        acc = weft.wgmma.mma(a, b, acc, accumulate=False)
        acc = weft.wgmma.mma(a, b.T, acc)
        acc = weft.wgmma.wait(acc)
        acc = weft.wgmma.mma(a, b, acc, accumulate=a.shape[0] == 64)
        return weft.wgmma.wait(acc)

    found = multiplied(body, a, b, (weft.bf16, weft.bf16), (64, 64))
    check(found, (a, b), (a, b.T), (a, b))


def test_two_accumulators_in_flight_complete_in_order():
    rng = np.random.default_rng(6)
    a, b = values_of(weft.bf16, (64, 64), rng), values_of(weft.bf16, (64, 64), rng)

    def body(a, b):
        one = weft.wgmma.mma(a, b)
        other = weft.wgmma.mma(a, b.T)
        for _ in range(3):
            one, other = weft.wgmma.wait(one, other, pending=1)
            one = one.map(lambda x: 2.0 * x)
            one, other = other, weft.wgmma.mma(a, b, one)
        one, other = weft.wgmma.wait(one, other)
        return one.map(lambda x, y: x + y, other)

    found = multiplied(body, a, b, (weft.bf16, weft.bf16), (64, 64))
    # 1: (2ab + ab, abT); 2: (2abT + ab, 3ab); 3: (6ab + ab, 2abT + ab)
    check(found, (a, b), (a, b), (a, b), (a, b), (a, b), (a, b), (a, b), (a, b), (a, b.T), (a, b.T))


def test_a_product_reads_shared_memory_when_it_is_waited_for():
    """So that a missing wait gives a wrong result on the CPU too."""
    rng = np.random.default_rng(7)
    a, b = values_of(weft.bf16, (64, 64), rng), values_of(weft.bf16, (64, 64), rng)

    def body(a, b):
        acc = weft.wgmma.mma(a, b)
        weft.sync_threads()
        a[weft.thread_idx.x % 64, 0] = 100.0
        weft.sync_threads()
        return weft.wgmma.wait(acc)

    found = multiplied(body, a, b, (weft.bf16, weft.bf16), (64, 64))
    changed = a.copy()
    changed[:, 0] = 100
    check(found, (changed, b))


def test_each_warpgroup_has_its_own_products():
    rng = np.random.default_rng(8)
    a, b = values_of(weft.bf16, (256, 64), rng), values_of(weft.bf16, (64, 64), rng)

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
        a_tile, b_tile = (
            weft.shared((128, 64), weft.bf16, swizzle=128),
            weft.shared((64, 64), weft.bf16, swizzle=128),
        )
        group = weft.warpgroup_id()
        copy_in(b_tile, b)
        copy_in(a_tile, a[128 * weft.block_idx.x : 128 * weft.block_idx.x + 128])
        weft.fence_proxy()
        weft.sync_threads()
        if group == 0:
            acc = weft.wgmma.wait(weft.wgmma.mma(a_tile.tile((64, 64), (0, 0)), b_tile))
        else:
            acc = weft.wgmma.mma(a_tile.tile((64, 64), (1, 0)), b_tile.T)
            acc = weft.wgmma.mma(a_tile.tile((64, 64), (1, 0)), b_tile, acc)
            acc = weft.wgmma.wait(acc)
        values = acc.values
        for number in weft.static_range(len(values)):
            c[256 * weft.block_idx.x + weft.thread_idx.x, number] = values[number]

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
        kernel(a, b, c).launch(grid=2, block=256)

    c = np.zeros((512, 32), np.float32)
    host(a, b, c)
    for part in range(4):
        own = a[64 * part : 64 * part + 64]
        found = gathered(c[128 * part : 128 * part + 128], (64, 64))
        check(found, (own, b), *([(own, b.T)] if part % 2 else []))


def test_256_cubed_takes_less_than_a_tenth_of_a_second():
    rng = np.random.default_rng(9)
    a, b = values_of(weft.bf16, (64, 256), rng), values_of(weft.bf16, (256, 256), rng)

    def body(a, b):
        acc = weft.wgmma.accumulator((64, 256), weft.f32)
        for k in range(16):
            acc = weft.wgmma.mma(
                a.tile((64, 64), (0, k % 4)), b.tile((256, 64), (0, k % 4)).T, acc, accumulate=k > 0
            )
            acc = weft.wgmma.wait(acc)
        return acc

    check(multiplied(body, a, b, (weft.bf16, weft.bf16), (64, 256)), *[(a, b.T)] * 4)
