# SPDX-License-Identifier: Apache-2.0
"""Loads functions from exported files.

In: a path. Out: the same callable that was exported, from the sections of records in an object, a shared library or an
archive.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from weft.compiler.exported.record import function_of, name_of
from weft.errors import ExportError, brief

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


_LISTED: Final = 20
"""Functions that a message names."""


def load(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """A function of a file that `weft.export` wrote: a shared library, an archive or an object.

    It is the callable that was exported, with its signature, keywords, defaults and results, and is linked into this
    process as one that was just compiled; neither the compiler nor the file's own runtime is loaded. As with any
    library, load only files that you trust: they hold code.

    Args:
        path: of the file.
        name: of the function; None if the file has one.

    Raises:
        ExportError: if there is no such file or function, or the file is damaged or for other CPUs.

    Example:
        >>> weft.export("library.so", [fn])
        (PosixPath('library.so'), PosixPath('library.h'))
        >>> weft.load("library.so", "add")(a, b)
    """
    file = Path(path)
    try:
        found = records(file.read_bytes())
    except OSError as error:
        raise ExportError(
            "EXPORT_FILE", f"cannot read {file}: {error.strerror or error}"
        ) from error
    except ValueError:
        raise ExportError(
            "EXPORT_DAMAGED", f"{file} is truncated", hint="export the functions again"
        ) from None
    if not found:
        raise ExportError(
            "EXPORT_FILE",
            f"{file} holds no function that weft exported",
            hint="weft.export writes .so, .a and .o files that do; tvm_ffi.load_module loads others",
        )
    if name is None and len(found) == 1:
        return function_of(found[0], str(file))
    names = {name_of(record, str(file)): record for record in found}
    if name in names:
        return function_of(names[name], str(file))
    listed = ", ".join(sorted(names)[:_LISTED])
    if len(names) > _LISTED:
        listed += f" and {len(names) - _LISTED:,} more"
    raise ExportError(
        "EXPORT_FILE",
        f"{file} has no function {brief(name)}" if name else f"{file} has {len(names)} functions",
        hint=f"name one of them: {listed}",
    )


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
