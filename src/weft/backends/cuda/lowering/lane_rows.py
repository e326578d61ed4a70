# SPDX-License-Identifier: Apache-2.0
"""Rows of 16 bytes, one for each lane, of the matrices that `ldmatrix` and `stmatrix` move.

In: a tile in shared memory, and where matrices of 8 such rows begin. Out: each lane's address, of swizzled tiles too;
what is the same for several groups of matrices is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.codegen.llvm.offsets import plus, times
from weft.codegen.llvm.types import memory_type, size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_SHARED = "ptr addrspace(3)"


class _Distance(NamedTuple):
    """From one place of a tile to another: rows, as they are stored, and bytes besides."""

    rows: int
    bytes: int

    def minus(self, other: _Distance) -> _Distance:
        return _Distance(self.rows - other.rows, self.bytes - other.bytes)

    def plus(self, other: _Distance) -> _Distance:
        return _Distance(self.rows + other.rows, self.bytes + other.bytes)


class LaneRows:
    """The addresses of one tile.

    Args:
        printer: where they are computed.
        tile: a matrix in shared memory.
        stored_rows: the dimension along which its rows lie one after the other.
        first: further rows and columns, as they are stored, i32s, such as those of the warps before; or "0". Of
            columns the places that are asked for lie in the panel of a first column without a carry.
        own: the row and column, as they are stored, of a thread that moves its own elements instead of a row.
    """

    def __init__(
        self,
        printer: FunctionPrinter,
        tile: SSAValue,
        stored_rows: int,
        first: tuple[str, str] = ("0", "0"),
        own: tuple[str, str] | None = None,
    ) -> None:
        self.printer, self.stored_rows = printer, stored_rows
        self.first_row, self.first_column = first
        self.tensor = printer.tensor(tile)
        kind = self.tensor.type
        self.size = size_in_bytes(memory_type(kind.element_type))
        self.swizzle = kind.panels
        if self.swizzle is not None:
            self.row_bytes = str(self.swizzle.row_bytes.data)
        else:
            stride = self.tensor.stride(printer, stored_rows)
            if stride.startswith("%"):
                stride = printer.let(f"trunc i64 {stride} to i32")
            self.row_bytes = self._times(stride, self.size)
        self.column = self.matrix = "0"
        if own is not None:
            self.row, self.column = own
        else:
            callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
            lane = printer.let(f"call i32 {callee}()", "lane")
            self.row = printer.let(f"and i32 {lane}, 7")
            self.matrix = printer.let(f"lshr i32 {lane}, 3")
        self.bases: dict[tuple[_Distance, ...], tuple[str, str]] = {}

    def group(self, places: Sequence[tuple[int, int]]) -> int:
        """How many of the next matrices, 4, 2 or 1, have addresses that the number of a lane gives."""
        found = [self._distance(place) for place in places[:4]]
        if len(found) == 4:
            steps = [other.minus(found[0]) for other in found]
            if steps[3] == steps[1].plus(steps[2]):
                return 4
        return 2 if len(found) >= 2 else 1

    def address(self, places: Sequence[tuple[int, int]]) -> str:
        """Each lane's address in a group of matrices, which begin at these rows and columns of the tile."""
        printer = self.printer
        found = [self._distance(place) for place in places]
        steps = tuple(found[bit].minus(found[0]) for bit in (1, 2) if bit < len(found))
        if steps not in self.bases:
            self.bases[steps] = self._base(steps)
        base, chunk = self.bases[steps]
        offset = self._bytes(found[0])
        if self.swizzle is None:
            return printer.let(f"getelementptr i8, {_SHARED} {base}, i32 {offset}", "rows")
        linear = plus(printer, base, offset, "i32")
        place = printer.let(f"xor i32 {linear}, {chunk}")
        return printer.let(f"inttoptr i32 {place} to {_SHARED}", "rows")

    def _base(self, steps: Sequence[_Distance]) -> tuple[str, str]:
        """The lane's address of a group at the tile's first element, and what a swizzle changes of it.

        Of a swizzled tile it is an integer. Groups begin at multiples of 8 rows, which leave the change as it is.
        """
        printer = self.printer
        row = plus(printer, self.row, self.first_row, "i32")
        offset = times(printer, row, self.row_bytes, "i32")
        inside = times(printer, self.column, str(self.size), "i32")
        offset = plus(printer, offset, inside, "i32")
        offset = plus(printer, offset, self._first_column_bytes(), "i32")
        for bit, step in enumerate(steps):
            which = printer.let(f"lshr i32 {self.matrix}, {bit}") if bit else self.matrix
            which = printer.let(f"and i32 {which}, 1")
            offset = plus(printer, offset, times(printer, which, self._bytes(step), "i32"), "i32")
        if self.swizzle is None:
            base = f"getelementptr i8, {_SHARED} {self.tensor.pointer}, i32 {offset}"
            return printer.let(base, "lane_rows"), ""
        start = printer.let(f"ptrtoint {_SHARED} {self.tensor.pointer} to i32")
        linear = printer.let(f"add i32 {start}, {offset}", "lane_rows")
        moved = printer.let(f"lshr i32 {linear}, 3")
        return linear, printer.let(f"and i32 {moved}, {self.swizzle.mask}")

    def _first_column_bytes(self) -> str:
        """From the tile's first column to `first_column`, through panels."""
        printer, column = self.printer, self.first_column
        if column == "0" or self.swizzle is None:
            return times(printer, column, str(self.size), "i32")
        width = self.tensor.type.panel_columns
        panel = printer.let(f"udiv i32 {column}, {width}")
        inside = printer.let(f"urem i32 {column}, {width}")
        panels = times(printer, panel, str(self.swizzle.panel_stride.data * self.size), "i32")
        return plus(printer, panels, times(printer, inside, str(self.size), "i32"), "i32")

    def _distance(self, place: tuple[int, int]) -> _Distance:
        """Of a place from the tile's first element."""
        row, column = place if self.stored_rows == 0 else place[::-1]
        if self.swizzle is None:
            return _Distance(row, column * self.size)
        panel, inside = divmod(column, self.tensor.type.panel_columns)
        return _Distance(row, (panel * self.swizzle.panel_stride.data + inside) * self.size)

    def _bytes(self, distance: _Distance) -> str:
        return self._plus(self._times(self.row_bytes, distance.rows), distance.bytes)

    def _times(self, text: str, factor: int) -> str:
        if not text.startswith("%"):
            return str(int(text) * factor)
        return times(self.printer, text, str(factor), "i32")

    def _plus(self, text: str, more: int) -> str:
        if not text.startswith("%"):
            return str(int(text) + more)
        return plus(self.printer, text, str(more), "i32")
