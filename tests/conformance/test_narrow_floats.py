# SPDX-License-Identifier: Apache-2.0
"""Floats of 4 and 6 bits and exponents: all values, roundings, memory; on the CPU, and as PTX that is emulated."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.test_packed import aligned, emulated
from tests.sampling import sampled
from weft.types.dtype import PACKED_DTYPES, SCALE_DTYPES

PACKED = [dtype for dtype in PACKED_DTYPES if dtype.is_float]
NARROW = (*PACKED, *SCALE_DTYPES)
RESULTS = {
    weft.f16: np.float16,
    weft.bf16: ml_dtypes.bfloat16,
    weft.f32: np.float32,
    weft.f64: np.float64,
}
# Without conversions of these types, and with them.
ARCHITECTURES = ("sm_75", "sm_90a", "sm_100a", "sm_121a")
# The architectures that devices are compiled for and that have the instructions.
WITH_INSTRUCTIONS = ("sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")
each_type = pytest.mark.parametrize("dtype", NARROW, ids=str)
each_packed = pytest.mark.parametrize("dtype", PACKED, ids=str)
INSTRUCTIONS = {
    weft.f4e2m1: ("cvt.rn.f16x2.e2m1x2", "cvt.rn.satfinite.e2m1x2.f32"),
    weft.f6e2m3: ("cvt.rn.f16x2.e2m3x2", "cvt.rn.satfinite.e2m3x2.f32"),
    weft.f6e3m2: ("cvt.rn.f16x2.e3m2x2", "cvt.rn.satfinite.e3m2x2.f32"),
    weft.f8e8m0: ("cvt.rn.bf16x2.ue8m0x2", "cvt.rp.satfinite.ue8m0x2.f32"),
}


def kind_of(dtype: weft.DType):
    """The type of ml_dtypes, with a byte for each element."""
    return getattr(ml_dtypes, dtype.info.numpy)


def narrowed(values: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """The bits of the values rounded; of a scale, by weft's rule: the next power of two from the absolute value on."""
    if dtype.is_scale:
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.ceil(np.log2(np.abs(values.astype(np.float64)))) + 127
        above = np.where(np.isnan(values), 255, np.clip(above, 0, 254))
        return above.astype(np.uint8)
    found = values.astype(kind_of(dtype)).view(np.uint8)
    return np.where(np.isnan(values), (1 << dtype.bits - 1) - 1, found).astype(np.uint8)


def in_memory(bits: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """Elements as they lie in memory."""
    if not dtype.is_packed:
        array = aligned(bits.shape)
        array[...] = bits
        return array
    source = weft.pack(bits.view(kind_of(dtype))).array
    array = aligned(source.shape)
    array[...] = source
    return array


def argument(memory: np.ndarray, dtype: weft.DType):
    return weft.packed(memory, dtype) if dtype.is_packed else memory.view(kind_of(dtype))


def host_of(dtype: weft.DType, result: weft.DType, count: int, *, is_store: bool = False):
    narrow = weft.fake_tensor(dtype, ("n",), alignment_bytes=16)
    whole = weft.fake_tensor(result, ("m",), alignment_bytes=16)

    @weft.kernel
    def load(w: narrow, out: whole):
        first = count * weft.thread_idx.x
        values = [result(element) for element in weft.load_vector(w, first, count)]
        for number in weft.static_range(count):
            out[first + number] = values[number]

    @weft.kernel
    def store(w: narrow, out: whole):
        first = count * weft.thread_idx.x
        numbers = [out[first + number] for number in range(count)]
        weft.store_vector(w, first, tuple(dtype(number) for number in numbers))

    kernel = store if is_store else load

    @weft.jit
    def host(w: narrow, out: whole):
        kernel(w, out).launch(grid=1, block=64)

    return host, [narrow, whole]


def numbers_of(dtype: weft.DType, count: int) -> np.ndarray:
    """Random floats of all sizes near the type's, the points between two values, and special ones."""
    random = np.random.default_rng(6)
    found = aligned((count,), np.float32)
    found[...] = random.standard_normal(count) * np.exp2(random.integers(-6, 6, count))
    if dtype.is_scale:
        found[: count // 2] = random.integers(0, 1 << 32, count // 2, np.uint32).view(np.float32)
    kind = dtype.info.format
    values = np.array([kind.value_of(bits) for bits in range(min(1 << dtype.bits, 128))])
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    found[-len(middles) :] = middles
    found[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e30, 3e38]
    return found


@pytest.mark.parametrize("result", sampled(RESULTS, 2), ids=str)
@each_type
def test_every_value_is_read(dtype, result):
    bits = np.arange(256, dtype=np.uint8) & ((1 << dtype.bits) - 1)
    with np.errstate(over="ignore"):
        wanted = bits.view(kind_of(dtype)).astype(np.float32).astype(RESULTS[result])
    host, examples = host_of(dtype, result, 4)
    memory, found = in_memory(bits, dtype), aligned((256,), RESULTS[result])
    host(argument(memory, dtype), found)
    assert np.array_equal(found, wanted, equal_nan=True)
    for architecture in ARCHITECTURES if result is weft.f32 else ("sm_100a",):
        found[...] = 0
        emulated(host, [memory, found], examples, architecture, 64)
        assert np.array_equal(found, wanted, equal_nan=True), architecture


@each_type
def test_floats_are_rounded(dtype):
    numbers = numbers_of(dtype, 512)
    wanted = in_memory(narrowed(numbers, dtype), dtype)
    host, examples = host_of(dtype, weft.f32, 8, is_store=True)
    memory = aligned(wanted.shape)
    host(argument(memory, dtype), numbers)
    assert (memory == wanted).all()
    kind = dtype.info.format
    assert (narrowed(numbers, dtype) == [kind.bits_of(float(one)) for one in numbers]).all()
    for architecture in ARCHITECTURES:
        memory[...] = 0
        emulated(host, [memory, numbers], examples, architecture, 64)
        assert (memory == wanted).all(), architecture


@pytest.mark.parametrize("count", sampled([2, 4, 8, 16, 32], 2))
@each_packed
def test_vectors_of_every_length(dtype, count):
    if dtype.storage_bytes(count) > 16 or count % dtype.info.in_whole_bytes:
        host, examples = host_of(dtype, weft.f32, count)
        with pytest.raises(weft.ValueRangeError, match=r"VECTOR_COUNT|take 24 bytes|whole bytes"):
            weft.compile(host, *examples)
        return
    numbers = numbers_of(dtype, 64 * count)
    wanted = in_memory(narrowed(numbers, dtype), dtype)
    memory, found = aligned(wanted.shape), aligned(numbers.shape, np.float32)
    host_of(dtype, weft.f32, count, is_store=True)[0](argument(memory, dtype), numbers)
    assert (memory == wanted).all()
    host, examples = host_of(dtype, weft.f32, count)
    host(argument(memory, dtype), found)
    elements = weft.unpack(argument(memory, dtype)).astype(np.float32)
    assert (found == elements).all()
    found[...] = 0
    emulated(host, [memory, found], examples, "sm_90a", 64)
    assert (found == elements).all()


@pytest.mark.parametrize("architecture", sampled(WITH_INSTRUCTIONS, 3))
@each_type
def test_pairs_are_converted_by_the_instructions_of_the_gpu(dtype, architecture):
    for is_store in (False, True):
        host, examples = host_of(dtype, weft.f32, 8, is_store=is_store)
        compiled = weft.compile(host, *examples, options=f"--target cuda --gpu-arch {architecture}")
        assert compiled.ptx.count(INSTRUCTIONS[dtype][is_store]) == 4
        assert [kernel.stack_bytes for kernel in compiled.kernels.values()] == [0]


@each_packed
def test_single_elements_and_shared_memory(dtype):
    """Elements of rows whose bytes differ, read one by one; a shared array that is written by vectors."""
    rows, columns = 3, 12

    @weft.kernel
    def copy(w: weft.Tensor[dtype, ("n", "k")], out: weft.Tensor[weft.f32, ("n", "k")]):
        lane = weft.thread_idx.x
        tile = weft.shared((rows, columns), dtype)
        if lane < rows * columns // 4:
            row, column = lane // (columns // 4), lane % (columns // 4) * 4
            weft.store_vector(tile, (row, column), [w[row, column + n] for n in range(4)])
        weft.sync_threads()
        for row in range(rows):
            out[row, lane] = tile[row, lane] + 0.0 * w[row, lane]

    bits = np.random.default_rng(3).integers(0, 1 << dtype.bits, (rows, columns)).astype(np.uint8)
    source = weft.pack(bits.view(kind_of(dtype)))
    found = np.zeros((rows, columns), np.float32)
    with weft.sanitize():
        copy[1, columns](source, found)
    assert (found == bits.view(kind_of(dtype)).astype(np.float32)).all()


@each_packed
def test_bounds_are_those_of_elements(dtype):
    @weft.kernel
    def read(w: weft.Tensor[dtype, ("n",)], out: weft.Tensor, i: weft.i32):
        out[0] = weft.f32(w[i])

    source, out = weft.pack(np.zeros(8, kind_of(dtype))), np.zeros(1, np.float32)
    with weft.sanitize():
        read[1, 1](source, out, 7)
    with pytest.raises(weft.SanitizerError, match=r"w\[8\] .* w.shape\[0\] is 8"), weft.sanitize():
        read[1, 1](source, out, 8)


@each_type
def test_values_compute_as_f32(dtype):
    @weft.kernel
    def compute(w: weft.Tensor[dtype, ("n",)], out: weft.Tensor):
        x, y = w[0], w[1]
        weft.static_assert((x + y).dtype is weft.f32)
        weft.static_assert((x * 2).dtype is weft.f32)
        out[0] = x + y
        out[1] = max(x, y)
        out[2] = weft.where(x < y, x, y)
        out[3] = 1.0 if x else 0.0
        out[4] = weft.f32(weft.f8e4m3(y))
        out[5] = weft.f32(dtype(weft.f8e5m2(y)))
        out[6] = weft.i32(y)

    values = np.array([1.0, 4.0, 1.0, 1.0], np.float32)
    memory = in_memory(narrowed(values, dtype), dtype)
    found = np.zeros(7, np.float32)
    compute[1, 1](argument(memory, dtype), found)
    assert found.tolist() == [5, 4, 1, 1, 4, 4, 4]


def test_a_scale_is_positive():
    @weft.kernel
    def constants(out: weft.Tensor[weft.f8e8m0, ("n",)]):
        out[0] = 0.25
        out[1] = weft.f8e8m0(-3.0)
        out[2] = weft.f8e8m0(0)

    found = np.zeros(3, ml_dtypes.float8_e8m0fnu)
    constants[1, 1](found)
    assert found.view(np.uint8).tolist() == [125, 129, 0]

    @weft.kernel
    def zero(out: weft.Tensor[weft.f8e8m0, ("n",)]):
        out[0] = 0.0

    with pytest.raises(weft.ValueRangeError, match=r"does not fit f8e8m0, which holds 5\.877"):
        zero[1, 1](found)

    @weft.kernel
    def implicit(source: weft.Tensor[weft.f8e8m0, ("n",)], out: weft.Tensor[weft.f16, ("n",)]):
        out[0] = source[0]

    with pytest.raises(weft.TypeMismatchError):  # f16 ends at 65504
        implicit[1, 1](found, np.zeros(3, np.float16))


@pytest.mark.parametrize("shape", [(8,), (3, 4), (0, 4)], ids=str)
@pytest.mark.parametrize("name", [dtype.info.numpy for dtype in PACKED_DTYPES])
def test_pack_and_unpack_are_each_others_inverse(name, shape):
    kind = getattr(ml_dtypes, name)
    numbers = np.random.default_rng(1).integers(0, 4, shape).astype(np.float32)
    array = (numbers if name.startswith("u") else -numbers).astype(kind)
    packed = weft.pack(array)
    assert packed.shape == shape
    assert packed.array.nbytes == packed.dtype.storage_bytes(array.size)
    back = weft.unpack(packed)
    assert back.dtype == array.dtype
    assert (back.view(np.uint8) == array.view(np.uint8)).all()


def test_what_is_not_packed_is_refused_with_the_way():
    @weft.kernel
    def read(w: weft.Tensor):
        pass

    array = np.zeros(4, ml_dtypes.float4_e2m1fn)
    with pytest.raises(weft.SignatureError, match=r"pass weft\.pack\(array\)"):
        read[1, 1](array)
    with pytest.raises(TypeError, match=r"pack: expected an array of a type of ml_dtypes"):
        weft.pack(np.zeros(4, np.uint8))
    with pytest.raises(ValueError, match=r"shape\[0\] is 3; rows of f4e2m1"):
        weft.pack(array[:3])
    with pytest.raises(TypeError, match=r"unpack: expected"):
        weft.unpack(array)
    with pytest.raises(
        ValueError, match=r"shape\[0\] is 4 bytes; rows of these elements take multi"
    ):
        weft.packed(np.zeros(4, np.uint8), weft.f6e2m3)
    with pytest.raises(weft.SignatureError, match=r"annotate weft\.f32"):
        scalar_of_scale(1.0)


@weft.jit
def scalar_of_scale(x: weft.f8e8m0):
    pass


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")

    @weft.kernel
    def add(w: weft.Tensor[weft.f4e2m1, ("n",)], scale: weft.Tensor, out: weft.Tensor):
        out[weft.thread_idx.x] = w[weft.thread_idx.x] * scale[0]

    pairs = torch.tensor([0x21, 0x43], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    scale = torch.tensor([4.0]).to(torch.float8_e8m0fnu)
    out = torch.zeros(4)
    add[1, 4](weft.packed(pairs, weft.f4e2m1), scale, out)
    assert out.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert weft.unpack(weft.packed(pairs, weft.f4e2m1)).astype(np.float32).tolist() == [
        0.5,
        1,
        1.5,
        2,
    ]
    with pytest.raises(weft.SignatureError, match=r"pass weft\.packed\(tensor, weft\.f4e2m1\)"):
        add[1, 4](pairs, scale, out)
