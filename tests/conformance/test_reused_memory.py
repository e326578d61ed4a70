# SPDX-License-Identifier: Apache-2.0
"""Shared arrays in the memory of others that are needed no more: `weft.shared(..., reuse=)`.

Arrays as elements of another type: `array.view`.

In: kernels with two phases. Out: NumPy's values, the bytes of a block, and what the sanitizer says of missing barriers
and of elements that are gone.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tools.fuzz.gpu.ptx_machine import Block
from tools.fuzz.gpu.ptx_memory import Memory
from tools.fuzz.gpu.ptx_text import kernel_of

THREADS = 64


@weft.kernel
def two_phases_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    first = weft.shared(THREADS, weft.f32)
    first[i] = a[i]
    weft.sync_threads()
    next_one = first[(i + 1) % THREADS]
    weft.sync_threads()
    second = weft.shared((THREADS, 2), weft.i16, reuse=first)
    second[i, 0] = weft.i16(next_one)
    second[i, 1] = weft.i16(i)
    weft.sync_threads()
    out[i] = weft.f32(second[THREADS - 1 - i, 0]) + weft.f32(second[THREADS - 1 - i, 1])


@weft.kernel
def loop_kernel(a: weft.Tensor, out: weft.Tensor, n: weft.i32):
    i = weft.thread_idx.x
    left = weft.shared(THREADS, weft.f32)
    right = weft.shared(THREADS, weft.i32)
    both = weft.shared(2 * THREADS, weft.f32, reuse=(left, right))
    total = 0.0
    for step in range(n):
        left[i] = a[step, i]
        right[i] = i
        weft.sync_threads()
        x = left[THREADS - 1 - i]
        y = right[(i + step) % THREADS]
        weft.sync_threads()
        both[i] = x
        both[THREADS + i] = weft.f32(y)
        weft.sync_threads()
        total += both[(i + 1) % THREADS] + both[THREADS + (i + 1) % THREADS]
        weft.sync_threads()
    out[i] = total


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 31


def two_phases_expected(a):
    second = np.roll(a, -1) + np.arange(THREADS)
    return second[::-1]


def test_the_later_array_has_its_own_values():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    two_phases_kernel[1, THREADS](a, out)
    assert out.tolist() == two_phases_expected(a).tolist()


def test_arrays_take_turns_in_a_loop():
    n = 5
    a, out = numbers(n, THREADS), np.zeros(THREADS, np.float32)
    loop_kernel[1, THREADS](a, out, n)
    expected = np.zeros(THREADS, np.float32)
    for step in range(n):
        both = a[step][::-1] + (np.arange(THREADS) + step) % THREADS
        expected += np.roll(both, -1)
    assert out.tolist() == expected.tolist()


@weft.jit
def two_phases(a: weft.Tensor, out: weft.Tensor):
    two_phases_kernel(a, out).launch(grid=1, block=THREADS)


@weft.jit
def loop(a: weft.Tensor, out: weft.Tensor, n: weft.i32):
    loop_kernel(a, out, n).launch(grid=1, block=THREADS)


def test_a_block_takes_the_memory_once():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    compiled = weft.compile(two_phases, a, out)
    assert compiled.kernels["two_phases_kernel"].shared_memory_bytes == 4 * THREADS
    compiled = weft.compile(loop, numbers(5, THREADS), out, 5)
    assert compiled.kernels["loop_kernel"].shared_memory_bytes == 8 * THREADS


@pytest.mark.parametrize("checks", [("races", "uninit"), ("all",)])
def test_the_sanitizer_finds_nothing_in_them(checks: tuple[str, ...]):
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    with weft.sanitize(*checks):
        two_phases(a, out)
        assert out.tolist() == two_phases_expected(a).tolist()
        loop(numbers(5, THREADS), out, 5)


def test_on_a_gpu_both_arrays_begin_at_one_address():
    args = weft.fake_tensor(weft.f32, (None,)), weft.fake_tensor(weft.f32, (None,))
    compiled = weft.compile(two_phases, *args, options="--gpu-arch sm_90a")
    assert compiled.ptx.count(".extern .shared") == 1
    first, second = re.findall(r"st\.shared\.\S+ +\t?(\S+),", compiled.ptx)
    assert first == second  # element i of f32, row i of two i16
    assert compiled.kernels["two_phases_kernel"].shared_memory_bytes == 4 * THREADS


@weft.kernel
def views_kernel(a: weft.Tensor, out: weft.Tensor, bits: weft.Tensor):
    i = weft.thread_idx.x
    tile = weft.shared((4, 16), weft.f16)
    words = tile.view(weft.u32)
    weft.static_assert(words.shape == (4, 8) and tile.view(weft.u8).shape == (4, 32))
    tile[i, 2 * i] = weft.f16(a[i])
    tile[i, 2 * i + 1] = weft.f16(-a[i])
    weft.sync_threads()
    bits[i] = words[3 - i, 3 - i]
    own = weft.local(4, weft.f32)
    for j in range(4):
        own[j] = a[j] + weft.f32(i)
    halves = own.view(weft.u16)
    halves[2 * i + 1] = halves[2 * i + 1] ^ 0x8000  # the sign
    weft.sync_threads()
    for j in range(4):
        out[i, j] = own[j]


@weft.jit
def views(a: weft.Tensor, out: weft.Tensor, bits: weft.Tensor):
    views_kernel(a, out, bits).launch(grid=1, block=4)


def test_a_view_has_the_bytes_as_other_elements():
    a = np.array([1.5, 2, -3, 4], np.float32)
    out, bits = np.zeros((4, 4), np.float32), np.zeros(4, np.uint32)
    with weft.sanitize("races", "uninit", "bounds"):
        views(a, out, bits)
    pairs = np.stack([a, -a], axis=1).astype(np.float16).view(np.uint32)[:, 0]
    assert bits.tolist() == pairs[::-1].tolist()
    expected = a[None, :] + np.arange(4, dtype=np.float32)[:, None]
    np.fill_diagonal(expected, -np.diag(expected))
    assert out.tolist() == expected.tolist()
    views(a, out := np.zeros_like(out), bits := np.zeros_like(bits))
    assert out.tolist() == expected.tolist()
    assert bits.tolist() == pairs[::-1].tolist()


@weft.kernel
def same_bytes_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    tile = weft.shared(THREADS, weft.f32)
    codes = weft.shared((THREADS, 4), weft.u8, reuse=tile.view(weft.i32))
    tile[i] = a[i]
    weft.sync_threads()
    x = tile.view(weft.i32)[THREADS - 1 - i]
    weft.sync_threads()
    codes.view(weft.i32)[i, 0] = x
    out[i] = weft.f32(codes[i, 3])


def test_views_know_whose_memory_they_are():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    with weft.sanitize("races", "uninit", "bounds"):
        same_bytes_kernel[1, THREADS](a, out)
    assert out.tolist() == a[::-1].copy().view(np.uint8)[3::4].tolist()


def test_on_a_gpu_a_view_costs_nothing():
    a = weft.fake_tensor(weft.f32, (None,))
    out, bits = weft.fake_tensor(weft.f32, (None, None)), weft.fake_tensor(weft.u32, (None,))
    compiled = weft.compile(views, a, out, bits, options="--gpu-arch sm_90a")
    assert compiled.kernels["views_kernel"].shared_memory_bytes == 4 * 16 * 2
    assert len(re.findall(r"ld\.shared\.b32", compiled.ptx)) == 1


@weft.kernel
def swizzled_kernel(a: weft.Tensor, out: weft.Tensor, lying: weft.Tensor):
    i = weft.thread_idx.x
    count = weft.shared(1, weft.i32)
    tiles = weft.dynamic_shared((2, 8, 64), weft.f16, 1024, swizzle=128)
    plain = weft.dynamic_shared((2, 8, 64), weft.f16, 1024)
    if i == 0:
        count[0] = 64
    for row in range(8):
        tiles[i // 64, row, i % 64] = a[i // 64, row, i % 64]
    weft.sync_threads()
    for row in range(8):
        out[i // 64, row, i % 64] = tiles[i // 64, row, (i + 1) % count[0]]
        lying[i // 64, row, i % 64] = plain[i // 64, row, i % 64]


@weft.jit
def swizzled(a: weft.Tensor, out: weft.Tensor, lying: weft.Tensor):
    swizzled_kernel(a, out, lying).launch(grid=1, block=128, shared_memory_bytes=3072)


def test_dynamic_arrays_are_swizzled_as_static_ones():
    a = numbers(2, 8, 64).astype(np.float16)
    out, lying = np.zeros_like(a), np.zeros_like(a)
    swizzled(a, out, lying)
    assert (out == np.roll(a, -1, axis=2)).all()
    row, column = np.indices((8, 64))
    assert (lying == a[:, row, (column // 8 ^ row) * 8 + column % 8]).all()


def test_dynamic_swizzled_arrays_begin_at_a_multiple_of_1024():
    tensor = weft.fake_tensor(weft.f16, (2, 8, 64))
    compiled = weft.compile(swizzled, tensor, tensor, tensor, options="--gpu-arch sm_90a")
    assert compiled.kernels["swizzled_kernel"].shared_memory_bytes == 1024
    assert re.search(r"\.extern \.shared \.align 1024 ", compiled.ptx)


def test_ptx_computes_the_same():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    args = weft.fake_tensor(weft.f32, (THREADS,)), weft.fake_tensor(weft.f32, (THREADS,))
    compiled = weft.compile(two_phases, *args, options="--target cuda --gpu-arch sm_90a")
    memory = Memory([a.view(np.uint8), out.view(np.uint8)])
    kernel = kernel_of(compiled.ptx)
    Block(kernel, [memory.address(0), memory.address(1)], memory, THREADS, 0, 1).run()
    assert memory.piece(1).view(np.float32).tolist() == two_phases_expected(a).tolist()


SWIZZLED = """
@weft.kernel
def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    tile = weft.shared((16, 64), weft.f16, swizzle={swizzle})
    t = weft.thread_idx.x
    for i in range(t, 16 * 64, 32):
        tile[i // 64, i % 64] = a[i // 64, i % 64]
    weft.sync_threads()
    words = tile.view(weft.u32)
    for i in range(t, 16 * 32, 32):
        words[i // 32, i % 32] = words[i // 32, i % 32] ^ weft.u32(0x80008000)
    weft.sync_threads()
    units = tile.view(weft.u8)
    for i in range(t, 16 * 64, 32):
        b[i // 64, i % 64] = tile[i // 64, i % 64]
        c[i // 64, 2 * (i % 64)] = units[i // 64, 2 * (i % 64)]
        c[i // 64, 2 * (i % 64) + 1] = units[i // 64, 2 * (i % 64) + 1]

@weft.jit
def host(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    kernel(a, b, c).launch(grid=1, block=32)
"""


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_view_of_a_swizzled_array_is_swizzled_alike(swizzle):
    host = define(SWIZZLED.replace("{swizzle}", str(swizzle)))["host"]
    a = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float16)
    b, c = np.zeros_like(a), np.zeros((16, 128), np.uint8)
    with weft.sanitize("all"):
        host(a, b, c)
    assert (b == -a).all() and (c == b.view(np.uint8)).all()
    ptx = weft.compile(host, a, b, c, options="--gpu-arch sm_90a").ptx
    assert "st.shared.b32" in ptx or "st.shared.u32" in ptx


@weft.kernel
def stale_kernel(a: weft.Tensor, out: weft.Tensor, swizzle: weft.Constexpr):
    i = weft.thread_idx.x
    tile = weft.shared((8, 64), weft.f16, swizzle)
    for row in range(8):
        tile[row, i] = a[i]
    weft.sync_threads()
    x = tile[3, 63 - i]
    weft.sync_threads()
    new = weft.shared((8, 64), weft.f16, swizzle, reuse=tile)
    out[0, i] = new[i % 8, i]  # nothing has written it
    new[i % 8, i] = x
    weft.sync_threads()
    out[1, i] = new[i % 8, i]
    for step in range(out.shape[0]):
        weft.sync_threads()
        kept = weft.shared(64, weft.f32, reuse=new)
        if step == 0:
            kept[i] = 0.0
        kept[i] += 1.0
        out[2, i] = weft.f16(kept[i])


@weft.jit
def stale(a: weft.Tensor, out: weft.Tensor, swizzle: weft.Constexpr):
    stale_kernel(a, out, swizzle).launch(grid=2, block=64)


@pytest.mark.parametrize("swizzle", [None, 128])
def test_reused_memory_holds_nan_on_the_cpu(swizzle):
    a, out = np.arange(64).astype(np.float16), np.zeros((3, 64), np.float16)
    stale(a, out, swizzle)
    assert np.isnan(out[0]).all() and (out[1] == a[::-1]).all()
    assert (out[2] == 3).all()  # the iterations of a loop have one array
    cpu, gpu = (weft.compile(stale, a, out, swizzle, options=o) for o in ("", "--gpu-arch sm_90a"))
    assert str(cpu.ir_module).count("simt.barrier") == str(gpu.ir_module).count("simt.barrier") + 1


@weft.kernel
def sent_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    tile = weft.shared(64, weft.f32)
    tile[i] = a[i]
    weft.fence_proxy()
    weft.sync_threads()
    if i == 0:
        weft.bulk_copy(out[:64], tile)
    weft.sync_threads()
    new = weft.shared(64, weft.f32, reuse=tile)  # the copy may still read it
    if i == 0:
        weft.tma.wait(read=True)
    weft.sync_threads()
    new[i] = a[i] + 1.0
    weft.sync_threads()
    out[64 + i] = new[63 - i]
    if i == 0:
        weft.tma.wait()


@weft.jit
def sent(a: weft.Tensor[weft.f32, (64,)], out: weft.Tensor[weft.f32, (128,)]):
    sent_kernel(a, out).launch(grid=1, block=64)


def test_a_copy_in_flight_reads_the_old_array():
    a, out = aligned_floats(64), aligned_floats(128)
    a[:] = np.arange(64)
    sent(a, out)
    assert (out[:64] == a).all() and (out[64:] == a[::-1] + 1).all()


def aligned_floats(count: int) -> np.ndarray:
    return np.frombuffer(weft.empty(count, weft.f32), np.float32)


def both_halves(i, total, ring):
    """Two arrays in the memory of one, which a helper makes and returns."""
    pool = weft.shared(12 * THREADS, weft.u8, reuse=ring)
    sums = pool[: 4 * THREADS].view(weft.f32)
    places = pool[4 * THREADS : 12 * THREADS].view(weft.i32).reshape(2, THREADS)
    sums[i], places[0, i], places[1, i] = total, i, -i
    return pool, sums, places


PHASES = """
@weft.kernel
def phases_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    ring = weft.shared((4, THREADS), weft.f32)
    for stage in range(4):
        ring[stage, i] = a[i] + stage
    weft.sync_threads()
    total = ring[0, THREADS - 1 - i] + ring[3, i]
    {barrier}
    pool, sums, places = both_halves(i, total, ring)
    weft.sync_threads()
    value, place = sums[THREADS - 1 - i], places[1, THREADS - 1 - i]
    weft.sync_threads()
    wide = weft.shared(THREADS, weft.f64, reuse=pool)
    wide[i] = value + place
    weft.sync_threads()
    out[i] = wide[THREADS - 1 - i] + weft.f64({late})

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    phases_kernel(a, out).launch(grid=1, block=THREADS)
"""


def phases(barrier="weft.sync_threads()", late="0"):
    text = PHASES.format(barrier=barrier, late=late)
    return define(text, THREADS=THREADS, both_halves=both_halves)["host"]


def test_several_arrays_take_the_memory_of_one_and_others_theirs():
    a, out = numbers(THREADS), np.zeros(THREADS)
    host = phases()
    host(a, out)
    expected = a + a[::-1] + 3 - np.arange(THREADS)
    assert (out == expected).all()
    out[:] = 0
    with weft.sanitize("all"):
        host(a, out)
    assert (out == expected).all()
    for options in ("", "--gpu-arch sm_90a"):
        kernels = weft.compile(host, *parts(a, out), options=options).kernels
        assert kernels["phases_kernel"].shared_memory_bytes == 16 * THREADS


def parts(*arrays):
    return [weft.fake_tensor(a.dtype, (None,)) for a in arrays]


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        ({"barrier": "pass"}, "races", r"RACE.*ring"),
        ({"late": "sums[i]"}, "uninit", r"UNINITIALIZED.*sums"),
        ({"late": "ring[0, i]"}, "uninit", r"UNINITIALIZED.*ring"),
    ],
    ids=["barrier", "view", "first"],
)
def test_the_sanitizer_follows_memory_at_any_depth(changed, check, words):
    a, out = numbers(THREADS), np.zeros(THREADS)
    with weft.sanitize(check), pytest.raises(weft.SanitizerError) as caught:
        phases(**changed)(a, out)
    assert re.search(words, str(caught.value), re.DOTALL)


TURNS = """
@weft.kernel
def turns_kernel(a: weft.Tensor, out: weft.Tensor):
    i, n = weft.thread_idx.x, a.shape[0]
    keys = weft.dynamic_shared(n, weft.f32)
    keys[i] = a[i]
    weft.sync_threads()
    x = keys[n - 1 - i]
    {barrier}
    ranks = weft.dynamic_shared((2, n // 2), weft.i32)
    ranks[i // 32, i % 32] = weft.i32(x)
    weft.sync_threads()
    out[i] = ranks[1 - i // 32, i % 32]

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    turns_kernel(a, out).launch(grid=1, block=THREADS, shared_memory_bytes=4 * a.shape[0])
"""


def test_dynamic_arrays_take_turns_by_their_offsets():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    host = define(TURNS.format(barrier="weft.sync_threads()"), THREADS=THREADS)["host"]
    with weft.sanitize("races"):
        host(a, out)
    assert out.tolist() == np.roll(a[::-1], THREADS // 2).tolist()


def test_the_sanitizer_misses_the_barrier_between_dynamic_arrays():
    a, out = numbers(THREADS), np.zeros(THREADS, np.float32)
    host = define(TURNS.format(barrier="pass"), THREADS=THREADS)["host"]
    with weft.sanitize("races"), pytest.raises(weft.SanitizerError, match=r"RACE[^$]*keys"):
        host(a, out)
