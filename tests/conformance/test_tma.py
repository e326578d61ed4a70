# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes by the copy engine, on the CPU: values against NumPy, and what calls refuse."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@weft.kernel
def fetch_kernel(a: weft.TensorMap, out: weft.Tensor):
    weft.tma.prefetch(a)
    weft.tma.prefetch(a, (weft.block_idx.x, -1))
    out[weft.thread_idx.x] = 1


@weft.jit
def fetch(a: weft.Tensor, out: weft.Tensor):
    fetch_kernel(weft.tensor_map(a, box=(128, 64), swizzle=128), out).launch(grid=2, block=32)


def fetched(a: np.ndarray) -> None:
    out = np.zeros(32, np.int32)
    fetch(a, out)
    assert (out == 1).all()


def test_a_map_is_of_every_shape_with_pitches_of_16_bytes():
    for rows in (0, 1, 7, 300):
        fetched(np.zeros((rows, 64), np.float16))
        fetched(np.zeros((rows, 256), np.float16)[:, :64])
        fetched(np.zeros((2 * rows, 64), np.float16)[::2])


def test_read_only_memory_may_be_mapped():
    a = np.zeros((4, 64), np.float16)
    a.flags.writeable = False
    fetched(a)


def test_the_stride_of_a_single_row_does_not_matter():
    fetched(np.zeros((2, 67), np.float16)[:1, :64])
    fetched(np.zeros((2, 67), np.float16)[:1, :1])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: np.zeros((4, 67), np.float16)[:, :64],
            "a.strides[0] is 67 elements, 134 bytes; expected a multiple of 16 bytes",
        ),
        (
            lambda: np.zeros((4, 64), np.float16)[::-1],
            "a.strides[0] is -64 elements, -128 bytes; expected 0 or more",
        ),
        (lambda: np.zeros((4, 65), np.float16)[:, 1:9], "a.strides[0] is 65 elements, 130 bytes"),
        (lambda: np.zeros((4, 80), np.float16)[:, 1:9], "a is at 0x"),
    ],
    ids=["pitch", "negative", "both", "address"],
)
def test_what_the_engine_cannot_copy_is_refused_by_name(make, sentence: str):
    with pytest.raises(ValueError, match="tensor_map") as caught:
        fetch(make(), np.zeros(32, np.int32))
    assert sentence in str(caught.value)


def test_a_map_of_scratch_is_used_in_its_streams_order():
    @weft.jit
    def host(out: weft.Tensor):
        made = weft.scratch((8, 64), weft.f16)
        fetch_kernel(weft.tensor_map(made, box=(8, 64)), out).launch(grid=1, block=32)

    out = np.zeros(32, np.int32)
    host(out)
    assert (out == 1).all()
