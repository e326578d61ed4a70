# SPDX-License-Identifier: Apache-2.0
"""A parameter before `/` is given by position only, on every way to call."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft


@weft.kernel
def add_kernel(a: weft.Tensor, /, b: weft.f32 = 1.0):
    i = weft.thread_idx.x
    a[i] = a[i] + b


@weft.jit
def add(
    a: weft.Tensor[weft.f32, ("n",)], n: weft.Constexpr, /, b: weft.f32 = 1.0, *, c: weft.f32 = 0.0
):
    add_kernel(a, b + c).launch(grid=1, block=n)


class Adder:
    @weft.jit
    def add(self: weft.Constexpr, a: weft.Tensor[weft.f32, ("n",)], /, b: weft.f32 = 1.0):
        add_kernel(a, b).launch(grid=1, block=a.shape[0])


@weft.jit
def names_it(a: weft.Tensor[weft.f32, ("n",)]):
    add_kernel(a=a).launch(grid=1, block=a.shape[0])


def array():
    return np.zeros(2, np.float32)


def compiled():
    return weft.compile(add, array(), 2)


WAYS = {
    "direct": lambda a: add(a=a, n=2),
    "direct, by position too": lambda a: add(a, n=2),
    "compiled": lambda a: compiled()(a=a),
    "prepared": lambda a: compiled().prepare(a=a),
    "of a device": lambda a: compiled().to(0)(a=a),
    "method": lambda a: Adder().add(a=a),
    "bare launch": lambda a: add_kernel[1, 2](a=a),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_positional_only_parameter_has_no_name_for_callers(way):
    with pytest.raises(TypeError, match="positional-only arguments passed as keyword arguments"):
        WAYS[way](array())


def test_replace_names_a_parameter_although_no_call_may():
    prepared = compiled().prepare(array())
    prepared.replace(a=np.ones(2, np.float32))
    prepared()
    assert prepared[0].tolist() == [2, 2]


def test_compile_takes_its_example_by_position():
    with pytest.raises(TypeError) as error:
        weft.compile(add, a=array(), n=2)
    assert "add(a, n, /, b, *, c): argument 'a' is positional-only, but was passed by name" in str(
        error.value
    )


def test_a_kernel_in_a_host_function_takes_it_by_position():
    with pytest.raises(weft.CompileError, match="positional"):
        names_it(array())


def test_position_works_on_every_way():
    a = array()
    add(a, 2, b=2.0)
    add(a, 2, c=1.0)
    compiled()(a)
    compiled().prepare(a, b=3.0)()
    Adder().add(a)
    add_kernel[1, 2](a, b=4.0)
    assert a.tolist() == [13, 13]


def test_the_signature_shows_it():
    fn = compiled()
    text = "add(a: Tensor[f32, (n,)], /, b: f32 = 1.0, *, c: f32 = 0.0)"
    assert str(fn.signature) == text
    kinds = [parameter.kind.name for parameter in inspect.signature(fn).parameters.values()]
    assert kinds == ["POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"]


def test_a_signature_is_of_functions_alike_in_it():
    @weft.jit
    def add(
        a: weft.Tensor[weft.f32, ("n",)], n: weft.Constexpr, b: weft.f32 = 1.0, *, c: weft.f32 = 0.0
    ):
        add_kernel(a, b + c).launch(grid=1, block=n)

    with pytest.raises(TypeError, match="SIGNATURE_OF_ANOTHER_FUNCTION"):
        weft.compile(add, compiled().signature)
