# SPDX-License-Identifier: Apache-2.0
"""`weft.tensor_map` on the fake driver: what is encoded, when again, and how a kernel gets it."""

from __future__ import annotations

import functools
import itertools
import threading

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver.memory import empty
from weft.driver.tensor_map import _check_tensor
from weft.errors import CudaError


@weft.kernel
def fetch_kernel(first: weft.i8, a: weft.TensorMap, out: weft.Tensor, b: weft.TensorMap):
    weft.tma.prefetch(a)
    weft.tma.prefetch(b, (1, 2, 4))
    out[0] = weft.i32(first)


@weft.jit
def fetch(
    a: weft.Tensor[weft.bf16, ("m", 128)],
    b: weft.fake_tensor(weft.f32, ("x", "y", "z"), layout="inner"),  # type: ignore[valid-type]
    out: weft.Tensor[weft.i32, ("n",)],
):
    fetch_kernel(
        7,
        weft.tensor_map(a, box=(512, 128), swizzle=128),
        out,
        weft.tensor_map(b, box=(2, 4, 8), fill="nan", l2_promotion=None),
    ).launch(grid=1, block=32)


@functools.cache
def compiled() -> Compiled:
    a = weft.fake_tensor(weft.bf16, ("m", 128))
    b = weft.fake_tensor(weft.f32, ("x", "y", "z"), layout="inner")
    return Compiled(fetch, a, b, weft.fake_tensor(weft.i32, ("n",)))


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    compiled()


def tensors(rows: int = 300):
    return (
        empty((rows, 128), weft.bf16, 0),
        empty((5, 6, 8), weft.f32, 0),
        empty((1,), weft.i32, 0),
    )


def encoded(fake: FakeCuda) -> int:
    return len(fake.calls("cuTensorMapEncodeTiled"))


@on_fake()
def test_a_map_is_encoded_again_only_when_something_changed(fake: FakeCuda):
    function = compiled().register(fake)
    a, b, out = tensors()
    function(a, b, out)
    assert fake.calls("cuTensorMapEncodeTiled") == [
        "cuTensorMapEncodeTiled(type=9 rank=2 interleave=0 swizzle=3 l2=2 fill=0) -> 0",
        "cuTensorMapEncodeTiled(type=7 rank=3 interleave=0 swizzle=0 l2=0 fill=1) -> 0",
    ]
    for _ in range(3):
        function(a, b, out)
    assert encoded(fake) == 2
    other, *_ = tensors(200)
    function(other, b, out)
    assert encoded(fake) == 3
    function(a, b, out)
    assert encoded(fake) == 4


@on_fake()
def test_each_thread_keeps_its_own(fake: FakeCuda):
    function = compiled().register(fake)
    given = tensors()
    function(*given)
    other = threading.Thread(target=function, args=given)
    other.start()
    other.join()
    function(*given)
    assert encoded(fake) == 4


@on_fake()
def test_a_tensor_without_elements_needs_no_encoding(fake: FakeCuda):
    function = compiled().register(fake)
    _, b, out = tensors()
    function(empty((0, 128), weft.bf16, 0), b, out)
    assert encoded(fake) == 1


@on_fake()
def test_a_refusal_of_the_driver_is_an_error_of_the_call(fake: FakeCuda):
    function = compiled().register(fake)
    given = tensors()
    fake.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(CudaError, match="filling a TMA descriptor"):
        function(*given)
    fake.forget_failures()
    function(*given)


@weft.kernel
def ignore_map(a: weft.TensorMap):
    pass


ADDRESSES = (0, 4, 8, 16)
SIZES = (2, 3, 2**32 - 1, 2**32, 2**32 + 1)
STEPS = (0, 4, 6, 8, -4, 1000, 1001, 2**38 - 4, 2**38, 2**38 + 4)


def test_calls_and_the_driver_refuse_the_same_tensors():
    """`make_tensor_map.cpp` and `driver/tensor_map.py` have the same limits, where every stride matters."""
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 16

    @weft.jit
    def make(a: weft.fake_tensor(weft.f32, ("n", "m", "k"), strides=("s", "t", 1))):  # type: ignore[valid-type]
        ignore_map(weft.tensor_map(a, box=(1, 1, 8))).launch(grid=1, block=1)

    for offset, first, second in itertools.product(ADDRESSES, SIZES, STEPS):
        for third, step in ((8, 8), (2, 2**38 - 4), (3, 6)):
            data = memory[start + offset :][:4].view("f4")
            shape, strides = (first, 2, third), (second, step, 1)
            tensor = as_strided(data, shape, [4 * stride for stride in strides])
            address = tensor.ctypes.data
            refused = []
            for call in (
                lambda t=tensor: make(t),
                lambda a=address, s=shape, t=strides: _check_tensor(a, s, t, 4, "none", 1),
            ):
                try:
                    call()
                    refused.append(False)
                except ValueError:
                    refused.append(True)
            assert refused[0] == refused[1], (offset, shape, strides, refused)
