# SPDX-License-Identifier: Apache-2.0
"""Bulk copies by TMA: both directions against NumPy; what is missing or wrong shows."""

import functools

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported
from tests.conformance.test_tma import aligned
from tests.sampling import sampled
from weft.errors import UnavailableError

TYPES = (weft.u8, weft.f16, weft.bf16, weft.f32, weft.i64, weft.f8e4m3, weft.bool_)
CHUNK = 512  # bytes


def vector(dtype):
    least = 16 // dtype.itemsize
    return weft.fake_tensor(dtype, (weft.sym("n", divisibility=least),), alignment_bytes=16)


@functools.cache
def copier(dtype, change: str = ""):
    """Copies `a` to `b` in chunks, of which the last may be smaller, through a ring of two."""
    chunk = CHUNK // dtype.itemsize

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor):
        ring = weft.shared((2, chunk), dtype)
        full = weft.mbarrier(2, arrivals=1)
        if weft.thread_idx.x == 0:
            state = weft.PipelineState(2)
            for start in range(0, a.shape[0], chunk):
                count = min(chunk, a.shape[0] - start)
                part = ring[state][:count]
                full[state].arrive(expect_bytes=count * dtype.itemsize + (change == "many bytes"))
                weft.bulk_copy(part, a[start : start + count], full[state], cache="evict_first")
                if change != "no wait":
                    full[state].wait()
                weft.bulk_copy(b[start : start + count], part)
                weft.tma.wait(pending=1 if change == "one pending" else 0)
                state = state.next()

    @weft.jit
    def host(a: vector(dtype), b: vector(dtype)):
        kernel(a, b).launch(grid=1, block=32)

    return host


@pytest.mark.parametrize("size", [16, 512, 1024, 5 * 512 + 48])
@pytest.mark.parametrize("dtype", sampled(TYPES, 2), ids=str)
def test_chunks_go_in_and_out(dtype, size):
    a = aligned((size,), np.uint8)
    a[:] = np.random.default_rng(3).integers(0, 2 if dtype.is_bool else 251, size)
    a, b = a.view(NUMPY_TYPES[dtype]), aligned((size,), np.uint8).view(NUMPY_TYPES[dtype])
    copier(dtype)(Exported(a), Exported(b))
    np.testing.assert_array_equal(b.view(np.uint8), a.view(np.uint8))


def test_a_missing_wait_shows():
    a, b = aligned((256,), np.float32), aligned((256,), np.float32)
    a[:] = 3.5
    copier(weft.f32, "no wait")(a, b)
    assert 3.5 not in b


def test_a_wrong_number_of_bytes_never_completes():
    a, b = aligned((256,), np.float32), aligned((256,), np.float32)
    with pytest.raises(RuntimeError, match="and 1 bytes"):
        copier(weft.f32, "many bytes")(a, b)


def test_a_copy_that_is_not_waited_for_is_an_error():
    a, b = aligned((256,), np.float32), aligned((256,), np.float32)
    with pytest.raises(RuntimeError, match="ended with a copy out of shared memory in flight"):
        copier(weft.f32, "one pending")(a, b)


def test_copies_are_instructions_of_one_thread():
    found = weft.compile(copier(weft.f32), options="--gpu-arch sm_90a")
    assert found.remarks == ()
    assert (found.sass.count("UBLKCP.S.G"), found.sass.count("UBLKCP.G.S")) == (1, 1)
    assert found.ptx.count("cp.async.bulk.shared::cluster.global.mbarrier") == 1
    assert found.ptx.count("L2::cache_hint") == 1


SUMS = (weft.i32, weft.u32, weft.i64, weft.u64, weft.f16, weft.bf16, weft.f32, weft.f64)
EXTREMES = (weft.i32, weft.u32, weft.i64, weft.u64, weft.f16, weft.bf16)
BITS = (weft.i32, weft.u32, weft.i64, weft.u64)
MEANINGS = {
    "add": (np.add, SUMS),
    "min": (np.minimum, EXTREMES),
    "max": (np.maximum, EXTREMES),
    "and": (np.bitwise_and, BITS),
    "or": (np.bitwise_or, BITS),
    "xor": (np.bitwise_xor, BITS),
}
REDUCTIONS = [(op, dtype) for op, (_, dtypes) in MEANINGS.items() for dtype in dtypes]
BLOCKS, COUNT = 12, 64


@functools.cache
def reducer(op, dtype, cache=None):
    """Each block combines its row with `target`, but for the row's first 16 elements."""

    @weft.kernel
    def kernel(source: weft.Tensor, target: weft.Tensor):
        tile = weft.shared(COUNT, dtype)
        tile[weft.thread_idx.x] = source[weft.block_idx.x, weft.thread_idx.x]
        weft.fence_proxy()
        weft.sync_threads()
        if weft.thread_idx.x == 0:
            weft.bulk_reduce(target[16:], tile[16:], op=op, cache=cache)
            weft.tma.wait()

    @weft.jit
    def host(
        source: weft.fake_tensor(dtype, ("blocks", COUNT)),
        target: weft.fake_tensor(dtype, (COUNT,), alignment_bytes=16),
    ):
        kernel(source, target).launch(grid=source.shape[0], block=COUNT)

    return host


@pytest.mark.parametrize(("op", "dtype"), sampled(REDUCTIONS, 3, several=True), ids=str)
def test_every_block_combines_its_elements_with_the_tensor(op, dtype):
    random, element = np.random.default_rng(5), NUMPY_TYPES[dtype]
    shape = BLOCKS, COUNT
    if dtype.is_float:  # small integers, so that sums are exact in any order
        source = random.integers(-3, 4, shape).astype(element)
    else:
        limits = np.iinfo(element)
        source = random.integers(limits.min, limits.max, shape, element, endpoint=True)
    target = aligned((COUNT * dtype.itemsize,), np.uint8).view(element)
    target[:] = source[0]
    expected = target.copy()
    for row in source:
        expected[16:] = MEANINGS[op][0](expected[16:], row[16:])
    reducer(op, dtype)(Exported(source), Exported(target))
    np.testing.assert_array_equal(target.astype(object), expected.astype(object))


@pytest.mark.parametrize(("op", "dtype"), sampled(REDUCTIONS, 12, several=True), ids=str)
def test_a_reduction_is_one_instruction(op, dtype):
    found = weft.compile(reducer(op, dtype, "evict_last"), options="--gpu-arch sm_90a")
    assert found.remarks == ()
    assert (
        found.ptx.count(f"cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.{op}.")
        == 1
    )
    assert found.sass.count("UBLKRED") == 1


def test_an_architecture_without_them_is_named():
    @weft.kernel
    def kernel(b: weft.Tensor):
        weft.bulk_copy(b[:64], weft.shared(64, weft.f32))

    @weft.jit
    def host(b: vector(weft.f32)):
        kernel(b).launch(grid=1, block=32)

    with pytest.raises(UnavailableError, match=r"weft.bulk_copy needs sm_90"):
        weft.compile(host, options="--gpu-arch sm_80")


@weft.kernel
def part_kernel(a: weft.Tensor, b: weft.Tensor, first: weft.i32, count: weft.i32):
    tile = weft.shared((4, 64), weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=4 * count)
        weft.bulk_copy(tile[1][:count], a[4 * first :][:count], full[0])
        full[0].wait(0)
        weft.bulk_copy(b.tile(64, 1), tile[1])
        weft.tma.wait()


@weft.jit
def part(a: vector(weft.f32), b: vector(weft.f32), first: weft.i32, count: weft.i32):
    part_kernel(a, b, first, count).launch(grid=1, block=32)


def test_parts_begin_where_their_start_is_known_to_be_a_multiple():
    a, b = aligned((128,), np.float32), aligned((128,), np.float32)
    a[:] = np.arange(128)
    part(a, b, 3, 40)
    np.testing.assert_array_equal(b[64 : 64 + 40], a[12 : 12 + 40])


@pytest.mark.parametrize(
    ("first", "count", "words"),
    [(0, 7, "elements is a multiple of 4"), (30, 16, "as many elements as")],
)
def test_lengths_known_at_run_time_are_checked(first, count, words):
    a, b = aligned((128,), np.float32), aligned((128,), np.float32)
    with pytest.raises(AssertionError, match=words):
        part(a, b, first, count)
