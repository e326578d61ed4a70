# SPDX-License-Identifier: Apache-2.0
"""Copies of arguments: the same shapes, strides, alignments and overlaps over other memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import weft
from weft import _native
from weft.autotuner import copies
from weft.autotuner.copies import UserArguments

BASE = np.arange(64, dtype=np.float32).reshape(8, 8)


class Pair(NamedTuple):
    left: object
    right: object


def facts(tensor):
    info = _native.tensor_info(tensor)
    return (
        info.shape,
        info.strides,
        info.dtype_code,
        info.dtype_bits,
        (info.data + info.byte_offset) % 256,
    )


@pytest.mark.parametrize(
    "array",
    [
        *(
            BASE,
            BASE[1:, 3:],
            BASE.T,
            BASE[::-1, ::-2],
            BASE[:, 2],
            BASE[2:2],
            BASE[3:4, 3].reshape(()),
        ),
        np.broadcast_to(BASE[0], (3, 8)),
        np.float64([[1.5]]),
        weft.full((2, 3), 1.5, weft.bf16),
        weft.full(5, 0.5, weft.f8e4m3),
    ],
    ids=lambda array: str(array.shape),
)
def test_a_copy_is_like_the_original_elsewhere(array):
    made = UserArguments([array], ["a"], ["a"]).sets()[0]  # has the memory
    (copied,) = made.values
    assert facts(copied) == facts(array)
    given, moved = _native.tensor_info(array), _native.tensor_info(copied)
    assert (given.data != moved.data) or 0 in array.shape
    assert copied.tolist() == array.tolist()


def test_overlaps_stay_and_only_what_is_written_is_restored():
    a = BASE.copy()
    user = UserArguments([a[:5], 3, a[4:], np.ones(3)], ["x", "n", "y", "z"], ["x"])
    made = user.sets()[0]
    x, n, y, z = made.values
    x[4, 0], z[0] = -1.0, -1.0
    assert (y[0, 0], n, a[4, 0]) == (-1.0, 3, 32.0)
    made.restore()
    assert (x[4, 0], y[0, 0], z[0]) == (32.0, 32.0, -1.0)


def test_tensors_in_containers_and_registered_classes_are_copied():
    class Image:
        def __init__(self, pixels):
            self.pixels = pixels

    weft.register_argument(Image, lambda image: image.pixels)
    a, b = np.ones(3, np.float32), np.ones(3, np.float32)
    made = UserArguments([Pair(a, (b, 2)), Image(b)], ["p", "i"], ["p"]).sets()[0]
    pair, image = made.values
    assert isinstance(pair, Pair)
    pair.left[0] = pair.right[0][0] = 5.0
    assert (image[0], a[0], b[0], pair.right[1]) == (5.0, 1.0, 1.0, 2)


def test_there_are_as_many_sets_as_a_cache_does_not_hold(monkeypatch):
    monkeypatch.setattr(copies, "cache_bytes", lambda device: 3 * 1024)
    assert [
        len(UserArguments([np.zeros(n, np.uint8)], ["a"], []).sets()) for n in (1, 1024, 2048, 9000)
    ] == [*(8, 6, 3, 2)]
    monkeypatch.setattr(copies, "_free_bytes", lambda device: 4096)
    assert len(UserArguments([np.zeros(1024, np.uint8)], ["a"], []).sets()) == 1
