# SPDX-License-Identifier: Apache-2.0
"""Parses the output of ptxas and nvJitLink: each kernel's resources, what costs speed, with the line of Python.

In: the log of an assembly (always verbose), the PTX, the cubin, whose line table (DWARF 2 and 3) comes from the `.loc`
of the PTX. Out: `KernelResources`, `Remark`. A warning's line in the PTX is traced to the user's file through `.loc`;
spills are found in the machine code, as accesses to local memory.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.codegen.llvm.debug_info import path_in_ptx
from weft.runtime.code_image import Remark
from weft.types.launch_limits import MAX_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator


_COMPILING: Final = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES: Final = re.compile(r"Function properties for '?([\w$]+)'?")
_STACK: Final = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED: Final = re.compile(r"Used (\d+) registers")
_AMOUNTS: Final = {
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_memory_bytes": re.compile(r"(\d+) bytes smem"),
    "local_memory_bytes": re.compile(r"(\d+) bytes lmem"),
}
_PTX_LINE: Final = re.compile(r"\bline (\d+)\b")
_CODE: Final = re.compile(r"\((C\d{4})\)")
_LOC: Final = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_FILE: Final = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
# A place in the PTX, which users do not see.
_IN_PTX: Final = re.compile(
    r" (?:in|for) (?:the )?function '[\w$]+'(?: in line \d+)?| in around line \d+|^.*\bline \d+; warning\s*: "
)
_LOCAL_ACCESS: Final = re.compile(r"\s*(?:@!?%p\d+\s+)?(?:ld|st)\.(?:volatile\.)?local\b")
# What to look for where a message about the words before it has no line.
_CAUSES: Final = (
    ("setmaxnreg", r"\bsetmaxnreg\."),
    ("defining input registers", r"\bwgmma\.mma_async[^;]*\}, *\{"),
    ("wgmma", r"\bwgmma\.mma_async\b"),
)


class AssemblerCode(NamedTuple):
    """Explanation of one of ptxas's codes.

    Attributes:
        message: ptxas's own words.
        cause: in the words of a kernel's source.
        cure: what to do.
    """

    message: str
    cause: str
    cure: str


_SERIALIZED: Final = "wgmma.mma_async instructions are serialized due to"
_FEWER: Final = (
    "make the tiles smaller, or allow more registers: fewer threads in a block, or setmaxnreg, which a kernel's "
    "registers, those it starts with, do not show"
)
ASSEMBLER_CODES: Final = {
    "C7510": AssemblerCode(
        f"{_SERIALIZED} wgmma pipeline crossing function boundary at a function call",
        "a call between MMAs, so that each MMA waits",
        "leave out printf, which is a call; an assert takes none",
    ),
    "C7511": AssemblerCode(
        f"{_SERIALIZED} insufficient register resources for the wgmma pipeline",
        "too few registers to keep the MMAs in flight",
        _FEWER,
    ),
    "C7512": AssemblerCode(
        f"{_SERIALIZED} insufficient register resources for the function",
        "too few registers to keep the MMAs in flight",
        _FEWER,
    ),
    "C7513": AssemblerCode(
        f"{_SERIALIZED} non wgmma instructions defining input registers of a wgmma between start and end of the "
        "pipeline stage",
        "an operand in registers is made while MMAs are in flight, be it by a conversion alone, or in the next "
        "iteration of a loop while those of the last are in flight",
        "make the next operand after the wait, its conversion too, and let no MMA stay in flight from one iteration "
        "of a loop to the next, or put the operand into shared memory",
    ),
    "C7514": AssemblerCode(
        f"{_SERIALIZED} non wgmma instructions reading accumulator registers of a wgmma between start and end of the "
        "pipeline stage",
        "accumulators are read, stored or converted while MMAs into them are in flight, or in a loop's next iteration",
        "wait for the MMA before its accumulator is read, and let no MMA stay in flight from one iteration of a loop "
        "to the next whose sums that iteration reads",
    ),
    "C7515": AssemblerCode(
        f"{_SERIALIZED} non wgmma instructions defining accumulator registers of a wgmma between start and end of the "
        "pipeline stage",
        "accumulators in flight are written by something other than an MMA: the parts of two branches, or zeros, come "
        "together",
        "give each MMA a fragment that no branch or other MMA has a part in: wait before branches meet, and "
        "begin with an accumulator",
    ),
    "C7517": AssemblerCode(
        "wgmma.wait_group is injected by compiler to allow use of registers defined by GMMA",
        "a wait that you did not write, since sums in flight change places",
        "wait before fragments are swapped, and after the loop's last MMA",
    ),
}
_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)")
# Lines with sizes and times, which are not warnings.
_ORDINARY: Final = re.compile(
    r"bytes gmem|Compiling entry function|Function properties|bytes stack frame|Used \d+ registers|"
    r"used \d+ registers|Compile time|^\s*$"
)
# A register file has 65,536 registers; a warp takes them in units of 256, warps are allotted in fours.
_REGISTER_FILE: Final = 65536
_REGISTER_UNIT: Final = 256


@dataclass
class KernelResources:
    """One kernel's resources; bytes per thread, shared memory per block."""

    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_memory_bytes: int = 0
    local_memory_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0

    def max_threads(self, bound: int | None) -> int:
        """Most threads of a block: the kernel's declared maximum, or the limit of its registers."""
        by_registers = MAX_THREADS
        if self.registers:
            per_warp = -(-self.registers * WARP_SIZE // _REGISTER_UNIT) * _REGISTER_UNIT
            by_registers = _REGISTER_FILE // per_warp // 4 * 4 * WARP_SIZE
        return min(MAX_THREADS, by_registers, bound or MAX_THREADS)


def read_resources(log: str, cubin: bytes = b"") -> dict[str, KernelResources]:
    """Resources by kernel name, from a verbose log of ptxas or nvJitLink; constant memory is in the cubin alone."""
    found: dict[str, KernelResources] = {}
    current = KernelResources()
    for line in log.splitlines():
        named = _COMPILING.search(line) or _PROPERTIES.search(line)
        if named is not None:
            current = found.setdefault(named[1], KernelResources())
            continue
        stack = _STACK.search(line)
        if stack is not None:
            current.stack_bytes, current.spill_store_bytes, current.spill_load_bytes = map(
                int, stack.groups()
            )
        used = _USED.search(line)
        if used is not None:
            current.registers = int(used[1])
        elif "used" not in line:
            continue
        for name, pattern in _AMOUNTS.items():
            amount = pattern.search(line)
            # nvJitLink repeats the sizes but counts reserved barriers too; ptxas's own line comes first.
            if amount is not None and (name != "barriers" or used is not None):
                setattr(current, name, int(amount[1]))
    sections = read_sections(cubin) if cubin else {}
    for name, resources in found.items():
        constants = sections.get(f".nv.constant0.{name}")
        resources.constant_bytes = len(constants.data) if constants else 0
    return found


def read_diagnostics(log: str, ptx: str) -> list[Remark]:
    """All lines of a log without sizes and times."""
    return list(_diagnostics(log, ptx))


def _diagnostics(log: str, ptx: str) -> Iterator[Remark]:
    kernel = ""
    for line in log.splitlines():
        named = _COMPILING.search(line)
        if named is not None:
            kernel = named[1]
        if _ORDINARY.search(line):
            continue
        code = _CODE.search(line)
        at = _PTX_LINE.search(line)
        number = int(at[1]) if at is not None else 0
        inside = re.search(r"(?:in|for) (?:the )?function '([\w$]+)'", line)
        kernel_here = inside[1] if inside else (_entry_of(ptx, number) if number else kernel)
        file, place = source_line(ptx, number or _cause(ptx, kernel_here, line))
        known = ASSEMBLER_CODES.get(code[1]) if code else None
        message = re.sub(r"^(ptxas|nvlink|info)?\s*(info|warning)?\s*:\s*", "", line)
        yield Remark(
            code=code[1] if code else "",
            message=_IN_PTX.sub("", message).strip() + (f"; {known.cure}" if known else ""),
            kernel=kernel_here,
            file=file,
            line=place,
        )


def local_memory(ptx: str, cubin: bytes, resources: dict[str, KernelResources]) -> Iterator[Remark]:
    """Registers and arrays of each kernel in local memory, at the line with most accesses."""
    for kernel, used in resources.items():
        arrays = _array_accesses(ptx, kernel) if used.stack_bytes else Counter[Place]()
        if used.spill_store_bytes or used.spill_load_bytes:
            found = local_accesses(cubin, kernel)
            spills = Counter({place: found[place] for place in found if place not in arrays})
            message = (
                f"registers spill: each thread stores {used.spill_store_bytes} bytes to local memory and loads "
                f"{used.spill_load_bytes}; keep fewer values at a time, or allow more registers"
            )
            yield _at_most(kernel, message, spills or found)
        if arrays:
            message = (
                f"arrays of a thread lie in local memory, in {used.stack_bytes} bytes of stack; only indices known "
                "at compile time keep an array in registers"
            )
            yield _at_most(kernel, message, arrays)


def _at_most(kernel: str, message: str, accesses: Counter[Place]) -> Remark:
    """A remark on the line with most of the accesses to local memory."""
    ((file, line), _) = next(iter(accesses.most_common(1)), (("", 0), 0))
    return Remark(kernel, message, "", file, line)


def _array_accesses(ptx: str, kernel: str) -> Counter[Place]:
    """A kernel's accesses to its arrays in local memory by line, without the arguments of a printf."""
    text = ptx.splitlines()
    first, last = _lines_of(text, kernel)
    found, place = Counter[Place](), ("", 0)
    names = _files(text)
    printed: set[Place] = set()
    for line in text[first:last]:
        at = _LOC.match(line)
        if at is not None and int(at[2]):
            place = path_in_ptx(names.get(at[1], "")), int(at[2])
        elif _LOCAL_ACCESS.match(line):
            found[place] += 1
        elif "vprintf" in line:
            printed.add(place)
    return Counter({place: count for place, count in found.items() if place not in printed})


def _cause(ptx: str, kernel: str, message: str) -> int:
    """The line of PTX of the first instruction that a message without a line is about; 0 if there is none."""
    pattern = next((text for words, text in _CAUSES if words in message), None)
    if pattern is None:
        return 0
    text = ptx.splitlines()
    first, last = _lines_of(text, kernel)
    found = (n + 1 for n in range(first, last) if re.search(pattern, text[n]))
    return next(found, 0)


def _lines_of(text: list[str], kernel: str) -> tuple[int, int]:
    """Start and end of a kernel's text."""
    entries = [(n, found[1]) for n, line in enumerate(text) if (found := _ENTRY.search(line))]
    spans = pairwise([*entries, (len(text), "")])
    return next(((n, end) for (n, name), (end, _) in spans if name == kernel), (0, 0))


def refused_line(log: str, ptx: str) -> tuple[str, int]:
    """The user's file and line of the first error in a log; ("", 0) if unknown."""
    for text in log.splitlines():
        at = _PTX_LINE.search(text)
        if at is not None and re.search(r"\b(error|fatal)\b", text):
            return source_line(ptx, int(at[1]))
    return "", 0


def source_line(ptx: str, line: int) -> tuple[str, int]:
    """The user's file and line of a line of PTX (from 1); ("", 0) if unknown."""
    lines = ptx.splitlines()
    for text in reversed(lines[:line]):
        found = _LOC.match(text)
        if found is not None and int(found[2]):  # 0 is code without a line of its own
            return path_in_ptx(_files(lines).get(found[1], "")), int(found[2])
        if _ENTRY.search(text):
            break
    return "", 0


def _files(ptx: list[str]) -> dict[str, str]:
    return {m[1]: m[2] for m in map(_FILE.match, ptx) if m is not None}


def _entry_of(ptx: str, line: int) -> str:
    for text in reversed(ptx.splitlines()[:line]):
        found = _ENTRY.search(text)
        if found is not None:
            return found[1]
    return ""


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
    """Number of a kernel's instructions that access local memory, by source line."""
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
        """Offset of the section's address in the table, an address in the section, a place."""
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
