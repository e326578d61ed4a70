# SPDX-License-Identifier: Apache-2.0
"""A prepared call runs with the arguments that it holds, and holds no others.

In: compiled functions on the CPU and, through the fake driver, on CUDA. Out: results, lifetimes, errors.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import build, in_child, start
from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable

Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor, value: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + value


@weft.jit
def add(a: Vector, b: Vector, value: weft.f32 = 1.0):
    add_kernel(a, b, value).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)


class Watched(np.ndarray):
    """An array with room for attributes."""


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def compile_add(executor: str = "library") -> Any:
    return weft.compile(
        add, vector(0, 0), vector(0, 0), 1.0, options=f"--target cpu --executor {executor}"
    )


@pytest.fixture(scope="module")
def function() -> Any:
    return compile_add()


@pytest.mark.parametrize("executor", ["context", "library", "tvm-ffi"])
def test_each_call_reads_the_arguments_again(executor: str):
    a, b = vector(1, 2), vector(0, 0)
    prepared = compile_add(executor).prepare(a, b, 3.0)
    assert prepared() is None
    assert b.tolist() == [4, 5]
    a[:] = 10
    prepared()
    assert b.tolist() == [13, 13]


def test_keywords_and_defaults_are_bound_once(function: Any):
    a, b = vector(1, 2), vector(0, 0)
    prepared = function.prepare(b=b, a=a)
    prepared()
    assert b.tolist() == [2, 3]
    assert len(prepared) == 3
    assert prepared.arguments[2] == 1.0
    assert prepared[0] is a
    assert prepared[-2] is b
    assert prepared.function is function


def test_a_bound_function_can_be_prepared(function: Any):
    b = vector(0, 0)
    function.to(0).prepare(vector(1, 2), b)()
    assert b.tolist() == [2, 3]


def test_an_index_and_a_name_replace_an_argument(function: Any):
    b, c = vector(0, 0), vector(0, 0, 0)
    prepared = function.prepare(vector(1, 2), b, 1.0)
    prepared[2] = 5
    prepared()
    assert b.tolist() == [6, 7]
    prepared.replace(a=vector(1, 2, 3), b=c)
    prepared()
    assert c.tolist() == [6, 7, 8]


def test_arguments_are_held_until_they_are_replaced(function: Any):
    a, b = vector(1, 2).view(Watched), vector(0, 0)
    watch = weakref.ref(a)
    prepared = function.prepare(a, b)
    del a
    gc.collect()
    assert watch() is not None
    prepared()
    assert b.tolist() == [2, 3]
    prepared[0] = vector(5, 6)
    assert watch() is None
    prepared()
    assert b.tolist() == [6, 7]


def test_every_reference_is_given_back(function: Any):
    a, b = vector(1, 2), vector(0, 0)
    before = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(function)
    prepared = function.prepare(a, b)
    for _ in range(100):
        prepared()
        prepared[0] = a
        prepared.replace(b=b)
    with pytest.raises(TypeError):
        prepared.replace(a=b, b=object())
    del prepared
    assert (sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(function)) == before


def test_a_cycle_through_an_argument_is_collected(function: Any):
    a = vector(1, 2).view(Watched)
    a.prepared = function.prepare(a, vector(0, 0))  # type: ignore[attr-defined]
    watch = weakref.ref(a)
    del a
    gc.collect()
    assert watch() is None


def test_a_buffer_cannot_be_resized_while_it_is_prepared(function: Any):
    memory = bytearray(8)
    view = memoryview(memory).cast("f")
    prepared = function.prepare(vector(1, 2), view)
    del view
    with pytest.raises(BufferError):
        memory.clear()
    prepared()
    assert np.frombuffer(memory, np.float32).tolist() == [2, 3]
    del prepared


def refused(action: Callable[[], object], error: type[Exception], *words: str) -> None:
    with pytest.raises(error) as caught:
        action()
    for word in words:
        assert word in str(caught.value)


def test_errors_name_the_argument_and_change_nothing(function: Any):
    a, b = vector(1, 2), vector(0, 0)
    refused(lambda: function.prepare(a, object()), TypeError, "b", "object")
    refused(lambda: function.prepare(a), TypeError, "missing 1 required", "'b'")
    prepared = function.prepare(a, b)
    refused(lambda: prepared.__setitem__(1, object()), TypeError, "b", "object")
    read_only = vector(0, 0)
    read_only.flags.writeable = False
    refused(lambda: prepared.__setitem__(1, read_only), ValueError, "b", "writable")
    refused(lambda: prepared.__setitem__(3, 1.0), IndexError, "argument 3", "which has 3")
    refused(lambda: prepared[-4], IndexError, "argument -4")
    refused(lambda: prepared.__setitem__("a", a), TypeError, "int", "replace()")
    refused(lambda: prepared.__delitem__(0), TypeError, "deleted")
    refused(lambda: prepared.replace(a=vector(9, 9), c=1), TypeError, "'c'", "signature")
    refused(lambda: prepared.replace(a), TypeError, "keyword")
    refused(lambda: prepared(a), TypeError, "takes no arguments")
    assert all(x is y for x, y in zip(prepared.arguments, (a, b), strict=False))
    prepared()
    assert b.tolist() == [2, 3]


def test_replace_makes_the_checks_of_a_call_and_keeps_what_it_had(function: Any):
    a, b = vector(1, 2), vector(0, 0)
    prepared = function.prepare(a, b)
    refused(lambda: prepared.replace(a=np.ones(2)), ValueError, "'a'", "f64", "expected f32")
    refused(lambda: prepared.replace(b=vector(0, 0, 0)), ValueError, "'b'", "a.shape[0]")
    refused(lambda: prepared.replace(a=vector(1, 2, 3, 4)[::2]), ValueError, "'a'", "contiguous")
    refused(lambda: prepared.replace(a=vector(7, 7), value="1"), TypeError, "value")
    assert prepared[0] is a and prepared[1] is b
    assert b.tolist() == [0, 0]
    prepared()
    assert b.tolist() == [2, 3]


@pytest.mark.parametrize("way", ["index", "name"])
def test_both_ways_to_replace_check_alike_and_keep_what_was(function: Any, way: str):
    a, b = vector(1, 2), vector(0, 0)
    prepared = function.prepare(a, b)

    def put(index: int, value: object) -> None:
        if way == "index":
            prepared[index] = value
        else:
            prepared.replace(**{("a", "b", "value")[index]: value})

    refused(lambda: put(0, np.ones(2)), ValueError, "'a'", "f64", "expected f32")
    refused(lambda: put(1, vector(0, 0, 0)), ValueError, "'b'", "a.shape[0]")
    refused(lambda: put(0, vector(1, 2, 3, 4)[::2]), ValueError, "'a'", "contiguous")
    refused(lambda: put(2, "1"), TypeError, "value")
    refused(lambda: put(1, "text"), TypeError, "'b'")
    assert prepared[0] is a and prepared[1] is b
    prepared()
    assert b.tolist() == [2, 3]


def test_arguments_that_go_together_are_replaced_together(function: Any):
    prepared = function.prepare(vector(1, 2), vector(0, 0))
    longer = vector(0, 0, 0)
    prepared.replace(a=vector(1, 2, 3), b=longer)
    prepared()
    assert longer.tolist() == [2, 3, 4]


def test_foreign_functions_are_not_prepared():
    foreign = _native.get_global("ffi.Array")
    refused(lambda: foreign.prepare(1), TypeError, "compiled functions")


def test_threads_call_while_others_replace(function: Any):
    arrays = [np.full(64, number, np.float32) for number in range(4)]
    results = [np.zeros(64, np.float32) for _ in range(4)]
    prepared = function.prepare(arrays[0], results[0], 0.0)
    function_failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(200):
                prepared.replace(a=arrays[number], b=results[number])
                prepared()
        except BaseException as error:
            function_failures.append(error)

    function.release_gil = True
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        function.release_gil = False
    assert not function_failures
    prepared()
    for number, result in enumerate(results):
        assert set(result.tolist()) <= {0.0, float(number)}  # pairs are replaced together


class DeviceArray:
    """A NumPy array that says it is in device memory, and which stream it is used on."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.stream = 1

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        own = self.array.__array_interface__
        return {**own, "strides": None, "stream": self.stream, "version": 3}


def test_a_cuda_call_asks_for_the_stream_each_time():
    build()
    a, b = DeviceArray(vector(1, 2)), DeviceArray(vector(0, 0))
    compiled = Compiled(add, a, b, 1.0)

    def run() -> None:
        fake = start()
        prepared = compiled.register(fake).prepare(a, b, 2.0)
        prepared()
        assert b.array.tolist() == [3, 4]
        a.stream = fake.create_stream(fake.retain_primary(0))
        prepared[2] = 4.0
        prepared()
        assert b.array.tolist() == [5, 6]
        first, second = fake.launches()
        assert first != second
        assert fake.current() is None
        del a.stream
        refused(prepared, AttributeError)

    in_child(run)
