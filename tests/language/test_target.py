# SPDX-License-Identifier: Apache-2.0
"""`weft.target`: one source for several architectures."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.types.capabilities import FEATURES, PTX_VERSIONS, capabilities

ARCHITECTURES = [name for name in PTX_VERSIONS if capabilities(name).number >= 75]


@weft.kernel
def answers_kernel(out: weft.Tensor):
    for index in weft.static_range(len(FEATURES)):
        if weft.target.has(list(FEATURES)[index]):
            out[index] = 1
    if weft.target.is_cpu:
        out[100] = 1
    if weft.target.arch == "sm_90a":
        out[101] = 1


@weft.jit
def answers(out: weft.Tensor[weft.i32, (128,)]):
    answers_kernel(out).launch(grid=1, block=1)


def expected(arch):
    has = [index for index, name in enumerate(FEATURES) if capabilities(arch).has(name)]
    return has + [100] * (arch == "cpu") + [101] * (arch == "sm_90a")


def test_on_the_cpu():
    answers(out := np.zeros(128, np.int32))
    assert out.nonzero()[0].tolist() == expected("cpu")


@pytest.mark.joined
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_on_each_architecture_one_branch_is_compiled(arch):
    made = weft.compile(answers, options=f"--gpu-arch {arch} --keep-ir")
    stored = made.stages["trace"].count("simt.store")
    assert stored == len(expected(arch))
    assert (made.target, made.architecture) == ("cuda", arch)


def helper(x):
    return x + 1 if weft.target.has("clusters") else x


@weft.jit
def host(out: weft.Tensor[weft.i32, (4,)]):
    blocks = 1 if weft.target.is_cpu else 2
    if weft.target.has("clusters"):
        clustered_kernel(out).launch(grid=2 * blocks, block=1, cluster=2)
    else:
        plain_kernel(out).launch(grid=helper(blocks), block=1)


@weft.kernel
def clustered_kernel(out):
    out[weft.block_idx.x] = helper(weft.cluster_rank())


@weft.kernel
def plain_kernel(out):
    out[weft.block_idx.x] = helper(0)


def test_host_functions_and_helpers_ask_too():
    host(out := np.zeros(4, np.int32))
    assert out.tolist() == [1, 2, 0, 0]
    for arch, kernels in (("sm_89", ["plain_kernel"]), ("sm_90", ["clustered_kernel"])):
        assert list(weft.compile(host, options=f"--gpu-arch {arch}").kernels) == kernels


@pytest.mark.parametrize("feature", ["wgmmma", "sm_90", "", 90])
def test_unknown_names_are_refused_with_the_list(feature):
    @weft.kernel
    def kernel(out):
        if weft.target.has(feature):
            out[0] = 1

    with pytest.raises(weft.ValueRangeError, match="expected the name of a feature") as caught:
        kernel[1, 1](np.zeros(1, np.int32))
    assert caught.value.code == "TARGET_FEATURE"
    assert all(name in caught.value.hint for name in FEATURES)


def test_unknown_attributes_are_refused():
    @weft.kernel
    def kernel(out):
        out[0] = weft.target.name

    with pytest.raises(weft.NameResolutionError, match="has no attribute 'name'"):
        kernel[1, 1](np.zeros(1, np.int32))
    with pytest.raises(weft.UnavailableError):
        _ = weft.target.is_cpu


@pytest.mark.parametrize("many", [False, True])
def test_inline_assembly_has_a_meaning_on_the_cpu(many):
    @weft.kernel
    def kernel(a, out):
        i = weft.thread_idx.x
        if many:
            low, high = weft.inline_ptx(
                "{ add.s32 $0, $2, $3; sub.s32 $1, $2, $3; }",
                a[i],
                3,
                result=(weft.i32, weft.i32),
                cpu=lambda x, y: (x + y, x - y),
            )
            out[i] = low + high
        else:
            out[i] = weft.inline_ptx(
                "add.s32 $0, $1, $2;", a[i], 3, result=weft.i32, cpu=lambda x, y: x + y
            )

    a, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    kernel[1, 32](a, out)
    assert (out == (2 * a if many else a + 3)).all()

    @weft.jit
    def launch(a: weft.Tensor[weft.i32, (32,)], out: weft.Tensor[weft.i32, (32,)]):
        kernel(a, out).launch(grid=1, block=32)

    assert "add.s32" in weft.compile(launch, options="--gpu-arch sm_90a --keep-ptx").ptx


@pytest.mark.parametrize("function", [lambda x: (x, x), lambda x: None, lambda: 1])
def test_a_function_for_the_cpu_returns_what_the_assembly_does(function):
    @weft.kernel
    def kernel(a):
        a[0] = weft.inline_ptx("mov.b32 $0, $1;", a[0], result=weft.i32, cpu=function)

    with pytest.raises(weft.TypeMismatchError):
        kernel[1, 1](np.zeros(1, np.int32))


def test_inline_assembly_alone_is_refused_on_the_cpu():
    @weft.kernel
    def kernel(a):
        a[0] = weft.inline_ptx("mov.b32 $0, $1;", a[0], result=weft.i32)

    with pytest.raises(weft.UnavailableError, match="cpu=function"):
        kernel[1, 1](np.zeros(1, np.int32))
