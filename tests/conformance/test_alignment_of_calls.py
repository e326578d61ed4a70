# SPDX-License-Identifier: Apache-2.0
"""A direct call's code knows how its tensors are aligned; no call gets code for more alignment than it has."""

import itertools
import typing

import numpy as np
import pytest

import weft


class Pair(typing.NamedTuple):
    a: weft.Tensor
    out: weft.Tensor


@weft.kernel
def sum_kernel(a: weft.Tensor, out: weft.Tensor, width: weft.Constexpr):
    for i in weft.each(a.shape[0] // width):
        total = 0.0
        for value in weft.load_vector(a, width * i, width):
            total += value
        out[i] = total


@pytest.fixture
def host():
    @weft.jit
    def sums(a: weft.Tensor, out: weft.Tensor, width: weft.Constexpr):
        sum_kernel(a, out, width).launch(over=out.shape[0])

    return sums


def at(offset, count=8):
    """Numbers that begin some elements after a multiple of 16 bytes."""
    memory = np.zeros(count + 8, np.float32)
    start = -memory.ctypes.data % 16 // 4 + offset
    array = memory[start : start + count]
    array[:] = np.arange(count)
    return array


def test_vectors_of_an_argument_need_no_annotation(host):
    for offset, width in [(0, 4), (2, 2), (0, 2), (0, 4)]:
        a, out = at(offset), np.zeros(8 // width, np.float32)
        host(a, out, width)
        assert out.tolist() == a.reshape(-1, width).sum(1).tolist()


@pytest.mark.parametrize("order", list(itertools.permutations([0, 2, 1])))
def test_the_order_of_calls_does_not_matter(host, order):
    for offset in (*order, *order):
        a, out = at(offset), np.zeros(2, np.float32)
        if offset == 0:
            host(a, out, 4)
            assert out.tolist() == [6, 22]
        else:
            known = 8 if offset == 2 else 4
            with pytest.raises(weft.WeftError, match=f"a is known to be aligned to {known}"):
                host(a, out, 4)


@pytest.mark.parametrize("order", list(itertools.permutations([0, 2, 1])))
def test_tuples_records_and_bare_launches_keep_their_alignment(order):
    @weft.kernel
    def kernel(pair: Pair):
        pair.out[0] = weft.load_vector(pair.a, 0, 4)[3]

    @weft.jit
    def host(pair: Pair):
        kernel(pair).launch(grid=1, block=1)

    for call, offset in itertools.product((host, kernel[1, 1]), order):
        out = np.zeros(1, np.float32)
        if offset == 0:
            call(Pair(at(0), out))
            assert out[0] == 3
        else:
            with pytest.raises(weft.WeftError, match="known to be aligned to"):
                call(Pair(at(offset), out))


def test_a_compiled_function_keeps_its_declared_alignment():
    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        sum_kernel(a, out, 4).launch(over=out.shape[0])

    with pytest.raises(weft.WeftError, match="a is known to be aligned to 4"):
        weft.compile(host, at(0), at(0))

    @weft.jit
    def plain(a: weft.Tensor):
        pass

    plain(at(0))
    compiled = weft.compile(plain, at(0))
    compiled(at(1))  # an example's address is not a promise


def test_code_of_a_direct_call_always_refuses_less_alignment(host):
    host(at(0), np.zeros(2, np.float32), 4)
    (compiled,) = host.specializations
    out = at(0, 2)
    prepared = compiled.prepare(at(0), out)
    prepared()
    again = weft.compile(host, compiled.signature)
    for call in (compiled, lambda *given: compiled.prepare(*given)(), again):
        call(at(0), out)
        with pytest.raises(ValueError, match="expected an address divisible by 16"):
            call(at(1), out)


def test_views_of_arguments_keep_their_alignment():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        weft.assume(a.shape[1] % 4 == 0 and out.shape[1] % 4 == 0)
        row = a[weft.block_idx.x, 4:]
        weft.store_vector(out[weft.block_idx.x], 0, weft.load_vector(row, 0, 4))

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=a.shape[0], block=1)

    a, out = at(0, 24).reshape(3, 8), at(0, 12).reshape(3, 4)
    host(a, out)
    assert (out == a[:, 4:]).all()


def test_a_gpu_loads_whole_vectors_of_plain_arguments(host):
    tensors = [weft.fake_tensor(weft.f32, (64,)), weft.fake_tensor(weft.f32, (16,))]
    weft.warmup(host, *tensors, 4, arch="sm_90")
    (compiled,) = host.specializations
    assert "ld.global.v4" in compiled.ptx
