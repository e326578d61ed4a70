# SPDX-License-Identifier: Apache-2.0
"""The file of one entry: a checksum and named sections.

In: sections. Out: bytes, and sections from bytes of any origin; anything but a whole entry of this format is None. The
hash of entries and keys is BLAKE2b, as in `hashlib`, which would load OpenSSL first (2 ms).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


MAGIC: Final = b"weft\r\n\0\x01"
"""Ends with the version of the format."""
SUFFIX: Final = ".weft"
_DIGEST_BYTES: Final = 16
_LENGTHS: Final = struct.Struct("<HQ")


def encode(sections: Mapping[str, bytes]) -> bytes:
    """The file of these sections: magic, checksum, and each section with the lengths of its name and content.

    Example:
        >>> decode(encode({"meta": b"{}"}))
        {'meta': b'{}'}
    """
    parts: list[bytes] = []
    for name, content in sections.items():
        word = name.encode()
        parts += [_LENGTHS.pack(len(word), len(content)), word, content]
    body = b"".join(parts)
    return MAGIC + blake2b(body, digest_size=_DIGEST_BYTES).digest() + body


def is_of_another_version(data: bytes) -> bool:
    """Whether a file is an entry as another version of weft writes them.

    Example:
        >>> is_of_another_version(encode({})), is_of_another_version(MAGIC[:-1] + b"?")
        (False, True)
    """
    return data.startswith(MAGIC[:-1]) and not data.startswith(MAGIC)


def decode(data: bytes) -> dict[str, bytes] | None:
    """The sections of a file; None if it is truncated, damaged, foreign, or of another version.

    Example:
        >>> decode(b"something else") is None
        True
    """
    start = len(MAGIC) + _DIGEST_BYTES
    body = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC:
        return None
    if blake2b(body, digest_size=_DIGEST_BYTES).digest() != data[len(MAGIC) : start]:
        return None
    sections: dict[str, bytes] = {}
    position = 0
    try:
        while position < len(body):
            name_length, length = _LENGTHS.unpack_from(body, position)
            middle = position + _LENGTHS.size + name_length
            name = bytes(body[position + _LENGTHS.size : middle]).decode()
            sections[name] = bytes(body[middle : middle + length])
            position = middle + length
    except (struct.error, UnicodeDecodeError):
        return None  # another program's, with a checksum
    return sections if position == len(body) else None


try:
    from _blake2 import blake2b
except ImportError:  # another Python
    from hashlib import blake2b

__all__ = ["blake2b"]
