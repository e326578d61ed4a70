# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of GPUs: its cases run on the CPU, and their PTX, in an emulator, changes memory as the CPU target does.

In: seeds, and fragments of every unit through every path to memory. Out: arrays, byte by byte.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from tests.sampling import sampled
from tools.fuzz.gpu.arrays import Array, row_major
from tools.fuzz.gpu.cases import NAMES, Case, case_of
from tools.fuzz.gpu.compare import Result, compared, on_cpu, smaller
from tools.fuzz.gpu.emulated import on_emulator
from tools.fuzz.gpu.ptx_memory import AddressError, Memory
from tools.fuzz.gpu.session import Found
from weft.types.fragment_layout import FragmentLayout

EMULATED = ("fragments", "tiles", "products", "copies", "atomics", "layouts", "sums")
FINE = ("same", "refused")
UNITS = {"mma": ("weft.mma.zeros", 32), "wgmma": ("weft.wgmma.accumulator", 128)}


def moving(unit: str, shape: tuple[int, int], dtype: str, pitch: int, columns: int) -> Case:
    """Loads, stores and adds a fragment of this shape; rows are `pitch` elements apart."""
    made, block = UNITS[unit]
    source = f"""\
@weft.kernel
def kernel(a: weft.Tensor, b: weft.Tensor, total: weft.Tensor):
    f = {made}({shape}, weft.f32).load(a)
    f.store(b)
    f.red_add(total)

@weft.jit
def host(a: weft.Tensor, b: weft.Tensor, total: weft.Tensor):
    kernel(a, b, total).launch(grid=1, block={block})
"""
    size = shape[0] + 1, columns
    steps = row_major(size, pitch)
    zeros = (0,) * (size[0] * columns)
    arrays = [Array(dtype, size, steps, 0, numbers, 5) for numbers in (None, zeros, None)]
    return Case(0, "fragments", source, tuple(arrays))


def through_shared(
    unit: str, shape: tuple[int, int], dtype: str, swizzle: int | None, transposed: bool
) -> Case:
    """Stores a fragment into a tile, plain or transposed, and reads the tile by elements."""
    made, block = UNITS[unit]
    rows, columns = shape
    stored = shape[::-1] if transposed else shape
    source = f"""\
@weft.kernel
def kernel(a: weft.Tensor, b: weft.Tensor):
    tile = weft.shared({stored}, weft.{dtype}, swizzle={swizzle}){".T" if transposed else ""}
    {made}({shape}, weft.f32).load(a).store(tile)
    weft.sync_threads()
    for i in range(weft.thread_idx.x, {rows * columns}, {block}):
        b[i // {columns}, i % {columns}] = tile[i // {columns}, i % {columns}]

@weft.jit
def host(a: weft.Tensor, b: weft.Tensor):
    kernel(a, b).launch(grid=1, block={block})
"""
    steps = row_major(shape)
    arrays = [
        Array(dtype, shape, steps, 0, numbers, 5) for numbers in (None, (0,) * (rows * columns))
    ]
    return Case(0, "tiles", source, tuple(arrays))


@pytest.mark.parametrize(
    ("unit", "shape", "dtype", "pitch"),
    sampled(
        itertools.product(
            UNITS, [(64, 8), (128, 8), (128, 32), (192, 16)], ["f32", "bf16", "f64"], [40, 41]
        ),
        28,
        several=True,
    ),
)
def test_fragments_of_any_rows_follow_their_layout(unit, shape, dtype, pitch):
    case = moving(unit, shape, dtype, pitch, columns=shape[1] + 7)
    assert compared(case, on_emulator) == Result("same")


@pytest.mark.parametrize(
    ("unit", "shape", "dtype", "swizzle", "transposed"),
    sampled(
        itertools.product(
            UNITS,
            [(64, 64), (128, 64)],
            ["f32", "bf16", "f64"],
            [None, 32, 64, 128],
            [False, True],
        ),
        35,
        several=True,
    ),
)
def test_fragments_in_tiles_lie_where_their_layout_says(unit, shape, dtype, swizzle, transposed):
    case = through_shared(unit, shape, dtype, swizzle, transposed)
    assert compared(case, on_emulator) == Result("same")


@pytest.mark.parametrize("swizzle", sampled([None, 32, 64, 128], 3))
def test_wide_elements_in_narrow_atoms_follow_the_layout(swizzle):
    test_fragments_in_tiles_lie_where_their_layout_says("wgmma", (64, 16), "f64", swizzle, False)


def test_registers_that_lie_as_in_a_warp_are_seen(monkeypatch):
    """The mistake that this fuzzer was made for."""
    right = FragmentLayout.runs.fget
    assert right is not None

    def as_in_a_warp(layout):
        return [run._replace(row=run.row // 64 * 16 + run.row % 64) for run in right(layout)]

    monkeypatch.setattr(FragmentLayout, "runs", property(as_in_a_warp))
    assert compared(moving("wgmma", (64, 8), "f32", 24, 24), on_emulator).kind == "same"
    found = compared(moving("wgmma", (128, 8), "f32", 24, 24), on_emulator)
    assert found.kind == "values"
    assert "array 1 (f32 (129, 24))" in found.text


def test_a_difference_is_shown_by_a_small_program(monkeypatch):
    case = moving("mma", (16, 8), "f32", 24, 24)

    def wrong(one: Case) -> list[np.ndarray]:
        found = on_cpu(one)
        if "red_add" in one.source:
            found[2][0] ^= 1
        return found

    small = smaller(case, "values", wrong)
    assert "red_add(total)" in small.source
    assert "store" not in small.source


@pytest.mark.parametrize("first", sampled(range(0, 120, 3), 40))
def test_the_ptx_of_random_cases_does_what_the_cpu_does(first):
    found = {
        seed: compared(case_of(seed, EMULATED), on_emulator) for seed in range(first, first + 3)
    }
    assert all(one.kind.startswith(FINE) for one in found.values()), found
    assert sum(one.kind == "same" for one in found.values()) >= 2


@pytest.mark.parametrize("name", sampled(NAMES, 6))
def test_cases_of_every_family_run_on_the_cpu(name):
    kinds = Counter()
    for seed in range(4):
        case = case_of(seed, [name])
        assert case == case_of(seed, [name])
        kinds[compared(case, on_cpu).kind.partition(" ")[0]] += 1
    assert kinds["same"] >= 2, kinds


def test_bytes_beside_an_array_count():
    array = Array("f32", (3, 2), (4, 1), 8)
    case = Case(1, "layouts", moving("mma", (16, 8), "f32", 8, 8).source, (array, array, array))

    for place in (8, -4, 52):  # between two rows, before the first element, after the last

        def outside(one: Case, place: int = place) -> list[np.ndarray]:
            found = on_cpu(one)
            found[1][array.origin + place] ^= 255
            return found

        assert compared(case, outside).text == (
            f"array 1 (f32 (3, 2)) changed at byte {place}, outside its elements"
        )


def test_what_a_gpu_refuses_of_addresses_is_an_error():
    memory = Memory([np.arange(8, dtype=np.uint8)])
    (found,) = memory.read(np.array([memory.address(0) + 4], np.uint64), 4)
    assert int(found[0]) == 0x07060504
    for distance, reason in ((2, "misaligned"), (8, "illegal"), (-4, "illegal")):
        with pytest.raises(AddressError, match=reason):
            memory.read(np.array([memory.address(0) + distance], np.uint64), 4)


def test_expected_ends_are_not_differences():
    found = Found()
    found.add(1, "same", "", "fragments")
    found.add(2, "refused TILE_SWIZZLE_ATOM", "text", "tiles")
    found.add(3, "values", "seed 3", "tiles")
    assert found.differences == ["seed 3"]
    assert "3 cases" in found.summary()
