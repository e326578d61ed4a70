# SPDX-License-Identifier: Apache-2.0
"""scratch: memory of a host function that its launches share.

In: host functions with scratch arrays. Out: values, metadata, errors, memory given back.
"""

from __future__ import annotations

import resource
import threading

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, define
from tests.sampling import sampled

SUMS = """
@weft.kernel
def partial_kernel(a: weft.Tensor, partial: weft.Tensor):
    total = 0
    for j in range(64):
        i = weft.block_idx.x * 64 + j
        if i < len(a):
            total += a[i]
    partial[weft.block_idx.x] = total

@weft.kernel
def total_kernel(partial: weft.Tensor, out: weft.Tensor):
    total = 0
    for i in range(len(partial)):
        total += partial[i]
    out[0] = total

@weft.jit
def sum_all(a: weft.Tensor[weft.i32, ("n",)], out: weft.Tensor[weft.i32, (1,)]):
    blocks = weft.ceil_div(len(a), 64)
    columns = weft.scratch((blocks, 3), weft.i32)
    for column in range(3):
        partial_kernel(a, columns[:, column]).launch(grid=blocks, block=1)
    total_kernel(columns[:, 1], out).launch(grid=1, block=1)
"""

FILLS = """
@weft.kernel
def fill_kernel(a: weft.Tensor, value: weft.i32):
    a[weft.block_idx.x] = value + weft.block_idx.x

@weft.kernel
def add_kernel(a: weft.Tensor, out: weft.Tensor):
    for i in range(len(a)):
        out[i] += a[i]
"""


def sums(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count, dtype=np.int32), np.zeros(1, np.int32)


@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000])
def test_launches_share_an_array_in_order(count: int):
    a, out = sums(count)
    sum_all = define(SUMS)["sum_all"]
    for _ in range(3):
        sum_all(a, out)
        assert out[0] == a.sum()


@pytest.mark.parametrize("dtype", sampled(NUMPY_TYPES, 4), ids=str)
def test_every_element_type_and_two_arrays(dtype: weft.DType):
    source = """
    @weft.kernel
    def copy_kernel(a: weft.Tensor, b: weft.Tensor):
        b[weft.block_idx.x, weft.thread_idx.x] = a[weft.block_idx.x, weft.thread_idx.x]

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        rows, columns = a.shape
        first = weft.scratch(a.shape, a.dtype)
        second = weft.scratch((rows, columns), DTYPE)
        copy_kernel(a, first).launch(grid=rows, block=columns)
        copy_kernel(first[::-1], second).launch(grid=rows, block=columns)
        copy_kernel(second, out).launch(grid=rows, block=columns)
    """
    a = (np.arange(15).reshape(3, 5) % 7).astype(NUMPY_TYPES[dtype])
    out = np.zeros_like(a)
    define(source, DTYPE=dtype)["host"](a, out)
    assert out.tobytes() == np.ascontiguousarray(a[::-1]).tobytes()


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_a_size_is_an_integer_of_any_type(kind: str):
    source = (
        FILLS
        + f"""
@weft.jit
def host(out: weft.Tensor, n: weft.{kind}):
    a = weft.scratch(n, weft.i32)
    weft.static_assert(a.strides == (1,))
    fill_kernel(a, 5).launch(grid=a.shape[0], block=1)
    add_kernel(a, out).launch(grid=1, block=1)
    return a.shape[0], a.size, a.ndim
"""
    )
    out = np.zeros(8, np.int32)
    assert define(source)["host"](out, 6) == (6, 6, 1)
    assert out.tolist() == [5, 6, 7, 8, 9, 10, 0, 0]


def test_addresses_are_multiples_of_256():
    source = """
    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor):
        weft.store_vector(a, 0, (1.0, 2.0, 3.0, 4.0))
        weft.store_vector(b, 0, weft.load_vector(a, 0, 4))

    @weft.kernel
    def copy_kernel(b: weft.Tensor, out: weft.Tensor):
        out[weft.thread_idx.x] = b[weft.thread_idx.x]

    @weft.jit
    def host(out: weft.Tensor, n: weft.i32):
        odd = weft.scratch(n - 1, weft.u8)
        a, b = weft.scratch(n, weft.f32), weft.scratch(4, weft.f32)
        kernel(a, b).launch(grid=1, block=1)
        copy_kernel(b, out).launch(grid=1, block=4)
        copy_kernel(odd, out).launch(grid=0, block=1)
    """
    out = np.zeros(4, np.float32)
    host = define(source)["host"]
    host(out, 4)
    assert out.tolist() == [1, 2, 3, 4]
    text = weft.compile(host, out, 4).ir_module
    assert text.count("simt.scratch") == 3 and text.count("align 256>") >= 3


def test_each_evaluation_makes_an_array():
    source = (
        FILLS
        + """
def added(out, n, first):
    a = weft.scratch(n, weft.i32)
    fill_kernel(a, first).launch(grid=n, block=1)
    add_kernel(a, out).launch(grid=1, block=1)
    return a

@weft.jit
def inner(out: weft.Tensor, n: weft.i32):
    for i in range(n):
        added(out, i + 1, 1)

@weft.jit
def host(out: weft.Tensor, n: weft.i32):
    if n > 2:
        inner(out, n)
    kept = added(out, 4, 0)
    again = added(out, 4, 100)
    add_kernel(kept, out).launch(grid=1, block=1)
    add_kernel(again, out).launch(grid=1, block=1)
"""
    )
    host, out = define(source)["host"], np.zeros(4, np.int32)
    host(out, 2)
    assert out.tolist() == [200, 204, 208, 212]
    host(out, 4)
    assert out.tolist() == [400 + 4, 408 + 6, 416 + 6, 424 + 4]


def test_no_elements_take_no_memory():
    source = (
        FILLS
        + """
@weft.jit
def host(out: weft.Tensor, n: weft.i32):
    a = weft.scratch((n, 1 << 40, 1 << 40), weft.i32)
    b = weft.scratch(0, weft.i32)
    fill_kernel(b, 1).launch(grid=b.shape[0], block=1)
    add_kernel(a[:, 0, 0], out).launch(grid=1, block=1)
    return a.size, b.size
"""
    )
    with pytest.raises(weft.errors.ValueRangeError, match="SCRATCH_TOO_LARGE"):
        define(source)["host"](np.zeros(2, np.int32), 0)
    source = source.replace("1 << 40, 1 << 40", "1 << 20, 1 << 20")
    assert define(source)["host"](np.zeros(2, np.int32), 0) == (0, 0)


LIMITS = (
    FILLS
    + """
@weft.jit
def host(out: weft.Tensor, n: weft.i64, m: weft.i64):
    a = weft.scratch((n, 2, m), weft.i32)
    fill_kernel(out, 7).launch(grid=1, block=1)
    add_kernel(a[0, 0], out).launch(grid=0, block=1)
"""
)


@pytest.mark.parametrize(
    ("sizes", "error", "text"),
    [
        ((-1, 4), ValueError, r"shape\[0\] is -1, expected 0 or more"),
        ((0, -3), ValueError, r"shape\[2\] is -3, expected 0 or more"),
        ((1 << 40, 1 << 40), ValueError, r"takes more bytes than fit 64 bits"),
        ((1 << 62, 1), ValueError, r"shape \(4611686018427387904, 2, 1\) of 4 bytes each"),
        ((1 << 58, 1), MemoryError, r"no memory for 2305843009213693952 bytes"),
    ],
)
def test_an_impossible_size_fails_before_later_launches(
    sizes: tuple[int, int], error: type[Exception], text: str
):
    names, out = define(LIMITS), np.zeros(1, np.int32)
    with pytest.raises(error, match=text) as raised:
        names["host"](out, *sizes)
    assert "host (<conformance " in str(raised.value)
    assert "weft.scratch((n, 2, m), weft.i32): " in str(raised.value)
    assert out[0] == 0
    names["host"](out, 3, 5)
    assert out[0] == 7


def kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_memory_is_given_back_also_after_errors():
    source = (
        FILLS
        + """
@weft.jit
def host(out: weft.Tensor, n: weft.i32, bad: weft.i32):
    a = weft.scratch((n, 1 << 20), weft.i32)
    for i in range(n):
        fill_kernel(a[i], i).launch(grid=1 << 20, block=1)
    fill_kernel(out, 1).launch(grid=bad, block=1)
    weft.scratch(bad, weft.i32)
    add_kernel(a[0], out).launch(grid=0, block=1)
"""
    )
    host, out = define(source)["host"], np.zeros(4, np.int32)
    host(out, 4, 1)
    before = kilobytes()
    for n in (1, 2, 3, 4) * 4:
        with pytest.raises(ValueError, match=r"grid\.x is -1"):
            host(out, n, -1)
        host(out, n, 0)
    assert kilobytes() - before < 100 << 10  # of 40 MiB an iteration


def test_threads_have_arrays_of_their_own():
    sum_all = define(SUMS)["sum_all"]
    failed: list[int] = []

    def run(count: int) -> None:
        a, out = sums(count)
        for _ in range(200):
            sum_all(a, out)
            if out[0] != a.sum():
                failed.append(count)

    threads = [threading.Thread(target=run, args=(100 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_inspection_lists_each_array_with_its_text_and_its_bytes():
    source = """
    @weft.kernel
    def touch_kernel(a: weft.Tensor):
        a[0] = a[0]

    @weft.jit
    def host(a: weft.Tensor[weft.i32, ("n",)]):
        for i in range(len(a)):
            first = weft.scratch((len(a) + i,
                                  4), weft.f64)
            touch_kernel(first[0]).launch(grid=1, block=1)
        second = weft.scratch((3, 5), weft.bf16)
        touch_kernel(second[0]).launch(grid=second.shape[0], block=1)
        weft.scratch(7, weft.u8)
    """
    compiled = weft.compile(define(source)["host"], np.zeros(1, np.int32))
    first, second = compiled.scratch  # nothing uses the third
    assert (first.text, first.shape, first.bytes) == (
        "weft.scratch((len(a) + i, 4), weft.f64)",
        (None, 4),
        None,
    )
    assert (second.text, second.shape, second.bytes) == (
        "weft.scratch((3, 5), weft.bf16)",
        (3, 5),
        30,
    )
    assert first.file.startswith("<conformance") and second.line == first.line + 3
    assert weft.compile(define(SUMS)["sum_all"], *sums(1)).to(0).scratch[0].bytes is None


def test_gpu_calls_allocate_in_stream_order():
    fakes = weft.fake_tensor(weft.i32, ("n",)), weft.fake_tensor(weft.i32, (1,))
    compiled = weft.compile(define(SUMS)["sum_all"], *fakes, options="--gpu-arch sm_90a")
    assert "call i32 %take_scratch" in compiled.host_llvm_ir
    assert "call i32 %release_scratch" in compiled.host_llvm_ir
    assert compiled.scratch[0].shape == (None, 3)


ZEROING = """
@weft.kernel
def add(s: weft.Tensor, out: weft.Tensor):
    i = weft.grid(1)
    out[i] += s[i]
    s[i] = 5

@weft.jit
def twice(out: weft.Tensor, n: weft.i32):
    out.fill_(n)
    for _ in range(2):
        s = weft.scratch((n, 2), out.dtype, zeroed=True)
        add(s.reshape(-1), out).launch(grid=1, block=4)

@weft.jit
def columns(a: weft.Tensor, value: weft.f32, s: weft.Stream):
    a[:, 1].fill_(value)
    a[:, 0].zero_(stream=s)

@weft.jit
def zero(a: weft.Tensor):
    a.zero_()

@weft.jit
def tenth(a: weft.Tensor):
    a.fill_(0.1)
"""


def test_scratch_is_zeroed_each_time():
    out = np.ones(4, np.int32)
    define(ZEROING)["twice"](out, 2)
    assert out.tolist() == [2] * 4


def test_parts_of_tensors_are_filled():
    a = np.ones((3, 3), np.float32)
    define(ZEROING)["columns"](a, 2.5, 0)
    assert a.tolist() == [[0, 2.5, 1]] * 3


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize(
    "dtype", sampled([np.bool_, np.uint8, np.int64, np.float16, np.float64], 2), ids=str
)
def test_every_kind_of_tensor_is_zeroed(dtype, shape):
    a = np.ones(shape, dtype)
    define(ZEROING)["zero"](a)
    assert not a.any()


def test_a_filled_number_has_the_tensors_type():
    a = np.ones(3, np.float64)
    define(ZEROING)["tenth"](a)
    assert a.tolist() == [0.1] * 3
