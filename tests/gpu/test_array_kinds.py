# SPDX-License-Identifier: Apache-2.0
"""Each function of `weft.kernels` gives arrays of CuPy for arrays of CuPy, and of torch for torch's, as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.calls import CALLS
from tests.kernels.test_array_kinds import of_torch, results_of
from weft import kernels

pytestmark = pytest.mark.gpu


def compare(name, make, kind, host):
    """A call with arrays of a library beside one with NumPy's."""
    call = CALLS[name]
    given = [make(one) if isinstance(one, np.ndarray) else one for one in call.arguments]
    found = results_of(getattr(kernels, name)(*given))
    assert all(isinstance(one, kind) for one in found)
    expected = results_of(getattr(kernels, name)(*call.arguments))
    count = int(found[-1]) if call.is_counted else None
    for one, other in zip(map(host, found), expected, strict=True):
        other = other.astype(np.float64)
        if one.ndim:
            one, other = one[:count], other[:count]
        assert one.shape == other.shape
        assert np.allclose(one, other, 1e-3, 1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_cupy_give_arrays_of_cupy(name):
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    if CALLS[name].has_8_bits:
        pytest.skip("CuPy has no 8-bit floats")
    compare(name, cupy.asarray, cupy.ndarray, lambda one: cupy.asnumpy(one).astype(np.float64))


@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_torch_give_tensors_of_torch(name):
    torch = pytest.importorskip("torch", reason="needs torch")
    compare(
        name, lambda one: of_torch(one).cuda(), torch.Tensor, lambda one: one.double().cpu().numpy()
    )


def test_complex_numbers_of_cupy_are_views_of_pairs():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    x = cupy.random.standard_normal((3, 60, 2)).view(cupy.complex128)[..., 0].T[::-1]
    found = kernels.fft(x, out=(out := cupy.empty_like(x)))
    assert found is out and cupy.allclose(found, cupy.fft.fft(x))
    assert cupy.allclose(kernels.fft(found, inverse=True), x)
