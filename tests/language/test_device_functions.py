# SPDX-License-Identifier: Apache-2.0
"""`@weft.device`: functions that kernels call, checked by their annotations."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft


@weft.device
def scaled(x: weft.f32, factor: weft.f32 = 2.0) -> weft.f32:
    """`x` times `factor`."""
    return x * factor


@weft.device
def first(a: weft.Tensor, row: weft.i32, width: weft.Constexpr = 2):
    total = a[row, 0]
    for column in weft.static_range(1, width):
        total += a[row, column]
    return total


class Model:
    def __init__(self, bias):
        self.bias = bias

    @weft.device
    def apply(self, x: weft.f32):
        return scaled(x) + self.bias


MODEL = Model(3.0)


@weft.kernel
def kernel(a, out):
    i = weft.thread_idx.x
    out[i, 0] = scaled(a[i, 0])
    out[i, 1] = scaled(1, factor=3)
    out[i, 2] = first(a, i)
    out[i, 3] = MODEL.apply(a[i, 1])


def test_kernels_inline_them():
    a, out = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros((4, 4), np.float32)
    kernel[1, 4](a, out)
    assert (out[:, 0] == 2 * a[:, 0]).all() and (out[:, 1] == 3).all()
    assert (out[:, 2] == a.sum(1)).all() and (out[:, 3] == 2 * a[:, 1] + 3).all()


def test_they_are_documented_functions():
    assert scaled.__doc__ == "`x` times `factor`." and scaled.__name__ == "scaled"
    assert list(inspect.signature(scaled).parameters) == ["x", "factor"]
    assert repr(scaled) == "<weft device function scaled>"


def narrow(x: weft.f32) -> weft.i32:
    return x


WRONG = {
    "a number for a tensor": (lambda a, i: first(1.0, i), "argument 'a' must be a tensor"),
    "a run-time constant": (lambda a, i: first(a, i, i), "known at compile time"),
    "a tensor for a number": (lambda a, i: scaled(a), "number"),
    "too many arguments": (lambda a, i: scaled(1.0, 2.0, 3.0), "3 were given"),
    "nothing returned": (lambda a, i: nothing(i), "returns None, expected f32"),
}


@weft.device
def nothing(i) -> weft.f32:
    pass


@pytest.mark.parametrize("call", WRONG)
def test_arguments_and_results_fit_their_annotations(call):
    function, message = WRONG[call]

    @weft.kernel
    def wrong(a):
        a[0, 0] = function(a, weft.thread_idx.x)

    with pytest.raises(weft.TypeMismatchError, match=message):
        wrong[1, 1](np.zeros((2, 2), np.float32))


def test_they_work_only_in_kernels():
    with pytest.raises(weft.UnavailableError, match="works only in kernels, but Python ran it"):
        scaled(1.0)

    @weft.jit
    def host(x: weft.f32):
        return scaled(x)

    with pytest.raises(weft.UnavailableError, match="needs a thread of a kernel"):
        host(1.0)
    with pytest.raises(TypeError, match="already decorated"):
        weft.device(scaled)
    with pytest.raises(TypeError, match="takes a Python function"):
        weft.device(3)


def test_a_changed_device_function_is_compiled_again():
    @weft.device
    def value():
        return 1

    @weft.kernel
    def store(a):
        a[0] = value()

    store[1, 1](a := np.zeros(1, np.int32))
    assert a[0] == 1
    value.function.__code__ = (lambda: 2).__code__
    store[1, 1](a)
    assert a[0] == 2
