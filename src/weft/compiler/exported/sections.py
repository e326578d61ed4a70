# SPDX-License-Identifier: Apache-2.0
"""Finds the records in an exported file.

In: the bytes of an object, a shared library or an archive. Out: the content of each of its sections of records.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION: Final = b".weft"
_ARCHIVE: Final = b"!<arch>\n"
_ELF64: Final = b"\x7fELF\x02\x01"
# Of a 64-bit ELF file: where its section headers are, their size, their number and that of names.
_TABLE: Final = struct.Struct("<40xQ10xHHH")
# Of a section's header: name, offset, size.
_HEADER: Final = struct.Struct("<I20xQQ24x")


def records(data: bytes) -> list[bytes]:
    """The records in a file; none in another kind of file.

    Raises:
        ValueError: if the file is truncated.
    """
    try:
        return [record for section in _sections(data) for record in _split(section)]
    except (struct.error, IndexError) as error:
        raise ValueError("truncated") from error


def _sections(data: bytes) -> Iterator[bytes]:
    if data.startswith(_ARCHIVE):
        position = len(_ARCHIVE)
        while position < len(data):
            size = int(data[position + 48 : position + 58])
            yield from _of_object(data[position + 60 : position + 60 + size])
            position += 60 + size + size % 2
    else:
        yield from _of_object(data)


def _of_object(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_ELF64):
        return
    table, size, count, names = cast("tuple[int, int, int, int]", _TABLE.unpack_from(data))
    headers: list[tuple[int, int, int]] = [
        _HEADER.unpack_from(data, table + number * size) for number in range(count)
    ]
    start = headers[names][1]
    for name, offset, length in headers:
        end = data.index(b"\0", start + name)
        if data[start + name : end] == _SECTION:
            if offset + length > len(data):
                raise struct.error("a section ends beyond the file")
            yield data[offset : offset + length]


def _split(section: bytes) -> Iterator[bytes]:
    position = 0
    while position + 8 <= len(section):
        length = int.from_bytes(section[position : position + 8], "little")
        if length:
            yield section[position + 8 : position + 8 + length]
        position += 8 + (length + 7) // 8 * 8
