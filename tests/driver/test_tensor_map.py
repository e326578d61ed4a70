# SPDX-License-Identifier: Apache-2.0
"""TMA descriptors: what reaches the driver, refilling only on change, and refusals with both numbers."""

from __future__ import annotations

import struct

import pytest

from tests.driver.test_extractors import Passer
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from tests.sampling import sampled
from weft import _native
from weft.driver.binary import load_binary
from weft.driver.kernel_launch import Launcher, launch_ex, make_kernel_signature
from weft.driver.tensor_map import (
    TensorMap,
    fill_tma_descriptor_im2col,
    fill_tma_descriptor_tiled,
)
from weft.errors import CudaError


def words(descriptor: TensorMap) -> tuple[int, ...]:
    return struct.unpack("16Q", memoryview(descriptor))  # type: ignore[arg-type]


def tiled(descriptor: TensorMap | None = None, **changes: object) -> TensorMap:
    values: dict[str, object] = {
        "address": 0x10000,
        "element": "f16",
        "shape": (128, 64),
        "strides": (64, 1),
        "box": (32, 16),
    }
    return fill_tma_descriptor_tiled(descriptor or TensorMap(), **{**values, **changes})  # type: ignore[arg-type]


@on_fake()
def test_a_tiled_descriptors_dims_are_reversed(fake: FakeCuda):
    descriptor = tiled(swizzle="32B", l2_promotion="256B", fill="nan", element_strides=(1, 2))
    encoded = words(descriptor)
    assert encoded[1:5] == (6 << 32 | 2, 0x10000, 64, 128)
    assert encoded[8] == 128
    assert encoded[12] == 16 << 9 | 32
    assert encoded[13:15] == (1 << 8 | 3 << 16 | 1 << 24, 2 << 4 | 1)
    assert descriptor.address % 128 == 0


# Bytes from the first element to the end of the last one, and whether drivers before 13.2 encode them wrongly.
REACHES = {
    (513, 64, 128): False,
    (512, 64, 128): True,
    (8, 64, 32768): False,
    (2, 8, 131072): False,
}


@pytest.mark.parametrize("version", [13010, 13020])
def test_a_small_tensors_bit_is_fixed_for_old_drivers(version: int):
    @on_fake(version=version)
    def check(fake: FakeCuda):
        for (rows, columns, stride), is_small in REACHES.items():
            found = tiled(shape=(rows, columns), strides=(stride, 1), box=(1, 8))
            assert words(found)[1] >> 21 & 1 == (not is_small or version > 13010), rows

    check()


@on_fake()
def test_a_descriptor_shows_its_arguments(fake: FakeCuda):
    descriptor = tiled()
    assert (descriptor.shape, descriptor.strides, descriptor.box) == ((128, 64), (64, 1), (32, 16))
    assert (descriptor.element, descriptor.global_address) == ("f16", 0x10000)


def test_a_new_descriptor_is_empty_and_says_so():
    descriptor = TensorMap()
    assert repr(descriptor) == "<TensorMap, not filled yet>"
    assert (descriptor.shape, descriptor.strides, descriptor.box) == ((), (), ())


@on_fake()
def test_an_unfilled_descriptor_is_refused_by_every_launch(fake: FakeCuda):
    code = assemble(parameter_kernel("copier", [".align 64 .b8 p[128]"]))
    function = load_binary("copier", code)[1]
    for kind in ("nvTmaDesc", "struct[128:64]"):
        signature = make_kernel_signature([kind])
        launcher = Launcher([kind])
        text = "argument #0: expected a filled TensorMap, received one that is not filled yet; call fill_tma"
        with pytest.raises(ValueError, match=text):
            launch_ex(function, 1, 32, signature, (TensorMap(),))
        with pytest.raises(ValueError, match=text):
            launcher(1, 1, 1, None, function, (1, 1, 0), None, None, None, TensorMap())
    with pytest.raises(ValueError, match="expected a filled TensorMap"):
        bytes(TensorMap())
    assert fake.launches() == []


@on_fake()
def test_the_address_zero_is_not_encoded(fake: FakeCuda):
    text = "the address is 0, expected that of a tensor in device memory; an empty tensor has no"
    with pytest.raises(ValueError, match=text):
        fill_tma_descriptor_tiled(TensorMap(), 0, "f16", (64, 64), (64, 1), (8, 8))
    with pytest.raises(ValueError, match=text):
        fill_tma_descriptor_im2col(
            TensorMap(), 0, "f16", (1, 2, 8), (16, 8, 1), lower=(0,), upper=(0,),
            channels_per_pixel=8, pixels_per_column=1,
        )  # fmt: skip
    with pytest.raises(ValueError, match="the address is 0"):
        _native.TensorMap().fill_tiled(0, 6, (64,), (), (8,), (1,), 0, 0, 0, 0)
    assert fake.count("cuTensorMapEncodeTiled") == fake.count("cuTensorMapEncodeIm2col") == 0


@on_fake()
def test_a_filled_descriptor_shows_its_contents(fake: FakeCuda):
    assert repr(tiled()) == (
        "<TensorMap of f16 at 0x10000, shape=(128, 64), strides=(64, 1), box=(32, 16)>"
    )


@on_fake()
@pytest.mark.parametrize("name", ["shape", "strides", "box", "element_strides"])
def test_numbers_that_are_none_are_type_errors(fake: FakeCuda, name: str):
    with pytest.raises(TypeError):
        tiled(**{name: ("1", 1)})
    with pytest.raises(TypeError):
        tiled(**{name: 3})
    assert fake.count("cuTensorMapEncodeTiled") == 0


@on_fake()
def test_a_descriptor_is_encoded_again_only_when_something_changed(fake: FakeCuda):
    descriptor = tiled()
    tiled(descriptor)
    assert fake.count("cuTensorMapEncodeTiled") == 1
    tiled(descriptor, address=0x20000)
    assert fake.count("cuTensorMapEncodeTiled") == 2
    assert (words(descriptor)[2], descriptor.global_address) == (0x20000, 0x20000)


@on_fake()
def test_a_descriptor_that_the_driver_refuses_stays_as_it_was(fake: FakeCuda):
    descriptor = tiled()
    before = words(descriptor)
    fake.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(CudaError, match="filling a TMA descriptor"):
        tiled(descriptor, address=0x20000)
    assert (words(descriptor), descriptor.global_address) == (before, 0x10000)
    tiled(descriptor, address=0x20000)
    assert words(descriptor)[2] == 0x20000


@on_fake()
def test_an_im2col_descriptor_has_corners_pixels_and_channels(fake: FakeCuda):
    descriptor = fill_tma_descriptor_im2col(
        TensorMap(),
        0x10000,
        "bf16",
        (8, 14, 28, 64),
        (14 * 28 * 64, 28 * 64, 64, 1),
        lower=(-1, -2),
        upper=(1, 2),
        channels_per_pixel=64,
        pixels_per_column=128,
        swizzle="128B",
    )
    encoded = words(descriptor)
    assert encoded[1:7] == (9 << 32 | 1 << 21 | 4, 0x10000, 64, 28, 14, 8)
    assert encoded[8:10] == (0xFFFFFFFE << 32 | 2, 0xFFFFFFFF << 32 | 1)
    assert encoded[12] == 64 << 32 | 128


@on_fake()
def test_kernels_receive_the_descriptor_by_value(fake: FakeCuda):
    passer = Passer(fake, "nvTmaDesc")
    descriptor = tiled()
    assert passer(descriptor) == bytes(memoryview(descriptor))  # type: ignore[arg-type]
    assert passer(bytes(128)) == bytes(128)
    with pytest.raises(ValueError, match="expected 128 bytes"):
        passer(bytes(127))
    with pytest.raises(TypeError, match="argument #0: expected an object with the buffer protocol"):
        passer(3)


@on_fake()
@pytest.mark.parametrize(
    ("changes", "text"),
    sampled(
        [
            (
                {"shape": (1,) * 6, "strides": (1,) * 6, "box": (1,) * 6},
                "has rank 6, expected 1 to 5",
            ),
            ({"shape": (), "strides": (), "box": ()}, "has rank 0, expected 1 to 5"),
            ({"element": "i1"}, "element is 'i1', expected one of: i8"),
            ({"address": 0x10008}, "0x10008 is not a multiple of 16 bytes"),
            (
                {
                    "shape": (4, 8, 64),
                    "strides": (512, 64, 1),
                    "box": (1, 1, 16),
                    "address": 0x10010,
                    "interleave": "32B",
                    "swizzle": "32B",
                },
                "not a multiple of 32 bytes",
            ),
            ({"strides": (64,)}, "are 1, expected 2 as shape"),
            ({"strides": (64, 2)}, r"strides\[1\] is 2, expected 1"),
            (
                {"strides": (65, 1)},
                r"strides\[0\] is 65 elements, 130 bytes; expected a multiple of 16",
            ),
            ({"strides": (-64, 1)}, r"strides\[0\] is -64"),
            ({"strides": (2**40, 1)}, r"below 2\*\*40"),
            ({"shape": (0, 64)}, r"shape\[0\] is 0, expected 1 to 4294967296"),
            ({"box": (257, 16)}, r"box\[0\] is 257, expected 1 to 256"),
            ({"box": (1, 1, 16)}, "expected 2 of each"),
            ({"box": (32, 7)}, "7 elements wide, 14 bytes; expected a multiple of 16"),
            ({"box": (32, 32), "swizzle": "32B"}, "64 bytes wide, the swizzle 32B allows 32"),
            ({"element_strides": (1, 9)}, r"element_strides\[1\] is 9, expected 1 to 8"),
            ({"swizzle": "7B"}, "swizzle is '7B', expected one of: none, 32B"),
            ({"interleave": "x"}, "interleave is 'x'"),
            ({"l2_promotion": "x"}, "l2_promotion is 'x'"),
            ({"fill": "x"}, "fill is 'x', expected one of: zero, nan"),
            (
                {"fill": "nan", "element": "i16"},
                "fill is 'nan', expected 'zero' for elements of type i16",
            ),
            ({"interleave": "16B"}, r"has rank 2, expected 3 to 5 with interleave '16B'"),
            (
                {
                    "shape": (4, 8, 64),
                    "strides": (512, 64, 1),
                    "box": (1, 1, 16),
                    "interleave": "32B",
                },
                "swizzle is 'none', expected '32B' with the interleave '32B'",
            ),
            ({"box": (32, 48), "swizzle": "64B"}, "96 bytes wide, the swizzle 64B allows 64"),
            (
                {"box": (32, 128), "swizzle": "128B_atom_32B"},
                "256 bytes wide, the swizzle 128B_atom_32B allows 128",
            ),
            ({"element_strides": (0, 1)}, r"element_strides\[0\] is 0, expected 1 to 8"),
            ({"shape": (2**32 + 1, 64)}, r"shape\[0\] is 4294967297, expected 1 to 4294967296"),
        ],
        3,
        several=True,
    ),
)
def test_numbers_out_of_range_are_refused_with_both(
    fake: FakeCuda, changes: dict[str, object], text: str
):
    with pytest.raises(ValueError, match=text):
        tiled(**changes)
    assert fake.count("cuTensorMapEncodeTiled") == 0


@on_fake()
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"lower": (0,)}, r"lower \(0,\) has 1 offsets, expected 2"),
        ({"upper": (0, 128)}, r"upper\[1\] is 128, expected -128 to 127"),
        ({"channels_per_pixel": 257}, "257, expected 1 to 256"),
        ({"pixels_per_column": 0}, "0, expected 1 to 1024"),
        ({"shape": (8, 8), "strides": (8, 1)}, "has rank 2, expected 3 to 5"),
        (
            {"lower": (0, 4), "upper": (0, -4)},
            r"0 wide in spatial dimension 1: shape 8, lower 4, upper -4",
        ),
        ({"element": "u16", "fill": "nan"}, "expected 'zero' for elements of type u16"),
        ({"swizzle": "64B"}, "128 bytes wide, the swizzle 64B allows 64"),
    ],
)
def test_im2col_refusals(fake: FakeCuda, changes: dict[str, object], text: str):
    values: dict[str, object] = {
        "address": 0x10000,
        "element": "f16",
        "shape": (8, 8, 8, 64),
        "strides": (4096, 512, 64, 1),
        "lower": (0, 0),
        "upper": (0, 0),
        "channels_per_pixel": 64,
        "pixels_per_column": 64,
    }
    with pytest.raises(ValueError, match=text):
        fill_tma_descriptor_im2col(TensorMap(), **{**values, **changes})  # type: ignore[arg-type]


def test_the_native_descriptor_checks_ranks_itself():
    with pytest.raises(ValueError, match="rank 1 to 5, received 6"):
        TensorMap().fill_tiled(0, 0, (1,) * 6, (1,) * 5, (1,) * 6, (1,) * 6, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="expected a tuple of 1"):
        TensorMap().fill_tiled(0, 0, (1, 1), (), (1, 1), (1, 1), 0, 0, 0, 0)
