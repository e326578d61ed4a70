# SPDX-License-Identifier: Apache-2.0
"""Reads a cubin: its sections, and which lines of Python a kernel's accesses to local memory come from.

In: an ELF file of ptxas or nvJitLink, whose line table (DWARF 2 and 3) comes from the `.loc` of the PTX. Out: sizes of
sections, counts by file and line.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.codegen.llvm.debug_info import path_in_ptx

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[str, int]
"""A file and a line."""

# The low 12 bits of an instruction of 16 bytes, on all architectures since sm_70: LDL and STL.
_LOCAL_ACCESSES: Final = (0x983, 0x387)
_OPCODE: Final = 0xFFF
_INSTRUCTION_BYTES: Final = 16
# A place in the table and its symbol, which an architecture's files keep in one of two ways; a symbol's section.
_RELOCATIONS: Final = {
    ".rel.debug_line": struct.Struct("<QQ"),
    ".rela.debug_line": struct.Struct("<QQq"),
}
_SYMBOL: Final = struct.Struct("<6xH16x")
_DWARF: Final = (2, 3)
# Codes of a line table's program.
_EXTENDED, _ROW, _ADVANCE, _ADVANCE_LINE, _SET_FILE = range(5)
_ADVANCE_SPECIAL, _ADVANCE_FIXED = 8, 9
_END, _SET_ADDRESS = 1, 2  # after _EXTENDED
_MORE: Final = 0x80


class _Section(NamedTuple):
    number: int
    data: memoryview


def read_sections(elf: bytes) -> dict[str, _Section]:
    """The sections of a 64-bit ELF file by name; those without contents in the file may be cut short."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    each, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    # The offset of the name, type, flags, address, offset and size of each section.
    rows = [struct.unpack_from("<IIQQQQ", elf, table + each * index) for index in range(count)]
    begin, view = rows[names][4], memoryview(elf)
    return {
        _text(elf, begin + row[0])[0]: _Section(number, view[row[4] : row[4] + row[5]])
        for number, row in enumerate(rows)
    }


def local_accesses(cubin: bytes, kernel: str) -> Counter[Place]:
    """How many of a kernel's instructions read or write local memory, by the line they come from."""
    sections, found = read_sections(cubin), Counter[Place]()
    code = sections.get(f".text.{kernel}")
    if code is None:
        return found
    rows = sorted(_rows_of(sections, code.number), key=itemgetter(0))
    starts = [row[0] for row in rows]
    for address in range(0, len(code.data), _INSTRUCTION_BYTES):
        if struct.unpack_from("<H", code.data, address)[0] & _OPCODE in _LOCAL_ACCESSES:
            at = bisect_right(starts, address)
            if at and rows[at - 1][1][1]:
                found[rows[at - 1][1]] += 1
    return found


def _rows_of(sections: dict[str, _Section], code: int) -> Iterator[tuple[int, Place]]:
    """Addresses in a section of code, each with the place that its instructions come from, up to the next."""
    lines = sections.get(".debug_line")
    if lines is None:
        return
    symbols, owners = sections[".symtab"].data, dict[int, int]()
    for name, entry in _RELOCATIONS.items():
        for offset, info, *_ in entry.iter_unpack(sections[name].data if name in sections else b""):
            (owners[offset],) = _SYMBOL.unpack_from(symbols, _SYMBOL.size * (info >> 32))
    data, at = bytes(lines.data), 0
    while at < len(data):
        unit = _Unit(data, at)
        for origin, address, place in unit.rows():
            if owners.get(origin) == code:
                yield address, place
        at = unit.end


class _Unit:
    """One unit of a line table: a header with names of files, and a program whose run gives the rows."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        length, version, header = struct.unpack_from("<IHI", data, at)
        self.end, self.begin = at + 4 + length, at + 10 + header
        self.files: list[str] = [""]
        if version not in _DWARF:
            self.begin = self.end
            return
        self.step, _, self.line_base, self.line_range, self.first_special = struct.unpack_from(
            "<BBbBB", data, at + 10
        )
        at += 14 + self.first_special
        self.lengths = data[at + 1 - self.first_special : at]
        folders = [""]
        while data[at]:
            folder, at = _text(data, at)
            folders.append(f"{folder}/")
        at += 1
        while data[at]:
            name, at = _text(data, at)
            folder, at = _number(data, at)
            _, at = _number(data, at)
            _, at = _number(data, at)
            self.files.append(path_in_ptx(folders[folder] + name))

    def rows(self) -> Iterator[tuple[int, int, Place]]:
        """Where the section's address is written in the table, an address in the section, a place."""
        data, at = self.data, self.begin
        origin, address, file, line = -1, 0, 1, 1
        while at < self.end:
            code, at = data[at], at + 1
            if code >= self.first_special:
                forward, down = divmod(code - self.first_special, self.line_range)
                address, line = address + forward * self.step, line + down + self.line_base
                yield origin, address, (self.files[file], line)
            elif code == _EXTENDED:
                size, at = _number(data, at)
                if data[at] == _END:
                    origin, address, file, line = -1, 0, 1, 1
                elif data[at] == _SET_ADDRESS:
                    origin, address = at + 1, struct.unpack_from("<Q", data, at + 1)[0]
                at += size
            elif code == _ROW:
                yield origin, address, (self.files[file], line)
            elif code == _ADVANCE_SPECIAL:  # as the last special code does
                address += (255 - self.first_special) // self.line_range * self.step
            elif code == _ADVANCE_FIXED:
                address, at = address + struct.unpack_from("<H", data, at)[0], at + 2
            else:
                amounts: list[int] = []
                for _ in range(self.lengths[code - 1]):
                    amount, at = _number(data, at, signed=code == _ADVANCE_LINE)
                    amounts.append(amount)
                if code == _ADVANCE:
                    address += amounts[0] * self.step
                elif code == _ADVANCE_LINE:
                    line += amounts[0]
                elif code == _SET_FILE:
                    file = amounts[0]


def _text(data: bytes, at: int) -> tuple[str, int]:
    """The text that ends with a zero byte, and where what follows begins."""
    end = data.index(0, at)
    return data[at:end].decode(errors="surrogateescape"), end + 1


def _number(data: bytes, at: int, *, signed: bool = False) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where what follows begins."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < _MORE:
            return value - (1 << shift if signed and byte & 0x40 else 0), at
