# SPDX-License-Identifier: Apache-2.0
"""Arguments that cannot work are refused with a sentence that is true, before or instead of a worse one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.joined


@weft.kernel
def copy_kernel(a, b):
    a[weft.thread_idx.x] = b[weft.thread_idx.x]


@weft.kernel
def typed_kernel(a: weft.Tensor, b: weft.Tensor):
    a[0] = b[0]


@weft.jit
def copies(a, b):
    copy_kernel(a, b).launch(grid=1, block=2)


@weft.jit
def of_typed(a, b):
    typed_kernel(a, b).launch(grid=1, block=2)


@weft.jit
def asks_shape(a, b):
    return b.shape[0]


@weft.jit
def assigns(a, b):
    copy_kernel(b, a).launch(grid=1, block=2)


@weft.jit
def adds(a, b):
    return b[0] + b[1]


ARRAY = np.zeros(2, np.float32)


LISTS = [[1.0, 2.0], [1, 2], [[1, 2], [3, 4]]]


@pytest.mark.parametrize(
    ("function", "numbers"),
    [(copies, [[1, 2], [3, 4]]), *itertools.product([of_typed, asks_shape, assigns], LISTS)],
)
@pytest.mark.parametrize("way", ["direct", "compile"])
def test_a_list_that_is_used_as_a_tensor_is_named(function, numbers, way):
    call = function if way == "direct" else lambda *given: weft.compile(function, *given)
    with pytest.raises(weft.SignatureError) as error:
        call(ARRAY, numbers)
    assert "argument 'b': it is a list, which is a tuple in compiled code" in str(error.value)
    assert error.value.hint == "pass an array, such as numpy.asarray(b)"


def test_in_a_bare_launch_too():
    with pytest.raises(weft.SignatureError, match="argument 'b': it is a list"):
        copy_kernel[1, 2](ARRAY, [[1, 2], [3, 4]])


@pytest.mark.parametrize("numbers", [[1, 2], (1.0, 2.0)])
def test_a_list_still_serves_as_a_tuple(numbers):
    assert adds(ARRAY, numbers) == 3
    for call in (copies, copy_kernel[1, 2]):
        found = np.zeros(2, np.float32)
        call(found, numbers)
        assert found.tolist() == [1, 2]


def test_a_tuple_is_not_called_a_list():
    with pytest.raises(weft.CompileError) as error:
        copies(ARRAY, ((1.0, 2.0), (3.0, 4.0)))
    assert "list" not in str(error.value)


FAKES = {
    "tensors": (
        weft.fake_tensor(weft.f32, (4,), device="cuda:0"),
        weft.fake_tensor(weft.f32, (4,), device="cuda:1"),
    ),
    "in a tuple": (
        weft.fake_tensor(weft.f32, (4,), device="cuda:0"),
        (weft.fake_tensor(weft.f32, (4,), device="cuda:1"), 1),
    ),
}


@weft.jit
def takes(a, b):
    return 1


@pytest.mark.parametrize("fakes", FAKES)
def test_fakes_on_two_devices_are_refused_when_compiling(fakes):
    with pytest.raises(ValueError, match=r"argument 'a' is on cuda:0, argument 'b.*' on cuda:1"):
        weft.compile(takes, *FAKES[fakes])


def test_a_fake_of_any_device_goes_with_one_of_a_certain_one():
    anywhere = weft.fake_tensor(weft.f32, (4,), device="cuda")
    weft.compile(takes, anywhere, FAKES["tensors"][1])
    weft.compile(takes, FAKES["tensors"][1], FAKES["tensors"][1])


HUGE = [2**63, 2**64, -(2**63) - 1, 10**30]
KINDS = {
    "f64": (weft.f64, "value is {}, expected an int of at most 64 bits, or a float (f64)"),
    "f32": (weft.f32, "value is {}, expected an int of at most 64 bits, or a float (f32)"),
    "f16": (weft.f16, "value is {}, expected an int of at most 64 bits, or a float (f16)"),
    "i64": (weft.i64, "value is {}, expected -9223372036854775808 to 9223372036854775807 (i64)"),
    "shape": (
        weft.Shape[(weft.sym("n", width=64),)],
        "shape[0] is {}, expected an int of at most 64 bits",
    ),
    "shape of 32 bits": (
        weft.Shape[("n",)],
        "shape[0] is {}, expected an int of at most 64 bits",
    ),
    "stream": (weft.Stream, "expected a stream's address, received {}"),
    "pointer": (weft.Pointer[weft.f32], "value is {}, expected an address, of at most 64 bits"),
}


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("kind", KINDS)
def test_an_int_beyond_64_bits_is_called_that_and_not_another_kind(kind, number):
    annotation, words = KINDS[kind]

    def takes(x):
        return 1

    takes.__annotations__["x"] = annotation
    fn = weft.compile(weft.jit(takes))
    given = (number,) if "shape" in kind else number
    with pytest.raises((ValueError, TypeError)) as error:
        fn(given)
    assert words.format(number) in str(error.value)
    assert isinstance(error.value, ValueError)


def test_a_kernel_called_outside_says_both_ways_to_launch_it():
    with pytest.raises(weft.WeftError) as error:
        copy_kernel(ARRAY, ARRAY)
    assert error.value.hint == (
        "write copy_kernel[grid, block](...), or in a @weft.jit function "
        "copy_kernel(...).launch(grid=..., block=...)"
    )
