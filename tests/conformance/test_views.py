# SPDX-License-Identifier: Apache-2.0
"""Views, vectors and bit casts: NumPy says what each must be.

In: slices, written and random; aligned tensors. Out: the elements that NumPy's slices have.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.conformance.harness import NUMPY_TYPES, define, run_threads
from tests.sampling import sampled

N = 7

COPY = """
@weft.kernel
def kernel{number}(a: weft.Tensor, outs: weft.Tensor, shapes: weft.Tensor, lo: weft.i32, hi: weft.i64):
    part, out = a[{indices}], outs[{number}]
    for d in weft.static_range(part.ndim):
        shapes[{number}, d] = part.shape[d]
    {loops}
"""
HOST = """
@weft.jit
def host(a: weft.Tensor, outs: weft.Tensor, shapes: weft.Tensor, lo: weft.i32, hi: weft.i64):
"""
LOOPS = (
    "out[0] = part[()]",
    "for i in range(len(part)):\n        out[i] = part[i]",
    "for i in range(part.shape[0]):\n        for j in range(part.shape[1]):\n"
    "            out[i * part.shape[1] + j] = part[i, j]",
    "for i in range(part.shape[0]):\n        for j in range(part.shape[1]):\n"
    "            for k in range(part.shape[2]):\n"
    "                out[(i * part.shape[1] + j) * part.shape[2] + k] = part[i][j, k]",
)


def check(a: np.ndarray, *slices: str, lo: int = 0, hi: int = 0) -> None:
    """Copies `a[...]` for each slice, in a kernel of its own, and compares its shape and elements with NumPy's."""
    names = {"a": a, "lo": lo, "hi": hi}
    parts = [np.asarray(eval(f"a[{indices}]", names)) for indices in slices]
    kernels = [
        COPY.format(number=number, indices=indices, loops=LOOPS[part.ndim])
        for number, (indices, part) in enumerate(zip(slices, parts, strict=True))
    ]
    arguments = "(a, outs, shapes, lo, hi).launch(grid=1, block=1)\n"
    launches = [f"    kernel{number}{arguments}" for number in range(len(slices))]
    outs = np.full((len(slices), a.size + 1), -1, a.dtype)
    shapes = np.full((len(slices), 4), -1, np.int64)
    define("".join([*kernels, HOST, *launches]))["host"](a, outs, shapes, lo, hi)
    for indices, part, out, shape in zip(slices, parts, outs, shapes, strict=True):
        assert shape[: part.ndim].tolist() == list(part.shape), indices
        assert out[: part.size].tolist() == part.ravel().tolist(), indices
        assert (out[part.size :] == -1).all(), indices


MATRIX = np.arange(6 * N, dtype=np.int32).reshape(6, N)


SLICED = (
    "2", "2, :", ":, 3", "..., 3", "1:4", "1:4, 2:5", "::2, ::3", "::-1", ":, ::-1",
    "4:1:-1, 1", "lo", "lo, :", ":, lo", "lo:hi", "lo:hi, lo:hi", ":lo", "hi:", "lo::2",
    "hi:lo:-1", "::-3, hi", "-2:", ":-2", "-5:-2, -3:", "5:100", "100:", "0:0", "lo:100",
    "hi:lo", "...", ":, :", "-1::-2",
)  # fmt: skip


@pytest.mark.parametrize("layout", sampled(["contiguous", "inner", "strided"], 2))
def test_slices_have_the_shapes_and_the_elements_that_numpy_says(layout):
    a = {
        "contiguous": MATRIX,
        "inner": np.arange(6 * 2 * N, dtype=np.int32).reshape(6, 2 * N)[:, :N],
        "strided": np.arange(6 * N, dtype=np.int32).reshape(N, 6).T,
    }[layout]
    check(a, *SLICED, lo=1, hi=5)


BOUNDS = st.one_of(st.just(""), st.integers(-9, 9).map(str), st.sampled_from(["lo", "hi"]))
STEPS = st.sampled_from(["", ":", ":1", ":2", ":3", ":-1", ":-2"])
SLICES = st.builds("{}:{}{}".format, BOUNDS, BOUNDS, STEPS)
PARTS = st.one_of(SLICES, SLICES, st.integers(0, 2).map(str), st.just("lo"))


@settings(max_examples=25, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=3), st.integers(0, 2), st.integers(0, 6))
def test_random_slices_are_numpys(parts, lo, hi):
    if not any(":" in part for part in parts) and len(parts) == 3:
        return  # an element
    check(np.arange(3 * 4 * 5, dtype=np.int32).reshape(3, 4, 5), ", ".join(parts), lo=lo, hi=hi)


def test_a_view_of_a_view_is_a_view():
    a, out = np.arange(60, dtype=np.int32).reshape(5, 4, 3), np.zeros((4, 3), np.int32)
    run_threads("part = a[1:][::-1][i]\nout[i, 0] = part[1:][0][2]\nout[i, 1] = part[:, 1].shape[0]", 4,
                {"a": a, "out": out})  # fmt: skip
    assert out[:, 0].tolist() == [a[1:][::-1][i][1:][0][2] for i in range(4)]
    assert out[:, 1].tolist() == [4] * 4


def test_a_write_through_a_view_reaches_the_tensor():
    out = np.zeros((4, 6), np.float32)
    run_threads("row = out[i]\nrow[1:][2] = weft.f32(i)\nout[i, ::-1][0] += 5\nweft.atomic_add(row, 4, 1)", 4,
                {"out": out})  # fmt: skip
    expected = np.zeros((4, 6), np.float32)
    expected[:, 3], expected[:, 5], expected[:, 4] = np.arange(4), 5, 1
    np.testing.assert_array_equal(out, expected)


def test_views_of_shared_and_local_arrays():
    source = """
    @weft.kernel
    def kernel(out: weft.Tensor):
        i = weft.thread_idx.x
        tiles = weft.shared((2, 8), weft.i32)
        mine = weft.local((2, 4), weft.i32)
        for r in range(4):
            mine[r % 2][r] = r + i
        tile = tiles[i % 2]
        tile[i // 2] = mine[1, 1:3][0] if False else mine[1][3]
        weft.sync_threads()
        out[i] = tiles[:, ::-1][i % 2, 7 - i // 2]

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=1, block=16)
    """
    out = np.zeros(16, np.int32)
    define(source)["host"](out)
    assert out.tolist() == [3 + i for i in range(16)]


HALVES = """
@weft.kernel
def double(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    if i < a.shape[0]:
        out[i] = 2 * a[i]

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    half = a.shape[0] // 2
    double(a[:half], out[half:]).launch(grid=1, block=64)
    double(a[::-1], out[:half]).launch(grid=1, block=out[:half].shape[0])
"""


def test_host_functions_pass_parts_of_their_tensors():
    a, out = np.arange(10, dtype=np.int32), np.zeros(10, np.int32)
    host = define(HALVES)["host"]
    host(a, out)
    assert out.tolist() == [18, 16, 14, 12, 10, 0, 2, 4, 6, 8]
    a.flags.writeable = False
    host(a, out)  # only read, through a view
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        host(a, out)


def test_memory_written_through_a_view_is_writable():
    out = np.zeros((2, 2), np.int32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"'out'.*read-only"):
        run_threads("row = out[1:][0]\nrow[i] = 1", 2, {"out": out})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return a[1:]", "cannot return a view"),
        ("x = a[0]", "cannot read or write elements of 'a'"),
        ("a[0:2] = 1", "cannot read or write elements of 'a'"),
    ],
)
def test_what_a_host_function_cannot_do_with_a_part(body, words):
    source = f"@weft.jit\ndef host(a: weft.Tensor):\n    {body}\n"
    with pytest.raises(weft.WeftError) as caught:
        define(source)["host"](np.zeros(3))
    assert words in str(caught.value)


def aligned(count: int, dtype: np.dtype, offset: int = 0) -> np.ndarray:
    """A vector whose data begins `offset` bytes after a multiple of 16."""
    memory = np.zeros(count * dtype.itemsize + 32, np.uint8)
    start = -memory.ctypes.data % 16 + offset
    return memory[start : start + count * dtype.itemsize].view(dtype)


VECTORS = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    first = COUNT * weft.thread_idx.x
    values = weft.load_vector(a, first, COUNT)
    weft.store_vector(out, first, values[::-1])

@weft.jit
def host(
    a: weft.fake_tensor(DTYPE, ("n",), alignment_bytes=16),
    out: weft.fake_tensor(DTYPE, ("n",), alignment_bytes=16),
):
    kernel(a, out).launch(grid=1, block=3)
"""


@pytest.mark.parametrize(
    ("dtype", "count"),
    [
        (dtype, count)
        for dtype in NUMPY_TYPES
        for count in (2, 4, 8, 16)
        if count * dtype.itemsize in (2, 16)
    ],
    ids=str,
)
def test_vectors_are_consecutive_in_every_type(dtype, count):
    numpy_type = NUMPY_TYPES[dtype]
    a, out = aligned(3 * count, numpy_type), aligned(3 * count, numpy_type)
    a[:] = np.arange(3 * count).astype(numpy_type)
    define(VECTORS, COUNT=count, DTYPE=dtype)["host"](a, out)
    expected = a.reshape(3, count)[:, ::-1].ravel()
    assert out.astype(np.float64).tolist() == expected.astype(np.float64).tolist()


def test_a_call_with_less_alignment_than_declared_is_refused():
    host = define(VECTORS, COUNT=4, DTYPE=weft.f32)["host"]
    a, out = aligned(12, np.dtype(np.float32), 4), aligned(12, np.dtype(np.float32))
    with pytest.raises(ValueError, match=r"'a': .*divisible by 16"):
        host(a, out)


def test_a_promised_alignment_is_checked():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        for i in range(a.shape[0]):
            out[i] = sum(weft.load_vector(weft.assume_aligned(a[i], 16), 0, 4))

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=1)

    memory = np.arange(64, dtype=np.float32)
    first = -memory.ctypes.data % 16 // 4
    a, out = memory[first : first + 32].reshape(8, 4), np.zeros(8, np.float32)
    host(a, out)
    assert np.array_equal(out, a.sum(axis=1))
    with pytest.raises(AssertionError, match=r"a\[i\] begins at a multiple of 16 bytes"):
        host(memory[first + 1 : first + 33].reshape(8, 4), out)
    for options, is_checked in (
        ("", False),
        ("--sanitize=bounds", True),
        ("--enable-assertions", True),
    ):
        found = weft.compile(host, a, out, options=f"--gpu-arch sm_80 {options}")
        assert "ld.global.v4" in found.ptx
        assert ("begins at a multiple of 16 bytes" in found.llvm_ir) == is_checked


def test_an_index_between_vectors_fails_an_assertion():
    source = VECTORS.replace(
        "COUNT * weft.thread_idx.x", "COUNT * weft.thread_idx.x + a.shape[0] - 12"
    )
    host = define(source, COUNT=4, DTYPE=weft.f32)["host"]
    host(aligned(12, np.dtype(np.float32)), aligned(12, np.dtype(np.float32)))
    with pytest.raises(AssertionError, match="the last index of a is a multiple of 4"):
        host(aligned(13, np.dtype(np.float32)), aligned(13, np.dtype(np.float32)))


PAIRS = [
    (weft.f32, weft.u32),
    (weft.i32, weft.f32),
    (weft.f64, weft.i64),
    (weft.u64, weft.f64),
    (weft.f16, weft.i16),
    (weft.bf16, weft.u16),
    (weft.u16, weft.bf16),
    (weft.f16, weft.bf16),
    (weft.i8, weft.u8),
    (weft.u8, weft.f8e4m3),
    (weft.f8e5m2, weft.u8),
]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_a_bit_cast_keeps_the_bits(source, target):
    before, after = NUMPY_TYPES[source], NUMPY_TYPES[target]
    bits = np.random.default_rng(5).integers(0, 256, 64 * before.itemsize, np.uint8)
    a, out = bits.view(before), np.zeros(64, after)
    run_threads("out[i] = weft.bitcast(a[i], T)", 64, {"a": a, "out": out}, T=target)
    assert out.view(np.uint8).tolist() == bits.tolist()


def test_a_bit_cast_of_a_constant_and_on_the_host():
    source = """
    @weft.jit
    def host(x: weft.f32):
        return weft.bitcast(x, weft.u32), weft.bitcast(1.0, weft.i32)
    """
    assert define(source)["host"](-2.0) == (0xC0000000, 0x3F800000)


def test_new_axes_have_one_element():
    a = np.arange(24, dtype=np.int32).reshape(4, 6)
    check(
        a,
        "None, 1",
        "None, :, 2",
        "lo, None, 1:hi",
        "..., None",
        "None",
        "lo, None, hi, None",
        lo=1,
        hi=3,
    )
    check(a.T, ":, None", "None", "1, None, ::-1", "..., 2, None", lo=1, hi=3)
    check(np.array(5, np.int32), "None", "None, None", "..., None", lo=1, hi=2)


RESHAPED = """
@weft.kernel
def copy(a: weft.Tensor, out: weft.Tensor, rows: weft.i32):
    b = a.reshape({shape})
    for d in weft.static_range(b.ndim):
        out[d] = weft.i32(b.shape[d])
    c = b.reshape(-1)
    for i in range(len(c)):
        out[8 + i] = c[i]
    if b.ndim == 2:
        out[7] = b[b.shape[0] - 1, 1]

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor, rows: weft.i32):
    b = a.reshape({shape})
    copy(b.reshape(a.shape), out, rows).launch(grid=1, block=1)
"""


@pytest.mark.parametrize(
    ("shape", "dims"),
    sampled(
        [
            ("-1", [24]),
            ("rows, -1", [3, 8]),
            ("(-1, rows)", [8, 3]),
            ("2, 3, 4", [2, 3, 4]),
            ("-1, 12", [2, 12]),
            ("rows, 24 // rows", [3, 8]),
            ("weft.i64(rows), 8", [3, 8]),
            ("1, -1, 1, 2", [1, 12, 1, 2]),
        ],
        2,
        several=True,
    ),
)
def test_a_reshaped_tensor_has_the_same_elements(shape, dims):
    a = np.arange(24, dtype=np.int32).reshape(4, 6)
    out = np.full(32, -1, np.int32)
    host = define(RESHAPED.format(shape=shape))["host"]
    host(a, out, 3)
    assert out[: len(dims)].tolist() == dims
    assert out[8:].tolist() == list(range(24))
    assert out[7] == (a.reshape(dims)[-1, 1] if len(dims) == 2 else -1)
    with weft.sanitize():
        host(a, out, 3)
    with pytest.raises(AssertionError, match=r"host \(.*a.reshape\(.* has as many elements as a"):
        define(RESHAPED.format(shape="rows, -1"))["host"](a, out, 5)


@pytest.mark.parametrize("rows", [0, -3])
def test_a_run_time_size_of_a_reshape_is_checked(rows):
    a, out = np.zeros((4, 6), np.int32), np.zeros(32, np.int32)
    with pytest.raises(AssertionError, match="has as many elements as a"):
        define(RESHAPED.format(shape="rows, -1"))["host"](a, out, rows)


def test_the_sanitizer_follows_a_reshaped_tile():
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, out: weft.Tensor):
            out[0] = a.tile((8,), 1).reshape(2, 4)[weft.thread_idx.x, 3]
        """
    )
    with (
        weft.sanitize(),
        pytest.raises(weft.WeftError, match=r"a\[15\] is read.*a.shape\[0\] is 12"),
    ):
        names["kernel"][1, 2](np.zeros(12, np.int32), np.zeros(1, np.int32))
