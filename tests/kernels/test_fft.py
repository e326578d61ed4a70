# SPDX-License-Identifier: Apache-2.0
"""`fft`, `rfft`, `irfft` against NumPy's in f64: lengths of every radix and way; types, layouts, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft import kernels
from weft.kernels.fourier import fft as transforms
from weft.kernels.fourier.bluestein import FFTConfig, factors_of, fft_config
from weft.kernels.fourier.io import IOFormat
from weft.kernels.fourier.stockham import Pass, smem_padding, smem_points

RANDOM = np.random.default_rng(23)


def numbers(*shape: int, dtype: Any = np.complex64) -> Any:
    return (RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)).astype(dtype)


def assert_close(found: Any, expected: Any, length: int) -> None:
    """The error of a sum of rounded turns: a few last places of the largest number for each level."""
    assert found.shape == expected.shape
    allowed = 4 * np.finfo(found.dtype).eps * (1 + math.log2(length))
    assert abs(found - expected).max() <= allowed * abs(expected).max() / 2


# All radices, one pass and two, several blocks of rows; primes in a block, and in two passes.
CASES = [
    *((30, 5), (3, 700), (8, 1)),
    *(
        pytest.param(length, rows, marks=pytest.mark.slow)
        for length, rows in (
            (97, 2),
            (3 << 13, 1),
            (1, 3),
            (2, 3),
            (210, 2),
            (1024, 3),
            (17 << 9, 1),
        )
    ),
]


@pytest.mark.parametrize(("length", "rows"), CASES)
def test_transforms_are_numpys(length: int, rows: int):
    x = numbers(rows, length)
    found = kernels.fft(x)
    assert found.dtype == np.complex64
    assert_close(found, np.fft.fft(x.astype(np.complex128)), length)


@pytest.mark.slow
def test_transforms_in_f64_and_back():
    x = numbers(2, 56, dtype=np.complex128)
    found = kernels.fft(x)
    assert_close(found, np.fft.fft(x), 56)
    assert_close(kernels.fft(found, inverse=True), x, 56)
    x = numbers(2, 11, dtype=np.complex128)
    assert_close(kernels.fft(x, inverse=True), np.fft.ifft(x), 11)


@pytest.mark.slow
def test_any_layout_goes_in_and_out():
    memory = numbers(3, 12, 5)
    x, out = memory.transpose(2, 0, 1)[::-2, :, ::-1], np.zeros((3, 3, 12, 3), np.complex64)[..., 1]
    assert kernels.fft(x, out=out) is out
    assert_close(out, np.fft.fft(x), 12)
    expected, x = np.fft.fft(memory[0].T), memory[0].T.copy()
    assert kernels.fft(x, out=x) is x
    assert_close(x, expected, 12)
    assert kernels.fft(memory[:0]).shape == (0, 12, 5)


# Even ones of a block, of a prime's double, of two passes; an odd one of two passes.
@pytest.mark.parametrize(
    "length",
    [96, *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 194, 5 << 13, 3**9))],
)
def test_transforms_of_real_numbers_are_numpys(length: int):
    x = RANDOM.standard_normal((2, length)).astype(np.float32)
    found = kernels.rfft(x)
    assert found.dtype == np.complex64
    assert_close(found, np.fft.rfft(x.astype(np.float64)), length)
    back = kernels.irfft(found, length)
    assert back.dtype == np.float32
    assert_close(back, x, length)


@pytest.mark.slow
def test_real_numbers_of_any_layout_and_ends_of_spectra():
    x = RANDOM.standard_normal((11, 4, 2))[::-1, 1:, 0].T  # 3 x 11
    out = np.zeros((3, 6, 2), np.complex128)[..., 1]
    assert kernels.rfft(x, out=out) is out
    assert_close(out, np.fft.rfft(x), 11)
    half = numbers(2, 7, dtype=np.complex128)  # imaginary parts at both ends, which count as 0
    assert_close(kernels.irfft(half), np.fft.irfft(half), 12)
    pairs = half.view(np.float64).reshape(2, 7, 2)
    assert_close(kernels.irfft(pairs, 13), np.fft.irfft(half, 13), 13)
    assert kernels.rfft(np.ones((0, 4))).shape == (0, 3)


@pytest.mark.slow
def test_norms_are_numpys():
    x, real = numbers(2, 12), RANDOM.standard_normal((2, 12)).astype(np.float32)
    assert_close(kernels.fft(x, norm="forward"), np.fft.fft(x, norm="forward"), 12)
    assert_close(kernels.rfft(real, "ortho"), np.fft.rfft(real, norm="ortho"), 12)
    found = kernels.irfft(x[:, :7], norm="forward")
    assert_close(found, np.fft.irfft(x[:, :7], norm="forward"), 12)


@pytest.mark.slow
def test_pairs_and_tensors_of_weft_are_complex_numbers_too():
    x = numbers(2, 12)
    pairs = x.view(np.float32).reshape(2, 12, 2)
    found = kernels.fft(pairs)
    assert found.dtype == np.float32
    assert np.array_equal(found.reshape(2, 24).view(np.complex64), kernels.fft(x))
    of_weft = kernels.fft(given := weft.ffi.from_dlpack(x))
    assert isinstance(of_weft, weft.ffi.Tensor)
    assert np.array_equal(np.asarray(of_weft), kernels.fft(x))
    assert kernels.fft(given, True, out=of_weft) is of_weft
    assert np.array_equal(np.asarray(of_weft), kernels.fft(x, True))
    half = kernels.rfft(weft.ffi.from_dlpack(x.real.copy()))
    assert np.array_equal(np.asarray(half), kernels.rfft(x.real))


@pytest.mark.slow
@pytest.mark.torch
def test_complex_tensors_of_torch():
    torch: Any = pytest.importorskip("torch")
    x = torch.from_numpy(numbers(3, 12)).requires_grad_()
    real = torch.from_numpy(RANDOM.standard_normal((3, 12)).astype(np.float32)).requires_grad_()
    for own, theirs, argument in (
        (lambda x: kernels.fft(x.conj()), lambda x: torch.fft.fft(x.conj()), x),
        (kernels.rfft, torch.fft.rfft, real),
        (lambda x: kernels.irfft(x[:, :7]), lambda x: torch.fft.irfft(x[:, :7]), x),
    ):
        found, expected = own(argument), theirs(argument)
        assert found.dtype == expected.dtype
        assert torch.allclose(found, expected, atol=1e-5)
        if argument is real or found.dtype == torch.float32:
            continue  # tests/kernels/test_gradients.py has their derivatives
        weights = torch.randn(found.shape, dtype=found.dtype)
        grads = [torch.autograd.grad(one, argument, weights)[0] for one in (found, expected)]
        assert torch.allclose(*grads, atol=1e-4)


@pytest.mark.slow
@pytest.mark.jax
def test_complex_arrays_of_jax():
    jax: Any = pytest.importorskip("jax")
    x = numbers(2, 12)
    for function, argument in ((kernels.fft, x), (kernels.rfft, x.real), (kernels.irfft, x[:, :7])):
        found = function(jax.numpy.asarray(argument))
        assert isinstance(found, jax.Array)
        assert np.array_equal(np.asarray(found), function(argument))


@pytest.mark.slow
def test_nothing_leaves_its_arrays(length: int = 11):
    """Of 11 numbers the radices there and back leave out different places of shared memory."""
    x = numbers(3, length)
    with weft.sanitize("bounds"):
        assert_close(kernels.fft(x), np.fft.fft(x), length)


@pytest.mark.parametrize("most", sampled([1 << 14, 1 << 12], 2))
def test_lengths_are_cut_into_few_passes_that_fit(most: int):
    """On GPUs with 227 kB of shared memory, and with 64."""
    lengths = (*range(1, 130), 4096, 4097, 5040, 7**6, 1 << 14, 1 << 20, 3 << 23, 1 << 27)
    for length, itemsize in ((one, size) for one in lengths for size in (4, 8)):
        points = most * 4 // itemsize
        factors = factors_of(length, itemsize, points)
        if factors is None:
            assert any(length % prime == 0 for prime in range(11, 4098, 2) if prime % 3)
            continue
        assert math.prod(factors) == length
        if most == 1 << 14:
            assert len(factors) <= 1 + (length > points) + (length > 1 << 22)
        for number, factor in enumerate(factors):
            done = math.prod(factors[:number])
            plan = Pass(length, IOFormat(length), factor, done, -1, 1.0, itemsize, points)
            assert math.prod(plan.radices) == factor
            assert max(plan.radices) * 2 * itemsize <= 128
            assert smem_points(plan) * 8 <= points * 9
            assert plan.pencils_per_block * factor <= points
            assert plan.threads * 16 * 4 / itemsize * 1.75 >= plan.pencils_per_block * factor


def test_stages_have_no_bank_conflicts():
    """In either access of shared memory between stages, of lengths that are powers of two."""
    for length, factor, done in ((4096, 4096, 1), (1 << 20, 1024, 1), (1 << 20, 1024, 1024)):
        plan = Pass(length, IOFormat(length), factor, done, -1, 1.0, 4, 1 << 14)
        for stage in range(len(plan.radices) - 1):
            period, gap = smem_padding(plan, stage)
            for number, places in ((stage, plan.results), (stage + 1, plan.points)):
                found = [plan.at(number, i) for i in range(32, 48)]
                at = [plan.number(pencil, places(number, place)[1]) for pencil, place in found]
                assert len({(one + one // period * gap) % 16 for one in at}) == 16


def test_bad_input_is_refused_by_name():
    x = numbers(2, 12)
    for error, text, call in (
        (TypeError, "x has elements of float16", lambda: kernels.fft(np.ones((4, 2), np.float16))),
        (ValueError, r"x has shape \(4,\)", lambda: kernels.fft(np.ones(4))),
        (ValueError, r"x has shape \(4, 3\)", lambda: kernels.fft(np.ones((4, 3)))),
        (ValueError, "x has no dimension", lambda: kernels.fft(x[0, 0, ...])),
        (ValueError, "x has rows of 0 complex", lambda: kernels.fft(x[:, :0])),
        (TypeError, "out is .*expected an array of complex64", lambda: kernels.fft(x, out=1)),
        (TypeError, "out has elements of float64", lambda: kernels.fft(x, out=x.astype("c16"))),
        (ValueError, "out has shape", lambda: kernels.fft(x, out=x[:1])),
        (ValueError, "out overlaps with x", lambda: kernels.fft(x[:, 1:], out=x[:, :-1])),
        (ValueError, "norm is 'both', expected one of", lambda: kernels.fft(x, norm="both")),
        (TypeError, "x has elements of complex64", lambda: kernels.rfft(x)),
        (ValueError, "x has rows of 0 real", lambda: kernels.rfft(x.real[:, :0])),
        (ValueError, "x has rows of 0 real", lambda: kernels.irfft(x[:, :1])),
        (ValueError, "n is 21, expected an integer from 22 to 23", lambda: kernels.irfft(x, 21)),
        (ValueError, r"out has shape \(2, 12, 2\)", lambda: kernels.rfft(x.real, out=x)),
        (
            TypeError,
            "out has elements of float32",
            lambda: kernels.irfft(x.astype("c16"), out=x.real),
        ),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.slow
def test_points_stay_in_registers():
    for length, dtype, most in ((1 << 14, weft.f32, 1 << 14), (8 * 3 * 5 * 7, weft.f64, 1 << 13)):
        x = weft.fake_tensor(dtype, (weft.sym("rows"), length, 2), alignment_bytes=16)
        plan = FFTConfig(IOFormat(length), (length,), most, -1, 1.0)
        found = weft.compile(transforms._fft, x, x, plan, None, options="--gpu-arch sm_90a")
        assert found.remarks == ()
        assert found.kernels["pass_kernel"].spill_load_bytes == 0


@pytest.mark.slow
def test_bluestein_programs_serve_all_lengths_padded_alike():
    x = weft.fake_tensor(weft.f32, (weft.sym("rows"), weft.sym("n"), 2), alignment_bytes=8)
    for few, many in ((449, 479), (4099, 5003)):
        (plan, sizes), (other, _) = (
            fft_config(IOFormat(n), weft.ffi.Device("cpu"), 4, -1, 1.0) for n in (few, many)
        )
        assert plan == other and sizes is not None and plan.io.points == 0
        found = weft.compile(transforms._fft, x, x, plan, sizes, options="--gpu-arch sm_90a")
        assert found.remarks == ()
    for length in (1013, 1021, 1023, 967):  # 2048 points, and 1792 of the last
        x = numbers(2, length)
        assert_close(kernels.fft(x), np.fft.fft(x.astype(np.complex128)), length)
    before = len(transforms._fft.specializations)
    for length in (1014, 1015, 1018, 1022):
        x = numbers(2, length)
        assert_close(kernels.fft(x), np.fft.fft(x.astype(np.complex128)), length)
    assert len(transforms._fft.specializations) == before
