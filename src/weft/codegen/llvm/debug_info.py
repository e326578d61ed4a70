# SPDX-License-Identifier: Apache-2.0
"""Source locations as LLVM debug metadata.

In: an operation's location, the function it is printed into. Out: `!dbg !7` and the metadata node it names. Lines of
inlined helpers keep their chain of calls (`inlinedAt`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc

from weft.codegen.llvm.types import quoted, utf8

if TYPE_CHECKING:
    from xdsl.ir import Attribute

LINE_TABLES: Final = "LineTablesOnly"
"""For debuggers on the CPU."""
DIRECTIVES: Final = "DebugDirectivesOnly"
"""For PTX: `.loc` only. Any other kind makes `.target sm_xx, debug`, and ptxas then drops optimization."""


# Characters that PTX strings cannot hold: PTX has neither escapes nor non-ASCII letters, and the assembler treats a
# backslash as a separator.
_NOT_IN_PTX: Final = re.compile(rb'[^ -~]|["\\]')
_ENCODED: Final = re.compile(rb"%([0-9A-F]{2})")


def path_in_ptx(text: str) -> str:
    """The path of a source file named in PTX.

    Example:
        >>> path_in_ptx("/home/user/gr%C3%B6%C3%9Fe.py")
        '/home/user/größe.py'
    """
    path = _ENCODED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())
    return path.decode(errors="surrogateescape")


class DebugInfo:
    """The metadata of one LLVM module; nodes are numbered on demand."""

    __slots__ = ("_by_identity", "_inlined", "_nodes", "_numbers", "_unit", "emission_kind")

    def __init__(self, emission_kind: str) -> None:
        self.emission_kind = emission_kind
        self._nodes: list[str] = []
        self._numbers: dict[str, int] = {}
        self._by_identity: dict[tuple[int, int], tuple[str, Attribute]] = {}
        self._inlined: dict[tuple[str, str], int] = {}
        self._unit = -1

    def subprogram(self, name: str, location: Attribute) -> int | None:
        """The scope of a printed function, or None if its place is unknown."""
        place = source_position(location)
        if place is None:
            return None
        return self._subprogram(name, place.filename.data, place.line.data)

    def suffix(self, location: Attribute, scope: int, default: str) -> str:
        """The suffix of an instruction: `, !dbg !7`; `default` if the location is unknown.

        Args:
            location: of the operation; the caller keeps it alive while it prints the module.
            scope: number of the printed function's subprogram.
            default: for operations without a place of their own.
        """
        key = (id(location), scope)
        found = self._by_identity.get(key)
        if found is None:
            number = self._location(location, scope)
            text = default if number is None else f", !dbg !{number}"
            found = self._by_identity[key] = (text, location)
        return found[0]

    def function_suffix(self, scope: int) -> str:
        """The location of instructions of the function as a whole, such as its return."""
        return f", !dbg !{self._node(f'!DILocation(line: 0, column: 0, scope: !{scope})')}"

    def text(self) -> str:
        """All nodes, with the named metadata that enables locations."""
        flags = (
            [
                self._node('!{i32 2, !"Debug Info Version", i32 3}'),
                self._node('!{i32 7, !"Dwarf Version", i32 4}'),
            ]
            if self._unit >= 0
            else []
        )
        lines = [f"!{number} = {node}" for number, node in enumerate(self._nodes)]
        if flags:
            lines.append(f"!llvm.dbg.cu = !{{!{self._unit}}}")
            lines.append("!llvm.module.flags = !{" + ", ".join(f"!{flag}" for flag in flags) + "}")
        return "\n".join(lines) + "\n"

    def loop(self, *hints: str) -> str:
        """The suffix of a loop's jump back, given hints such as `"llvm.loop.unroll.count", i32 4`."""
        listed = "".join(f", !{self._node(f'!{{!{hint}}}')}" for hint in hints)
        return f", !llvm.loop !{self._node(f'distinct !{{!self{listed}}}')}" if hints else ""

    def _node(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = len(self._nodes)
            self._nodes.append(text.replace("!self", f"!{number}"))
            if not text.startswith("distinct !{"):
                self._numbers[text] = number
        return number

    def _location(self, location: Attribute, scope: int) -> int | None:
        if isinstance(location, FileLineColLoc):
            return self._node(
                f"!DILocation(line: {location.line.data}, "
                f"column: {min(location.column.data, 65535)}, scope: !{scope})"
            )
        if isinstance(location, CallSiteLoc):
            caller = self._location(location.caller, scope)
            place = source_position(location.callee)
            if caller is None or place is None:
                return caller
            inner = self._inlined_subprogram(_name(location.callee), place.filename.data)
            return self._node(
                f"!DILocation(line: {place.line.data}, column: {min(place.column.data, 65535)}, "
                f"scope: !{inner}, inlinedAt: !{caller})"
            )
        place = source_position(location)
        return None if place is None else self._location(place, scope)

    def _inlined_subprogram(self, name: str, file: str) -> int:
        """The single scope of a helper's inlined code; the IR does not record the helper's first line."""
        found = self._inlined.get((name, file))
        if found is None:
            found = self._inlined[name, file] = self._subprogram(name, file, 0)
        return found

    def _subprogram(self, name: str, file: str, line: int) -> int:
        file_number = self._file(file)
        if self._unit < 0:
            self._unit = self._node(
                f"distinct !DICompileUnit(language: DW_LANG_Python, file: !{file_number}, "
                f'producer: "weft", isOptimized: true, runtimeVersion: 0, '
                f"emissionKind: {self.emission_kind})"
            )
        types = self._node("!DISubroutineType(types: !{})")
        return self._node(
            f"distinct !DISubprogram(name: {quoted(name)}, scope: !{file_number}, "
            f"file: !{file_number}, line: {line}, type: !{types}, scopeLine: {line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self._unit})"
        )

    def _file(self, file: str) -> int:
        directory, name = os.path.split(self._path(file))
        if not directory.startswith(b"/"):
            directory, name = b"", self._path(file)
        return self._node(f"!DIFile(filename: {quoted(name)}, directory: {quoted(directory)})")

    def _path(self, file: str) -> bytes:
        """The bytes of a file's path; in PTX, percent-encoded (`%22`) where needed."""
        try:
            path = file.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            path = utf8(file)  # names no file
        if self.emission_kind == DIRECTIVES:
            path = _NOT_IN_PTX.sub(lambda found: b"%%%02X" % found[0][0], path)
        return path


_INLINED: Final = "inlined"


def source_position(location: Attribute) -> FileLineColLoc | None:
    """The innermost place in a file."""
    if isinstance(location, FileLineColLoc):
        return location
    if isinstance(location, CallSiteLoc):
        return source_position(location.callee) or source_position(location.caller)
    if isinstance(location, NameLoc):
        return source_position(location.location)
    if isinstance(location, FusedLoc):
        return next(filter(None, map(source_position, location.locations)), None)  # pyright: ignore
    return None


def _name(location: Attribute) -> str:
    return location.desc.data if isinstance(location, NameLoc) else _INLINED
