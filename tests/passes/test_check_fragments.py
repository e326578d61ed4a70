# SPDX-License-Identifier: Apache-2.0
"""Sums that hold nothing, on each path and for each use; branches without an else are paths too."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.errors import CompileError


@weft.kernel
def kernel(out: weft.Tensor):
    tile = weft.shared((64, 64), weft.f16, swizzle=128)
    acc = weft.wgmma.accumulator((64, 8), weft.f32)
    for i in range(weft.thread_idx.x, 64 * 64, 128):
        tile[i // 64, i % 64] = weft.f16(1)
    weft.fence_proxy()
    weft.sync_threads()
    if weft.thread_idx.x == 0:
        out[1] = 1.0
    right = tile.T.tile((64, 8), (0, 0))
    acc = weft.wgmma.wait(weft.wgmma.mma(tile, right, acc, accumulate=False), pending=0)
    if weft.thread_idx.x == 0:
        out[0] = acc.values[0]


@weft.jit
def host(out: weft.Tensor[weft.f32, (2,)]):
    kernel(out).launch(grid=1, block=128)


def test_a_branch_without_an_else_is_followed():
    host(out := np.zeros(2, np.float32))
    assert out.tolist() == [64.0, 1.0]


def stores_values(acc, out):
    out[0, 0] = acc.values[0]


def stores_row_max(acc, out):
    out[0, 0] = acc.row_max().values[0]


# What is done with a fragment, each of which looks into it.
USES = {
    "store": lambda acc, out: acc.store(out, (0, 0)),
    "red_add": lambda acc, out: acc.red_add(out, (0, 0)),
    "map": lambda acc, out: acc.map(lambda value: value + 1).store(out, (0, 0)),
    "row_max": stores_row_max,
    "values": stores_values,
    "to": lambda acc, out: acc.to(weft.f16).to(weft.f32).store(out, (0, 0)),
}


def never(n, acc):
    return acc


def no_iteration(n, acc):
    for step in range(3, 3):
        acc = with_mma(acc, step > 3)
    return weft.wgmma.wait(acc)


def waited(n, acc):
    return weft.wgmma.wait(acc)


def both_paths(n, acc):
    if n > 0:
        acc = weft.wgmma.accumulator((64, 64))
    return acc


def with_mma(acc, adds):
    x = weft.shared((64, 64), weft.bf16, swizzle=128)
    for i in range(weft.thread_idx.x, 64 * 64, 128):
        x[i // 64, i % 64] = 1.0
    weft.fence_proxy()
    weft.sync_threads()
    acc = weft.wgmma.mma(x, x.T, acc, accumulate=adds)
    weft.wgmma.wait()
    return acc


def some_iterations(n, acc):
    for step in range(n):
        acc = with_mma(acc, step > 0)
    return weft.wgmma.wait(acc)


def two_iterations(n, acc):
    for step in range(2):
        acc = with_mma(acc, step > 0)
    return weft.wgmma.wait(acc)


def one_path(n, acc):
    if n > 0:
        acc = weft.wgmma.wait(with_mma(acc, False))
    return acc


def while_loop(n, acc):
    left = n
    while left > 0:
        acc = with_mma(acc, left < n)
        left -= 1
    return weft.wgmma.wait(acc)


def kernel_of(way, use, start=lambda: weft.wgmma.accumulator((64, 64))):
    @weft.kernel
    def kernel(n: weft.i32, out: weft.Tensor[weft.f32, (64, 64)]):
        use(way(n, start()), out)

    return kernel


@pytest.mark.joined
@pytest.mark.parametrize("way", [never, no_iteration, waited, both_paths])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_sums_that_no_path_has_begun_are_refused_at_every_use(way, use):
    with pytest.raises(CompileError, match="holds nothing yet") as caught:
        kernel_of(way, use)[1, 128](1, np.zeros((64, 64), np.float32))
    assert caught.value.code == "FRAGMENT_EMPTY" and caught.value.location is not None


@pytest.mark.parametrize("way", sampled([some_iterations, two_iterations, one_path, while_loop], 2))
def test_sums_that_some_path_has_begun_are_nan_on_the_others(way):
    kernel = kernel_of(way, USES["store"])
    kernel[1, 128](2, out := np.zeros((64, 64), np.float32))
    assert set(out.ravel()) == {64.0 if way is one_path else 128.0}
    kernel[1, 128](0, out := np.zeros((64, 64), np.float32))
    if way is two_iterations:
        assert set(out.ravel()) == {128.0}
        return
    assert np.isnan(out).all()
    for use in USES.values():
        with (
            weft.sanitize("uninit"),
            pytest.raises(weft.SanitizerError, match="no mma has") as caught,
        ):
            kernel_of(way, use)[1, 128](0, out)
        assert caught.value.reports[0].kind == "uninitialized"
    with weft.sanitize("all"):
        kernel[1, 128](1, out)


def test_a_condition_that_adds_to_nothing_is_nan_and_found():
    kernel = kernel_of(lambda n, acc: weft.wgmma.wait(with_mma(acc, n > 0)), USES["store"])
    kernel[1, 128](1, out := np.zeros((64, 64), np.float32))
    assert np.isnan(out).all()
    kernel[1, 128](0, out)
    assert set(out.ravel()) == {64.0}
    with weft.sanitize("uninit"), pytest.raises(weft.SanitizerError, match="is updated, and no"):
        kernel[1, 128](1, out)


def test_integers_that_hold_nothing_are_far_from_all_sums():
    @weft.kernel
    def kernel(n: weft.i32, out: weft.Tensor):
        x = weft.shared((64, 128), weft.i8, swizzle=128)
        acc = weft.wgmma.accumulator((64, 64), weft.i32)
        for _ in range(n):
            acc = weft.wgmma.wait(weft.wgmma.mma(x, x.T, acc, accumulate=False))
        acc.store(out, (0, 0))

    kernel[1, 128](0, out := np.zeros((64, 64), np.int32))
    assert set(out.ravel()) == {-(2**31)}


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_zeros_are_sums_from_the_beginning(iterations):
    def way(n, acc):
        for _ in range(n):
            acc = with_mma(acc, True)
        return weft.wgmma.wait(acc)

    kernel = kernel_of(way, USES["store"], lambda: weft.wgmma.zeros((64, 64)))
    with weft.sanitize("all"):
        kernel[1, 128](iterations, out := np.full((64, 64), 7, np.float32))
    assert set(out.ravel()) == {64.0 * iterations}


def test_zeros_are_registers_of_a_gpu():
    @weft.kernel
    def zeros_kernel(out: weft.Tensor):
        weft.wgmma.zeros((64, 8)).store(out, (0, 0))

    @weft.jit
    def zeros_host(out: weft.Tensor[weft.f32, (64, 8)]):
        zeros_kernel(out).launch(grid=1, block=128)

    found = weft.compile(zeros_host, options="--gpu-arch sm_90a")
    assert "st.global" in found.ptx
