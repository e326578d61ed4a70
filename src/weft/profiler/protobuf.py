# SPDX-License-Identifier: Apache-2.0
"""The parts of protobuf's wire format needed by a trace, for single fields and for whole columns.

In: field numbers and values. Out: bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VARINT = 0
FIXED64 = 1
BYTES = 2


def varint(value: int) -> bytes:
    """An unsigned number, seven bits per byte, the lowest first.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    if value < 0:
        raise ValueError(f"varint({value}): expected 0 or more")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    """The tag of a field."""
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field with an unsigned number, a bool or an enum."""
    return tag(field, VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A field with a message of these parts."""
    body = b"".join(parts)
    return tag(field, BYTES) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """A field with a string; a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    return message(field, value.encode(errors="replace"))


def put(rows: NDArray[np.uint8], column: int, constant: bytes) -> int:
    """Writes the same bytes into every row; returns the next column."""
    rows[:, column : column + len(constant)] = np.frombuffer(constant, np.uint8)
    return column + len(constant)


def put_varint(rows: NDArray[np.uint8], column: int, values: NDArray[np.uint64], width: int) -> int:
    """Writes numbers in a fixed number of bytes each, which decoders read like shorter ones.

    Args:
        rows: one row per number.
        column: where the first byte goes.
        values: numbers below 2 ** (7 * width).
        width: bytes per number, at most 10.
    """
    for index in range(width):
        byte = (values >> np.uint64(7 * index)).astype(np.uint8)
        if index < width - 1:
            np.bitwise_or(byte, 0x80, out=rows[:, column + index])
        else:
            np.bitwise_and(byte, 0x7F, out=rows[:, column + index])
    return column + width


def put_fixed64(rows: NDArray[np.uint8], column: int, values: NDArray[np.uint64]) -> int:
    """Writes numbers in eight bytes each; returns the next column."""
    for index in range(8):
        rows[:, column + index] = (values >> np.uint64(8 * index)).astype(np.uint8)
    return column + 8
