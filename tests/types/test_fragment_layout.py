# SPDX-License-Identifier: Apache-2.0
"""Which elements a lane holds, against the formulas of PTX's tables (ISA 9.0, sections 9.7.14.5 and 9.7.15.5)."""

from __future__ import annotations

import pytest

from weft.types.fragment_layout import FragmentLayout

GROUP = {lane: lane >> 2 for lane in range(32)}
RANK = {lane: lane % 4 for lane in range(32)}


def a_16_bits(lane, i):
    """m16n8k16: a0 to a7."""
    row = GROUP[lane] if i in (0, 1, 4, 5) else GROUP[lane] + 8
    return row, RANK[lane] * 2 + (i & 1) + (8 if i >= 4 else 0)


def b_16_bits(lane, i):
    """m16n8k16: b0 to b3."""
    return RANK[lane] * 2 + (i & 1) + (8 if i >= 2 else 0), GROUP[lane]


def a_8_bits(lane, i):
    """m16n8k32: a0 to a15."""
    row = GROUP[lane] if i < 4 or 8 <= i < 12 else GROUP[lane] + 8
    return row, RANK[lane] * 4 + (i & 3) + (16 if i >= 8 else 0)


def b_8_bits(lane, i):
    """m16n8k32: b0 to b7."""
    return RANK[lane] * 4 + (i & 3) + (16 if i >= 4 else 0), GROUP[lane]


def a_tf32(lane, i):
    """m16n8k8: a0 to a3; the same for f64."""
    return (GROUP[lane] if i % 2 == 0 else GROUP[lane] + 8), RANK[lane] + (4 if i >= 2 else 0)


def b_tf32(lane, i):
    """m16n8k8: b0, b1; the same for f64."""
    return RANK[lane] + 4 * i, GROUP[lane]


def c_any(lane, i):
    """m16n8: c0 to c3."""
    return (GROUP[lane] if i < 2 else GROUP[lane] + 8), RANK[lane] * 2 + (i & 1)


TABLES = {
    "a of 16 bits": ((16, 16), 2, "a", a_16_bits, 8),
    "b of 16 bits": ((16, 8), 2, "b", b_16_bits, 4),
    "a of 8 bits": ((16, 32), 1, "a", a_8_bits, 16),
    "b of 8 bits": ((32, 8), 1, "b", b_8_bits, 8),
    "a of tf32": ((16, 8), 4, "a", a_tf32, 4),
    "b of tf32": ((8, 8), 4, "b", b_tf32, 2),
    "a of f64": ((16, 8), 8, "a", a_tf32, 4),
    "b of f64": ((8, 8), 8, "b", b_tf32, 2),
    "c of 32 bits": ((16, 8), 4, "c", c_any, 4),
    "c of 16 bits": ((16, 8), 2, "c", c_any, 4),
    "c of 64 bits": ((16, 8), 8, "c", c_any, 4),
}


@pytest.mark.parametrize("name", TABLES)
def test_one_instruction_of_mma_is_laid_out_as_ptx_says(name):
    shape, itemsize, role, table, count = TABLES[name]
    layout = FragmentLayout(shape, itemsize, "mma", role)
    assert layout.elements == count
    for lane in range(32):
        assert layout.coordinates(lane) == [table(lane, i) for i in range(count)]


@pytest.mark.parametrize("name", TABLES)
def test_larger_tiles_hold_each_element_once(name):
    (rows, columns), itemsize, role, table, count = TABLES[name]
    layout = FragmentLayout((3 * rows, 2 * columns), itemsize, "mma", role)
    assert layout.elements == 6 * count
    found = [place for lane in range(32) for place in layout.coordinates(lane)]
    assert len(set(found)) == len(found) == 6 * rows * columns
    if role != "b":  # tiles of 16 rows, then instructions along the row
        for lane in range(32):
            tiles = [layout.coordinates(lane)[i : i + count] for i in range(0, 6 * count, count)]
            for number, tile in enumerate(tiles):
                down, along = divmod(number, 2)
                expected = [
                    (row + rows * down, column + columns * along)
                    for row, column in (table(lane, i) for i in range(count))
                ]
                assert tile == expected


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_results_of_wgmma_are_laid_out_as_ptx_says(columns):
    layout = FragmentLayout((64, columns), 4, "wgmma", "c")
    assert layout.elements == columns // 2
    for thread in range(128):
        lane, warp = thread % 32, thread // 32
        expected = [
            (16 * warp + GROUP[lane] + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * RANK[lane] + i % 2)
            for i in range(columns // 2)
        ]
        assert layout.coordinates(lane, warp) == expected


@pytest.mark.parametrize(
    ("itemsize", "columns", "table"), [(2, 16, a_16_bits), (1, 32, a_8_bits), (4, 8, a_tf32)]
)
def test_operands_of_wgmma_in_registers_are_laid_out_as_ptx_says(itemsize, columns, table):
    layout = FragmentLayout((64, columns), itemsize, "wgmma", "a")
    for warp in range(4):
        for lane in range(32):
            expected = [
                (16 * warp + row, column)
                for row, column in (table(lane, i) for i in range(layout.elements))
            ]
            assert layout.coordinates(lane, warp) == expected


def test_a_result_of_16_bits_is_the_operand_of_a_next_product():
    c, a = (FragmentLayout((32, 48), 2, "mma", role) for role in ("c", "a"))
    assert all(c.coordinates(lane) == a.coordinates(lane) for lane in range(32))


@pytest.mark.parametrize("unit", ["mma", "wgmma"])
def test_values_of_rows_and_columns_are_those_of_the_elements(unit):
    c = FragmentLayout((64, 24), 4, unit, "c")
    rows, columns = FragmentLayout((64,), 4, unit, "row"), FragmentLayout((24,), 4, unit, "column")
    assert columns.elements == 6
    for warp in range(c.warps):
        for lane in range(32):
            own = [row for row, _ in rows.coordinates(lane, warp)]
            across = [column for _, column in columns.coordinates(lane, warp)]
            for number, (row, column) in enumerate(c.coordinates(lane, warp)):
                place = c.place(number)
                assert (own[place.of_row], across[place.of_column]) == (row, column)
