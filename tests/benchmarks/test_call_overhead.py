# SPDX-License-Identifier: Apache-2.0
"""Direct calls beside other compilers, which stand in where they are not installed."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest

from benchmarks import call_overhead


class ForeignTensor(np.ndarray):
    """An array of a library that Numba has no type for."""


def njit(function):
    """Numba's decorator, as far as the figures use it."""

    def compiled(*arguments):
        if any(type(one) is not np.ndarray for one in arguments):
            raise TypeError("Cannot determine Numba type of <class 'torch.Tensor'>")
        return function(*arguments)

    return compiled


def test_numba_is_measured_where_its_arguments_are_numpy_arrays(monkeypatch: pytest.MonkeyPatch):
    numba = ModuleType("numba")
    numba.__spec__ = ModuleSpec("numba", None)
    vars(numba)["njit"] = njit
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setattr(call_overhead, "CALLS", 1)
    makers = {
        "numpy": lambda: np.zeros(16, np.float32),
        "torch": lambda: np.zeros(16, np.float32).view(ForeignTensor),
    }
    figures = list(call_overhead.direct_calls(makers, 1))
    names = [figure.name for figure in figures if figure.peer == "numba.njit"]
    assert names == ["call_overhead/direct, 3 numpy arrays"]
    assert any("torch" in figure.name for figure in figures)
