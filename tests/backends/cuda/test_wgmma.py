# SPDX-License-Identifier: Apache-2.0
"""wgmma: as many instructions as they have steps, in place, and no remark."""

from __future__ import annotations

import itertools
import re

import pytest

import weft
from tests.sampling import sampled
from weft.backends.cuda import toolchain
from weft.config import override
from weft.errors import UnavailableError

STEP = {
    weft.bf16: 16,
    weft.f16: 16,
    weft.f32: 8,
    weft.f8e4m3: 32,
    weft.f8e5m2: 32,
    weft.i8: 32,
    weft.u8: 32,
}
NAMES = {
    weft.bf16: "HGMMA.64x{}x16.F32.BF16",
    weft.f16: "HGMMA.64x{}x16.F32",
    weft.f32: "HGMMA.64x{}x8.F32.TF32",
    weft.f8e4m3: "QGMMA.64x{}x32.F32.E4M3.E4M3",
    weft.f8e5m2: "QGMMA.64x{}x32.F32.E5M2.E5M2",
    weft.i8: "IGMMA.64x{}x32.S8.S8",
    weft.u8: "IGMMA.64x{}x32.U8.U8",
}


def compiled(
    dtype,
    rows,
    columns,
    terms,
    swizzle=128,
    *,
    a_t=False,
    b_t=True,
    other=None,
    architecture="sm_90a",
    sums=None,
):
    """A kernel with one product in a loop."""
    sums = sums or (weft.i32 if dtype in (weft.i8, weft.u8) else weft.f32)

    @weft.kernel
    def kernel(c: weft.Tensor, iterations: weft.i32):
        a = weft.shared((terms, rows) if a_t else (rows, terms), dtype, swizzle=swizzle)
        b = weft.shared(
            (columns, terms) if b_t else (terms, columns), other or dtype, swizzle=swizzle
        )
        acc = weft.wgmma.accumulator((rows, columns), sums)
        for number in range(iterations):
            left, right = a.T if a_t else a, b.T if b_t else b
            acc = weft.wgmma.mma(left, right, acc, accumulate=number > 0)
            acc = weft.wgmma.wait(acc)
            weft.sync_threads()
        values = acc.values
        for number in weft.static_range(len(values)):
            c[weft.thread_idx.x, number] = values[number]

    @weft.jit(options=f"--gpu-arch {architecture}")
    def host(c: weft.Tensor, iterations: weft.i32):
        kernel(c, iterations).launch(grid=1, block=128)

    shape = (128, rows * columns // 128)
    return weft.compile(host, weft.fake_tensor(sums, shape, device="cuda"), 3)


def products(function):
    """The machine's products, and what assembling them said."""
    return re.findall(r"[HQI]GMMA\S*", function.sass), [str(one) for one in function.remarks]


# Each type and each swizzle, not each pair: they meet in no instruction.
@pytest.mark.parametrize(
    ("dtype", "swizzle"),
    sampled([*zip(STEP, itertools.cycle([32, 64, 128]))], 3, several=True),
    ids=str,
)
def test_a_product_has_one_instruction_for_each_step(dtype, swizzle):
    found, remarks = products(compiled(dtype, 64, 64, 128, swizzle))
    assert found == [NAMES[dtype].format(64)] * (128 // STEP[dtype])
    assert remarks == []


@pytest.mark.parametrize("columns", sampled([8, 24, 40, 104, 88, 112, 256, 176, 160], 3))
def test_any_multiple_of_8_columns_is_one_instruction(columns):
    found, remarks = products(compiled(weft.bf16, 64, columns, 64))
    assert found == [NAMES[weft.bf16].format(columns)] * 4
    assert remarks == []


@pytest.mark.parametrize("columns", sampled([40, 24, 256, 72], 2))
def test_integers_of_other_widths_are_two_products(columns):
    found, _ = products(compiled(weft.i8, 64, columns, 128))
    widths = [columns - 8, 8] if columns > 24 and columns % 16 else [columns]
    assert sorted(found) == sorted(NAMES[weft.i8].format(width) for width in widths * 4)


@pytest.mark.parametrize(
    ("dtype", "swizzle", "a_t", "b_t"),
    sampled(
        [
            (weft.bf16, 32, True, True),
            (weft.bf16, 64, False, False),
            (weft.bf16, 128, True, False),
            (weft.f16, 128, False, False),
        ],
        3,
        several=True,
    ),
)
def test_16_bit_operands_have_either_order(dtype, swizzle, a_t, b_t):
    function = compiled(dtype, 128, 64, 64, swizzle, a_t=a_t, b_t=b_t)
    assert products(function) == ([NAMES[dtype].format(64)] * 8, [])
    assert function.ptx.count(f"1, 1, 1, {int(a_t)}, {int(not b_t)};") == 6


@pytest.mark.parametrize(
    ("left", "right", "name"),
    sampled(
        [
            (weft.f8e4m3, weft.f8e5m2, "E4M3.E5M2"),
            (weft.i8, weft.u8, "S8.U8"),
            (weft.u8, weft.i8, "U8.S8"),
        ],
        3,
        several=True,
    ),
)
def test_8_bit_types_mix(left, right, name):
    found, _ = products(compiled(left, 64, 64, 64, 64, other=right))
    assert len(found) == 2
    assert all(one.endswith(name) for one in found)


@pytest.mark.parametrize("dtype", sampled([weft.f16, weft.f8e4m3, weft.f8e5m2], 3), ids=str)
def test_sums_in_f16_take_half_the_registers(dtype):
    function = compiled(dtype, 128, 192, 128, sums=weft.f16)
    name = NAMES[dtype].replace("F32", "F16").format(192)
    assert products(function) == ([name] * (2 * 128 // STEP[dtype]), [])
    assert function.kernels["kernel"].registers < 2 * 192 // 4 + 64


def test_sums_stay_where_they_are_and_descriptors_are_uniform():
    sass = compiled(weft.bf16, 64, 256, 64).sass
    loop = re.search(r"\.L_x_\d+:((?:(?!\.L_x).)*HGMMA.*?BRA)", sass, re.DOTALL)
    assert loop
    assert re.findall(r"HGMMA\S* (R\d+), gdesc\[UR\d+\], (R\d+)", loop[1]) == [("R24", "R24")] * 4
    assert not re.search(r"\b(MOV|IMAD\.MOV|R2UR|CS2R|LDL|STL)", loop[1])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100a", "sm_120a"])
def test_other_architectures_are_refused(architecture):
    with pytest.raises(
        UnavailableError, match=f"wgmma.mma needs sm_90a, but this is compiled for {architecture}"
    ):
        compiled(weft.bf16, 64, 64, 64, architecture=architecture)


def test_nvjitlink_is_not_asked():
    library = toolchain.find_nvjitlink()
    assert library is not None
    with override(nvjitlink=library.path):
        function = compiled(weft.bf16, 64, 64, 64)
    assert "kernels with wgmma need ptxas" in str(function.remarks[0])
