# SPDX-License-Identifier: Apache-2.0
"""weft's functions in programs that JAX compiles for a GPU: on XLA's stream, in its memory, with its errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.gpu
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
    for i in weft.each(a.shape[0]):
        out[i] = factor * a[i]


@weft.jit
def scale(a: Vector, out: Vector, factor: weft.f32 = 2.0):
    scale_kernel(a, out, factor).launch(over=a.shape[0])


@weft.jit
def scale_on(a: Vector, out: Vector, stream: weft.Stream):
    scale_kernel(a, out, 2.0).launch(over=a.shape[0], stream=stream)


@pytest.fixture(scope="module")
def jax():
    found = pytest.importorskip("jax", reason="needs JAX")
    if found.default_backend() != "gpu":
        pytest.skip("needs JAX for CUDA")
    return found


@pytest.mark.parametrize("function", [scale, scale_on])
def test_a_call_stands_between_xlas_own_kernels(jax, function):
    scaled = weft.jax.function(function, outputs={"out": lambda a, *_: a})
    program = jax.jit(lambda a: jax.numpy.cumsum(scaled(scaled(a + 1) * 3)))
    for size in (1, 1000, 1 << 20):
        a = np.full(size, 0.5, np.float32)
        for _ in range(3):
            np.testing.assert_allclose(program(a)[-1], 18.0 * size, rtol=1e-5)


def test_a_loop_replays_it(jax):
    scaled = weft.jax.function(scale, outputs={"out": lambda a, factor: a})
    program = jax.jit(lambda a: jax.lax.fori_loop(0, 20, lambda _, b: scaled(b), a))
    assert program(np.ones(100, np.float32)).tolist() == [2.0**20] * 100


def test_a_donated_argument_is_written_in_place(jax):
    into = weft.jax.function(scale, mutates_args="out")
    out = jax.numpy.zeros(1000)
    address = out.unsafe_buffer_pointer()
    new = jax.jit(into, donate_argnums=1)(jax.numpy.ones(1000), out)
    assert new.unsafe_buffer_pointer() == address and set(new.tolist()) == {2.0}


def test_a_failing_check_is_an_error_of_xlas_program(jax):
    shorter = {"out": lambda a, factor: jax.ShapeDtypeStruct((3,), a.dtype)}
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"shape.0. is 3, expected 5"):
        jax.block_until_ready(weft.jax.function(scale, outputs=shorter)(jax.numpy.ones(5)))


def test_each_of_two_devices_runs_it(jax):
    if len(jax.devices()) < 2:
        pytest.skip("needs two GPUs")
    program = jax.jit(weft.jax.function(scale, outputs={"out": lambda a, factor: a}))
    for device in jax.devices()[:2]:
        a = jax.device_put(np.ones(1000, np.float32), device)
        assert program(a).devices() == {device}
        assert set(program(a).tolist()) == {2.0}
