# SPDX-License-Identifier: Apache-2.0
"""The package `amdgcn_backend` as an installer would make it visible, and a reader of the objects that it makes."""

from __future__ import annotations

import contextlib
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from weft.backends.registry import ENTRY_POINT, find_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parent / "amdgcn_backend"
WARP_SIZES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
# EF_AMDGPU_MACH of LLVM's ELF.h.
MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Has the entry point in that folder, and the package on the search path."""
    information = folder / "weft_amdgcn-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: weft-amdgcn\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(
        f"[{ENTRY_POINT}]\namdgcn = weft_amdgcn.backend:AmdgcnBackend\n"
    )
    added = [str(folder), str(PACKAGE)]
    sys.path[:0] = added
    find_backend.cache_clear()
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
        for name in [name for name in sys.modules if name.startswith("weft_amdgcn")]:
            del sys.modules[name]
        find_backend.cache_clear()


class Elf:
    """A relocatable object of 64 bits.

    Attributes:
        type, machine, flags: of its header.
        symbols: name → (type, size) of what it defines.
    """

    def __init__(self, data: bytes) -> None:
        assert data[:7] == b"\x7fELF\x02\x01\x01"
        self.type, self.machine = struct.unpack_from("<HH", data, 16)
        sections_at, self.flags = struct.unpack_from("<QI", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, sections_at + size * index)
            for index in range(count)
        ]
        (table,) = [section for section in sections if section[1] == 2]  # SHT_SYMTAB
        names = sections[table[6]][4]
        self.symbols: dict[str, tuple[int, int]] = {}
        for at in range(table[4], table[4] + table[5], 24):
            name, kind, _, section, _, length = struct.unpack_from("<IBBHQQ", data, at)
            text = data[names + name : data.index(b"\0", names + name)].decode()
            if section:
                self.symbols[text] = (kind & 15, length)
