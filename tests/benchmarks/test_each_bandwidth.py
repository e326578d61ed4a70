# SPDX-License-Identifier: Apache-2.0
"""The kernels of each_bandwidth compute what torch does, and the benchmark runs to its end on the fake driver."""

from __future__ import annotations

import itertools

import pytest

import weft
from benchmarks import each_bandwidth, gpu_kernels
from benchmarks.each_bandwidth import COLUMNS, LAYOUTS, REFERENCES, TYPES
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from tests.sampling import sampled

SCALE = 1 << 12
KERNELS = {kernel.__name__: kernel for kernel in REFERENCES}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "kind"), sampled(itertools.product(KERNELS, TYPES), 8, several=True)
)
def test_every_kernel_computes_what_torch_does(name, kind):
    import torch

    for layout in LAYOUTS.values():
        arrays = layout.arrays(TYPES[kind], 4 * COLUMNS, seed=3, device="cpu")
        run = weft.compile(each_bandwidth.launch, KERNELS[name], *arrays)
        assert each_bandwidth.check(torch, KERNELS[name], run, arrays) == ""


@pytest.mark.torch
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_data_is_random_and_a_wrong_result_is_seen(layout):
    import torch

    arrays = LAYOUTS[layout].arrays(TYPES["f32"], 4 * COLUMNS, seed=3, device="cpu")
    for one in map(torch.from_dlpack, arrays):
        assert len(one.unique()) > 0.99 * one.numel()
        assert abs(one.mean()) < 0.2
        assert one.abs().max() <= 4
    wrong = each_bandwidth.check(torch, each_bandwidth.copy, lambda x, y: None, arrays)
    assert wrong.startswith("wrong: AssertionError")


@pytest.mark.slow
@on_fake()
def test_every_kernel_is_measured(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_kernels, "REGION", 0.0)
    monkeypatch.setattr(each_bandwidth, "TYPES", {"mixed": TYPES["mixed"]})
    monkeypatch.setattr(each_bandwidth, "LAYOUTS", {how: LAYOUTS[how] for how in ("odd", "part")})
    found = [figure.name for figure in each_bandwidth.figures(2, str(fake.path), SCALE)]
    names = [f"each_bandwidth/{name}/mixed/{how}" for how in ("odd", "part") for name in KERNELS]
    assert found == names
