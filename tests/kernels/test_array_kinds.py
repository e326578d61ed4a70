# SPDX-License-Identifier: Apache-2.0
"""Each function of `weft.kernels` takes arrays of any library and gives arrays of the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.kernels.calls import CALLS, X
from weft import kernels
from weft.api import JitFunction


def of_torch(array: np.ndarray) -> Any:
    import torch

    if array.dtype.name == "float8_e4m3fn":
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array)


def of_jax(array: np.ndarray) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(array)


LIBRARIES = {
    "numpy": lambda array: array,
    "weft": weft.ffi.from_dlpack,
    "torch": of_torch,
    "jax": of_jax,
}


def results_of(found: object) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_every_function_is_called():
    assert set(CALLS) == set(kernels.__all__)


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(name, marks=getattr(pytest.mark, name)) if name in ("torch", "jax") else name
        for name in LIBRARIES
    ],
)
def test_results_are_of_the_library_that_arguments_are_of(library, monkeypatch):
    """Replaces kernels: only the host side is tested."""
    make = LIBRARIES[library]
    kind: Any = type(make(X))
    monkeypatch.setattr(JitFunction, "__call__", lambda self, *arguments, **keywords: None)
    monkeypatch.setattr("weft.kernels.host.dispatch_cache.known_call", lambda call, values: None)
    wrong = []
    for name, call in CALLS.items():
        given = [make(one) if isinstance(one, np.ndarray) else one for one in call.arguments]
        found = results_of(getattr(kernels, name)(*given))
        if not all(isinstance(one, kind) for one in found):
            wrong.append((name, [type(one) for one in found]))
    assert wrong == []


@pytest.mark.jax
def test_arrays_of_jax_give_arrays_of_jax():
    import jax
    import jax.numpy as jnp

    x = jnp.arange(6.0).reshape(2, 3)
    assert np.array_equal(np.asarray(kernels.gelu(x)), kernels.gelu(np.asarray(x)))
    with pytest.raises(ValueError, match="expected writable memory"):
        kernels.gelu(x, out=x)
    with pytest.raises(TypeError, match="Tracer"):
        jax.jit(kernels.gelu)(x)
