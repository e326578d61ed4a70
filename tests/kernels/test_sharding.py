# SPDX-License-Identifier: Apache-2.0
"""Functions of `weft.kernels` on a `DTensor` of torch: what whole tensors give, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = pytest.mark.torch

CLASSES = (3, 0, 1, 2)


def programs() -> dict[str, Any]:
    """Functions with their arguments' shapes, and the dimension along which each is sharded, or None."""
    classes = torch.tensor(CLASSES)
    return {
        "softmax": (kernels.softmax, ((4, 6), 0)),
        "softmax, of columns": (kernels.softmax, ((4, 6), 1)),
        "log_softmax": (kernels.log_softmax, ((2, 4, 6), 1)),
        "rms_norm": (kernels.rms_norm, ((4, 6), 0), ((6,), None)),
        "layer_norm": (kernels.layer_norm, ((4, 6), 0), ((6,), None), ((6,), 0)),
        "cross_entropy": (kernels.cross_entropy, ((4, 5), 0), (classes, 0)),
        "gelu": (kernels.gelu, ((4, 6), 1)),
        "silu_mul": (kernels.silu_mul, ((4, 6), 1), ((4, 6), 1)),
        "matmul, of rows": (kernels.matmul, ((4, 6), 0), ((6, 2), None)),
        "matmul, of columns": (kernels.matmul, ((4, 6), None), ((6, 2), 1)),
        "matmul, of terms": (kernels.matmul, ((4, 6), 1), ((6, 2), 0)),
        "gemm": (
            lambda a, b, bias, r: kernels.gemm(a, b, bias, "silu", r),
            *(((4, 6), None), ((6, 2), 1), ((2,), 0), ((4, 2), 1)),
        ),
        "embedding": (kernels.embedding, ((5, 3), None), (classes, 0)),
        "attention": (kernels.attention, *[((2, 3, 2, 4), 0)] * 3),
        "attention with sinks": (
            lambda q, k, v, sinks: kernels.attention(q, k, v, sinks=sinks),
            *[((2, 3, 2, 4), 0)] * 3,
            ((2,), None),
        ),
        "cumsum": (kernels.cumsum, ((4, 6), 0)),
        "sort": (kernels.sort, ((4, 6), 0)),
        "top_k": (lambda x: kernels.top_k(x, 2)[0], ((4, 6), 0)),
    }


def check(rank: int, size: int, store: str) -> None:
    """Compares all programs with whole tensors, in one of several processes."""
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    for name, (function, *inputs) in programs().items():
        torch.manual_seed(1)
        whole = [one if isinstance(one, torch.Tensor) else torch.randn(one) for one, _ in inputs]
        split = []
        for one, (_, dim) in zip(whole, inputs, strict=True):
            placement = Replicate() if dim is None else Shard(dim)
            split.append(distribute_tensor(one, mesh, [placement]))
        floats = [k for k, one in enumerate(whole) if one.is_floating_point()]
        for k in floats:
            whole[k].requires_grad_()
            split[k] = split[k].detach().requires_grad_()
        expected, found = function(*whole), function(*split)
        assert torch.allclose(found.full_tensor(), expected, atol=1e-5), name
        grad_out = torch.randn_like(expected)
        wanted = torch.autograd.grad(expected, [whole[k] for k in floats], grad_out)
        parts = distribute_tensor(grad_out, mesh, [Replicate()])
        gradients = torch.autograd.grad(found, [split[k] for k in floats], parts)
        for one, other in zip(gradients, wanted, strict=True):
            assert torch.allclose(one.full_tensor(), other, atol=1e-4), name
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sharded_calls_give_what_whole_ones_give(tmp_path):
    torch.multiprocessing.spawn(check, (2, str(tmp_path / "store")), 2)


REFUSED = {
    "dropout": lambda x: kernels.dropout(x, 0.5, 1),
    "fft": kernels.fft,
    "histogram": lambda x: kernels.histogram(x, 4, (0.0, 1.0)),
    "sum": kernels.sum,
    "transpose": kernels.transpose,
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_functions_refuse_dtensors(name, tmp_path):
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(TypeError, match=rf"^{name} has no sharding strategy .*to_local\(\)"):
            REFUSED[name](x)
        assert kernels.softmax(x).placements == (Shard(0),)
    finally:
        dist.destroy_process_group()
