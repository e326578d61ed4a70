# SPDX-License-Identifier: Apache-2.0
"""Fragments in registers: whole registers, pairs of small floats, and what is stored, in PTX and SASS."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import weft
from tests.sampling import sampled

WORDS = weft.fake_tensor(weft.u32, (32, 4), alignment_bytes=16)
PAIRS = weft.fake_tensor(weft.u32, (32, 16), alignment_bytes=16)


def instructions(sass):
    """How often each instruction occurs, without its suffixes."""
    found = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)", sass, re.MULTILINE)
    return Counter(found)


def compiled(host, *arguments, architecture="sm_90a"):
    return weft.compile(host, *arguments, options=f"--gpu-arch {architecture} --no-cache")


@weft.kernel
def unpack_kernel(words: weft.Tensor, out: weft.Tensor, scale: weft.Tensor, scaled: weft.Constexpr):
    lane = weft.lane_id()
    mine = weft.load_vector(words[lane], 0, 4)
    pairs = tuple((w >> s) & 0x000F000F | 0x43004300 for w in mine for s in (0, 4, 8, 12))
    left = weft.mma.from_values((16, 64), pairs, weft.bf16, "a") - 136
    if scaled:
        left = left * left.rows(lambda row: scale[row])
    found = left.registers
    for i in weft.static_range(4):
        weft.store_vector(out[lane], 4 * i, found[4 * i : 4 * i + 4])


@pytest.mark.parametrize(("scaled", "most"), [(False, 1.5), (True, 2.0)])
def test_a_weight_of_four_bits_takes_less_than_two_instructions(scaled, most):
    @weft.jit
    def host(words: WORDS, out: PAIRS, scale: weft.Tensor[weft.bf16, (16,)]):
        unpack_kernel(words, out, scale, scaled).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    arithmetic = sum(found[name] for name in ("LOP3", "SHF", "HADD2", "HMUL2", "HFMA2", "PRMT"))
    assert found["LOP3"] <= 18
    assert found["HADD2"] + found["HFMA2"] + found["HMUL2"] <= 16 * (1 + scaled) + 3
    assert not found["PRMT"]
    assert arithmetic / 128 * 4 <= most


@pytest.mark.parametrize("dtype", [weft.bf16, weft.f16])
def test_arithmetic_of_small_floats_is_of_pairs(dtype):
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, factor: weft.f32):
        tile = weft.shared((16, 32), dtype)
        tile[weft.lane_id() % 16, 0] = a[0, 0]
        weft.sync_warp()
        left = weft.mma.load_a(tile)
        by = dtype(factor)
        left = left * by - left * left.rows(lambda row: a[row, 0]) + left.cols(lambda j: a[0, j])
        out[weft.lane_id()] = left.registers[0] ^ left.registers[5]

    @weft.jit
    def host(a: weft.Tensor[dtype, (16, 32)], out: weft.Tensor[weft.u32, (32,)], factor: weft.f32):
        kernel(a, out, factor).launch(grid=1, block=32)

    ptx = compiled(host).ptx
    name = {weft.bf16: "bf16", weft.f16: "f16"}[dtype]
    assert f".{name}x2" in ptx
    assert not re.search(rf"(add|sub|mul|fma)\S*\.{name} ", ptx)


def test_a_mask_used_once_and_bits_are_one_instruction():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        x = a[weft.lane_id()]
        masked = x & 0x00FF00FF
        out[weft.lane_id()] = (x >> 8) & 0x000F000F | 0x64006400
        out[weft.lane_id() + 32] = masked | 0x43004300
        out[weft.lane_id() + 64] = masked

    @weft.jit
    def host(a: weft.Tensor[weft.u32, (32,)], out: weft.Tensor[weft.u32, (96,)]):
        kernel(a, out).launch(grid=1, block=32)

    ptx = compiled(host).ptx
    assert ptx.count("lop3.b32") == 1
    assert "or.b32" in ptx


def test_one_lane_of_four_stores_a_value_of_a_row():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, first: weft.i32):
        acc = weft.wgmma.from_values((64, 64), lambda i, j: a[i, j], weft.f32)
        acc.row_max().store(out, first)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (64, 64)], out: weft.Tensor[weft.f32, ("n",)], i: weft.i32):
        kernel(a, out, i).launch(grid=1, block=128)

    found = instructions(compiled(host).sass)
    assert found["STG"] == 2
    assert found["SHFL"] == 4


def test_sums_of_operators_are_fused():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, alpha: weft.f32, beta: weft.f32):
        acc = weft.mma.zeros((16, 8)).load(a)
        (acc * alpha + beta).store(out)

    @weft.jit
    def host(
        a: weft.Tensor[weft.f32, (16, 8)],
        out: weft.Tensor[weft.f32, (16, 8)],
        alpha: weft.f32,
        beta: weft.f32,
    ):
        kernel(a, out, alpha, beta).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert found["FFMA"] == 4
    assert not found["FADD"]


@pytest.mark.parametrize(
    ("dtype", "loads"), sampled([(weft.bf16, 4), (weft.f32, 8), (weft.f64, 16)], 3, several=True)
)
def test_sixteen_bytes_are_loaded_at_once(dtype, loads):
    matrix = weft.fake_tensor(dtype, ("m", weft.sym("n", divisibility=8)), alignment_bytes=16)

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        acc = weft.mma.zeros((32, 32)).load(a, (32 * weft.block_idx.x, 0))
        acc.store(out, (32 * weft.block_idx.x, 0))

    @weft.jit
    def host(a: matrix, out: matrix):
        kernel(a, out).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)

    sass = compiled(host).sass
    assert len(re.findall(r"LDG\.E\.128", sass)) == loads
    assert instructions(sass)["LDG"] == loads


ELEMENTWISE = {
    # Function → its instruction, one for each register.
    ("where", weft.f32): (lambda f: weft.where(f > 0, f, f * 0.125), "FSETP"),
    ("max", weft.f32): (lambda f: max(f, 0), "FMNMX"),
    ("max", weft.f16): (lambda f: max(f, 0), "HMNMX2"),
    ("min", weft.f16): (lambda f: weft.math.min(f, 2), "HMNMX2"),
    ("fma", weft.f16): (lambda f: weft.math.fma(f, f, 1.0), "HFMA2"),
    ("exp2", weft.f32): (lambda f: weft.math.exp2(f, approx=True), "MUFU"),
}


@pytest.mark.parametrize(("name", "dtype"), sampled(ELEMENTWISE, 3, several=True), ids=str)
def test_a_function_of_numbers_is_one_instruction_per_register(name, dtype):
    function, expected = ELEMENTWISE[name, dtype]
    tensor = weft.fake_tensor(dtype, (32, 64), alignment_bytes=16)

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        function(weft.mma.zeros((32, 64), dtype).load(a)).store(out)

    @weft.jit
    def host(a: tensor, out: tensor):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert found[expected] == 32 * 64 // 32 * dtype.itemsize // 4
    assert not found["PRMT"]
    assert found["LOP3"] < 16


def test_a_right_operand_of_bytes_takes_four_shuffles_a_register():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        words = tuple(a[weft.lane_id(), i] for i in weft.static_range(8))
        right = weft.mma.from_values((32, 32), words, weft.i8, "c").as_operand_b()
        for i in weft.static_range(8):
            out[weft.lane_id(), i] = right.registers[i]

    @weft.jit
    def host(a: weft.Tensor[weft.u32, (32, 8)], out: weft.Tensor[weft.u32, (32, 8)]):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert (found["SHFL"], found["PRMT"]) == (32, 24)


def test_pairs_are_converted_together():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        f = weft.mma.zeros((32, 64)).load(a)
        paired = f.map(lambda x, y: (weft.bf16(x - y), weft.bf16(x + y)), pairs=True)
        paired.store(out)

    of_f32, of_bf16 = (
        weft.fake_tensor(dtype, (32, 64), alignment_bytes=16) for dtype in (weft.f32, weft.bf16)
    )

    @weft.jit
    def host(a: of_f32, out: of_bf16):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert (found["F2FP"], found["FADD"], found["PRMT"]) == (32, 64, 0)


@pytest.mark.parametrize(
    ("architecture", "version", "name"),
    [
        ("sm_89", "8.7", "QMMA.16832.F16.E4M3.E5M2"),
        ("sm_90a", "8.4", "HMMA.16816.F16"),
        ("sm_100a", "8.7", "HMMA.16816.F16"),
    ],
)
def test_sums_in_f16_of_8_bit_floats(architecture, version, name):
    @weft.kernel
    def kernel(out: weft.Tensor):
        left, right = weft.shared((16, 32), weft.f8e4m3), weft.shared((8, 32), weft.f8e5m2)
        acc = weft.mma.zeros((16, 8), weft.f16)
        acc = weft.mma.mma(weft.mma.load_a(left), weft.mma.load_b(right.T), acc)
        acc.store(out)

    @weft.jit(options=f"--gpu-arch {architecture}")
    def host(out: weft.Tensor[weft.f16, (16, 8)]):
        kernel(out).launch(grid=1, block=32)

    function = weft.compile(host, weft.fake_tensor(weft.f16, (16, 8), device="cuda"))
    assert f".version {version}\n" in function.ptx
    assert name in function.sass


def test_an_8_bit_operand_takes_a_shuffle_for_each_register():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        lane = weft.lane_id()
        words = tuple(a[lane, i] for i in weft.static_range(8))
        left = weft.mma.from_values((16, 64), words, weft.f8e4m3, "c").as_operand_a()
        for i in weft.static_range(8):
            out[lane, i] = left.registers[i]

    @weft.jit
    def host(a: weft.Tensor[weft.u32, (32, 8)], out: weft.Tensor[weft.u32, (32, 8)]):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert found["SHFL"] == 8
    assert found["PRMT"] + found["LOP3"] + found["SEL"] <= 32


def test_a_tile_of_bytes_is_transposed_by_matrices_of_pairs():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        tile = weft.shared((64, 16), weft.f8e4m3)
        along_k = weft.shared((16, 64), weft.f8e4m3)
        tile[weft.lane_id(), 0] = a[0]
        weft.sync_warp()
        weft.mma.load_a(tile.T).store(along_k)
        weft.sync_warp()
        out[weft.lane_id()] = along_k[0, weft.lane_id()]

    @weft.jit
    def host(a: weft.Tensor[weft.f8e4m3, (1,)], out: weft.Tensor[weft.f8e4m3, (32,)]):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(compiled(host).sass)
    assert (found["LDSM"], found["STSM"], found["SHFL"], found["PRMT"]) == (2, 2, 8, 8)


@pytest.mark.parametrize(
    ("architecture", "types", "name"),
    [
        ("sm_80", (weft.f16, weft.f16), "HMMA.SP.16832.F16"),
        ("sm_80", (weft.bf16, weft.f32), "HMMA.SP.16832.F32.BF16"),
        ("sm_80", (weft.i8, weft.i32), "IMMA.SP.16864.S8.S8"),
        ("sm_90a", (weft.f32, weft.f32), "HMMA.SP.16816.F32.TF32"),
        ("sm_90a", (weft.u8, weft.i32), "IMMA.SP.16864.U8.U8"),
        ("sm_100a", (weft.f16, weft.f32), "HMMA.SP.16832.F32"),
        ("sm_120a", (weft.f8e4m3, weft.f32), "QMMA.SP.16864.F32.E4M3.E4M3"),
    ],
    ids=str,
)
def test_a_sparse_operand_takes_one_instruction_for_64_bytes(architecture, types, name):
    element, sums = types
    depth = 128 // element.itemsize
    parts = 2 if element.itemsize == 1 else 1

    @weft.kernel
    def kernel(metadata: weft.Tensor, out: weft.Tensor):
        left, right = weft.shared((16, depth // 2), element), weft.shared((8, depth), element)
        words = tuple(metadata[i, weft.lane_id()] for i in range(parts))
        a, b = weft.mma.load_a(left), weft.mma.load_b(right.T)
        weft.mma.mma(a, b, weft.mma.zeros((16, 8), sums), metadata=words).store(out)

    @weft.jit(options=f"--gpu-arch {architecture}")
    def host(metadata: weft.Tensor[weft.u32, (parts, 32)], out: weft.Tensor[sums, (16, 8)]):
        kernel(metadata, out).launch(grid=1, block=32)

    function = weft.compile(
        host,
        weft.fake_tensor(weft.u32, (parts, 32), device="cuda"),
        weft.fake_tensor(sums, (16, 8), device="cuda"),
    )
    selectors = re.findall(r"mma\.sp::ordered_metadata.*, (\d);", function.ptx)
    assert selectors == (["0", "0"] if element.itemsize == 1 else ["0", "1"])
    assert len(re.findall(rf"{name} .*", function.sass)) == 2
