# SPDX-License-Identifier: Apache-2.0
"""Numbers given to a launch are passed at run time, as those given to a host function; `weft.static` compiles one in.

In: host functions that launch one kernel with several numbers. Out: how many kernels there are, and what they compute.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import weft


@weft.kernel
def add_kernel(a: weft.Tensor, n):
    a[weft.thread_idx.x] += n


@weft.kernel
def annotated_kernel(a: weft.Tensor, n: weft.i32):
    a[weft.thread_idx.x] += n


@weft.kernel
def python_kernel(a: weft.Tensor, n: int):
    a[weft.thread_idx.x] += n


KERNELS = [add_kernel, annotated_kernel, python_kernel]
TARGETS = ["cpu", "sm_90a"]


def compiled(host, target, *arguments):
    if target == "cpu":
        return weft.compile(host, *arguments)
    try:
        return weft.compile(host, *arguments, options=f"--gpu-arch {target}")
    except (weft.ToolchainError, weft.UnavailableError) as error:
        pytest.skip(f"needs the extra cuda: {error.message}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function.__name__)
def test_four_numbers_are_one_kernel(kernel, target):
    @weft.jit
    def host(a: weft.Tensor[weft.i32, (None,)]):
        for s in (24, 16, 8, 0):
            kernel(a, s).launch(grid=1, block=2)
        kernel[1, 2](a, 100)

    a = np.zeros(2, np.int32)
    if target == "cpu":
        assert list(compiled(host, target, a).kernels) == [kernel.function.__name__]
        host(a)
        assert a.tolist() == [148, 148]
    else:
        fake = weft.fake_tensor(weft.i32, (None,))
        assert list(compiled(host, target, fake).kernels) == [kernel.function.__name__]


@pytest.mark.parametrize("target", TARGETS)
def test_static_and_constexpr_make_a_kernel_each(target):
    @weft.kernel
    def constant_kernel(a: weft.Tensor, n: weft.Constexpr[int]):
        for k in weft.static_range(n):
            a[k] += 1

    @weft.jit
    def host(a: weft.Tensor[weft.i32, (None,)]):
        for s in (1, 2):
            add_kernel(a, weft.static(s)).launch(grid=1, block=2)
            annotated_kernel(a, n=weft.static(s)).launch(grid=1, block=2)
            constant_kernel(a, s).launch(grid=1, block=1)
            constant_kernel(a, weft.static(s)).launch(grid=1, block=1)

    fake = weft.fake_tensor(weft.i32, (None,))
    found = [name.rstrip("_12") for name in compiled(host, target, fake).kernels]
    assert sorted(found) == ["add_kernel"] * 2 + ["annotated_kernel"] * 2 + ["constant_kernel"] * 2
    if target == "cpu":
        a = np.zeros(2, np.int32)
        host(a)
        assert a.tolist() == [6 + 4, 6 + 2]


def test_numbers_have_the_types_that_host_functions_give_them():
    @weft.kernel
    def types_kernel(small, large, real, flag, typed, pair, plain: int):
        weft.static_assert(small.dtype is weft.i32)
        weft.static_assert(large.dtype is weft.i64)
        weft.static_assert(real.dtype is weft.f32)
        weft.static_assert(flag.dtype is weft.bool_)
        weft.static_assert(typed.dtype is weft.u8)
        weft.static_assert(pair[0].dtype is weft.i32)
        weft.static_assert(pair[1][0].dtype is weft.f32)
        weft.static_assert(plain.dtype is weft.i32)

    typed = np.uint8(3)

    @weft.jit
    def host():
        types_kernel(1, 1 << 40, 0.5, True, typed, (1, [2.0]), 4).launch(grid=1, block=1)

    assert list(weft.compile(host).kernels) == ["types_kernel"]


class Mode(enum.IntEnum):
    FAST = 1


class Plan(NamedTuple):
    factor: weft.f64
    width: weft.Constexpr[int]


@dataclass(frozen=True)
class Tile:
    rows: weft.Constexpr
    start: int


def test_fields_keep_their_annotations_and_names_stay_names():
    @weft.kernel
    def kernel(
        out: weft.Tensor, plan, tile, mode, name, sizes: tuple[weft.i64, weft.u8], default=7
    ):
        weft.static_assert(plan.factor.dtype is weft.f64)
        weft.static_assert(plan.width == 3 and tile.rows == 4)
        weft.static_assert(tile.start.dtype is weft.i32)
        weft.static_assert(mode is Mode.FAST and name == "x")
        weft.static_assert(sizes[0].dtype is weft.i64)
        weft.static_assert(sizes[1].dtype is weft.u8)
        out[0] = plan.factor * tile.start + default

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out, Plan(0.5, 3), Tile(4, 6), Mode.FAST, "x", (1, 2)).launch(grid=1, block=1)

    out = np.zeros(1)
    host(out)
    assert out[0] == 10


def test_static_takes_containers_and_only_what_is_known():
    @weft.kernel
    def kernel(out: weft.Tensor, sizes, step):
        local = weft.local(sizes, weft.i32)
        for k in weft.static_range(sizes[0]):
            local[k, 0] = step
        out[0] = local[sizes[0] - 1, 0]

    @weft.jit
    def host(out: weft.Tensor, n: weft.i32):
        kernel(out, weft.static((3, 2)), n).launch(grid=1, block=1)
        kernel(out, (weft.static(3), weft.static(2)), n).launch(grid=1, block=1)

    out = np.zeros(1, np.int32)
    host(out, 5)
    assert out[0] == 5

    @weft.jit
    def refused(out: weft.Tensor, n: weft.i32):
        add_kernel(out, weft.static(n)).launch(grid=1, block=1)

    with pytest.raises(weft.CompileError, match="static takes a value known at compile time"):
        refused(out, 5)


def test_number_that_does_not_fit_its_annotation_is_refused():
    @weft.kernel
    def kernel(out: weft.Tensor, n: weft.u8):
        out[0] = n

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out, 300).launch(grid=1, block=1)

    with pytest.raises(weft.CompileError, match="300"):
        host(np.zeros(1, np.int32))
