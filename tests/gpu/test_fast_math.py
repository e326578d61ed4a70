# SPDX-License-Identifier: Apache-2.0
"""Fast functions, the default on a GPU, for all 2**32 arguments, against the bounds of docs/mathematics.md."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tools.sweep_math import REFERENCES, promised_fast, sweep_on_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]

BOUNDS = promised_fast()
PAIRS = {"atan2": np.arctan2, "pow": np.power}
COUNT = 1 << 24


@pytest.mark.parametrize("name", [name for name in BOUNDS if name in REFERENCES])
def test_the_bound_holds_for_every_argument(name: str):
    pytest.importorskip("torch")
    worst, argument = sweep_on_gpu(name)
    print(f"{name}: {worst:.4f} units in the last place, at {argument!s}")
    assert worst <= BOUNDS[name], argument


@weft.kernel
def pair_kernel(x: weft.Tensor, y: weft.Tensor, z: weft.Tensor, function: weft.Constexpr) -> None:
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < x.shape[0]:
        z[i] = function(x[i], y[i])


@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_holds_for_pairs(name: str):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    words = random.integers(0, 2**32, (2, COUNT), dtype=np.uint64).astype(np.uint32)
    x, y = words.view(np.float32)
    if name == "pow":  # half of them with a finite result
        x[::2] = np.exp(random.uniform(-5, 5, COUNT // 2))
        y[::2] = random.uniform(-88, 88, COUNT // 2) / np.log(x[::2].astype(np.float64))
    tensors = [torch.from_numpy(array).cuda() for array in (x, y, np.zeros(COUNT, np.float32))]
    pair_kernel[COUNT // 256, 256](*tensors, getattr(weft.math, name))
    got = tensors[2].cpu().numpy()
    with np.errstate(all="ignore"):
        exact = PAIRS[name](x.astype(np.longdouble), y.astype(np.longdouble))
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(nearest), np.finfo(np.float32).tiny))
        error = (np.abs(got - exact) / unit).astype(np.float64)
    error[(got == nearest) | (np.isnan(got) & np.isnan(nearest))] = 0.0
    overflow = np.isinf(got) & (np.abs(exact) > np.finfo(np.float32).max * (1 - 2.0**-22))
    error[overflow] = 0.0
    most = int(np.nan_to_num(error, nan=np.inf).argmax())
    assert error[most] <= BOUNDS[name], (x[most], y[most])
