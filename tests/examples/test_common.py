# SPDX-License-Identifier: Apache-2.0
"""The tools of the examples: errors, pictures.

In: small arrays. Out: figures that can be checked by hand.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from examples.common import largest_error
from examples.picture import encode_png, landscape, write_png


def test_largest_error_is_absolute_below_one_and_relative_above():
    assert largest_error(np.array([0.25]), np.array([0.0])) == 0.25
    assert largest_error(np.array([1010.0]), np.array([1000.0])) == pytest.approx(0.01)


def test_largest_error_of_bytes_does_not_wrap():
    assert largest_error(np.array([0], np.uint8), np.array([255], np.uint8)) == 1.0


def test_nan_is_never_within_a_tolerance():
    assert not largest_error(np.array([np.nan]), np.array([1.0])) <= 1e9


def test_another_shape_is_infinitely_wrong():
    assert largest_error(np.zeros(2), np.zeros(3)) == float("inf")


def decode_png(content: bytes) -> np.ndarray:
    """An independent reader for the PNG files that `encode_png` writes: 8-bit RGB, filter 0."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = {}, 8
    while position < len(content):
        (length,) = struct.unpack_from(">I", content, position)
        kind = content[position + 4 : position + 8]
        body = content[position + 8 : position + 8 + length]
        (check_sum,) = struct.unpack_from(">I", content, position + 8 + length)
        assert check_sum == zlib.crc32(kind + body)
        chunks[kind] = body
        position += length + 12
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_png_reads_back(tmp_path):
    picture = landscape(31, 47)
    path = write_png(tmp_path / "folder" / "picture.png", picture)
    np.testing.assert_array_equal(decode_png(path.read_bytes()), picture)


def test_picture_of_floats_is_refused():
    with pytest.raises(ValueError, match=r"uint8\[height, width, 3\], received float64\[2, 2, 3\]"):
        encode_png(np.zeros((2, 2, 3)))


def test_landscape_has_every_kind_of_edge():
    picture = landscape(128, 160)
    assert picture.shape == (128, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100
