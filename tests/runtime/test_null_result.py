# SPDX-License-Identifier: Apache-2.0
"""A caller of the ABI that gives no place for the result gets everything but the result."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft import _native


class Value(ctypes.Structure):
    _fields_ = [
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("word", ctypes.c_int64),
    ]


SAFE_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_int32, ctypes.c_void_p
)
INT, DLTENSOR_POINTER, TENSOR = 1, 7, 70
Vector = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def add_kernel(a: weft.Tensor, n: weft.i32):
    a[weft.thread_idx.x] += n


@weft.jit
def no_result(a: Vector, n: weft.i32):
    add_kernel(a, n).launch(grid=1, block=a.shape[0])


@weft.jit
def a_number(a: Vector, n: weft.i32):
    add_kernel(a, n).launch(grid=1, block=a.shape[0])
    return n + 1


@weft.jit
def a_large_number(a: Vector, n: weft.i32):
    add_kernel(a, n).launch(grid=1, block=a.shape[0])
    return weft.u64(n) + 0xFFFF_FFFF_FFFF_0000


@weft.jit
def a_tuple(a: Vector, n: weft.i32):
    add_kernel(a, n).launch(grid=1, block=a.shape[0])
    return n, (n, n + 1)


@weft.jit
def its_argument(a: Vector, n: weft.i32):
    add_kernel(a, n).launch(grid=1, block=a.shape[0])
    return a


def call_raw(function: Any, values: list[tuple[int, int]], count: int | None = None) -> int:
    """The function's code, called as C does, with NULL for the result."""
    array = (Value * max(len(values), 1))(*[Value(kind, 0, word) for kind, word in values])
    code = SAFE_CALL(function.safe_call_address)
    return code(function.handle_address, array, len(values) if count is None else count, None)


class Array(ctypes.Structure):
    """A DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


def tensor_of(array: np.ndarray) -> Array:
    sizes, strides = (ctypes.c_int64 * 1)(array.size), (ctypes.c_int64 * 1)(1)
    return Array(array.ctypes.data, (1, 0), 1, 0, 32, 1, sizes, strides, 0)


@pytest.mark.parametrize("function", [no_result, a_number, a_large_number, a_tuple])
@pytest.mark.parametrize("executor", ["library", "tvm-ffi"])
def test_a_compiled_function_runs(function: Any, executor: str):
    compiled = weft.compile(function, options=f"--target cpu --executor {executor}")
    array = np.zeros(4, np.int32)
    tensor = tensor_of(array)
    assert call_raw(compiled, [(DLTENSOR_POINTER, ctypes.addressof(tensor)), (INT, 3)]) == 0
    assert array.tolist() == [3, 3, 3, 3]


def test_a_returned_argument_is_not_kept():
    compiled = weft.compile(its_argument, options="--target cpu")
    tensor = weft.zeros(4, weft.i32)
    references = ctypes.c_uint64.from_address(tensor.address)
    before = references.value
    assert call_raw(compiled, [(TENSOR, tensor.address), (INT, 3)]) == 0
    assert references.value == before
    assert np.from_dlpack(tensor).tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "result", [None, 3, 2.5, "a text of more than seven bytes", (1, 2), object()]
)
def test_a_callback_runs_and_its_result_is_dropped(result: object):
    received = []

    def callback(n: int) -> object:
        received.append(n)
        return result

    function = _native.wrap_callable(callback)
    before = sys.getrefcount(result)
    for _ in range(10):
        assert call_raw(function, [(INT, 7)]) == 0
    gc.collect()
    assert received == [7] * 10
    assert sys.getrefcount(result) <= before + 1


def test_prepare_checks_and_runs_nothing():
    compiled = weft.compile(a_number, options="--target cpu")
    array = np.zeros(4, np.int32)
    prepared = compiled.prepare(array, 3)
    assert array.tolist() == [0, 0, 0, 0]
    assert prepared() == 4
    assert array.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_a_wrong_number_of_arguments_is_an_error(count: int):
    compiled = weft.compile(no_result, options="--target cpu")
    tensor = tensor_of(np.zeros(4, np.int32))
    values = [(DLTENSOR_POINTER, ctypes.addressof(tensor)), (INT, 3), (INT, 3)]
    assert call_raw(compiled, values, count) == -1
