# SPDX-License-Identifier: Apache-2.0
"""Layers of `weft.nn` in two processes, by DistributedDataParallel and FSDP2: the gradients of one process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """
import sys, torch, weft.nn
import torch.distributed as dist

kind, rank, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = weft.nn.RMSNorm(8), weft.nn.Attention(8, heads=2)
        self.mlp, self.moe = weft.nn.SwiGLU(8, 12), weft.nn.MoE(8, 6, experts=3, top_k=2)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x) + self.moe(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = weft.nn.Embedding(11, 8)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.norm = weft.nn.LayerNorm(8)
        self.loss = weft.nn.FusedLinearCrossEntropy(8, 11)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        return self.loss(self.norm(x), tokens[:, 1:])


torch.manual_seed(0)
alone, tokens = Model(), torch.randint(0, 11, (4, 6))
alone(tokens).backward()
torch.manual_seed(0)
model = Model()
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
for _ in range(2):  # the second step has gradients of its own
    model.zero_grad()
    model(tokens[2 * rank : 2 * rank + 2]).backward()
for one, other in zip(model.parameters(), alone.parameters(), strict=True):
    grad = one.grad.full_tensor() if kind == "fsdp" else one.grad
    torch.testing.assert_close(grad, other.grad)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_have_the_gradients_of_one(kind, tmp_path):
    command = [sys.executable, "-c", PROGRAM, kind]
    runs = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    errors = [one.communicate(timeout=600)[1].decode() for one in runs]
    assert [one.returncode for one in runs] == [0, 0], "\n".join(errors)
