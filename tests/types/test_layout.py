# SPDX-License-Identifier: Apache-2.0
"""Layout classes and device names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import weft
from weft import _native
from weft.arguments.tensor_spec import example_spec
from weft.types.device import device_name, parse_device
from weft.types.dims import LAYOUTS, contiguous_strides, layout_holds

pytestmark = pytest.mark.joined


def offsets(shape, strides):
    """Where each element lies."""
    return [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    ]


SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((0, 1, 2, 3), repeat=rank)]
STRIDES = (-1, 0, 1, 2, 3, 6)


def arrays(shape):
    """Arrays of a shape with all strides, in elements, and their classes."""
    base = np.zeros(64, "f4")[32:]
    for strides in itertools.product(STRIDES, repeat=len(shape)):
        array = as_strided(base, shape, [4 * stride for stride in strides])
        yield array, strides, _native.tensor_info(array).layout


@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_never_promises_what_does_not_hold(shape):
    for _, strides, layout in arrays(shape):
        if layout == "contiguous":
            assert offsets(shape, strides) == offsets(shape, contiguous_strides(shape))
        if layout == "inner":
            assert offsets(shape, strides) == offsets(shape, (*strides[:-1], 1))
            assert offsets(shape, strides) != offsets(shape, contiguous_strides(shape))


@weft.jit
def nothing(a):
    pass


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_call_is_accepted_iff_its_class_is_the_codes(rank):
    compiled = {
        layout: weft.compile(nothing, weft.fake_tensor(weft.f32, (None,) * rank, layout=layout))
        for layout in LAYOUTS
    }
    for shape in SHAPES:
        if len(shape) != rank:
            continue
        for array, strides, own in arrays(shape):
            for layout, function in compiled.items():
                try:
                    function(array)
                except ValueError as error:
                    assert "for layout" in str(error)
                    assert not layout_holds(layout, own), (shape, strides, own)
                else:
                    assert layout_holds(layout, own), (shape, strides, own)


@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s) == 2])
def test_an_example_and_the_key_of_a_call_are_of_one_class(shape):
    classes = {}
    for array, strides, _ in arrays(shape):
        spec = example_spec(array)
        assert classes.setdefault(_native.argument_key((array,)), spec.layout) == spec.layout, (
            strides
        )


def test_a_column_of_one_element_decides_nothing_for_later_calls():
    @weft.jit
    def shape_of(a):
        return a.shape[1]

    assert shape_of(np.zeros((10, 2), "f4")[:, ::2]) == 1
    assert shape_of(np.zeros((10, 10), "f4")[:, ::2]) == 5


def test_classes_hold_those_before_them():
    table = [[layout_holds(wide, narrow) for narrow in LAYOUTS] for wide in LAYOUTS]
    assert table == [[True, False, False], [True, True, False], [True, True, True]]


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:0", "cuda:12", "rocm", "rocm:3"])
def test_devices_have_names(text):
    assert device_name(*parse_device(text)) == text


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "cuda:²"])
def test_a_non_device(text):
    with pytest.raises(ValueError, match="expected 'cpu', 'cuda' or 'cuda:<index>'"):
        parse_device(text)
