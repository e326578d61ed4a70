# SPDX-License-Identifier: Apache-2.0
"""Kernels and host functions in classes, and helpers under decorators of others."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft


def twice(function):
    @functools.wraps(function)
    def wrapped(*arguments, **keywords):
        return 2 * function(*arguments, **keywords)

    return wrapped


@twice
def product(x, y):
    return x * y


@functools.lru_cache
def remembered(x, y):
    return x - y


class Scaler:
    """Its methods are compiled; `self` is known at compile time."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, x):
        return self.__checked(x) * self.factor

    def __checked(self, x):
        return x if self.factor else 0

    @classmethod
    def plus_one(cls, x):
        return cls.identity(x) + 1

    @staticmethod
    def identity(x):
        return x

    @weft.kernel
    def kernel(self: weft.Constexpr, out: weft.Tensor, start: weft.i32):
        i = weft.thread_idx.x
        out[i] = self.plus_one(self.times(i)) + start

    @weft.jit
    def fill(self: weft.Constexpr, out: weft.Tensor, start: weft.i32 = 0):
        self.kernel(out, start).launch(grid=1, block=out.shape[0])

    @staticmethod
    @weft.jit
    def fill_without_self(out: weft.Tensor[weft.i32, ("n",)]):
        plain_kernel(out).launch(grid=1, block=out.shape[0])


@weft.kernel
def plain_kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    out[i] = product(i, 3) + remembered(i, 1)


@pytest.fixture
def out():
    return np.zeros(4, np.int32)


def test_methods_are_called_on_instances(out):
    Scaler(10).fill(out, 5)
    assert out.tolist() == [6, 16, 26, 36]
    Scaler.fill(Scaler(0), out)
    assert out.tolist() == [1, 1, 1, 1]


def test_a_kernel_that_is_a_method_is_launched_in_brackets(out):
    Scaler(2).kernel[1, 4](out, 1)
    assert out.tolist() == [2, 4, 6, 8]


def test_a_method_is_compiled_for_its_instance(out):
    scaler = Scaler(3)
    compiled = weft.compile(scaler.fill, out, 0)
    compiled(out, 7)
    assert out.tolist() == [8, 11, 14, 17]


def test_a_changed_attribute_of_the_instance_is_noticed(out):
    scaler = Scaler(3)
    scaler.fill(out)
    scaler.factor = 4
    scaler.fill(out)
    assert out.tolist() == [1, 5, 9, 13]


def test_static_methods_and_helpers_under_decorators(out):
    Scaler(1).fill_without_self(out)
    assert out.tolist() == [2 * 3 * i + i - 1 for i in range(4)]
