# SPDX-License-Identifier: Apache-2.0
"""Layout classes and device names."""

from __future__ import annotations

import itertools

import pytest

from weft.types.device import device_name, parse_device
from weft.types.layout import LAYOUTS, contiguous_strides, layout_holds, layout_of


def offsets(shape, strides):
    """Where each element lies."""
    return [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    ]


@pytest.mark.parametrize("shape", [*itertools.product((0, 1, 2, 3), repeat=3)])
def test_a_class_never_promises_what_does_not_hold(shape):
    for strides in itertools.product((-1, 0, 1, 2, 3, 6), repeat=3):
        layout = layout_of(shape, strides)
        if layout == "contiguous":
            assert offsets(shape, strides) == offsets(shape, contiguous_strides(shape))
        if layout == "inner":
            assert offsets(shape, strides) == offsets(shape, (*strides[:2], 1))
            assert offsets(shape, strides) != offsets(shape, contiguous_strides(shape))


def test_null_strides_are_contiguous():
    assert layout_of((3, 4), None) == "contiguous"


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
