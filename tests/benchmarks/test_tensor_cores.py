# SPDX-License-Identifier: Apache-2.0
"""What the rows of tensor_cores compute is what their names say, and what differs from the library is not measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import tensor_cores
from benchmarks.tensor_cores import attention_case, difference, product_case

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_a_product_is_torchs(dtype):
    import torch

    case = product_case(torch, 128, 256, 64, getattr(torch, dtype), "cpu")
    given = case.make()
    a, b = (one.float() for one in given[:2])
    assert difference(case.ours(given), a @ b.T) < case.tolerance
    assert difference(torch.zeros_like(given[2]), a @ b.T) > case.tolerance
    assert difference(torch.full_like(given[2], torch.nan), a @ b.T) > case.tolerance


@pytest.mark.parametrize(("hdim", "causal"), [(128, False), (64, True)])
def test_attention_is_torchs(monkeypatch, hdim, causal):
    import torch

    monkeypatch.setattr(tensor_cores, "TOKENS", 512)
    monkeypatch.setattr(tensor_cores, "HIDDEN", 128)
    case = attention_case(torch, hdim, 256, causal, "cpu")
    given = case.make()
    assert given[0].shape == (2, 256, 128 // hdim, hdim)
    q, k, v = (one.transpose(1, 2) for one in given[:3])
    call = torch.nn.functional.scaled_dot_product_attention
    expected = call(q, k, v, is_causal=causal).transpose(1, 2)
    assert difference(case.ours(given), expected) < case.tolerance


def test_another_gpu_is_told_what_is_needed(monkeypatch):
    monkeypatch.setattr(tensor_cores, "set_current_device", lambda ordinal: None)
    other = SimpleNamespace(compute_capability=(8, 0))
    monkeypatch.setattr(tensor_cores, "device_properties", lambda ordinal: other)
    (figure,) = tensor_cores.figures(1)
    assert figure.note == "needs a GPU of compute capability 9.0; this one's is 8.0"
