# SPDX-License-Identifier: Apache-2.0
"""Elements of four bits, two to a byte: on the CPU, and as PTX run by the fuzzer's emulator."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.ffi
from tests.sampling import sampled
from tools.fuzz.gpu.ptx_machine import Block
from tools.fuzz.gpu.ptx_memory import Memory
from tools.fuzz.gpu.ptx_text import kernel_of
from weft.codegen.operations.launch import POINTER, kernel_parameters, kernels_of
from weft.types.dtype import PACKED_DTYPES

INTEGERS = [dtype for dtype in PACKED_DTYPES if dtype.is_integer]

COUNTS = (2, 4, 8, 16, 32)
ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100a")
RESULTS = {
    weft.f16: np.float16, weft.bf16: ml_dtypes.bfloat16, weft.f32: np.float32, weft.f64: np.float64,
    weft.i8: np.int8, weft.i32: np.int32, weft.i64: np.int64,
}  # fmt: skip
both_types = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def unpacked(data: np.ndarray, dtype: weft.DType) -> np.ndarray:
    """The elements of bytes along the last dimension: low four bits first."""
    pairs = np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], -1).astype(np.int32)
    return np.where(pairs > 7, pairs - 16, pairs) if dtype.is_signed else pairs


def aligned(shape: tuple[int, ...], kind: object = np.uint8) -> np.ndarray:
    """An array at a multiple of 64 bytes."""
    count = int(np.prod(shape)) * np.dtype(kind).itemsize  # type: ignore[call-overload]
    memory = np.zeros(count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count].view(kind).reshape(shape)  # type: ignore[call-overload]


def random_bytes(*shape: int) -> np.ndarray:
    data = aligned(shape)
    data[...] = np.random.default_rng(4).integers(0, 256, shape)
    return data


def emulated(host, arrays: list[np.ndarray], examples: list[object], architecture: str, block: int):
    """Runs the PTX of a host function's only kernel, whose parameters have the names of the host's."""
    parameters = []

    def keep(module):
        for kernel in kernels_of(module):
            names = [argument.name_hint or "" for argument in kernel.body.block.args]
            parameters[:] = [(names[one.argument], one) for one in kernel_parameters(kernel)]

    options = f"--target cuda --gpu-arch {architecture}"
    compiled = weft.compile(host, *examples, options=options, post_compile_hooks=[keep])
    memory = Memory([array.reshape(-1).view(np.uint8) for array in arrays])
    order = list(host.function.__code__.co_varnames[: len(arrays)])
    given = []
    for name, one in parameters:
        place = order.index(name)
        spec, array = examples[place], arrays[place]
        each = 8 // spec.dtype.bits if spec.dtype.is_packed else 1
        shape = (*array.shape[:-1], array.shape[-1] * each)
        assert one.part != POINTER or one.dimension in (None, 0, -1)
        given.append(memory.address(place) if one.part == POINTER else shape[one.dimension])
    Block(kernel_of(compiled.ptx), given, memory, block, 0, 1).run()
    for number, array in enumerate(arrays):
        array.reshape(-1).view(np.uint8)[...] = memory.piece(number)
    return compiled


def pair_of_hosts(dtype: weft.DType, result: weft.DType, count: int, *, is_store: bool = False):
    """A host function that converts vectors of a packed array to another type, or back."""
    packed = weft.fake_tensor(dtype, ("n",), alignment_bytes=16)
    whole = weft.fake_tensor(result, ("n",), alignment_bytes=16)

    @weft.kernel
    def load(w: packed, out: whole):
        first = count * weft.thread_idx.x
        found = weft.load_vector(w, first, count)
        values = [result(element) for element in found]
        for number in weft.static_range(count):
            out[first + number] = values[number]

    @weft.kernel
    def store(w: packed, out: whole):
        first = count * weft.thread_idx.x
        values = tuple(dtype(out[first + number]) for number in range(count))
        weft.store_vector(w, first, values)

    kernel = store if is_store else load

    @weft.jit
    def host(w: packed, out: whole):
        kernel(w, out).launch(grid=1, block=8)

    return host, [packed, whole]


@pytest.mark.parametrize(
    ("dtype", "result", "count"),
    sampled(itertools.product(INTEGERS, RESULTS, COUNTS), 18, several=True),
    ids=str,
)
def test_vectors_are_loaded_and_converted(dtype, result, count):
    host, examples = pair_of_hosts(dtype, result, count)
    data, kind = random_bytes(4 * count), RESULTS[result]
    wanted = unpacked(data, dtype).astype(kind)
    found = aligned((8 * count,), kind)
    host(weft.packed(data, dtype), found)
    assert (found == wanted).all()
    for architecture in ARCHITECTURES if (result, count) == (weft.bf16, 8) else ("sm_90a",):
        found[...] = 0
        emulated(host, [data, found], examples, architecture, 8)
        assert (found == wanted).all(), architecture


@pytest.mark.parametrize(
    ("dtype", "count"),
    sampled(itertools.product(INTEGERS, COUNTS), 4, several=True),
    ids=str,
)
def test_vectors_are_stored_with_the_lowest_bits_of_integers(dtype, count):
    host, examples = pair_of_hosts(dtype, weft.i32, count, is_store=True)
    numbers = aligned((8 * count,), np.int32)
    numbers[...] = np.random.default_rng(5).integers(-100, 100, 8 * count)
    wanted = (numbers[::2] & 15 | (numbers[1::2] & 15) << 4).astype(np.uint8)
    data = aligned((4 * count,))
    host(weft.packed(data, dtype), numbers)
    assert (data == wanted).all()
    data[...] = 0
    emulated(host, [data, numbers], examples, "sm_90a", 8)
    assert (data == wanted).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_gpu_reads_16_bytes_and_converts_pairs_by_masks(architecture):
    host, examples = pair_of_hosts(weft.i4, weft.f16, 32)
    compiled = weft.compile(host, *examples, options=f"--target cuda --gpu-arch {architecture}")
    assert compiled.ptx.count("ld.global") == 1
    assert "ld.global.v4.b32" in compiled.ptx
    assert "cvt.rn.f16" not in compiled.ptx
    assert compiled.ptx.count(".f16x2") == 16


@both_types
def test_single_elements_are_read_from_either_half_of_a_byte(dtype):
    packed, whole = weft.fake_tensor(dtype, ("n", "m")), weft.fake_tensor(weft.f16, ("n", "m"))

    @weft.kernel
    def read(w: packed, out: whole):
        lane = weft.thread_idx.x
        for row in range(w.shape[0]):
            out[row, lane] = weft.f16(w[row, lane])
        out[0, 0] = weft.f16(w[0, 0]) + weft.f16(w[0, 1])

    @weft.jit
    def host(w: packed, out: whole):
        read(w, out).launch(grid=1, block=16)

    data, found = random_bytes(5, 8), aligned((5, 16), np.float16)
    wanted = unpacked(data, dtype).astype(np.float16)
    wanted[0, 0] += wanted[0, 1]
    host(weft.packed(data, dtype), found)
    assert (found == wanted).all()
    found[...] = 0
    emulated(host, [data, found], [packed, whole], "sm_90a", 16)
    assert (found == wanted).all()


@weft.kernel
def reverse_rows(out: weft.Tensor[weft.i32, ("n", 16)]):
    thread = weft.thread_idx.x
    row, pair = thread // 8, thread % 8
    tile = weft.shared((4, 16), weft.i4)
    weft.store_vector(tile, (row, 2 * pair), (weft.i4(thread), weft.i4(2 * thread)))
    weft.sync_threads()
    own = tile[3 - row]
    out[row, 2 * pair] = weft.i32(own[2 * pair])
    out[row, 2 * pair + 1] = weft.i32(own[2 * pair + 1])


@weft.jit
def reverse(out: weft.Tensor[weft.i32, ("n", 16)]):
    reverse_rows(out).launch(grid=1, block=32)


def test_shared_arrays_have_packed_elements():
    thread = np.arange(32).reshape(4, 8)
    numbers = np.stack([thread, 2 * thread], -1).reshape(4, 16)[::-1]
    wanted = (numbers + 8) % 16 - 8
    found = aligned((4, 16), np.int32)
    reverse(found)
    assert (found == wanted).all()
    with weft.sanitize():
        reverse(found)
    found[...] = 0
    emulated(reverse, [found], [weft.fake_tensor(weft.i32, ("n", 16))], "sm_90a", 32)
    assert (found == wanted).all()


@weft.kernel
def through_bytes(w: weft.Tensor[weft.u8, ("n",)], out: weft.Tensor[weft.i32, ("m",)]):
    thread = weft.thread_idx.x
    tile = weft.shared((2, 8), weft.u8)
    tile[thread // 8, thread % 8] = w[thread]
    weft.sync_threads()
    elements = weft.packed(tile, weft.i4)
    weft.static_assert(elements.shape == (2, 16))
    weft.static_assert(elements.nbytes == 16)
    first, second = weft.load_vector(elements, (thread // 8, 2 * (thread % 8)), 2)
    out[2 * thread] = weft.i32(first)
    out[2 * thread + 1] = second


@weft.jit
def unpack(w: weft.Tensor[weft.u8, ("n",)], out: weft.Tensor[weft.i32, ("m",)]):
    through_bytes(w, out).launch(grid=1, block=16)


def test_bytes_in_a_kernel_are_taken_as_packed_elements():
    data, found = random_bytes(16), aligned((32,), np.int32)
    with weft.sanitize():
        unpack(data, found)
    assert (found == unpacked(data, weft.i4)).all()
    found[...] = 0
    examples = [weft.fake_tensor(weft.u8, ("n",)), weft.fake_tensor(weft.i32, ("m",))]
    emulated(unpack, [data, found], examples, "sm_90a", 16)
    assert (found == unpacked(data, weft.i4)).all()


@weft.kernel
def parts(w: weft.Tensor[weft.u4, ("n", "k")], out: weft.Tensor[weft.i32, ("m",)], i: weft.i32):
    row = w[1]
    part = w[1:, 4:]
    block = w[:, 8 * i : 8 * i + 4]
    out[0] = row[3]
    out[1] = part[0, 1]
    out[2] = block[2, 3]
    out[3] = row.shape[0]
    out[4] = part.shape[1]
    out[5] = weft.load_vector(part, (1, 2), 2)[1]
    out[6] = weft.i32(w.size)
    out[7] = weft.i32(w.nbytes)
    out[8] = w[0, 0] + w[0, 1] * w[0, 2] - 1
    out[9] = len(w)
    out[10] = max(w[0, 3], w[0, 4])
    out[11] = weft.where(w[0, 5] > 7, 1, 0)


@pytest.mark.parametrize("padded", [False, True])
def test_parts_of_packed_tensors(padded):
    data = random_bytes(4, 16)
    data = data[:, :8] if padded else np.ascontiguousarray(data[:, :8])
    w, out = unpacked(data, weft.u4), np.zeros(12, np.int32)
    with weft.sanitize():
        parts[1, 1](weft.packed(data, weft.u4), out, 1)
    wanted = [
        *(w[1, 3], w[1, 5], w[2, 11], 16, 12, w[2, 7], 64, 32),
        *(w[0, 0] + w[0, 1] * w[0, 2] - 1, 4, max(w[0, 3], w[0, 4]), int(w[0, 5] > 7)),
    ]
    assert out.tolist() == wanted


@weft.kernel
def increase(w: weft.Tensor[weft.i4, ("n", "k")]):
    for row in range(w.shape[0]):
        for pair in range(w.shape[1] // 2):
            x, y = weft.load_vector(w, (row, 2 * pair), 2)
            weft.store_vector(w, (row, 2 * pair), (weft.i4(x + 1), weft.i4(y + 1)))


@weft.jit
def increase_all(w: weft.Tensor[weft.i4, ("n", "k")]):
    increase(w).launch(grid=1, block=1)


def ways() -> dict[str, object]:
    compiled = weft.compile(increase_all, weft.fake_tensor(weft.i4, ("n", "k")))
    return {
        "direct": increase_all,
        "compiled": compiled,
        "prepared": lambda w: compiled.prepare(w)(),
        "pickled": pickle.loads(pickle.dumps(compiled)),
        "kernel": increase[1, 1],
    }


def needed_torch() -> Any:
    return pytest.importorskip("torch", reason="needs torch: make test TORCH=1")


@pytest.mark.parametrize("library", ["numpy", "torch", "signed", "weft"])
def test_arrays_of_bytes_of_every_library_are_written(library):
    make = {
        "numpy": lambda a: a.copy(),
        "torch": lambda a: needed_torch().from_numpy(a.copy()),
        "signed": lambda a: a.view(np.int8).copy(),
        "weft": lambda a: weft.copy(weft.empty(a.shape, weft.u8), a),
    }[library]
    data = random_bytes(3, 4)
    wanted = (unpacked(data, weft.u4) + 1) % 16
    for way, call in ways().items():
        array = make(data)
        if library == "weft" and way == "prepared":
            continue  # refused: below
        call(weft.packed(array, weft.i4))
        assert (unpacked(np.asarray(array).view(np.uint8), weft.u4) == wanted).all(), way


def test_packed_arrays_are_pickled_with_their_arrays():
    found = pickle.loads(pickle.dumps(weft.packed(np.arange(4, dtype=np.uint8), weft.u4)))
    assert (found.dtype, found.array.tolist()) == (weft.u4, [0, 1, 2, 3])


def test_torch_counts_the_writes_of_the_array():
    torch = needed_torch()
    array = torch.zeros((2, 2), dtype=torch.uint8)
    before = array._version
    increase_all(weft.packed(array, weft.i4))
    assert array._version == before + 1


def test_packed_arrays_say_what_they_are():
    found = weft.packed(np.zeros((2, 3), np.uint8), weft.u4)
    assert (found.shape, found.dtype, found.array.shape) == ((2, 6), weft.u4, (2, 3))
    assert repr(found) == "<weft packed u4, shape=(2, 6), of ndarray>"


def compiled_for(shape, **facts):
    @weft.jit
    def nothing(w: weft.Tensor):
        pass

    return weft.compile(nothing, weft.fake_tensor(weft.i4, shape, **facts))


def kept():
    """A tensor of the ABI."""
    return weft.ffi.Array([weft.packed(np.zeros(4, np.uint8), weft.i4)])[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weft.packed(np.zeros(4, "f4"), weft.i4), "expected an array of u8 or i8, received elements of f32"),
        (lambda: weft.packed(np.zeros((), "u1"), weft.i4), "expected an array of rank 1 or more"),
        (lambda: weft.packed(np.zeros((4, 4), "u1").T, weft.i4), r"adjacent bytes .* received strides\[1\] = 4"),
        (lambda: weft.packed([1], weft.i4), "expected an array of bytes, received list"),
        (lambda: weft.packed(np.zeros(4, "u1"), weft.i8), "f6e2m3 or weft.f6e3m2, received weft.i8"),
        (lambda: weft.empty(4, weft.i4), "weft.packed"),
        (lambda: weft.zeros(4, weft.u4), "weft.packed"),
        (lambda: weft.i4.itemsize, "storage_bytes"),
        (lambda: kept()[2:], "elements of i4 share bytes"),
        (lambda: weft.copy(np.zeros(8, "i1"), kept()), "a copy converts nothing"),
        (lambda: weft.copy(kept(), kept()), "expected elements of whole bytes"),
        (lambda: weft.Pointer[weft.i4], "an element has no address"),
        (lambda: increase_all(weft.packed(np.zeros((2, 2), "u1"), weft.u4)), "its dtype is u4, but the annotation"),
        (lambda: increase_all(np.zeros((2, 2), "u1")), "its dtype is u8, but the annotation"),
        (lambda: ways()["compiled"](np.zeros((2, 2), "u1")), "dtype is u8, expected i4"),
        (lambda: ways()["prepared"](weft.packed(weft.zeros((2, 2), weft.u8), weft.i4)), "returned or prepared"),
        (lambda: compiled_for(("n", 3)), "rows of i4 take whole bytes"),
        (lambda: compiled_for(("n", "k"), layout="strided"), "has any strides"),
        (lambda: compiled_for(("n", "k"), strides=(5, 1)), "rows of i4 begin with a byte"),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_refused(make, message):
    with pytest.raises((TypeError, ValueError, weft.SignatureError), match=message):
        make()


def test_a_read_only_array_is_not_written():
    data = np.zeros((2, 2), np.uint8)
    data.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only|writable"):
        increase_all(weft.packed(data, weft.i4))


@weft.kernel
def write_at(w: weft.Tensor[weft.i4, ("n",)], step: weft.i32):
    thread = weft.thread_idx.x
    weft.store_vector(w, 2 * (thread // step), (weft.i4(thread), weft.i4(0)))


@weft.kernel
def read_at(w: weft.Tensor[weft.i4, ("n",)], out: weft.Tensor[weft.i32, ("m",)], i: weft.i32):
    out[0] = w[i]


@weft.kernel
def read_unwritten(out: weft.Tensor[weft.i32, ("m",)]):
    tile = weft.shared((16,), weft.i4)
    weft.store_vector(tile, 0, (weft.i4(1), weft.i4(2)))
    out[0] = tile[1]
    out[1] = tile[2]


def test_the_sanitizer_knows_elements_and_watches_bytes():
    data, out = np.zeros(8, np.uint8), np.zeros(4, np.int32)
    with weft.sanitize():
        write_at[1, 8](weft.packed(data, weft.i4), 1)
        read_at[1, 1](weft.packed(data, weft.i4), out, 15)
        with pytest.raises(weft.SanitizerError, match=r"w\[16\] .* w.shape\[0\] is 16"):
            read_at[1, 1](weft.packed(data, weft.i4), out, 16)
        with pytest.raises(weft.SanitizerError, match=r"w\[-2\]"):
            read_at[1, 1](weft.packed(data, weft.i4), out, -1)
        with pytest.raises(
            weft.SanitizerError, match=r"\[OUT_OF_BOUNDS\] 2 elements from w\[16\] are written"
        ):
            write_at[1, 9](weft.packed(data, weft.i4), 1)
    with weft.sanitize("races"), pytest.raises(weft.SanitizerError, match="RACE"):
        write_at[1, 8](weft.packed(data, weft.i4), 2)
    with weft.sanitize("uninit"), pytest.raises(weft.SanitizerError, match="UNINITIALIZED"):
        read_unwritten[1, 1](out)
