# SPDX-License-Identifier: Apache-2.0
"""Parses the output of ptxas and nvJitLink: each kernel's resources, warnings with their source line.

In: the log of an assembly (always verbose), the PTX. Out: `KernelResources`, `Remark`. A warning's line in
the PTX is traced to the user's file through `.loc`.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.debug_info import path_in_ptx
from weft.runtime.object_code import Remark
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

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
        """Most threads of a block: what the kernel was compiled for, or what registers allow."""
        by_registers = MOST_THREADS
        if self.registers:
            per_warp = -(-self.registers * WARP_SIZE // _REGISTER_UNIT) * _REGISTER_UNIT
            by_registers = _REGISTER_FILE // per_warp // 4 * 4 * WARP_SIZE
        return min(MOST_THREADS, by_registers, bound or MOST_THREADS)


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
    sizes = _section_sizes(cubin) if cubin else {}
    for name, resources in found.items():
        resources.constant_bytes = sizes.get(f".nv.constant0.{name}", 0)
    return found


def _section_sizes(elf: bytes) -> dict[str, int]:
    """The bytes of each section of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    each, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    # The offset of the name, type, flags, address, offset and size of each section.
    rows = [struct.unpack_from("<IIQQQQ", elf, table + each * index) for index in range(count)]
    begin = rows[names][4]
    return {elf[begin + row[0] : elf.index(0, begin + row[0])].decode(): row[5] for row in rows}


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
        file, number = source_line(ptx, int(at[1])) if at is not None else ("", 0)
        inside = re.search(r"in (?:the )?function '([\w$]+)'", line)
        yield Remark(
            code=code[1] if code else "",
            message=re.sub(r"^(ptxas|nvlink|info)?\s*(info|warning)?\s*:\s*", "", line).strip(),
            kernel=inside[1] if inside else (_entry_of(ptx, int(at[1])) if at else kernel),
            file=file,
            line=number,
        )


def refused_line(log: str, ptx: str) -> tuple[str, int]:
    """The user's file and line of the first error in a log; ("", 0) if unknown."""
    for text in log.splitlines():
        at = _PTX_LINE.search(text)
        if at is not None and "error" in text:
            return source_line(ptx, int(at[1]))
    return "", 0


def source_line(ptx: str, line: int) -> tuple[str, int]:
    """The user's file and line of a line of PTX (from 1); ("", 0) if unknown."""
    lines = ptx.splitlines()
    for text in reversed(lines[:line]):
        found = _LOC.match(text)
        if found is not None:
            names = {m[1]: m[2] for m in map(_FILE.match, lines) if m is not None}
            return path_in_ptx(names.get(found[1], "")), int(found[2])
        if _ENTRY.search(text):
            break
    return "", 0


def _entry_of(ptx: str, line: int) -> str:
    for text in reversed(ptx.splitlines()[:line]):
        found = _ENTRY.search(text)
        if found is not None:
            return found[1]
    return ""
