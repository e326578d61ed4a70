# SPDX-License-Identifier: Apache-2.0
"""Boxes of images: each rank, padding, stride, dilation and swizzle against pixels that Python walks over."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.test_tma import aligned
from tests.sampling import sampled


class Convolution(NamedTuple):
    """A convolution's numbers, one per spatial dimension, and what is copied."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    box: tuple[int, int]
    swizzle: int | None = None
    fill: str = "zero"

    @property
    def lower(self):
        return tuple(-before for before, _ in self.padding)

    @property
    def upper(self):
        sizes = zip(self.padding, self.dilation, self.kernel, strict=True)
        return tuple(after - step * (size - 1) for (_, after), step, size in sizes)


CONVOLUTIONS = {
    "sequence": Convolution((3, 11, 8), (3,), ((1, 1),), (1,), (1,), (24, 8)),
    "image": Convolution((3, 7, 9, 40), (3, 2), ((1, 1), (2, 0)), (1, 2), (2, 1), (24, 32), 64),
    "valid": Convolution((2, 6, 5, 16), (2, 3), ((0, 0),) * 2, (1, 1), (1, 1), (40, 16), 32),
    "strided": Convolution(
        (2, 9, 9, 32), (3, 3), ((1, 1),) * 2, (2, 2), (1, 1), (16, 32), 128, "nan"
    ),
    "volume": Convolution(
        (2, 3, 4, 5, 8), (2, 3, 3), ((1, 0), (1, 1), (1, 1)), (1, 1, 3), (1, 1, 2), (64, 8)
    ),
}


def expected(images, one: Convolution, start, offset):
    """The box, pixel by pixel."""
    place = list(start[:-1])
    outside = np.nan if one.fill == "nan" else 0
    padded = np.full((*images.shape[:-1], images.shape[-1] + one.box[1]), outside, images.dtype)
    padded[..., : images.shape[-1]] = images
    found = np.full(one.box, outside, images.dtype)
    for pixel in range(one.box[0]):
        index = (place[0], *(a + b for a, b in zip(place[1:], offset, strict=True)))
        if all(0 <= i < size for i, size in zip(index, images.shape, strict=False)):
            found[pixel] = padded[index][start[-1] :][: one.box[1]]
        for axis in reversed(range(len(offset))):
            place[1 + axis] += one.stride[axis]
            if place[1 + axis] < images.shape[1 + axis] + one.upper[axis]:
                break
            place[1 + axis] = one.lower[axis]
        else:
            place[0] += 1
    return found


@functools.cache
def copier(name: str):
    """Copies the box that begins at a place into `out`."""
    one = CONVOLUTIONS[name]
    pixels, channels = one.box
    rank = len(one.shape)

    @weft.kernel
    def kernel(images: weft.TensorMap, out: weft.Tensor, places: weft.Tensor):
        tile = weft.shared((pixels, channels), weft.f32, swizzle=one.swizzle)
        full = weft.mbarrier(1, arrivals=1)
        if weft.thread_idx.x == 0:
            start = tuple(places[i] for i in weft.static_range(rank))
            offset = tuple(places[rank + i] for i in weft.static_range(rank - 2))
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(images, start, tile, full[0], offsets=offset)
        full[0].wait(0)
        for i in range(weft.thread_idx.x, pixels * channels, 32):
            out[i // channels, i % channels] = tile[i // channels, i % channels]

    @weft.jit
    def host(images, out, places):
        found = weft.im2col_map(
            images,
            one.box,
            kernel=one.kernel,
            padding=one.padding,
            stride=one.stride,
            dilation=one.dilation,
            swizzle=one.swizzle,
            fill=one.fill,
        )
        kernel(found, out, places).launch(grid=1, block=32)

    return host


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_box_has_the_pixels_that_an_element_of_the_kernel_meets(name):
    one = CONVOLUTIONS[name]
    images = aligned(one.shape, np.float32)
    images.flat = np.arange(1, images.size + 1)
    last = tuple((size - 1) * step for size, step in zip(one.kernel, one.dilation, strict=True))
    ends = (size + high - 1 for size, high in zip(one.shape[1:], one.upper, strict=False))
    steps = zip(ends, one.lower, one.stride, strict=True)
    end = tuple(low + (high - low) // step * step for high, low, step in steps)
    first = (0,) * len(last)
    for start, offset in (
        ((0, *one.lower, 0), first),
        ((0, *one.lower, 0), last),
        ((1, *end, 4), last),
        ((one.shape[0] - 1, *one.lower, 0), first),
        ((one.shape[0], *end, 0), first),
    ):
        places = np.array([*start, *offset], np.int32)
        copier(name)(images, out := np.zeros(one.box, np.float32), places)
        np.testing.assert_array_equal(
            out, expected(images, one, start, offset), f"{start} {offset}"
        )


@pytest.mark.parametrize(
    ("architecture", "space"),
    sampled(
        [("sm_90a", "shared::cluster"), ("sm_100a", "shared::cta"), ("sm_120a", "shared::cta")],
        3,
        several=True,
    ),
)
def test_each_atom_column_is_an_instruction(architecture, space):
    sizes = weft.sym("n"), weft.sym("h"), weft.sym("w"), weft.sym("c", divisibility=4)
    images = weft.fake_tensor(weft.f32, sizes, alignment_bytes=16)
    out, places = weft.fake_tensor(weft.f32, (24, 32)), weft.fake_tensor(weft.i32, (6,))
    options = f"--gpu-arch {architecture}"
    found = weft.compile(copier("image"), images, out, places, options=options)
    assert found.ptx.count(f"cp.async.bulk.tensor.4d.{space}.global.im2col") == 2
    assert found.sass.count("UTMALDG.4D.IM2COL") == 2
    assert [kernel.stack_bytes for kernel in found.kernels.values()] == [0]
    assert found.remarks == ()


def test_an_image_without_room_for_the_kernel_is_an_error():
    images = aligned((1, 1, 3, 16), np.float32)
    with pytest.raises(ValueError, match=r"shape\[1\] is 1; the kernel reaches beyond both ends"):
        copier("valid")(images, np.zeros((40, 16), np.float32), np.zeros(6, np.int32))
