# SPDX-License-Identifier: Apache-2.0
"""Tensors that a host function makes and returns, of the library of its arguments."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from tests.conformance.test_results import WAYS
from tests.conformance.test_scratch import kilobytes

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = pytest.mark.torch


@weft.kernel
def add_kernel(a, b, value: weft.f32):
    for i in weft.each(a.shape):
        b[i] = a[i] + value


@weft.kernel
def touch_kernel(a):
    a[0] = 1.0


@weft.jit
def added(a, value: weft.f32 = 1.0):
    out = weft.empty_like(a)
    add_kernel(a, out, value).launch(over=a.shape)
    return out


@dataclass(frozen=True)
class Made:
    zeros: Any
    size: weft.i32
    full: Any
    given: Any


@weft.jit
def several(a, n: weft.i32):
    zeros = weft.zeros((n, 3), weft.i16)
    return Made(zeros, n, weft.full(2, 1.5, weft.f64), a), (zeros, weft.full_like(a, 7))


@weft.jit
def either(a, n: weft.i32):
    if n > 2:
        y = weft.full_like(a, n)
    elif n > 1:
        y = weft.zeros_like(a)
    else:
        y = a
    return y


@weft.jit
def repeated(a, n: weft.i32):
    y = weft.zeros_like(a)
    for _ in range(n):
        z = weft.empty_like(a)
        add_kernel(y, z, 1.0).launch(over=a.shape)
        y = z
    return y


@weft.jit
def sized(n: weft.i32, m: weft.i64):
    return weft.zeros((n, m), weft.f32)


@weft.jit
def failing(a, n: weft.i32, bad: weft.i32):
    first = weft.empty((n, 1 << 20), weft.f32)
    touch_kernel(first[0]).launch(grid=1, block=1)
    touch_kernel(a).launch(grid=bad, block=1)
    return first, weft.empty(bad, weft.f32)


LIBRARIES = {"numpy": np.float32, "torch": torch.tensor, "jax": None}


def array(library: str, values: list[float]) -> Any:
    if library == "torch":
        return torch.tensor(values)
    if library == "jax":
        return pytest.importorskip("jax.numpy").asarray(values)
    return np.asarray(values, np.float32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_new_tensor_is_of_the_callers_library(library, way):
    a = array(library, [1.0, 2.0, 3.0])
    result = WAYS[way](added, a, 0.5)
    assert type(result) is type(a) and result.tolist() == [1.5, 2.5, 3.5]
    assert a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_new_tensors_numbers_and_arguments_are_returned_together(library, way):
    a = array(library, [1.0, 2.0])
    made, (again, sevens) = WAYS[way](several, a, 2)
    assert made.zeros.tolist() == again.tolist() == [[0, 0, 0]] * 2
    assert str(made.zeros.dtype).endswith("int16") and made.size == 2
    assert made.full.tolist() == [1.5, 1.5] and made.given.tolist() == [1, 2]
    assert way == "prepared" or made.given is a
    assert sevens.tolist() == [7, 7] and type(sevens) is type(a)


def test_what_is_returned_may_be_chosen_at_run_time():
    a = np.ones(3, np.float32)
    assert either(a, 3).tolist() == [3, 3, 3]
    assert either(a, 2).tolist() == [0, 0, 0]
    assert either(a, 1) is a


def test_each_evaluation_makes_a_tensor():
    a = torch.ones(4)
    for n in range(4):
        assert repeated(a, n).tolist() == [n] * 4


def test_without_arrays_a_call_returns_tensors_of_weft():
    found = sized(2, 3)
    assert isinstance(found, weft.ffi.Tensor) and found.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("shape", [(0,), (0, 5)])
def test_a_tensor_may_have_no_elements(shape):
    result = added(torch.ones(shape))
    assert result.shape == shape and result.tolist() == (torch.ones(shape) + 1).tolist()


def test_a_new_tensor_is_contiguous_whatever_it_is_like():
    a = torch.arange(6.0).reshape(2, 3).t()
    result = added(a)
    assert result.is_contiguous() and torch.equal(result, a + 1)


@pytest.mark.parametrize("dtype", [weft.f32, weft.bf16, weft.u8, weft.bool_, weft.c64, weft.f8e4m3])
def test_every_kind_of_element(dtype):
    @weft.jit
    def made(n: weft.i32):
        return weft.empty(n, dtype)

    assert made(3).dtype == weft.empty(3, dtype).dtype and made(3).shape == (3,)


def test_a_tensor_outlives_its_function_and_the_arguments():
    @weft.jit
    def doubled(a):
        out = weft.empty_like(a)
        add_kernel(a, out, 0.0).launch(over=a.shape)
        return out

    results = [doubled(torch.full((1000,), float(n))) for n in range(50)]
    del doubled
    gc.collect()
    assert [int(r[999]) for r in results] == list(range(50))


@pytest.mark.parametrize("make", [np.ones, torch.ones], ids=["numpy", "torch"])
def test_a_call_that_fails_gives_its_tensors_back(make):
    a = make(1)
    with pytest.raises(ValueError, match=r"grid\.x is -1"):
        failing(a, 8, -1)
    before = kilobytes()
    for _ in range(16):
        with pytest.raises(ValueError, match=r"grid\.x is -1"):
            failing(a, 8, -1)
        first, second = failing(a, 8, 0)
        assert first.shape == (8, 1 << 20) and len(second) == 0
        del first
    assert kilobytes() - before < 100 << 10  # of 32 MiB a call


def test_sizes_are_checked_by_the_call():
    with pytest.raises(ValueError, match=r"sized \(.*\), weft\.zeros\(\(n, m\).*shape\[1\] is -1"):
        sized(1, -1)
    with pytest.raises(ValueError, match="more bytes than fit 64 bits"):
        sized(2**31 - 1, 2**40)
    with pytest.raises(MemoryError):
        sized(1, 2**50)
    with pytest.raises(MemoryError, match="allocate memory"):  # of torch's own allocator
        failing(torch.ones(1), 2**30, 1)


def test_results_that_are_dropped_are_freed():
    compiled = weft.compile(sized)
    compiled(1, 1)
    before = kilobytes()
    for _ in range(64):
        compiled(1 << 10, 1 << 13)
    assert kilobytes() - before < 200 << 10  # of 32 MiB a call


def test_the_sanitizer_knows_that_new_tensors_are_not_cleared():
    @weft.jit
    def wrong(a):
        out = weft.empty_like(a)
        copy = weft.zeros_like(a)
        add_kernel(out, copy, 0.0).launch(over=a.shape)
        return copy

    a = np.ones(3, np.float32)
    assert weft.compile(added, a, 1.0, options="--sanitize=uninit")(a, 1.0).tolist() == [2, 2, 2]
    with pytest.raises(weft.SanitizerError, match="UNINITIALIZED"):
        weft.compile(wrong, a, options="--sanitize=uninit")(a)


def test_scratch_and_new_tensors_are_distinguished():
    @weft.jit
    def both(a, n: weft.i32):
        temporary = weft.scratch(n, weft.f32, zeroed=True)
        out = weft.empty(n, weft.f32)
        add_kernel(temporary, out, 2.0).launch(over=n)
        return out

    a = np.ones(3, np.float32)
    assert both(a, 3).tolist() == [2, 2, 2]
    assert [one.text for one in weft.compile(both, a, 3).scratch] == [
        "weft.scratch(n, weft.f32, zeroed=True)"
    ]


def test_gpu_calls_ask_the_callers_allocator():
    fake = weft.fake_tensor(weft.f32, ("n",))
    compiled = weft.compile(added, fake, 1.0, options="--gpu-arch sm_90a")
    assert "call i32 %take_tensor" in compiled.host_llvm_ir
    assert "call void %return_tensor" in compiled.host_llvm_ir
    assert not compiled.scratch
