# SPDX-License-Identifier: Apache-2.0
"""Elements of four bits on a GPU: vectors of every length, conversions, shared arrays, arrays of torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from tests.conformance.test_narrow_floats import (
    NARROW,
    host_of,
    in_memory,
    kind_of,
    narrowed,
    numbers_of,
)
from tests.conformance.test_packed import (
    COUNTS,
    INTEGERS,
    RESULTS,
    pair_of_hosts,
    reverse,
    unpacked,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("dtype", "result", "count"), list(itertools.product(INTEGERS, RESULTS, COUNTS)), ids=str
)
def test_vectors_are_loaded_and_converted(dtype, result, count):
    host, _ = pair_of_hosts(dtype, result, count)
    data = np.random.default_rng(4).integers(0, 256, 4 * count).astype(np.uint8)
    source = weft.copy(weft.empty(data.shape, weft.u8, 0), data)
    found = weft.zeros((8 * count,), result, 0)
    host(weft.packed(source, dtype), found)
    received = weft.copy(weft.empty((8 * count,), result), found)
    wanted = unpacked(data, dtype).astype(RESULTS[result])
    assert (np.asarray(received) == wanted).all()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_vectors_are_stored(dtype, count):
    host, _ = pair_of_hosts(dtype, weft.i32, count, is_store=True)
    numbers = np.random.default_rng(5).integers(-100, 100, 8 * count).astype(np.int32)
    source = weft.copy(weft.empty(numbers.shape, weft.i32, 0), numbers)
    found = weft.zeros((4 * count,), weft.u8, 0)
    host(weft.packed(found, dtype), source)
    wanted = (numbers[::2] & 15 | (numbers[1::2] & 15) << 4).astype(np.uint8)
    received = weft.copy(weft.empty((4 * count,), weft.u8), found)
    assert (np.asarray(received) == wanted).all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_floats_are_converted_as_on_the_cpu(dtype):
    numbers = numbers_of(dtype, 512)
    memory = in_memory(narrowed(numbers, dtype), dtype)
    source = weft.copy(weft.empty(numbers.shape, weft.f32, 0), numbers)
    whole = weft.u8 if dtype.is_packed else dtype
    found = weft.empty(memory.shape, whole, 0)

    def argument(array):
        return weft.packed(array, dtype) if dtype.is_packed else array

    host_of(dtype, weft.f32, 8, is_store=True)[0](argument(found), source)
    received = np.asarray(weft.copy(weft.empty(memory.shape, whole), found))
    assert (received.view(np.uint8) == memory).all()
    back = weft.zeros((512,), weft.f32, 0)
    host_of(dtype, weft.f32, 4)[0](argument(found), back)
    bits = narrowed(numbers, dtype)[:256]
    received = np.asarray(weft.copy(weft.empty((512,), weft.f32), back))[:256]
    assert np.array_equal(received, bits.view(kind_of(dtype)).astype(np.float32), equal_nan=True)


def test_shared_arrays_have_packed_elements():
    found, host = weft.zeros((4, 16), weft.i32, 0), np.zeros((4, 16), np.int32)
    reverse(found)
    reverse(host)
    assert (np.asarray(weft.copy(weft.empty((4, 16), weft.i32), found)) == host).all()


def test_an_array_of_torch_is_written_on_its_stream():
    torch = pytest.importorskip("torch", reason="needs a GPU with torch")

    @weft.kernel
    def fill(w: weft.Tensor[weft.i4, ("n",)]):
        thread = weft.block_idx.x * 256 + weft.thread_idx.x
        weft.store_vector(w, 2 * thread, (weft.i4(thread), weft.i4(-1)))

    array = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        array.fill_(7)
        fill[1 << 12, 256](weft.packed(array, weft.i4))
        wanted = torch.arange(1 << 20, device="cuda") % 16 + 0xF0
        assert bool((array == wanted).all())
