# SPDX-License-Identifier: Apache-2.0
"""Each function of `weft.kernels` gives arrays of CuPy for arrays of CuPy, and of torch for torch's, as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.kernels.calls import CALLS
from tests.kernels.test_array_kinds import of_torch, results_of
from weft import kernels

pytestmark = pytest.mark.gpu


def wide(array):
    """Its numbers with the precision of f64."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def compare(name, make, kind, host):
    """A call with arrays of a library beside one with NumPy's."""
    call = CALLS[name]
    given = [make(one) if isinstance(one, np.ndarray) else one for one in call.arguments]
    found = results_of(getattr(kernels, name)(*given))
    assert all(isinstance(one, kind) for one in found)
    expected = results_of(getattr(kernels, name)(*call.arguments))
    count = int(found[-1]) if call.is_counted else None
    for one, other in zip(map(host, found), expected, strict=True):
        other = wide(other)
        if one.ndim:
            one, other = one[:count], other[:count]
        assert one.shape == other.shape
        assert np.allclose(one, other, 1e-3, 1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_cupy_give_arrays_of_cupy(name):
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    if CALLS[name].has_8_bits:
        pytest.skip("CuPy has no 8-bit floats")
    compare(name, cupy.asarray, cupy.ndarray, lambda one: wide(cupy.asnumpy(one)))


@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_torch_give_tensors_of_torch(name):
    torch = pytest.importorskip("torch", reason="needs torch")

    def host(one):
        return one.to(torch.complex128 if one.is_complex() else torch.float64).cpu().numpy()

    compare(name, lambda one: of_torch(one).cuda(), torch.Tensor, host)


def test_complex_numbers_of_cupy_are_views_of_pairs():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    x = cupy.random.standard_normal((3, 60, 2)).view(cupy.complex128)[..., 0].T[::-1]
    found = kernels.fft(x, out=(out := cupy.empty_like(x)))
    assert found is out and cupy.allclose(found, cupy.fft.fft(x))
    assert cupy.allclose(kernels.fft(found, inverse=True), x)
    assert cupy.allclose(kernels.irfft(kernels.rfft(x.real), x.shape[-1]), x.real)


def test_reversed_arrays_of_cupy_are_read_where_they_are():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    for dtype in ("f2", "f4", "f8", "i4", "u1"):
        x = cupy.arange(60).astype(dtype).reshape(4, 15)[::-1, ::-2]
        assert bool((kernels.copy(x) == x).all())


def test_complex_tensors_of_weft_are_views_of_pairs_on_a_gpu():
    torch = pytest.importorskip("torch", reason="needs torch")
    x = torch.randn(3, 60, dtype=torch.complex64, device="cuda")
    found = torch.from_dlpack(kernels.fft(weft.ffi.from_dlpack(x)))
    assert torch.allclose(found, torch.fft.fft(x), atol=1e-4)
