# SPDX-License-Identifier: Apache-2.0
"""Pictures for the examples that make one: a writer for PNG files, and a test picture.

In: height x width x 3 bytes. Out: a file that any viewer opens.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _chunk(kind: bytes, content: bytes) -> bytes:
    """One chunk of a PNG file: length, kind, content, check sum of kind and content."""
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def encode_png(pixels: np.ndarray) -> bytes:
    """The bytes of a PNG file.

    Args:
        pixels: uint8, height x width x 3, red, green, blue.

    Raises:
        ValueError: if it has another type or shape.

    Example:
        >>> encode_png(np.zeros((2, 3, 3), np.uint8))[1:4]
        b'PNG'
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(
            f"a picture must be uint8[height, width, 3], received {pixels.dtype}{list(pixels.shape)}"
        )
    height, width, _ = pixels.shape
    # Each row begins with its filter: 0, none.
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits per channel, RGB
    return b"".join(
        (
            PNG_SIGNATURE,
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)),
            _chunk(b"IEND", b""),
        )
    )


def write_png(path: Path, pixels: np.ndarray) -> Path:
    """Write a picture, making the folder where needed, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_png(pixels))
    return path


def landscape(height: int, width: int) -> np.ndarray:
    """A picture with soft and hard edges: a sun over waves, with a grid of thin lines.

    Returns:
        uint8, height x width x 3; the same one each time.
    """
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    y, x = y / max(height - 1, 1), x / max(width - 1, 1)
    sky = np.stack((0.35 + 0.5 * y, 0.55 + 0.2 * y, 0.9 - 0.3 * y), axis=-1)
    crest = 0.62 + 0.05 * np.sin(14 * x) + 0.02 * np.sin(47 * x + 3)
    depth = np.clip((y - crest) * 3, 0, 1)
    sea = np.stack((0.1 + 0.1 * depth, 0.3 + 0.3 * depth, 0.5 - 0.2 * depth), axis=-1)
    picture = np.where((y > crest)[..., None], sea, sky)
    distance = np.hypot((x - 0.7) * width / max(height, 1), y - 0.28)
    picture[distance < 0.14] = (1.0, 0.85, 0.35)
    lines = (np.arange(height)[:, None] % 64 == 0) | (np.arange(width)[None, :] % 64 == 0)
    picture[lines] = (0.05, 0.05, 0.1)
    return (np.clip(picture, 0, 1) * 255).astype(np.uint8)
