# SPDX-License-Identifier: Apache-2.0
"""Elements of a tile in each thread, by PTX's tables.

In: a fragment's shape, the bytes of its elements, its unit and its role. Out: the number of elements per thread, and
the row and column of each. A thread's first element is its origin; the others lie at constant distances from it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNITS: Final = ("mma", "wgmma")
"""The instruction: a warp's `mma.sync`, or a warpgroup's `wgmma`."""

ROLES: Final = ("c", "a", "b", "row", "column")
"""`c` = `a` · `b`; `row` and `column` have one value per row or column of a `c` or an `a`."""

_LANES_OF_ROW: Final = 4


class Place(NamedTuple):
    """Location of an element.

    Attributes:
        row, column: from the thread's origin.
        of_row, of_column: its values in fragments of roles `row` and `column`.
    """

    row: int
    column: int
    of_row: int
    of_column: int


class FragmentLayout(NamedTuple):
    """The layout of a fragment.

    Attributes:
        shape: rows and columns; of the roles `row` and `column` only these.
        itemsize: bytes of an element of the MMA's operands and results.
        unit: of `UNITS`.
        role: of `ROLES`.
    """

    shape: tuple[int, ...]
    itemsize: int
    unit: str
    role: str

    @property
    def pack(self) -> int:
        """Adjacent elements along K in a register of 32 bits, of `a` and `b`; along a row, of `c`."""
        if self.role in ("a", "b"):
            return max(1, 4 // self.itemsize)
        return 1 if self.role == "row" else 2

    @property
    def warps(self) -> int:
        """Number of warps that hold it, 16 rows each if more than one."""
        return 4 if self.unit == "wgmma" and self.role in ("c", "a", "row") else 1

    @property
    def blocks(self) -> tuple[int, int, int, int]:
        """Sizes of the loops over a thread's elements: tiles down, tiles across, rows of a tile, adjacent elements."""
        down = self.shape[0] // (16 * self.warps) if self.role in ("c", "a", "row") else 1
        across = self.shape[-1] // (4 * self.pack)
        match self.role:
            case "row":
                return down, 1, 2, 1
            case "column":
                return 1, across, 1, 2
            case "b":
                return self.shape[1] // 8, self.shape[0] // (4 * self.pack), 1, self.pack
            case _:
                return down, across, 2, self.pack

    @property
    def elements(self) -> int:
        """Elements per thread."""
        down, across, halves, adjacent = self.blocks
        return down * across * halves * adjacent

    @property
    def registers(self) -> int:
        """Registers of 32 bits per thread, small elements packed.

        Example:
            >>> FragmentLayout((16, 16), 2, "mma", "a").registers
            4
        """
        return -(-self.elements * self.itemsize // 4)

    def place(self, element: int) -> Place:
        """Location of a thread's element."""
        _, across, halves, adjacent = self.blocks
        rest, column = divmod(element, adjacent)
        rest, half = divmod(rest, halves)
        down, block = divmod(rest, across)
        along = 4 * self.pack * block + column
        if self.role == "b":
            return Place(along, 8 * down, 0, 0)
        row = 16 * self.warps * down + 8 * half
        return Place(row, along, 2 * down + half, adjacent * block + column)

    def along(self, element: int) -> tuple[int, ...]:
        """Offset of a thread's element from the thread's origin, in each of the fragment's dimensions."""
        place = self.place(element)
        return {"row": (place.row,), "column": (place.column,)}.get(self.role, place[:2])

    @property
    def has_pairs_of_columns(self) -> bool:
        """Whether adjacent elements are two columns of a row, as stores of several elements take them."""
        return self.role in ("c", "a") and self.pack == 2

    @property
    def runs(self) -> list[Place]:
        """The start of each run of adjacent elements, in order; in the lane with the first element of an 8 x 8 matrix.

        Example:
            >>> [run[:2] for run in FragmentLayout((128, 8), 4, "wgmma", "c").runs]
            [(0, 0), (8, 0), (64, 0), (72, 0)]
        """
        return [self.place(number) for number in range(0, self.elements, self.blocks[3])]

    def origin(self, lane: int, warp: int = 0) -> tuple[int, int]:
        """Row and column of the first element of a lane; `warp` is its number in the warpgroup.

        Example:
            >>> FragmentLayout((64, 16), 4, "wgmma", "c").origin(5, warp=1)
            (17, 2)
        """
        group, rank = divmod(lane, _LANES_OF_ROW)
        if self.role == "b":
            return rank * self.pack, group
        return group + (16 * warp if self.warps > 1 else 0), rank * self.pack

    def coordinates(self, lane: int, warp: int = 0) -> list[tuple[int, int]]:
        """Row and column of each element of a lane; of the roles `row` and `column` only one of them counts.

        Example:
            >>> FragmentLayout((16, 8), 4, "mma", "c").coordinates(5)
            [(1, 2), (1, 3), (9, 2), (9, 3)]
        """
        row, column = self.origin(lane, warp)
        places = map(self.place, range(self.elements))
        return [(row + place.row, column + place.column) for place in places]
