# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels` gives arrays of JAX for arrays of JAX, which it never writes."""

from __future__ import annotations

import numpy as np
import pytest

from weft import kernels


@pytest.mark.jax
def test_arrays_of_jax_give_arrays_of_jax():
    import jax
    import jax.numpy as jnp

    x = jnp.arange(6.0).reshape(2, 3)
    found = kernels.gelu(x)
    assert isinstance(found, jax.Array)
    assert np.array_equal(np.asarray(found), kernels.gelu(np.asarray(x)))
    slopes = kernels.silu_mul_backward(x, x, x)
    assert all(isinstance(one, jax.Array) and one.shape == x.shape for one in slopes)
    with pytest.raises(ValueError, match="expected writable memory"):
        kernels.gelu(x, out=x)
    with pytest.raises(TypeError, match="Tracer"):
        jax.jit(kernels.gelu)(x)
